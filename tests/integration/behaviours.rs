//! The behaviour of hapax, case by case: windows, batches, ids, options.

use hapax::{Builder, Clock, Dedup, Error, Forgotten, Int, Key, ManualClock, Tier, Timestamp, Unconfirmed, Verdict};
use std::time::Duration;

const MINUTE: Duration = Duration::from_secs(60);

/// Builds an engine with a window of a minute and a clock that only the test moves.
fn engine(configure: impl FnOnce(Builder) -> Builder) -> (Dedup, ManualClock) {
    let clock = ManualClock::new();
    clock.set(Timestamp::from_secs(1_000_000));
    let builder = Dedup::builder().window(MINUTE).capacity(10_000).clock(clock.clone());
    (configure(builder).build().unwrap(), clock)
}

fn fresh(verdicts: &[Verdict]) -> Vec<bool> {
    verdicts.iter().map(|verdict| verdict.is_fresh()).collect()
}

#[test]
fn an_id_is_a_duplicate_for_the_window_and_at_most_two_ticks_longer() {
    let (dedup, clock) = engine(|b| b);
    let tick = dedup.stats().window.tick;
    assert!(tick <= MINUTE / 100, "{tick:?}");
    // Accepted at every offset within a tick.
    for offset in (0..10).map(|i| tick / 10 * i + Duration::from_nanos(1)) {
        let id = format!("accepted {offset:?} into a tick");
        let start = clock.now();
        clock.set(start + offset);
        let accepted = clock.now();
        assert!(dedup.check(&id).is_fresh());
        clock.set(accepted + (MINUTE - Duration::from_nanos(1)));
        assert_eq!(dedup.contains(&id), Some(Tier::Window));
        assert!(dedup.check(&id).is_duplicate());
        clock.set(accepted + MINUTE + 2 * tick);
        assert_eq!(dedup.contains(&id), None);
        assert!(dedup.check(&id).is_fresh());
        clock.set(start + 4 * MINUTE);
    }
}

#[test]
fn a_duplicate_does_not_extend_the_window_unless_it_is_told_to() {
    for refresh in [false, true] {
        let (dedup, clock) = engine(|b| b.refresh_on_duplicate(refresh));
        assert!(dedup.check("id").is_fresh());
        for _ in 0..2 {
            clock.advance(MINUTE / 2 - Duration::from_secs(1));
            assert!(dedup.check("id").is_duplicate());
        }
        clock.advance(MINUTE / 2 - Duration::from_secs(1));
        // 87 s after the first time, 29 s after the last.
        assert_eq!(dedup.contains("id").is_some(), refresh);
    }
}

#[test]
fn contains_changes_nothing_and_is_not_counted() {
    let (dedup, _) = engine(|b| b);
    assert_eq!(dedup.contains("id"), None);
    assert!(dedup.check("id").is_fresh());
    assert_eq!(dedup.contains("id"), Some(Tier::Window));
    assert_eq!(dedup.stats().checks(), 1);
}

#[test]
fn stats_are_one_line_for_people() {
    let (dedup, _) = engine(|b| b.event_time(hapax::EventTime::wall()));
    let at = Timestamp::from_secs(1_000_000);
    let _ = ["a", "a", "b"].map(|id| dedup.check_at(id, at));
    let begins = "3 checks: 2 fresh, 1 duplicates, 0 in progress; 2 ids in the window, 0 forgotten early; 0.";
    let text = dedup.stats().to_string();
    assert!(text.starts_with(begins) && text.ends_with(" MB of memory"), "{text}");
    assert!(!dedup.check_at("c", at + 1_000_000 * MINUTE).is_fresh());
    dedup.claim("d").claimed().unwrap().complete().unwrap();
    let text = dedup.stats().to_string();
    assert!(text.contains("0 in progress, 1 refused for their time; 1 claims: 1 completed, 0 released"), "{text}");
    let (small, _) =
        engine(|b| b.capacity(1).max_memory_bytes(64 << 10).history(testkit::history(MINUTE, 1e-3, 50_000)));
    for id in 0..20_000_u64 {
        let _ = small.check(Int::from(id));
    }
    let text = small.stats().to_string();
    assert!(text.contains("forgotten early (the shortest stay ") && text.contains("; the history takes "), "{text}");
}

