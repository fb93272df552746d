//! The figures of reports that documents quote: a line for each strategy in a setting.

use hapax_bench::measure::render::pictures;
use hapax_bench::measure::{IdKind, Measurement, Report, Sort};
use serde::{Deserialize, Serialize};
use std::cell::Cell;
use std::path::{Path, PathBuf};

/// The end of the name of a map that is purged more often.
const PURGED_OFTEN: &str = ", 4 purges";

/// The report of maps that are all on huge pages.
pub const HUGE: &str = "huge";

/// A setting in which strategies were compared.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct At {
    pub ids: IdKind,
    pub live: usize,
    pub threads: usize,
    pub batch: usize,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ahead: bool,
    /// Bytes of the messages that were decoded between checks.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub work: usize,
    /// True if ids were due at a rate.
    pub paced: bool,
}

impl At {
    pub const fn new(live: usize, threads: usize, batch: usize) -> At {
        At { ids: IdKind::U64, live, threads, batch, ahead: false, work: 0, paced: false }
    }
}

/// A report, and where and when it was measured.
#[derive(Serialize, Deserialize)]
pub struct Origin {
    report: String,
    pub machine: String,
    pub system: String,
    /// True if all memory was on huge pages.
    #[serde(default)]
    huge_pages: bool,
}

/// The figures that documents quote of a strategy in a setting.
#[derive(Serialize, Deserialize)]
pub struct Row {
    report: String,
    pub strategy: String,
    pub sort: Sort,
    #[serde(flatten)]
    at: At,
    /// Nanoseconds an id, round by round.
    rounds: Vec<f64>,
    /// Bytes of the process for each id that is held, if they can be told.
    pub bytes: Option<f64>,
    /// Bytes of the server, or on the disk, for each id that is held.
    pub beside: Option<f64>,
    /// Processor time for an id, of client and server, in nanoseconds.
    pub cpu: Option<f64>,
    /// The longest latency in nanoseconds, if it kept up with the rate.
    pub longest: Option<f64>,
    /// The ids that it held, if they came by its own clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held: Option<f64>,
    /// Nanoseconds of the work between two checks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worked: Option<f64>,
    #[serde(skip)]
    is_quoted: Cell<bool>,
}

#[derive(Serialize, Deserialize)]
pub struct Kept {
    origins: Vec<Origin>,
    rows: Vec<Row>,
}

fn is_zero(of: &usize) -> bool {
    *of == 0
}

fn file() -> PathBuf {
    super::root().join("docs/comparison/figures.json")
}

/// Rounds to five digits, more than documents print.
fn rounded(value: f64) -> f64 {
    format!("{value:.4e}").parse().unwrap()
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len().checked_sub(1)?;
    Some(rounded((values[middle / 2] + values[middle.div_ceil(2)]) / 2.0))
}

impl Row {
    fn of(report: &str, row: &hapax_bench::measure::Row) -> Row {
        const TOLD_MIN: u64 = 256 << 10;
        let (runs, live) = (&row.runs, row.setting.live as u64);
        let median = |of: &dyn Fn(&Measurement) -> Option<f64>| median(runs.iter().filter_map(of).collect());
        let reached = median(&|run| Some(run.latency?.reached));
        let kept_up = reached.zip(row.setting.rate).is_some_and(|(reached, rate)| reached >= 0.97 * rate);
        let cpu = |run: &Measurement| (run.cpu_nanos + run.server_cpu_nanos.unwrap_or(0)) as f64 / run.checks as f64;
        let holds_most = |run: &Measurement| run.bytes >= TOLD_MIN && run.held >= live / 2;
        let setting = &row.setting;
        Row {
            report: report.into(),
            strategy: row.strategy.clone(),
            sort: row.sort,
            at: At {
                ids: setting.ids,
                ahead: setting.ahead,
                work: setting.work,
                paced: setting.rate.is_some(),
                ..At::new(setting.live, setting.threads, setting.batch)
            },
            rounds: runs.iter().map(|run| rounded(run.nanos as f64 / run.checks as f64)).collect(),
            bytes: median(&|run| holds_most(run).then(|| run.bytes as f64 / run.held as f64)),
            beside: median(&|run| Some(run.beside_bytes? as f64 / run.held as f64)),
            cpu: median(&|run| (run.cpu_nanos > 0).then(|| cpu(run))),
            longest: median(&|run| Some(run.latency?.longest as f64)).filter(|_| kept_up),
            held: median(&|run| row.has_own_clock().then_some(run.held as f64)),
            worked: median(&|run| (run.work_nanos > 0).then(|| run.work_nanos as f64 / run.checks as f64)),
            is_quoted: Cell::new(false),
        }
    }

