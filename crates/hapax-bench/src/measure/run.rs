//! One run of one strategy.

use super::answers::{Answered, Rules, accepted, judge};
use super::drive::{Course, Leg, Ride};
use super::gauge::{cpu_time, nanos, resident_bytes};
use super::phases::{Effort, Phases};
use super::schedule::latency;
use super::servers::{Usage, provide};
use super::workload::{Ids, Stream, WINDOW_TICKS, streams, time};
use super::{Answers, Measurement, Setting, Sort};
use crate::strategy::{Failure, Strategy};
use hapax_store::unwind::said;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

/// The number of ids that are asked for at the end if each takes long.
const ASKED_APART_MAX: usize = 2_000;

/// Runs a strategy, and measures it: on a stream of ids that are kept in a `B`.
///
/// The stream is made, with the true answers, before the clock starts. Then the strategy is built,
/// warmed up for some windows, and measured for some more, with expiry under way ([`Effort`]).
/// Filters that do not forget are filled once. Threads check each other's ids
/// ([`workload`](super::workload)), and stay within ten hundredths of a window of each other. At
/// the end, ids are asked for once more: those of the last window, or of filters new ones.
///
/// With a [rate](Setting::rate), ids are handed over as they become due, up to a batch of them at
/// once.
///
/// # Errors
///
/// If the setting makes no sense, if its stream does not fit into memory, if the strategy cannot be
/// built or panics, or if what it needs is not there.
pub fn measure<B: Ids, S: Strategy<B::Id>>(
    setting: &Setting,
    seed: u64,
    effort: Effort,
) -> Result<Measurement, Failure> {
    check(setting)?;
    catch_unwind(AssertUnwindSafe(|| {
        let phases = Phases::of(setting, S::SORT, S::EXPIRES, effort);
        pass::<B, S>(setting, phases, &streams(setting, seed, phases.ticks())?)
    }))
    .unwrap_or_else(|panic| Err(format!("it panicked: {}", said(&*panic)).into()))
}

fn check(setting: &Setting) -> Result<(), Failure> {
    if setting.threads == 0 || setting.batch == 0 {
        return Err("there has to be a thread, and an id in a batch".into());
    }
    if setting.rate.is_some_and(|rate| !(rate > 0.0 && rate.is_finite())) {
        return Err(format!("a rate of {:?} ids a second; it has to be above 0", setting.rate).into());
    }
    Ok(())
}

/// The readings before or after the measured phase.
struct Gauges {
    cpu: Duration,
    usage: Usage,
    /// The processor time again, after `usage` was read, which takes time itself.
    cpu_after: Duration,
}