#[test]
fn memory_returns_to_rest_without_traffic() {
    let (dedup, clock) = engine(|b| b);
    (0..5_000_u64).for_each(|id| assert!(dedup.check(Int::from(id)).is_fresh()));
    assert_eq!(dedup.stats().window.live, 5_000);
    for wait in [MINUTE + MINUTE / 40, 2 * MINUTE, 10 * MINUTE, 1_000_000 * MINUTE] {
        clock.advance(wait);
        assert_eq!(dedup.stats().window.live, 0);
    }
    (0..5_000_u64).for_each(|id| assert!(dedup.check(Int::from(id)).is_fresh()));
}

#[test]
fn stream_time_is_the_largest_time_seen() {
    let late_and_early =
        [(100, "a"), (90, "b"), (130, "c"), (70, "a"), (155, "a"), (60, "b"), (162, "b"), (20, "c"), (163, "a")];
    let run = || {
        let (dedup, _) = engine(|b| b);
        let check = |(at, id)| dedup.check_at(id, Timestamp::from_secs(at)).is_fresh();
        late_and_early.map(check)
    };
    // a at 100 and, late, at 130 (given as 70) and at 155: within 60 s. b at 100 (given as 90), at
    // 155, at 162. c at 130 and 162.
    assert_eq!(run(), [true, true, true, false, false, false, true, false, true]);
    assert_eq!(run(), run());
}

#[test]
fn a_late_event_counts_from_the_largest_time_seen_not_from_its_own() {
    let (dedup, _) = engine(|b| b);
    let check = |id, millis| dedup.check_at(id, Timestamp::from_millis(millis)).is_fresh();
    // The late one's own time is a whole number of ticks; the largest time is not.
    assert!(check("x", 100_300) && check("a", 100_000));
    assert!(!check("a", 160_000), "accepted 59.7 s ago");
}

#[test]
fn an_empty_batch_advances_stream_time() {
    let (dedup, _) = engine(|b| b);
    assert!(dedup.check_at("a", Timestamp::from_secs(10)).is_fresh());
    dedup.check_batch_at([""; 0], Timestamp::from_secs(100), &mut Vec::new());
    assert_eq!(dedup.stats().window.live, 0);
}

#[test]
fn stream_time_replaces_the_clock() {
    let (dedup, clock) = engine(|b| b);
    assert!(dedup.check_at("a", Timestamp::from_secs(10)).is_fresh());
    clock.advance(100 * MINUTE);
    assert_eq!(dedup.contains("a"), Some(Tier::Window));
    assert!(dedup.check("a").is_duplicate());
    assert_eq!(dedup.stats().window.live, 1);
    assert!(dedup.check_at("b", Timestamp::from_secs(72)).is_fresh());
    assert_eq!(dedup.contains("a"), None);
}

#[test]
fn a_clock_that_runs_backwards_forgets_nothing_early() {
    let (dedup, clock) = engine(|b| b);
    assert!(dedup.check("a").is_fresh());
    clock.set(Timestamp::from_secs(5));
    assert!(dedup.check("a").is_duplicate());
    assert!(dedup.check("b").is_fresh());
    clock.set(Timestamp::from_secs(1_000_059));
    assert!(dedup.check("a").is_duplicate());
    assert!(dedup.check("b").is_duplicate());
}