    pub fn is_ours(&self) -> bool {
        self.strategy.contains("hapax")
    }

    /// Returns nanoseconds an id.
    pub fn nanos(&self) -> f64 {
        median(self.rounds.clone()).expect("it has rounds")
    }

    /// Returns how many times as fast it is as a rival, round by round: median, least, most.
    pub fn times(&self, rival: &Row) -> [f64; 3] {
        let mut rounds: Vec<f64> = self.rounds.iter().zip(&rival.rounds).map(|(ours, its)| its / ours).collect();
        rounds.sort_by(f64::total_cmp);
        [rounds[rounds.len() / 2], rounds[0], rounds[rounds.len() - 1]]
    }
}

impl Origin {
    /// Returns on which pages memory was.
    pub fn pages(&self) -> &'static str {
        if self.huge_pages { "all on huge pages" } else { "memory as it comes" }
    }
}

impl Kept {
    pub fn read() -> Kept {
        serde_json::from_str(&std::fs::read_to_string(file()).unwrap()).unwrap()
    }

    /// Takes the reports that were measured anew in the place of those that are kept.
    pub fn renew(&mut self, measured: &Path) {
        for entry in std::fs::read_dir(measured).into_iter().flatten().flatten() {
            let path = entry.path();
            let Some(name) = path.file_name().and_then(|name| name.to_str()?.strip_suffix(".json")) else { continue };
            let report: Report = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
            if name == "report" {
                for picture in pictures(&report) {
                    let path = file().with_file_name(picture.name).with_extension("svg");
                    std::fs::write(path, picture.svg()).unwrap();
                }
            }
            self.origins.retain(|origin| origin.report != name);
            self.rows.retain(|row| row.report != name);
            let (machine, system) = (super::tables::machine(&report), report.machine.system.clone());
            let huge_pages = report.rows.iter().any(|row| row.setting.huge_pages);
            assert!(report.rows.iter().all(|row| row.setting.huge_pages == huge_pages), "{name}: of both pages");
            self.origins.push(Origin { report: name.into(), machine, system, huge_pages });
            self.rows.extend(report.rows.iter().filter(|row| !row.runs.is_empty()).map(|row| Row::of(name, row)));
        }
    }

    /// Writes what documents quote, a line for each row.
    pub fn write(&mut self) {
        self.rows.retain(|row| row.is_quoted.get());
        let lines = |rows: Vec<String>| rows.join(",\n");
        let origins = self.origins.iter().map(|origin| serde_json::to_string(origin).unwrap()).collect();
        let rows = self.rows.iter().map(|row| serde_json::to_string(row).unwrap()).collect();
        let text = format!("{{\"origins\":[\n{}\n],\"rows\":[\n{}\n]}}\n", lines(origins), lines(rows));
        // At once: other tests read it.
        let new = file().with_extension("new");
        std::fs::write(&new, text).and_then(|()| std::fs::rename(new, file())).unwrap();
    }

