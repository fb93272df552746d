//! Time that comes from events: which times are refused, which are not, and that nothing else moves
//! it.

mod restarts;
mod threads;

use hapax::{Dedup, EventTime, ManualClock, Outcome, Refusal, Timestamp, Verdict};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const WINDOW: Duration = Duration::from_secs(600);
const MINUTE: Duration = Duration::from_secs(60);
/// Seconds of the Unix epoch.
const IN_2020: u64 = 1_577_836_800;
const IN_2200: u64 = 7_258_118_400;
const IN_2117: u64 = 4_638_960_000;

fn secs(secs: u64) -> Timestamp {
    Timestamp::from_secs(secs)
}

fn wall_secs() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

fn engine() -> Dedup {
    Dedup::builder().window(WINDOW).capacity(10_000).seed(5).build().unwrap()
}

fn with(times: EventTime) -> Dedup {
    Dedup::builder().window(WINDOW).capacity(10_000).seed(5).event_time(times).build().unwrap()
}

/// Checks that an event of the year 2200 changes nothing. Such an event once flushed the window,
/// and froze it until then.
#[test]
fn one_event_of_the_year_2200_changes_nothing() {
    let dedup = engine();
    let start = wall_secs() - 2_000;
    let mut verdicts = Vec::new();
    let ids = || (0..100_u32).map(u32::to_le_bytes);
    dedup.check_batch_at(ids(), secs(start), &mut verdicts);
    assert!(verdicts.iter().all(|verdict| verdict.is_fresh()));

    for at in [IN_2200, IN_2117, u64::MAX, wall_secs() + 700] {
        assert_eq!(dedup.check_at("x", secs(at)).outcome(), Outcome::Refused(Refusal::Ahead));
        dedup.check_batch_at([[1; 9], [2; 9]], secs(at), &mut verdicts);
        assert!(verdicts.iter().all(|verdict| verdict.refusal() == Some(Refusal::Ahead)), "{verdicts:?}");
        assert_eq!(verdicts.len(), 2);
        // A watermark is bound by the same rule.
        dedup.check_batch_at([""; 0], secs(at), &mut verdicts);
        assert!(verdicts.is_empty());
    }
    let stats = dedup.stats();
    assert_eq!((stats.refused_ahead, stats.refused_late, stats.checks()), (12, 0, 112));
    assert_eq!(stats.window.live, 100);

    dedup.check_batch_at(ids(), secs(start + 1), &mut verdicts);
    assert!(verdicts.iter().all(|verdict| verdict.is_duplicate()), "the window was flushed");
    dedup.check_batch_at(ids(), secs(start + 1_000), &mut verdicts);
    assert!(verdicts.iter().all(|verdict| verdict.is_fresh()), "the window is frozen");
    assert!(dedup.check_at("x", secs(start + 1_000)).is_fresh(), "it was not taken before");
}

/// Tries every call without a time that once decided which time an engine uses.
#[test]
fn a_replay_of_2020_is_right_whatever_was_called_before() {
    type Call = fn(&Dedup);
    let calls: [(&str, Call); 9] = [
        ("nothing", |_| ()),
        ("contains", |dedup| assert_eq!(dedup.contains("x"), None)),
        ("stats", |dedup| drop(dedup.stats())),
        ("forget", |dedup| assert_eq!(dedup.forget("x"), hapax::Forgotten::Entirely)),
        ("clear", Dedup::clear),
        ("claim", |dedup| drop(dedup.claim("x"))),
        ("a claim that completes", |dedup| dedup.claim("x").claimed().unwrap().complete().unwrap()),
        ("check", |dedup| assert!(dedup.check("x").is_fresh())),
        ("check_batch", |dedup| dedup.check_batch(["x"], &mut Vec::new())),
    ];
    for (what, call) in calls {
        let dedup = engine();
        call(&dedup);
        // One id an hour, and each again after ten minutes.
        for hour in 0..20 {
            let at = IN_2020 + hour * 3_600;
            assert!(dedup.check_at("id", secs(at)).is_fresh(), "{what}: hour {hour}");
            assert!(dedup.check_at("id", secs(at + 599)).is_duplicate(), "{what}: hour {hour}");
            assert!(dedup.check_at("id", secs(at + 615)).is_fresh(), "{what}: hour {hour}");
        }
        let at = dedup.stats().at;
        assert!(at >= secs(IN_2020 + 19 * 3_600) && at <= secs(IN_2020 + 19 * 3_600 + 621), "{what}: {at:?}");
    }
}

#[test]
fn what_was_accepted_by_the_clock_is_not_lost_when_events_come() {
    for events in [IN_2020, wall_secs() - 2_000] {
        let dedup = engine();
        assert!(dedup.check("a").is_fresh());
        dedup.claim("b").claimed().unwrap().complete().unwrap();
        assert!(dedup.check_at("a", secs(events)).is_duplicate());
        assert!(dedup.check_at("b", secs(events + 590)).is_duplicate());
        // From now on calls without a time go by that of the events.
        assert!(dedup.check("c").is_fresh());
        assert!(dedup.check_at("c", secs(events + 1_180)).is_duplicate());
        assert!(dedup.check_at("a", secs(events + 1_180)).is_fresh());
    }
}