#[test]
fn batches_answer_in_order_one_verdict_for_each_id() {
    let (dedup, _) = engine(|b| b);
    let mut verdicts = vec![];
    dedup.check_batch(["a", "a", "b"], &mut verdicts);
    assert_eq!(fresh(&verdicts), [true, false, true]);
    dedup.check_batch(["a", "b", "a", "b"], &mut verdicts);
    assert_eq!(fresh(&verdicts), [false; 4]);
    dedup.check_batch(std::iter::empty::<&str>(), &mut verdicts);
    assert!(verdicts.is_empty());
    // Across the internal chunks, and from anything that iterates byte strings.
    for len in [1, 63, 64, 65, 128, 1_000] {
        let ids = (0..len).flat_map(|i| [i, i]).map(|i| format!("{len}/{i}"));
        dedup.check_batch(ids, &mut verdicts);
        assert_eq!(fresh(&verdicts), (0..2 * len).map(|i| i % 2 == 0).collect::<Vec<_>>());
    }
    assert_eq!(dedup.stats().checks(), 7 + 2 * (1 + 63 + 64 + 65 + 128 + 1_000));
}

#[test]
fn every_byte_string_is_an_id_and_different_ones_are_different() {
    let (dedup, _) = engine(|b| b);
    let long = vec![0; 10_000];
    let ids: [&[u8]; 11] =
        [b"", b"0", b"\0", b"\0\0", b"False", b"false", b"00", b" ", &[0xff, 0xfe], &long, &long[..9_999]];
    for id in ids {
        assert!(dedup.check(id).is_fresh(), "{id:?}");
    }
    for id in ids {
        assert!(dedup.check(id).is_duplicate(), "{id:?}");
    }
}

#[test]
fn integers_and_composite_keys() {
    let (dedup, _) = engine(|b| b);
    assert!(dedup.check(Int::from(7_u64)).is_fresh());
    assert!(dedup.check(7_u64.to_le_bytes()).is_duplicate());
    assert!(dedup.check(Int::from(7_u32)).is_fresh());
    assert!(dedup.check(Int::from(7_u128)).is_fresh());
    assert!(dedup.check(Key::new().text("ab").text("c")).is_fresh());
    assert!(dedup.check(Key::new().text("a").text("bc")).is_fresh());
    assert!(dedup.check(Key::new().text("ab").text("c")).is_duplicate());
}

#[test]
fn scopes_are_namespaces_of_one_engine() {
    let (dedup, _) = engine(|b| b.scope("a").seed(5));
    assert!(dedup.check("1").is_fresh());
    assert!(dedup.with_scope("a").check("1").is_duplicate());
    assert!(dedup.with_scope("b").check("1").is_fresh());
    assert_eq!(dedup.stats().window.live, 2);
    let (unscoped, _) = engine(|b| b.seed(5));
    assert!(unscoped.check("1").is_fresh());
    assert!(unscoped.with_scope("").check("1").is_fresh());
}

#[test]
fn handles_share_the_engine() {
    let (dedup, _) = engine(|b| b);
    let clone = dedup.clone();
    assert!(clone.check("1").is_fresh());
    assert!(dedup.check("1").is_duplicate());
    assert!(dedup.check(clone.prepare("1")).is_duplicate());
    assert!(dedup.check(clone.prepare("2")).is_fresh());
    assert_eq!((dedup.stats().fresh, clone.stats().duplicates_by_window), (2, 2));
}

#[test]
fn forgetting() {
    let (dedup, _) = engine(|b| b);
    assert!(dedup.check("a").is_fresh());
    assert!(dedup.check("b").is_fresh());
    assert_eq!(dedup.forget("a"), Forgotten::Entirely);
    assert_eq!(dedup.forget("never seen"), Forgotten::Entirely);
    assert!(dedup.check("b").is_duplicate());
    assert!(dedup.check("a").is_fresh());
    dedup.clear();
    assert_eq!(dedup.stats().window.live, 0);
    assert!(dedup.check("a").is_fresh());

    let (dedup, _) = engine(|b| b.history(testkit::history(MINUTE, 1e-3, 100)));
    assert!(dedup.check("a").is_fresh());
    assert_eq!(dedup.forget("a"), Forgotten::ExceptByHistory);
    assert_eq!(dedup.forget("never seen"), Forgotten::Entirely);
    assert!(!dedup.check("a").is_certain());
    dedup.clear();
    assert!(dedup.check("a").is_fresh());
}