fn pass<B: Ids, S: Strategy<B::Id>>(
    setting: &Setting,
    phases: Phases,
    streams: &[Stream<B>],
) -> Result<Measurement, Failure> {
    let provided = provide(S::NEEDS)?;
    let plan = setting.plan(provided.place());
    let bytes_before = resident_bytes();
    let strategy = S::new(&plan)?;
    let read = || {
        let (cpu, usage) = (cpu_time(), provided.usage());
        Gauges { cpu, usage, cpu_after: cpu_time() }
    };
    let (rides, before, after) = Course::new(&strategy, streams, setting, phases).run(read);
    let noted: u64 = rides.iter().map(|ride| ride.unexpected.bytes()).sum();
    let bytes = resident_bytes().saturating_sub(bytes_before + noted);
    let cpu = if setting.rate.is_some() { Duration::ZERO } else { after.cpu.saturating_sub(before.cpu_after) };
    let server_cpu = after.usage.cpu.zip(before.usage.cpu).map(|(after, before)| after.saturating_sub(before));
    let begun = rides.iter().map(|ride| ride.measured.begun).min();
    let ended = rides.iter().map(|ride| ride.measured.ended).max();
    let mut seen = Measurement {
        checks: rides.iter().map(|ride| ride.measured.places.len() as u64).sum(),
        nanos: ended.zip(begun).map_or(0, |(ended, begun)| nanos(ended - begun)),
        cpu_nanos: nanos(cpu),
        server_cpu_nanos: server_cpu.map(nanos),
        bytes,
        beside_bytes: after.usage.bytes,
        held: strategy.held().unwrap_or_else(|| held::<B>(setting, streams, &rides)),
        answers: Answers::default(),
        latency: None,
    };
    let rules = Rules { expires: S::EXPIRES && !S::OWN_CLOCK && !S::REMEMBERS_LONGER, threads: setting.threads > 1 };
    let answered = streams.iter().zip(&rides).map(|(stream, Ride { measured, unexpected })| {
        let Leg { places, tick, .. } = measured;
        // A filter that is not full yet is right more often than it promises.
        let full = stream.ticks(tick.saturating_sub(WINDOW_TICKS / 10)..*tick).start.min(places.end)..places.end;
        let judged = if S::EXPIRES { places.clone() } else { full };
        Answered { stream, judged, unexpected }
    });
    seen.answers += judge(&answered.collect::<Vec<_>>(), rules);
    seen.answers += match S::EXPIRES {
        true => ask_for_known(&strategy, streams, &rides, S::allowance(&plan).missed > 0.0),
        false => ask_for_unknown(&strategy, streams, phases),
    };
    seen.latency = latency(rides.into_iter().filter_map(|ride| ride.measured.delays));
    Ok(seen)
}

/// Counts the ids that a strategy should hold after the part of the stream that it has seen: the
/// live ones, if it has come far enough.
fn held<B: Ids>(setting: &Setting, streams: &[Stream<B>], rides: &[Ride]) -> u64 {
    let fresh = streams.iter().zip(rides).map(|(stream, ride)| {
        let seen = &stream.truth[..ride.measured.places.end];
        seen.iter().filter(|truth| truth.is_fresh()).count()
    });
    setting.live.min(fresh.sum()) as u64
}

/// Asks for the ids of the last 99 % of a window: none that was accepted may be fresh.
fn ask_for_known<B: Ids, S: Strategy<B::Id>>(
    strategy: &S,
    streams: &[Stream<B>],
    rides: &[Ride],
    may_miss: bool,
) -> Answers {
    let mut answers = Answers::default();
    // A strategy with its own clock may have expired them all meanwhile.
    if S::OWN_CLOCK && may_miss {
        return answers;
    }
    let last = rides.iter().map(|ride| ride.measured.tick).max().unwrap_or(0);
    for (stream, ride) in streams.iter().zip(rides) {
        let first = last.saturating_sub(WINDOW_TICKS - 1).min(ride.measured.tick);
        let end = ride.measured.places.end;
        let places = stream.ticks(first..ride.measured.tick).start.min(end)..end;
        // A sample suffices for strategies that lose no ids, and for those that take long.
        let step = match (S::SORT, may_miss) {
            (Sort::Durable | Sort::Server, _) => places.len() / ASKED_APART_MAX + 1,
            (_, true) => 1,
            (_, false) => 16,
        };
        // The latest ids come first. An unknown id is accepted, and takes the place of an older
        // one: in the order in which they came, each lost id would so evict the next.
        let ids: Vec<_> = accepted(stream, places, &ride.unexpected).step_by(step).collect();
        for id in ids.into_iter().rev() {
            answers.duplicates += 1;
            answers.missed += u64::from(strategy.check(id, time(last.saturating_sub(1))));
        }
    }
    answers
}

/// Asks a filter that is as full as it may be for new ids: those that it knows are its false
/// positives.
fn ask_for_unknown<B: Ids, S: Strategy<B::Id>>(strategy: &S, streams: &[Stream<B>], phases: Phases) -> Answers {
    let mut answers = Answers::default();
    let end = phases.ticks() - phases.after;
    for id in streams.iter().flat_map(|stream| stream.fresh_ids(end..end + phases.after)) {
        answers.fresh += 1;
        answers.invented += u64::from(!strategy.check(id, time(end)));
    }
    answers
}
