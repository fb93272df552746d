use super::*;
use crate::digest::Digester;
use crate::{Dedup, EventTime};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

const WINDOW: Duration = Duration::from_secs(600);
const IN_2020: u64 = 1_577_836_800;
const IN_2115: u64 = 4_575_744_000;

fn secs(secs: u64) -> Timestamp {
    Timestamp::from_secs(secs)
}

fn machine(wall_secs: u64, boot_secs: u64) -> MachineTime {
    MachineTime { wall_nanos: wall_secs * 1_000_000_000, boot_nanos: boot_secs * 1_000_000_000 }
}

fn wall_secs() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs()
}

/// Returns an engine that has the memory of another one, which has accepted these ids, and goes on
/// from it now.
fn restarted(
    event_time: Option<EventTime>,
    accepted: &[(&str, u64)],
    from: Predecessor,
    now: MachineTime,
) -> (Dedup, Option<ClockStep>) {
    let builder = Dedup::builder().window(WINDOW).capacity(1_000).seed(5);
    let builder = event_time.into_iter().fold(builder, |builder, times| builder.event_time(times));
    let Dedup { engine, digester } = builder.build().unwrap();
    let mut engine = Arc::into_inner(engine).unwrap();
    for (id, at) in accepted {
        engine.restore(&[Digester::with_seed(5).digest(id)], secs(*at).into());
    }
    let step = engine.go_on(from, now);
    (Dedup::new(Arc::new(engine), digester), step)
}

fn left(engine_secs: u64, machine: MachineTime, same_boot: bool) -> Predecessor {
    Predecessor { left: Some(Left { engine: secs(engine_secs), machine, same_boot }), events: None }
}

#[test]
fn asleep_before_a_restart_nothing_is_forgotten_that_was_accepted_just_now() {
    let t = wall_secs();
    // The monotonic clock stood still for 700 s: the engine is that far behind the wall clock.
    let was = left(t - 700, machine(t, 5_000), true);
    let (dedup, step) = restarted(None, &[("a", t - 700)], was, machine(t, 5_000));
    assert_eq!(step, None, "the wall clock is where it was");
    assert!(dedup.check("a").is_duplicate());
    let at = dedup.stats().at;
    assert!(at >= secs(t - 700) && at < secs(t - 600), "{at:?}");

    // It was set forward by 700 s: nothing is forgotten, and the step is reported.
    let (dedup, step) = restarted(None, &[("a", t)], left(t, machine(t, 5_000), true), machine(t + 700, 5_000));
    assert_eq!(step, Some(ClockStep { by: Duration::from_secs(700), is_backward: false }));
    assert!(dedup.check("a").is_duplicate());
}

#[test]
fn a_clock_that_was_an_hour_ahead_freezes_nothing() {
    let t = wall_secs();
    for same_boot in [true, false] {
        let was = left(t + 3_600, machine(t + 3_600, 5_000), same_boot);
        let (dedup, step) = restarted(None, &[("a", t + 3_600)], was, machine(t, 5_000));
        assert_eq!(step, Some(ClockStep { by: Duration::from_secs(3_600), is_backward: true }));
        assert!(dedup.check("a").is_duplicate());
        assert_goes_on_from(&dedup, t + 3_600);
    }
}

/// Checks that time does not stand still: the clock is not behind the window.
fn assert_goes_on_from(dedup: &Dedup, latest: u64) {
    let engine = &dedup.engine;
    let start = engine.clock.now().time;
    assert!(start >= secs(latest) && start < secs(latest + 60), "{start:?}");
    while engine.clock.now().time == start {
        std::hint::spin_loop();
    }
    assert!(engine.now().time > start);
}

#[test]
fn a_journal_from_the_future_does_not_freeze_calls_without_a_time() {
    for events in [None, Some(0), Some(-77)] {
        let from = Predecessor { left: None, events };
        let (dedup, _) = restarted(None, &[("a", IN_2115)], from, machine(wall_secs(), 5));
        assert!(dedup.contains("a").is_some());
        assert!(dedup.check("a").is_duplicate());
        assert_goes_on_from(&dedup, IN_2115);
    }
}

#[test]
fn a_clock_that_the_builder_was_given_is_left_alone() {
    let clock = crate::ManualClock::new();
    clock.set(secs(77));
    let dedup = Dedup::builder().window(WINDOW).clock(clock).build().unwrap();
    let mut engine = Arc::into_inner(dedup.engine).unwrap();
    assert_eq!(engine.go_on(left(5_000, machine(5_000, 5), true), machine(1_000, 5)), None);
    assert_eq!(engine.clock.now().time, secs(77));
}

/// Kills a replay of 2020 and starts it again; it is called in any order before it goes on.
#[test]
fn a_replay_goes_on_whatever_is_called_first() {
    type Call = fn(&Dedup);
    let calls: [Call; 5] = [
        |dedup| assert!(dedup.contains("old").is_some()),
        |dedup| assert!(dedup.check("old").is_duplicate()),
        |dedup| drop(dedup.claim("other").claimed().unwrap()),
        // Events are read again from a little before the kill.
        |dedup| assert!(dedup.check_at("old", secs(IN_2020 - 60)).is_duplicate()),
        |dedup| drop(dedup.stats()),
    ];
    let n = calls.len();
    for order in 0..n.pow(3) {
        for (declared, offset) in [(None, 0), (Some(EventTime::wall()), 0), (None, 3_600), (None, -3_600)] {
            // The window's time is that of the events and the offset.
            let internal = IN_2020.checked_add_signed(offset).unwrap();
            let from = Predecessor { left: None, events: Some(offset * 1_000_000_000) };
            let (dedup, step) = restarted(declared, &[("old", internal)], from, machine(wall_secs(), 5));
            assert_eq!(step, None);
            [order % n, order / n % n, order / n / n].iter().for_each(|&call| calls[call](&dedup));
            // The time that has passed by the clock meanwhile is less than a tick, or a few on a
            // slow machine.
            assert!(dedup.check_at("old", secs(IN_2020 + 550)).is_duplicate(), "order {order}");
            assert!(dedup.check_at("new", secs(IN_2020 + 551)).is_fresh(), "order {order}");
            assert!(dedup.check_at("old", secs(IN_2020 + 611)).is_fresh(), "order {order}: frozen");
            assert!(dedup.check_at("new", secs(IN_2020 + 1_100)).is_duplicate(), "order {order}");
            assert!(dedup.check_at("new", secs(IN_2020 + 1_162)).is_fresh(), "order {order}: frozen");
            let at = dedup.stats().at;
            assert!(at >= secs(IN_2020 + 1_162) && at < secs(IN_2020 + 1_200), "order {order}: {at:?}");
        }
    }
}

#[test]
fn a_replay_over_the_journal_of_an_engine_that_went_by_its_clock_is_right() {
    let t = wall_secs();
    for declared in [None, Some(EventTime::wall())] {
        let (dedup, _) = restarted(declared, &[("a", t)], left(t, machine(t, 50), true), machine(t, 50));
        assert!(dedup.check_at("a", secs(IN_2020)).is_duplicate());
        for hour in 1..10 {
            assert!(dedup.check_at("a", secs(IN_2020 + hour * 3_600)).is_fresh(), "hour {hour}");
        }
    }
}