#[test]
fn verdicts_say_who_decided_and_how_surely() {
    let told = |verdict: Verdict| (verdict.is_fresh(), verdict.tier(), verdict.is_certain());
    use Tier::*;
    let (window_only, _) = engine(|b| b);
    assert_eq!(told(window_only.check("a")), (true, Window, true));
    assert_eq!(told(window_only.check("a")), (false, Window, true));

    for (policy, is_fresh) in [(Unconfirmed::Duplicate, false), (Unconfirmed::Fresh, true)] {
        let (dedup, clock) = engine(|b| {
            b.history(hapax::History { unconfirmed: policy, ..testkit::history(60 * MINUTE, 1e-6, 10_000) })
        });
        assert_eq!(told(dedup.check("a")), (true, History, true));
        assert_eq!(told(dedup.check("a")), (false, Window, true));
        clock.advance(10 * MINUTE);
        assert_eq!(dedup.contains("a"), Some(History));
        let mut verdicts = vec![];
        dedup.check_batch(["a", "b", "a", "b"], &mut verdicts);
        let second = if is_fresh { (false, Window, true) } else { (false, History, false) };
        let expected = [(is_fresh, History, false), (true, History, true), second, (false, Window, true)];
        assert_eq!(verdicts.iter().map(|v| told(*v)).collect::<Vec<_>>(), expected);

        let stats = dedup.stats();
        assert_eq!(stats.checks(), 6);
        assert_eq!((stats.fresh, stats.fresh_unconfirmed), if is_fresh { (3, 1) } else { (2, 0) });
        assert_eq!((stats.duplicates_by_window, stats.duplicates_by_history), if is_fresh { (3, 0) } else { (2, 2) });
    }
}

#[test]
fn a_duplicate_by_history_leaves_no_trace_in_the_window_unless_it_refreshes() {
    for refresh in [false, true] {
        let (dedup, clock) =
            engine(|b| b.history(testkit::history(60 * MINUTE, 1e-6, 10_000)).refresh_on_duplicate(refresh));
        assert!(dedup.check("a").is_fresh());
        clock.advance(2 * MINUTE);
        assert_eq!(dedup.check("a").tier(), Tier::History);
        assert_eq!(dedup.contains("a"), Some(if refresh { Tier::Window } else { Tier::History }));
    }
}

#[test]
fn with_a_history_a_batch_answers_and_counts_as_one_by_one() {
    for (refresh, unconfirmed) in
        [false, true].into_iter().flat_map(|refresh| [(refresh, Unconfirmed::Duplicate), (refresh, Unconfirmed::Fresh)])
    {
        let engines = [(); 2].map(|()| {
            let history = hapax::History { unconfirmed, ..testkit::history(60 * MINUTE, 1e-6, 10_000) };
            engine(|b| b.history(history).refresh_on_duplicate(refresh))
        });
        let mut verdicts = vec![];
        // Ids of this minute, of those before, and new ones; several times in one batch, too.
        for minute in 0..10_u64 {
            let ids: Vec<_> = (0..700).map(|i| Int::from((minute * 200 + i * i % 997).saturating_sub(400))).collect();
            let [(batched, clock), (single, other_clock)] = &engines;
            batched.check_batch(&ids, &mut verdicts);
            let one_by_one: Vec<_> = ids.iter().map(|id| single.check(id)).collect();
            assert_eq!(verdicts, one_by_one, "minute {minute}, refresh {refresh}, {unconfirmed:?}");
            [clock, other_clock].into_iter().for_each(|clock| clock.advance(MINUTE * 2 / 3));
        }
        let [of_batches, of_singles] = engines.each_ref().map(|(dedup, _)| {
            let stats = dedup.stats();
            [stats.fresh, stats.fresh_unconfirmed, stats.duplicates_by_window, stats.duplicates_by_history]
        });
        assert_eq!(of_batches, of_singles);
        assert!(of_singles[2] > 0 && of_singles[1] + of_singles[3] > 0, "{of_singles:?}");
    }
}

