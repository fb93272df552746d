//! One run of one strategy.

use super::answers::{Answered, Rules, accepted, judge};
use super::drive::{Course, Leg};
use super::gauge::{cpu_time, nanos, resident_bytes};
use super::own_clock;
use super::phases::{Effort, Phases};
use super::schedule::latency;
use super::servers::{Usage, provide};
use super::workload::{self, Certain, Ids, Stream, WINDOW_TICKS, streams, time};
use super::{Answers, HUGE_PAGES, Measurement, Setting, Sort};
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
/// Threads check each other's ids ([`workload`](super::workload)), and stay within ten hundredths
/// of a window of each other. At the end, the ids of the last window are asked for once more.
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
    workload::check(setting)?;
    if setting.huge_pages && !std::env::var("GLIBC_TUNABLES").is_ok_and(|tunables| tunables.contains(HUGE_PAGES)) {
        return Err(format!("a process gets huge pages if it is started with GLIBC_TUNABLES={HUGE_PAGES}").into());
    }
    catch_unwind(AssertUnwindSafe(|| {
        let phases = Phases::of(setting, S::SORT, effort);
        pass::<B, S>(setting, phases, &streams(setting, seed, phases.ticks())?)
    }))
    .unwrap_or_else(|panic| Err(format!("it panicked: {}", said(&*panic)).into()))
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
    let bytes_before = resident_bytes();
    let mut plan = setting.plan(provided.place());
    if S::OWN_CLOCK {
        plan.window = own_clock::window::<B, S>(setting, streams, &plan)?;
    }
    let tick_time = S::OWN_CLOCK.then(|| plan.window / WINDOW_TICKS as u32);
    let strategy = S::new(&plan)?;
    let read = || {
        let (cpu, usage) = (cpu_time(), provided.usage());
        Gauges { cpu, usage, cpu_after: cpu_time() }
    };
    let (legs, before, after) = Course::new(&strategy, streams, setting, phases, tick_time).run(read);
    let noted: u64 = legs.iter().map(|leg| leg.unexpected.bytes()).sum();
    let bytes = resident_bytes().saturating_sub(bytes_before + noted);
    let is_told = setting.rate.is_none() && setting.work == 0 && !S::OWN_CLOCK;
    let cpu = if is_told { after.cpu.saturating_sub(before.cpu_after) } else { Duration::ZERO };
    let server_cpu = after.usage.cpu.zip(before.usage.cpu).map(|(after, before)| after.saturating_sub(before));
    let mut seen = Measurement {
        checks: legs.iter().map(|leg| leg.places.len() as u64).sum(),
        nanos: nanos(time_of(&legs)),
        cpu_nanos: nanos(cpu),
        server_cpu_nanos: server_cpu.map(nanos),
        bytes,
        beside_bytes: after.usage.bytes,
        held: strategy.held().unwrap_or_else(|| held::<B>(setting, streams, &legs)),
        answers: Answers::default(),
        latency: None,
        work_nanos: legs.iter().map(|leg| nanos(leg.work)).sum::<u64>() / legs.len().max(1) as u64,
    };
    if S::OWN_CLOCK {
        own_clock::held_about(seen.held, own_clock::live(streams, &legs))?;
    }
    let rules = Rules { expires: S::EXPIRES, certain: Certain::with_threads(setting.threads) };
    let answered = streams.iter().zip(&legs).map(|(stream, leg)| Answered {
        stream,
        judged: leg.places.clone(),
        unexpected: &leg.unexpected,
    });
    seen.answers = judge(&answered.collect::<Vec<_>>(), rules);
    if S::OWN_CLOCK {
        (seen.answers.missed, seen.answers.twice) = (0, 0);
    }
    let may_miss = S::allowance(&plan).missed;
    if may_miss < 1.0 {
        ask_for_known(&strategy, streams, &legs, may_miss > 0.0, &mut seen.answers);
    }
    seen.latency = latency(legs.into_iter().filter_map(|leg| leg.delays));
    Ok(seen)
}

/// Returns the time that all threads together have taken: from the first one's start to the last
/// one's end; or, if ticks came by a clock or there was work, the mean of what each was busy for.
fn time_of(legs: &[Leg]) -> Duration {
    let begun = legs.iter().map(|leg| leg.begun).min();
    let ended = legs.iter().map(|leg| leg.ended).max();
    let wall = ended.zip(begun).map_or(Duration::ZERO, |(ended, begun)| ended - begun);
    let busy: Option<Duration> = legs.iter().map(|leg| leg.busy).sum();
    busy.map_or(wall, |busy| busy / legs.len().max(1) as u32)
}

/// Counts the ids that a strategy should hold after the part of the stream that it has seen: the
/// live ones, if it has come far enough.
fn held<B: Ids>(setting: &Setting, streams: &[Stream<B>], legs: &[Leg]) -> u64 {
    let fresh = streams.iter().zip(legs).map(|(stream, leg)| {
        let seen = &stream.truth[..leg.places.end];
        seen.iter().filter(|truth| truth.is_fresh()).count()
    });
    setting.live.min(fresh.sum()) as u64
}

/// Asks for the ids of the last 99 % of a window: none that was accepted may be fresh.
fn ask_for_known<B: Ids, S: Strategy<B::Id>>(
    strategy: &S,
    streams: &[Stream<B>],
    legs: &[Leg],
    may_miss: bool,
    answers: &mut Answers,
) {
    let last = legs.iter().map(|leg| leg.tick).max().unwrap_or(0);
    for (stream, leg) in streams.iter().zip(legs) {
        let first = last.saturating_sub(WINDOW_TICKS - 1).min(leg.tick);
        let end = leg.places.end;
        let places = stream.ticks(first..leg.tick).start.min(end)..end;
        // A sample suffices for strategies that lose no ids, and for those that take long.
        let step = match S::SORT {
            Sort::Durable | Sort::Server => places.len() / ASKED_APART_MAX + 1,
            Sort::Window if may_miss => 1,
            Sort::Window => 16,
        };
        // The latest ids come first. An unknown id is accepted, and takes the place of an older
        // one: in the order in which they came, each lost id would so evict the next.
        let ids: Vec<_> = accepted(stream, places, &leg.unexpected).step_by(step).collect();
        for id in ids.into_iter().rev() {
            answers.duplicates += 1;
            answers.missed += u64::from(strategy.check(id, time(last.saturating_sub(1))));
        }
    }
}
