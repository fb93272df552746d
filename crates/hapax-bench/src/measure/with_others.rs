//! Measures a strategy of the caller's next to those of this crate.

use super::workload::Ids;
use super::{Case, Effort, Machine, Report, Row, Setting, listed_for, measure};
use crate::strategy::{Allowance, Failure, Listed, Place, Strategy};
use std::time::{SystemTime, UNIX_EPOCH};

/// Measures a strategy of your own and some of this crate, by name, in one setting and in turns.
///
/// ```
/// use hapax::Timestamp;
/// use hapax_bench::measure::{Effort, Setting, Sort, measure_with_others};
/// use hapax_bench::strategy::{Failure, Plan, Strategy};
/// use std::collections::HashSet;
/// use std::sync::Mutex;
///
/// /// Never forgets.
/// struct Hoarder(Mutex<HashSet<u64>>);
///
/// impl Strategy<u64> for Hoarder {
///     const NAME: &'static str = "hoarder";
///     const SORT: Sort = Sort::Window;
///
///     fn new(plan: &Plan) -> Result<Self, Failure> {
///         Ok(Hoarder(Mutex::new(HashSet::with_capacity(plan.live))))
///     }
///
///     fn check(&self, id: &u64, _now: Timestamp) -> bool {
///         self.0.lock().unwrap().insert(*id)
///     }
/// }
///
/// let setting = Setting { live: 2_000, ..Setting::default() };
/// let report = measure_with_others::<Vec<u64>, Hoarder>(&setting, &["hapax window"], 1, 17, Effort::Quick)?;
/// assert_eq!(report.rows[0].strategy, "hoarder");
/// assert!(report.rows.iter().all(|row| row.runs.len() == 1 && row.broken_promises().is_empty()));
/// # Ok::<(), Failure>(())
/// ```
///
/// All of them run in this process. Times are those that `hapax bench` would find, where each has a
/// process of its own. But memory is less exact: it is the growth of the process, and memory that
/// one strategy has returned to the allocator is used by the next one without growth. Yours runs
/// first in each round, so its first run is the one to believe; others may seem too small, never
/// too large.
///
/// A strategy that fails is a row with the reason ([`Row::failures`]), and the others go on.
///
/// # Errors
///
/// If one of the names is not a strategy of this build.
pub fn measure_with_others<B: Ids, S: Strategy<B::Id>>(
    setting: &Setting,
    others: &[&str],
    rounds: usize,
    seed: u64,
    effort: Effort,
) -> Result<Report, Failure> {
    let mut listed = listed_for(setting.ids);
    listed.insert(0, Listed::of::<B::Id, S>());
    let find = |name: &&str| {
        let found = listed.iter().find(|listed| listed.name == *name);
        found.ok_or_else(|| Failure::from(format!("there is no strategy that is called {name} in this build")))
    };
    let row = |listed: &Listed| {
        let Allowance { missed, invented } = (listed.allowance)(&setting.plan(Place::Memory));
        Row::new(listed.name, listed.sort, setting, missed, invented)
    };
    let names = [S::NAME];
    let mut rows = names.iter().chain(others).map(|name| Ok(row(find(name)?))).collect::<Result<Vec<_>, Failure>>()?;
    let began_unix_seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
    for _ in 0..rounds {
        for (i, row) in rows.iter_mut().enumerate() {
            let seen = match i {
                0 => measure::<B, S>(setting, seed, effort),
                _ => Case { strategy: row.strategy.clone(), setting: setting.clone(), seed, effort }.measure(),
            };
            row.add(seen);
        }
    }
    Ok(Report {
        began_unix_seconds,
        command: std::env::args_os().map(|it| it.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" "),
        seed,
        machine: Machine::here(),
        rows,
        absent: Vec::new(),
        interrupted: false,
    })
}
