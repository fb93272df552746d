//! Kept reports, and the figures in them.

use hapax_bench::measure::{IdKind, Measurement, Report, Row, Sort};

/// The end of the name of a map that is purged more often.
const PURGED_OFTEN: &str = ", 4 purges";

/// A setting in which strategies were compared.
#[derive(Clone, Copy, Debug)]
pub struct At {
    pub ids: IdKind,
    pub live: usize,
    pub threads: usize,
    pub batch: usize,
    /// True if ids were due at a rate.
    pub paced: bool,
    /// The bytes that a strategy might take for a live id.
    pub budget: Option<u64>,
}

impl At {
    pub const fn new(live: usize, threads: usize, batch: usize) -> At {
        At { ids: IdKind::U64, live, threads, batch, paced: false, budget: None }
    }
}

/// A report that was kept.
pub struct Kept(pub Report);

impl Kept {
    pub fn read(name: &str) -> Kept {
        let path = super::root().join("docs/comparison").join(name);
        let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        Kept(Report::from_json(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display())))
    }

    fn rows(&self, at: At) -> impl Iterator<Item = &Row> {
        self.0.rows.iter().filter(move |row| {
            let setting = &row.setting;
            (setting.ids, setting.live, setting.threads) == (at.ids, at.live, at.threads)
                && (setting.batch, setting.rate.is_some()) == (at.batch, at.paced)
                && setting.budget_bytes == at.budget.map(|bytes| bytes * at.live as u64)
                && !row.runs.is_empty()
        })
    }

    /// Returns the rows of a strategy: of a map, as often as it is purged.
    pub fn of(&self, strategy: &str, at: At) -> Vec<&Row> {
        self.rows(at).filter(|row| plain(&row.strategy) == strategy).collect()
    }

    /// Returns a figure of a strategy: of a map, the better one, however often it is purged.
    pub fn better(&self, strategy: &str, at: At, of: impl Fn(&Row) -> Option<f64>) -> Option<f64> {
        self.of(strategy, at).into_iter().filter_map(of).min_by(f64::total_cmp)
    }

    /// Returns the bytes that a strategy takes for each id that it holds: the least, whether ids
    /// come in batches or one by one, from one thread or two.
    pub fn memory(&self, strategy: &str, live: usize) -> Option<f64> {
        let settings = [(1, 1), (1, 1_024), (2, 1), (2, 1_024)];
        let of = |(threads, batch)| self.better(strategy, At::new(live, threads, batch), bytes);
        settings.into_iter().filter_map(of).min_by(f64::total_cmp)
    }

    /// Returns true if maps were measured with one purge a window and with four.
    pub fn has_both_purges(&self) -> bool {
        self.0.rows.iter().any(|row| row.strategy.ends_with(PURGED_OFTEN))
    }

    /// Returns the names of the strategies of a sort, without how often they are purged.
    pub fn names(&self, sort: Sort, at: At) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for row in self.rows(at).filter(|row| row.sort == sort) {
            if !names.contains(&plain(&row.strategy)) {
                names.push(plain(&row.strategy));
            }
        }
        names
    }

    /// Returns the fastest of the same sort that isn't ours, in any of some settings.
    pub fn rival(&self, sort: Sort, settings: &[At]) -> &Row {
        let rows = settings.iter().flat_map(|at| self.rows(*at));
        let rivals = rows.filter(|row| row.sort == sort && !is_ours(row));
        rivals.min_by(|a, b| nanos(a).total_cmp(&nanos(b))).expect("there is a rival")
    }
}

/// Returns a strategy's name without how often it is purged.
pub fn plain(name: &str) -> &str {
    name.strip_suffix(PURGED_OFTEN).unwrap_or(name)
}

pub fn is_ours(row: &Row) -> bool {
    row.strategy.contains("hapax")
}

/// Returns the median of the runs, if there is any.
fn median(row: &Row, of: impl Fn(&Measurement) -> Option<f64>) -> Option<f64> {
    let mut values: Vec<f64> = row.runs.iter().filter_map(of).collect();
    values.sort_by(f64::total_cmp);
    let middle = values.len().checked_sub(1)?;
    Some((values[middle / 2] + values[middle.div_ceil(2)]) / 2.0)
}

fn nanos_of(run: &Measurement) -> f64 {
    run.nanos as f64 / run.checks as f64
}

/// Returns nanoseconds an id.
pub fn nanos(row: &Row) -> f64 {
    median(row, |run| Some(nanos_of(run))).expect("it has runs")
}

/// Returns bytes of this process for each id that is held, if they can be told.
pub fn bytes(row: &Row) -> Option<f64> {
    const TOLD_MIN: u64 = 256 << 10;
    let holds_most = |run: &Measurement| run.held >= row.setting.live as u64 / 2;
    median(row, |run| (run.bytes >= TOLD_MIN && holds_most(run)).then(|| run.bytes as f64 / run.held as f64))
}

/// Returns bytes of the server, or on the disk, for each id that is held.
pub fn bytes_beside(row: &Row) -> Option<f64> {
    median(row, |run| Some(run.beside_bytes? as f64 / run.held as f64))
}

/// Returns processor time for an id, of client and server.
pub fn processor_nanos(row: &Row) -> Option<f64> {
    median(row, |run| {
        (run.cpu_nanos > 0).then(|| (run.cpu_nanos + run.server_cpu_nanos.unwrap_or(0)) as f64 / run.checks as f64)
    })
}

/// Returns the longest latency, if it kept up with the rate.
pub fn longest(row: &Row) -> Option<f64> {
    let rate = row.setting.rate?;
    let kept_up = median(row, |run| Some(run.latency.as_ref()?.reached))? >= 0.97 * rate;
    kept_up.then(|| median(row, |run| Some(run.latency.as_ref()?.quantiles.last()?.nanos as f64)))?
}

/// Returns the larger share of its answers that was wrong: duplicates missed, or invented.
pub fn wrong(row: &Row) -> Option<f64> {
    let sum = |of: fn(&Measurement) -> u64| row.runs.iter().map(of).sum::<u64>() as f64;
    let missed = sum(|run| run.answers.missed) / sum(|run| run.answers.duplicates);
    let invented = sum(|run| run.answers.invented) / sum(|run| run.answers.fresh);
    Some(missed.max(invented))
}

/// Returns how many times as fast one is as another, round by round: median, least, most.
pub fn times(ours: &Row, rival: &Row) -> (f64, f64, f64) {
    let mut rounds: Vec<f64> =
        ours.runs.iter().zip(&rival.runs).map(|(ours, rival)| nanos_of(rival) / nanos_of(ours)).collect();
    rounds.sort_by(f64::total_cmp);
    (rounds[rounds.len() / 2], rounds[0], rounds[rounds.len() - 1])
}