#[test]
fn calls_that_read_do_not_move_time() {
    let clock = ManualClock::new();
    clock.set(secs(10_000));
    let dedup = Dedup::builder().window(WINDOW).seed(5).clock(clock.clone()).build().unwrap();
    assert!(dedup.check("a").is_fresh());
    // A clock that is wrong for a moment.
    clock.set(secs(1_000_000));
    assert_eq!(dedup.contains("a"), None, "by this time it is over");
    dedup.forget("b");
    clock.set(secs(10_001));
    assert!(dedup.contains("a").is_some());
    assert!(dedup.check("a").is_duplicate());
    // Forgotten at whatever time it is.
    clock.set(secs(10_500));
    assert_eq!(dedup.forget("a"), hapax::Forgotten::Entirely);
    assert!(dedup.check("a").is_fresh());
    dedup.clear();
    assert!(dedup.check("a").is_fresh());
    // Where no event has a time, `stats` frees memory by the clock, and so relies on it, as a check
    // does.
    clock.set(secs(1_000_000));
    assert_eq!((dedup.stats().window.live, dedup.stats().at), (0, secs(1_000_000)));
    clock.set(secs(10_501));
    assert_eq!(dedup.contains("a"), None);
}

#[test]
fn what_contains_says_is_what_a_check_would_say() {
    let clock = ManualClock::new();
    for later in [0, 599, 600, 601, 604, 605, 606, 609, 610, 611, 3_000, 6_000, 1_000_000] {
        clock.set(secs(1_000_003));
        let dedup = Dedup::builder().window(WINDOW).seed(5).clock(clock.clone()).build().unwrap();
        (0..100_u32).for_each(|id| assert!(dedup.check(id.to_le_bytes()).is_fresh()));
        clock.advance(Duration::from_secs(later));
        let contains: Vec<_> = (0..100_u32).map(|id| dedup.contains(id.to_le_bytes()).is_some()).collect();
        let duplicate: Vec<_> = (0..100_u32).map(|id| dedup.check(id.to_le_bytes()).is_duplicate()).collect();
        assert_eq!(contains, duplicate, "{later} s later");
    }
}

#[test]
fn events_may_be_ahead_of_the_clock_that_was_given_by_the_skew_and_no_more() {
    let clock = ManualClock::new();
    clock.set(secs(1_000));
    let times = EventTime::wall().max_skew(MINUTE);
    let dedup = Dedup::builder().window(WINDOW).seed(5).clock(clock.clone()).event_time(times).build().unwrap();
    assert!(dedup.check_at("a", secs(1_060)).is_fresh());
    assert!(dedup.check_at("b", secs(1_060) + Duration::from_nanos(1)).is_refused());
    clock.advance(MINUTE);
    assert!(dedup.check_at("b", secs(1_120)).is_fresh());
    assert!(dedup.check_at("c", secs(1_121)).is_refused());
    assert!(dedup.check_at("late", secs(0)).is_fresh(), "nothing is too late");
    // By default, a window ahead.
    let dedup = Dedup::builder().window(WINDOW).seed(5).clock(clock).build().unwrap();
    assert!(dedup.check_at("a", secs(1_660)).is_fresh());
    assert!(dedup.check_at("b", secs(1_661)).is_refused());
}

#[test]
fn what_is_too_late_is_refused_if_that_is_wanted() {
    let dedup = with(EventTime::wall().allowed_lateness(MINUTE));
    assert!(dedup.check_at("a", secs(1_000)).is_fresh());
    assert!(dedup.check_at("b", secs(940)).is_fresh());
    assert_eq!(dedup.check_at("c", secs(939)).refusal(), Some(Refusal::Late));
    // It changes nothing, and neither do events that are refused as ahead.
    assert!(dedup.check_at("c", secs(IN_2200)).is_refused());
    assert!(dedup.check_at("c", secs(940)).is_fresh());
    dedup.check_batch_at([""; 0], secs(2_000), &mut Vec::new());
    assert!(dedup.check_at("d", secs(1_939)).is_refused());
    let stats = dedup.stats();
    assert_eq!((stats.refused_ahead, stats.refused_late), (1, 2));
}

