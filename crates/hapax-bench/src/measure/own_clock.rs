//! Real time for strategies that cannot be given the time of the stream.

use super::Setting;
use super::drive::{Course, Leg};
use super::phases::Phases;
use super::workload::{Ids, Stream, WINDOW_TICKS, window_checks};
use crate::strategy::{Failure, Plan, Strategy};
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// The least time of a window, of which delays of the system are a small part.
const WINDOW_MIN: Duration = Duration::from_millis(500);

/// The longest time of a window: more than anybody waits for.
const WINDOW_MAX: Duration = Duration::from_secs(120);

/// The time of a window, by the time in which a strategy takes in the ids of one. Where others
/// expire meanwhile, that is more than twice as long; the rest is for a machine with other work.
const SLOWER: u32 = 6;

/// Returns the real time of a window. With a rate, it is that in which a window's ids are due. If
/// not, it is a multiple of the time that they take if nothing expires.
pub(super) fn window<B: Ids, S: Strategy<B::Id>>(
    setting: &Setting,
    streams: &[Stream<B>],
    plan: &Plan,
) -> Result<Duration, Failure> {
    let window = match setting.rate {
        Some(rate) => Duration::try_from_secs_f64(window_checks(setting) / rate).unwrap_or(Duration::MAX),
        None => {
            let lasting = S::new(&Plan { window: Duration::from_secs(24 * 3_600), ..plan.clone() })?;
            let unpaced = Setting { rate: None, ..setting.clone() };
            let course = Course::new(&lasting, streams, &unpaced, Phases::one_window(), None);
            let begun = Instant::now();
            course.run(|| ());
            (begun.elapsed() * SLOWER).max(WINDOW_MIN)
        }
    };
    if window > WINDOW_MAX {
        let limit = WINDOW_MAX.as_secs();
        return Err(format!("by its own clock a window takes {:.0} s, of {limit} at most", window.as_secs_f64()).into());
    }
    Ok(window)
}

/// Counts the ids that are live after the part of the stream that was seen. (Of Zipf's they are
/// fewer than come in a window: some have expired, and not come again.)
pub(super) fn live<B: Ids>(streams: &[Stream<B>], legs: &[Leg]) -> u64 {
    let mut accepted: HashMap<&B::Id, usize, foldhash::fast::RandomState> = HashMap::default();
    for (stream, leg) in streams.iter().zip(legs) {
        for tick in 0..leg.tick {
            let places = stream.tick(tick);
            for id in stream.ids.range(places.start.min(leg.places.end)..places.end.min(leg.places.end)) {
                let then = accepted.entry(id).or_insert(tick);
                if tick >= *then + WINDOW_TICKS {
                    *then = tick;
                }
            }
        }
    }
    let last = legs.iter().map(|leg| leg.tick).max().unwrap_or(0);
    accepted.values().filter(|then| **then + WINDOW_TICKS >= last).count() as u64
}

/// Refuses a run in which a strategy held over a tenth more or less than was live.
pub(super) fn held_about(held: u64, live: u64) -> Result<(), Failure> {
    if held.abs_diff(live) > live / 10 {
        let reason = "its clock and the stream's have come apart, so it is not compared";
        return Err(format!("it held {held} ids where {live} are live: {reason}").into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::{Effort, Measurement, Shape, Sort, Workload, measure};
    use crate::strategy::Allowance;
    use hapax::Timestamp;
    use std::sync::Mutex;

    /// Forgets by its own clock, `SOONER` times as soon as it should.
    struct Timed<const SOONER: u32>(Mutex<HashMap<u64, Instant>>, Duration);

    impl<const SOONER: u32> Strategy<u64> for Timed<SOONER> {
        const NAME: &'static str = "timed";
        const SORT: Sort = Sort::Window;
        const EXPIRES: bool = false;
        const OWN_CLOCK: bool = true;

        fn new(plan: &Plan) -> Result<Self, Failure> {
            Ok(Timed(Mutex::default(), plan.window / SOONER))
        }

        fn check(&self, id: &u64, _now: Timestamp) -> bool {
            let (mut known, now) = (self.0.lock().unwrap(), Instant::now());
            let is_fresh = known.get(id).is_none_or(|then| now - *then >= self.1);
            if is_fresh {
                known.insert(*id, now);
            }
            is_fresh
        }

        fn allowance(_plan: &Plan) -> Allowance {
            Allowance { missed: 1.0, ..Allowance::NONE }
        }

        fn held(&self) -> Option<u64> {
            let now = Instant::now();
            Some(self.0.lock().unwrap().values().filter(|then| now - **then < self.1).count() as u64)
        }
    }

    fn run<const SOONER: u32>(setting: &Setting) -> Result<Measurement, Failure> {
        measure::<Vec<u64>, Timed<SOONER>>(setting, 17, Effort::Quick)
    }

    #[test]
    fn ids_come_by_the_clock_of_a_strategy_that_has_one_so_it_holds_those_that_are_live() {
        let setting = Setting { live: 2_000, ..Setting::default() };
        for setting in [
            setting.clone(),
            Setting { threads: 2, batch: 64, ..setting.clone() },
            Setting { rate: Some(5_000.0), ..setting.clone() },
            Setting { workload: Workload { shape: Shape::Zipf { exponent: 1.2 }, ..setting.workload }, ..setting },
        ] {
            // A busy machine may stop a thread for a tenth of a window; not fifty times in turn.
            let seen = (0..50).find_map(|_| run::<1>(&setting).ok()).expect("one of fifty runs holds what is live");
            // Fewer of Zipf's are live: that the run was not refused says that it held those.
            let is_right = seen.held.abs_diff(2_000) <= 200 || setting.workload.shape != Shape::Uniform;
            assert!(is_right && seen.answers.invented == 0, "{setting:?}: {seen:?}");
            // It waits for most of the time, which is not counted.
            let least = WINDOW_MIN.as_nanos() as u64;
            assert!(setting.rate.is_some() || (seen.nanos > 0 && seen.nanos < least), "{setting:?}: {seen:?}");
        }
    }

    #[test]
    fn a_run_that_held_too_few_or_too_many_is_refused() {
        let setting = Setting { live: 2_000, ..Setting::default() };
        let refused = run::<2>(&setting).unwrap_err().to_string();
        assert!(refused.starts_with("it held ") && refused.contains("where 2000 are live"), "{refused}");
        let slow = run::<1>(&Setting { rate: Some(10.0), ..setting }).unwrap_err().to_string();
        assert!(slow.contains("takes 222 s, of 120"), "{slow}");
        for (held, is_refused) in [(899, true), (900, false), (1_000, false), (1_100, false), (1_101, true)] {
            assert_eq!(held_about(held, 1_000).is_err(), is_refused, "{held}");
        }
    }
}
