//! What hapax is to reach, and whether it did.

use crate::case::{Kind, Measurement, Mode, Setting};
use crate::results::{Comparison, Results};

const WINDOW: &str = "hapax window";
const WITH_HISTORY: &str = "hapax window+history";
const HISTORY: &str = "hapax history";

const MILLION: usize = 1_000_000;

/// A figure, and where it has to be.
struct Target {
    what: &'static str,
    live: usize,
    bound: Bound,
    measured: Option<f64>,
}

enum Bound {
    AtLeast(f64),
    AtMost(f64),
}

impl Bound {
    fn is_met(&self, value: f64) -> bool {
        match *self {
            Bound::AtLeast(bound) => value >= bound,
            Bound::AtMost(bound) => value <= bound,
        }
    }
}

impl std::fmt::Display for Bound {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Bound::AtLeast(bound) => write!(f, ">= {bound}"),
            Bound::AtMost(bound) if *bound < 1e-3 => write!(f, "<= {bound:.0e}"),
            Bound::AtMost(bound) => write!(f, "<= {bound}"),
        }
    }
}

pub fn print(comparisons: &[Comparison]) {
    for kind in [Kind::U64, Kind::Text] {
        if comparisons.iter().any(|comparison| comparison.setting.kind == kind) {
            println!("\nTargets, {kind} ids");
            targets(&Measured { comparisons, kind }).iter().for_each(print_target);
        }
    }
    println!();
}

fn print_target(target: &Target) {
    let Target { what, live, bound, measured } = target;
    let (value, verdict) = match measured {
        None => ("-".into(), "not measured"),
        Some(value) => (
            if *value < 1e-3 { format!("{value:.1e}") } else { format!("{value:.2}") },
            if bound.is_met(*value) { "reached" } else { "missed" },
        ),
    };
    println!("{what:<58}{:>4} M {:>10}{value:>10}  {verdict}", live / MILLION, bound.to_string());
}

/// Where to look figures up.
struct Measured<'a> {
    comparisons: &'a [Comparison],
    kind: Kind,
}

impl Measured<'_> {
    fn comparison(&self, live: usize, threads: usize) -> Option<&Comparison> {
        let setting = Setting { live, threads, kind: self.kind };
        self.comparisons.iter().find(|comparison| comparison.setting == setting)
    }

    /// With one thread.
    fn results(&self, live: usize, name: &str, mode: Mode) -> Option<&Results> {
        self.comparison(live, 1)?.find(name, mode)
    }

    fn nanos(&self, live: usize, threads: usize, name: &str, mode: Mode) -> Option<f64> {
        self.comparison(live, threads)?.find(name, mode)?.nanos_per_id()
    }

    /// How many times as fast as the best rival window.
    fn by_rival(&self, live: usize, name: &str, mode: Mode) -> Option<f64> {
        let rival = self.comparison(live, 1)?.best_rival_nanos(mode, true)?;
        Some(rival / self.nanos(live, 1, name, mode)?)
    }

    fn by_roofline(&self, live: usize) -> Option<f64> {
        let roofline = self.comparison(live, 1)?.roofline_nanos()?;
        Some(100.0 * roofline / self.nanos(live, 1, WINDOW, Mode::Batched)?)
    }

    fn by_fastbloom(&self, live: usize) -> Option<f64> {
        let fastbloom = self.nanos(live, 1, "fastbloom", Mode::Single)?;
        Some(fastbloom / self.nanos(live, 1, HISTORY, Mode::Batched)?)
    }

    fn by_one_thread(&self, live: usize, mode: Mode) -> Option<f64> {
        Some(self.nanos(live, 1, WINDOW, mode)? / self.nanos(live, 2, WINDOW, mode)?)
    }

    /// Over all runs, in both modes.
    fn share(&self, live: usize, of: [fn(&Measurement) -> u64; 2]) -> Option<f64> {
        let [part, whole] = of.map(|count| {
            let modes = [Mode::Batched, Mode::Single];
            let sums = modes.into_iter().filter_map(|mode| Some(self.results(live, WINDOW, mode)?.sum(count)));
            sums.sum::<u64>() as f64
        });
        (whole > 0.0).then_some(part / whole)
    }
}

fn targets(measured: &Measured<'_>) -> Vec<Target> {
    use Bound::{AtLeast, AtMost};
    use Mode::{Batched, Single};
    let (one, ten) = (MILLION, 10 * MILLION);
    let target = |what, live, bound, measured| Target { what, live, bound, measured };
    vec![
        target("window, batched: x best rival", ten, AtLeast(5.0), measured.by_rival(ten, WINDOW, Batched)),
        target("window, batched: x best rival", one, AtLeast(3.0), measured.by_rival(one, WINDOW, Batched)),
        target("window, batched: % of the roofline", ten, AtLeast(65.0), measured.by_roofline(ten)),
        target("window, single: x best rival", ten, AtLeast(1.5), measured.by_rival(ten, WINDOW, Single)),
        target("window, single: x best rival", one, AtLeast(1.0), measured.by_rival(one, WINDOW, Single)),
        target(
            "window and history, batched: x best rival window",
            ten,
            AtLeast(3.0),
            measured.by_rival(ten, WITH_HISTORY, Batched),
        ),
        target("history alone, batched: x fastbloom", ten, AtLeast(4.0), measured.by_fastbloom(ten)),
        target(
            "window: bytes per live id",
            ten,
            AtMost(18.5),
            measured.results(ten, WINDOW, Batched).and_then(Results::bytes_per_id),
        ),
        target(
            "window: lost before their time, share of inserts (counted)",
            ten,
            AtMost(3e-6),
            measured.share(ten, [|run| run.evicted, |run| run.fresh]),
        ),
        target(
            "window: lost before their time, share of ids (asked)",
            ten,
            AtMost(3e-6),
            measured.share(ten, [|run| run.wrong, |run| run.asked]),
        ),
        target("window, batched: two threads x one", ten, AtLeast(1.7), measured.by_one_thread(ten, Batched)),
        target("window, single: two threads x one", ten, AtLeast(1.7), measured.by_one_thread(ten, Single)),
    ]
}