#[test]
fn a_jump_is_refused_until_enough_events_have_made_it() {
    let dedup = with(EventTime::unrelated().max_jump(MINUTE).agreeing(4));
    let fresh = |id: &str, at| dedup.check_at(id, secs(at)).is_fresh();
    assert!(fresh("a", 1_000_000) && fresh("b", 1_000_060));
    // One sender with a wrong clock is refused as often as it likes.
    assert!((0..100).all(|_| dedup.check_at("wrong", secs(9_000_000)).is_refused()));
    assert!(fresh("c", 1_000_061));
    // A night without events.
    let morning = 1_000_061 + 8 * 3_600;
    let taken: Vec<_> = (0..6).map(|n| fresh(&format!("m{n}"), morning + n)).collect();
    assert_eq!(taken, [false, false, false, true, true, true]);
    assert!(!fresh("c", morning + 5 + 60) || dedup.stats().refused_ahead == 103);
    // A batch is one witness, a watermark none.
    let (mut verdicts, evening) = (Vec::<Verdict>::new(), morning + 50_000);
    for batch in 0..4_u64 {
        dedup.check_batch_at([""; 0], secs(evening), &mut verdicts);
        dedup.check_batch_at((0..50).map(|i| (batch * 100 + i).to_le_bytes()), secs(evening), &mut verdicts);
        assert_eq!(verdicts.iter().filter(|verdict| verdict.is_fresh()).count(), if batch < 3 { 0 } else { 50 });
    }
}

#[test]
fn times_without_a_bound_end_in_2116_only() {
    let dedup = with(EventTime::unrelated());
    assert!(dedup.check_at("a", secs(0)).is_fresh());
    assert!(dedup.check_at("b", secs(IN_2117 - 31_536_000)).is_fresh());
    assert!(dedup.check_at("c", secs(IN_2117)).is_refused());
}

#[test]
fn an_operator_can_put_stream_time_right() {
    let dedup = with(EventTime::unrelated().allowed_lateness(MINUTE));
    assert!(dedup.check_at("early", secs(1_000)).is_fresh());
    assert!(dedup.check_at("wrong", secs(IN_2117 - 31_536_000)).is_fresh());
    assert!(dedup.check_at("a", secs(1_001)).is_refused(), "late");
    dedup.reset_stream_time(secs(1_001)).unwrap();
    assert_eq!(dedup.stats().stream_time_resets, 1);
    assert!(dedup.stats().at >= secs(1_001) && dedup.stats().at <= secs(1_007), "{:?}", dedup.stats().at);
    assert!(dedup.check_at("a", secs(1_001)).is_fresh());
    assert!(dedup.check_at("wrong", secs(1_500)).is_duplicate(), "it was accepted lately");
    assert!(dedup.check_at("a", secs(1_600)).is_duplicate());
    assert!(dedup.check_at("a", secs(1_615)).is_fresh());
    assert!(dedup.check_at("wrong", secs(1_615)).is_fresh());
    assert!(dedup.check_at("b", secs(1_554)).is_refused());
    assert!(dedup.reset_stream_time(secs(IN_2117)).is_err());
    // It does not last forever: the window's own time only grows.
    let last = (0..1_000).find(|_| {
        dedup.check_at("wrong", secs(IN_2117 - 31_536_000)).outcome() == Outcome::Refused(Refusal::Ahead)
            || dedup.reset_stream_time(secs(1_001)).is_err()
    });
    assert!(last.is_some());
    assert!(dedup.check_at("never frozen", secs(IN_2117 - 1)).is_refused());

    let by_clock = engine();
    assert!(by_clock.check("a").is_fresh());
    by_clock.reset_stream_time(secs(1_000)).unwrap();
    assert!(by_clock.check_at("a", secs(1_599)).is_duplicate());
    let too_far = by_clock.reset_stream_time(secs(wall_secs() + 10_000)).unwrap_err();
    assert!(too_far.to_string().starts_with("option `reset_stream_time`: got Timestamp("), "{too_far}");
}

#[test]
fn an_engine_that_waits_for_its_events_loses_nothing() {
    for first in [0, 3, 1_000, IN_2020] {
        let dedup = with(EventTime::wall());
        dedup.claim("a").claimed().unwrap().complete().unwrap();
        assert!(dedup.check("b").is_fresh());
        assert!(dedup.check_at("a", secs(first)).is_duplicate());
        assert!(dedup.check_at("b", secs(first + 594)).is_duplicate());
        assert!(dedup.check_at("b", secs(first + 612)).is_fresh());
        assert!(dedup.check("b").is_duplicate());
    }
}

#[test]
fn a_refused_event_is_not_in_the_history_either() {
    let history = Duration::from_secs(86_400);
    let dedup =
        Dedup::builder().window(WINDOW).history(testkit::history(history, 1e-6, 10_000)).seed(5).build().unwrap();
    assert!(dedup.check_at("a", secs(IN_2020)).is_fresh());
    for n in 0..1_000_u32 {
        assert!(dedup.check_at(n.to_le_bytes(), secs(IN_2200)).is_refused());
    }
    assert_eq!((0..1_000_u32).filter(|n| dedup.contains(n.to_le_bytes()).is_some()).count(), 0);
    assert!(dedup.check_at("a", secs(IN_2020 + 3_600)).is_duplicate(), "the history was not turned");
}
