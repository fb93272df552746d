//! Decodes bytes as operations of several threads on one engine, for a fuzzer. Every byte string is
//! a run, recorded and checked.
//!
//! A byte for the engine, one for the threads, then operations: a byte for the thread and the
//! operation, then its arguments. Missing bytes end the run.

use super::decode::CROWD;
use hapax::{Dedup, Timestamp};
use hapax_testing::{Call, Problem, Report, Semantics, Stamps, check_history, record};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// The largest number of operations in a run.
const OPS_MAX: usize = 400;

const TICK: Duration = Duration::from_secs(1);
const WINDOW: Duration = Duration::from_secs(100);

/// The calls of a thread, with their times by its clock.
type Script = VecDeque<(Timestamp, Call)>;

/// Runs the decoded operations, and checks the threads' answers. Returns the checker's report, if
/// there was a run.
pub fn fuzz(bytes: &[u8]) -> Option<Report> {
    let mut bytes = bytes.iter().copied();
    let (engine, threads) = (bytes.next()?, bytes.next()?);
    let refresh_on_duplicate = engine & 1 != 0;
    let builder = Dedup::builder().window(WINDOW).refresh_on_duplicate(refresh_on_duplicate).seed(7).trusted_ids();
    let builder = match engine >> 1 & 3 {
        // It grows as soon as it is crowded, in the calls of the threads.
        0 => builder.capacity(1).growth_thread(false),
        1 => builder.capacity(1),
        // The smallest table, which stays what it is.
        _ => builder.capacity(1).max_memory_bytes(64 << 10),
    };
    let dedup = builder.build().expect("these options are valid");
    // A claim that finds a duplicate does not refresh it, as a check would.
    let scripts = scripts(threads, !refresh_on_duplicate, &mut bytes);

    let arrived = AtomicUsize::new(0);
    let (count, arrived) = (scripts.len(), &arrived);
    let scripts = scripts.into_iter().map(|mut script| {
        let mut started = false;
        std::iter::from_fn(move || {
            if !std::mem::replace(&mut started, true) {
                meet(arrived, count);
            }
            script.pop_front()
        })
    });
    let operations = record(&dedup, &Stamps::exact(), scripts.collect());
    let semantics = Semantics { refresh_on_duplicate, ..Semantics::of_hapax(WINDOW) };
    match check_history(&operations, &semantics, dedup.evicted_live()) {
        Ok(report) => Some(report),
        // An error here would make the fuzzer look for inputs that take long to check.
        Err(violation) if violation.problem == Problem::TooManyOrders => None,
        Err(violation) => panic!("{violation}"),
    }
}

/// Waits for the other threads without going to sleep, so that all begin at the same moment.
fn meet(arrived: &AtomicUsize, count: usize) {
    arrived.fetch_add(1, Ordering::SeqCst);
    let mut looks = 0_u32;
    while arrived.load(Ordering::SeqCst) < count {
        looks += 1;
        if looks.is_multiple_of(1_000) { std::thread::yield_now() } else { std::hint::spin_loop() }
    }
}

/// Decodes the scripts of two to four threads, whose clocks differ by up to 15 quarters of a tick.
fn scripts(threads: u8, claims: bool, bytes: &mut impl Iterator<Item = u8>) -> Vec<Script> {
    let mut scripts = vec![Script::new(); 2 + usize::from(threads & 3) % 3];
    let skew = TICK / 4 * u32::from(threads >> 4);
    let mut now = Timestamp::from_secs(1_000);
    for _ in 0..OPS_MAX {
        let Some((thread, op)) = bytes.next().map(|first| (usize::from(first & 3) % scripts.len(), first >> 2)) else {
            break;
        };
        let at = now + skew * thread as u32 / scripts.len() as u32;
        let Some(call) = call(op, claims, &mut now, bytes) else {
            break;
        };
        match call {
            Todo::One(call) => scripts[thread].push_back((at, call)),
            Todo::All(call) => scripts.iter_mut().for_each(|script| script.push_back((at, call.clone()))),
            Todo::Nothing => {}
        }
    }
    scripts
}

enum Todo {
    One(Call),
    /// A call that all threads make, each when it reaches it.
    All(Call),
    Nothing,
}

fn call(op: u8, claims: bool, now: &mut Timestamp, bytes: &mut impl Iterator<Item = u8>) -> Option<Todo> {
    Some(match op % 8 {
        0..=1 => Todo::One(Call::Check(id(bytes.next()?))),
        2 => Todo::All(Call::Check(id(bytes.next()?))),
        3 => Todo::One(Call::Batch((0..1 + bytes.next()? % 70).map_while(|_| bytes.next()).map(id).collect())),
        4 => {
            let (from, to) = (bytes.next()?, bytes.next()?);
            Todo::All(Call::Batch((from.min(to)..=from.max(to)).map(id).collect()))
        }
        5 if claims && op >> 3 & 3 == 3 => Todo::All(claim(op, id(bytes.next()?))),
        5 if claims && op >> 3 & 3 == 2 => Todo::One(claim(op, id(bytes.next()?))),
        5 => Todo::One(Call::Forget(id(bytes.next()?))),
        6 => {
            *now = *now + TICK / 8 * u32::from(bytes.next()?);
            Todo::Nothing
        }
        _ => {
            *now = *now + WINDOW * (1 + u32::from(op >> 3)) / 4 + TICK / 8 * u32::from(bytes.next()?);
            Todo::Nothing
        }
    })
}

/// Decodes a claim: ended at once, or a call later; completed, or, now and then, released.
fn claim(op: u8, id: u64) -> Call {
    Call::Claim { id, hold: op >> 5 & 1, completes: !id.is_multiple_of(4) }
}

/// Returns an id: one of the crowd, or of 16 ids that are each alone.
fn id(byte: u8) -> u64 {
    CROWD.get(usize::from(byte % 64)).copied().unwrap_or(u64::from(byte % 64))
}