#[test]
fn an_evicted_id_that_the_history_remembers_is_still_a_duplicate() {
    // The smallest window there is holds some thousands of ids.
    let (dedup, _) =
        engine(|b| b.capacity(1).max_memory_bytes(64 << 10).history(testkit::history(60 * MINUTE, 1e-6, 100_000)));
    let ids = 50_000_u64;
    (0..ids).for_each(|id| assert!(dedup.check(Int::from(id)).is_fresh()));
    assert!(dedup.stats().window.evicted_live > ids / 2);
    assert!(dedup.stats().window.effective_window < MINUTE);
    (0..ids).for_each(|id| assert!(dedup.check(Int::from(id)).is_duplicate()));
    assert!(dedup.stats().duplicates_by_history > ids / 2);
}

#[test]
fn invalid_options_are_refused_by_name_and_value() {
    type Configure = fn(Builder) -> Builder;
    let refused: [(Configure, &str, &str); 15] = [
        (|b| b.window(Duration::ZERO), "window", "0ns"),
        (|b| b.window(Duration::from_nanos(99)), "window", "99ns"),
        (|b| b.window(Duration::MAX), "window", "18446744073709551615.999999999s"),
        (|b| b.capacity(0), "capacity", "0"),
        (|b| b.capacity(usize::MAX), "capacity", "18446744073709551615"),
        (|b| b.history(testkit::history(2 * MINUTE, 0.0, 10)), "history.false_positive_rate", "0"),
        (|b| b.history(testkit::history(2 * MINUTE, 1.0, 10)), "history.false_positive_rate", "1"),
        (|b| b.history(testkit::history(2 * MINUTE, 7.7, 10)), "history.false_positive_rate", "7.7"),
        (|b| b.history(testkit::history(2 * MINUTE, -0.1, 10)), "history.false_positive_rate", "-0.1"),
        (|b| b.history(testkit::history(2 * MINUTE, f64::NAN, 10)), "history.false_positive_rate", "NaN"),
        (|b| b.history(testkit::history(2 * MINUTE, f64::INFINITY, 10)), "history.false_positive_rate", "inf"),
        (|b| b.history(testkit::history(2 * MINUTE, 1e-3, 0)), "history.ids", "0"),
        (|b| b.history(testkit::history(MINUTE / 2, 1e-3, 10)), "history.horizon", "30s"),
        (
            |b| b.history(testkit::history(Duration::MAX, 1e-3, 10)),
            "history.horizon",
            "18446744073709551615.999999999s",
        ),
        (
            |b| b.window(Duration::from_micros(1)).history(testkit::history(Duration::from_micros(10), 1e-3, 1)),
            "history.horizon",
            "10µs",
        ),
    ];
    for (configure, name, value) in refused {
        let error = configure(Dedup::builder().window(MINUTE)).build().expect_err(name);
        let text = error.to_string();
        match error {
            Error::InvalidOption { option, got, .. } => assert_eq!((option, got.as_str()), (name, value), "{text}"),
            other => panic!("{name}: {other}"),
        }
        assert!(text.contains(name) && text.contains(value) && text.contains("expected"), "{text}");
    }
}

#[test]
fn what_is_not_set_fits_what_is_set() {
    let brief = Dedup::builder().history(testkit::history(MINUTE, 1e-3, 10)).build().unwrap();
    assert!(brief.stats().window.tick <= MINUTE / 100, "no window of ten minutes before a history of one");
    let longer = Dedup::builder().window(2 * MINUTE).history(testkit::history(MINUTE, 1e-3, 10)).build();
    assert!(longer.unwrap_err().to_string().contains("history.horizon"));

    let small = Dedup::builder().max_memory_bytes(1 << 20).build().unwrap();
    (0..20_000_u64).for_each(|id| assert!(small.check(Int::from(id)).is_fresh()));
    let stats = small.stats();
    assert!(stats.bytes < 9 << 17 && stats.window.evicted_live < 10, "{stats:?}");
    for (bytes, expected) in [(0, "smallest table"), (64 << 10, "")] {
        let built = Dedup::builder().max_memory_bytes(bytes).build();
        assert_eq!(built.is_ok(), expected.is_empty());
        built.map_or_else(|error| assert!(error.to_string().contains(expected), "{error}"), drop);
    }
    let too_large = Dedup::builder().capacity(1_000_000).max_memory_bytes(1 << 20).build();
    assert!(too_large.unwrap_err().to_string().contains("max_memory_bytes"));
}