    /// Returns the rows that no table has asked for.
    pub fn unquoted(&self) -> Vec<String> {
        let rows = self.rows.iter().filter(|row| !row.is_quoted.get());
        rows.map(|row| format!("{}: {}, {:?}", row.report, row.strategy, row.at)).collect()
    }

    /// Returns where, when and how a report was measured.
    pub fn origin(&self, report: &str) -> &Origin {
        let origin = self.origins.iter().find(|origin| origin.report == report);
        origin.unwrap_or_else(|| panic!("no report {report} is kept"))
    }

    /// Returns the fewest rounds of a row.
    pub fn rounds(&self, report: &str) -> usize {
        self.rows.iter().filter(|row| row.report == report).map(|row| row.rounds.len()).min().unwrap_or(0)
    }

    /// Returns the least and the most of the live ids, as shares, that were held by strategies to
    /// whose clocks ids came; none if there are none.
    pub fn held(&self, report: &str) -> Option<[f64; 2]> {
        let rows = self.rows.iter().filter(|row| row.report == report);
        let shares: Vec<f64> = rows.filter_map(|row| Some(row.held? / row.at.live as f64)).collect();
        let most = |of: fn(f64, f64) -> f64| shares.iter().copied().reduce(of);
        Some([most(f64::min)?, most(f64::max)?])
    }

    fn rows<'k>(&'k self, report: &'k str, at: At) -> impl Iterator<Item = &'k Row> {
        self.rows.iter().filter(move |row| row.report == report && row.at == at)
    }

    /// Returns the rows of a strategy: of a map, as often as it is purged.
    pub fn of<'k>(&'k self, report: &'k str, strategy: &str, at: At) -> Vec<&'k Row> {
        let rows = self.rows(report, at).filter(|row| plain(&row.strategy) == strategy);
        rows.inspect(|row| row.is_quoted.set(true)).collect()
    }

    /// Returns a figure of a strategy: of a map, the better one, however often it is purged.
    pub fn better(&self, report: &str, strategy: &str, at: At, of: impl Fn(&Row) -> Option<f64>) -> Option<f64> {
        self.of(report, strategy, at).into_iter().filter_map(of).min_by(f64::total_cmp)
    }

    /// Returns the bytes that a strategy takes for each id that it holds: the least, whether ids
    /// come in batches or one by one, from one thread or two.
    pub fn memory(&self, report: &str, strategy: &str, live: usize) -> Option<f64> {
        let settings = [(1, 1), (1, 1_024), (2, 1), (2, 1_024)];
        let of = |(threads, batch)| self.better(report, strategy, At::new(live, threads, batch), |row| row.bytes);
        settings.into_iter().filter_map(of).min_by(f64::total_cmp)
    }

    /// Returns the names of the strategies of a sort, without how often they are purged.
    pub fn names(&self, report: &str, sort: Sort, at: At) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for row in self.rows.iter().filter(|row| row.report == report && row.at == at && row.sort == sort) {
            if !names.contains(&plain(&row.strategy)) {
                names.push(plain(&row.strategy));
            }
        }
        names
    }

    /// Returns the fastest window that isn't ours. A caller with a batch may hand it over one by
    /// one, and so does who would read ahead.
    pub fn rival<'k>(&'k self, report: &'k str, at: At) -> &'k Row {
        let at = At { ahead: false, ..at };
        let settings = if at.batch == 1 { vec![at] } else { vec![at, At { batch: 1, ..at }] };
        let rows = settings.into_iter().flat_map(|at| self.rows(report, at));
        let rivals = rows.filter(|row| row.sort == Sort::Window && !row.is_ours());
        let rivals = rivals.inspect(|row| row.is_quoted.set(true));
        rivals.min_by(|a, b| a.nanos().total_cmp(&b.nanos())).expect("there is a rival")
    }
}

/// Returns a strategy's name without how often it is purged.
pub fn plain(name: &str) -> &str {
    name.strip_suffix(PURGED_OFTEN).unwrap_or(name)
}
