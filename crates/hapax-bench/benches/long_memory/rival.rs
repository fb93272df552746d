//! Others: stores of this process that keep ids in a directory, as strategies of the benchmark.

use crate::Plan;
use crate::load::{Load, Memory, disk_bytes};
use crate::peak::peak_bytes;
use hapax::Timestamp;
use hapax_bench::strategy::{self, Place, Strategy, Visitor};
use std::time::Duration;

struct Rival<S>(S);

impl<S: Strategy<u64>> Memory for Rival<S> {
    fn check(&mut self, ids: &[u64], fresh: &mut Vec<bool>) -> Result<(), String> {
        self.0.check_batch(ids.iter(), Timestamp::default(), fresh);
        Ok(())
    }
}

struct Measure<'a>(&'a Plan<'a>);

impl Visitor<u64> for Measure<'_> {
    type Output = Result<(), String>;

    fn visit<S: Strategy<u64>>(self) -> Self::Output {
        let plan = self.0;
        std::fs::create_dir_all(plan.directory).map_err(|error| error.to_string())?;
        let live = usize::try_from(plan.ids).map_err(|error| error.to_string())?;
        let (window, place) = (Duration::from_secs(1), Place::Directory(plan.directory.into()));
        let rival = S::new(&strategy::Plan { window, live, threads: 1, place });
        let mut load = Load::new(Rival(rival.map_err(|error| error.to_string())?));
        load.fill(plan.ids, plan.at_most)?;
        load.repeat_all("5 % known", plan.at_most)?;
        println!(
            "{}: disk {} MB, the process {} MB at most",
            S::NAME,
            disk_bytes(plan.directory) / 1_000_000,
            peak_bytes() / 1_000_000
        );
        Ok(())
    }
}

/// Measures the strategy of a name.
pub fn measure(plan: &Plan<'_>, name: &str) -> Result<(), String> {
    let lacking = || strategy::not_built().into_iter().find(|absent| absent.strategy == name);
    strategy::visit::<u64, _>(name, Measure(plan)).ok_or_else(|| match lacking() {
        Some(absent) => format!("{name}: {}", absent.reason),
        None => format!("expected hapax, or the name of a strategy that keeps ids in a directory, got {name}"),
    })?
}