#[test]
fn memory_that_cannot_be_had_is_an_error() {
    let too_much = [
        Dedup::builder().capacity(1 << 48).build(),
        Dedup::builder().history(testkit::history(600 * MINUTE, 1e-6, usize::MAX)).build(),
        Dedup::builder().history(testkit::history(600 * MINUTE, 0.5, 1 << 50)).build(),
    ];
    for result in too_much {
        let error = result.expect_err("no machine has that much");
        assert!(matches!(error, Error::OutOfMemory { .. }), "{error}");
        assert!(error.to_string().contains("bytes"), "{error}");
        assert!(std::error::Error::source(&error).is_some());
    }
}

#[test]
fn any_rate_between_0_and_1_will_do() {
    for rate in [1e-9, 1e-6, 0.5, 0.99] {
        let (dedup, _) = engine(|b| b.history(testkit::history(MINUTE, rate, 1_000)));
        let mut verdicts = vec![];
        dedup.check_batch((0..1_000_u64).map(Int::from), &mut verdicts);
        assert!((0..1_000_u64).all(|id| dedup.check(Int::from(id)).is_duplicate()));
    }
}

#[test]
fn secrets_are_not_printed() {
    let seed = 0x5ec2_e7ed_5eed_0001_u64;
    let builder = Dedup::builder().seed(seed).capacity(10);
    let (printed_builder, dedup) = (format!("{builder:?}"), builder.build().unwrap());
    for printed in [printed_builder, format!("{dedup:?}"), format!("{:?}", dedup.stats())] {
        assert!(!printed.contains(&seed.to_string()) && !printed.contains("5ec2e7ed"), "{printed}");
    }
}

#[test]
fn a_history_counts_from_the_largest_time_seen() {
    let seconds = Timestamp::from_secs;
    let horizon = Duration::from_secs(256); // a tick of it is a second
    let dedup =
        Dedup::builder().window(Duration::from_secs(10)).history(testkit::history(horizon, 1e-6, 100)).build().unwrap();
    assert!(dedup.check_at("first", seconds(1_000)).is_fresh());
    dedup.check_batch_at([] as [&str; 0], seconds(1_400), &mut Vec::new());
    assert!(dedup.check_at("late", seconds(1_255)).is_fresh());
    assert!(dedup.check_at("as late", seconds(1_265)).is_fresh());
    assert!(dedup.check_at("next", seconds(1_530)).is_fresh());
    let verdict = dedup.check_at("late", seconds(1_531));
    assert!(verdict.is_duplicate(), "accepted at 1,400 s, 131 s ago: {verdict:?}");
}

#[test]
fn an_id_that_was_prepared_is_the_same_for_handles_of_its_scope_and_refused_by_others() {
    let dedup = Dedup::builder().build().unwrap();
    let prepared = dedup.prepare("a");
    assert!(dedup.clone().check(prepared).is_fresh());
    assert!(dedup.check("a").is_duplicate() && dedup.contains(prepared).is_some());
    let (orders, same) = (dedup.with_scope("orders"), dedup.with_scope("orders"));
    assert!(orders.check(same.prepare("a")).is_fresh() && orders.check("a").is_duplicate());

    let other = Dedup::builder().build().unwrap();
    let mut verdicts = Vec::new();
    for refused in [&orders, &other] {
        let is_refused = |call: &mut dyn FnMut()| std::panic::catch_unwind(std::panic::AssertUnwindSafe(call)).is_err();
        assert!(is_refused(&mut || _ = refused.check(prepared)));
        assert!(is_refused(&mut || drop(refused.claim(prepared))));
        assert!(is_refused(&mut || refused.check_batch([prepared], &mut verdicts)));
    }
    assert!(orders.claim("b").claimed().is_some() && other.check("a").is_fresh());
}
