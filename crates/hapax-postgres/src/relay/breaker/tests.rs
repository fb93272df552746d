use super::*;

const LONGEST: Duration = Duration::from_secs(10);

/// Publishes one message after the other, unless the topic pauses.
fn publish(breakers: &mut Breakers, topic: &str, now: Instant, signals: impl IntoIterator<Item = Signal>) -> usize {
    let mut begun = 0;
    for signal in signals {
        if breakers.is_paused(topic) {
            break;
        }
        begun += 1;
        let change = breakers.ended(topic, false, signal, now, 0);
        assert_eq!(change == Some(Change::Paused), breakers.is_paused(topic));
    }
    begun
}

fn failures(n: u32) -> impl Iterator<Item = Signal> {
    (0..n).map(|_| Signal::Failure)
}

/// Waits for the next probes of all topics that pause.
fn next(breakers: &mut Breakers, now: &mut Instant) -> Vec<String> {
    loop {
        *now = breakers.probe_at().expect("some topic pauses");
        let topics = breakers.probes(usize::MAX, LONGEST, *now);
        if !topics.is_empty() {
            return topics;
        }
    }
}

/// Ends probes of a topic, each with a signal. Returns how long it waits then.
fn probe(breakers: &mut Breakers, topic: &str, now: Instant, signals: &[Signal]) -> Option<Duration> {
    breakers.probing(topic, signals.len(), now, 0);
    for signal in signals {
        breakers.ended(topic, true, *signal, now, 0);
        breakers.probed(topic, now, 0);
    }
    breakers.paused.get(topic).map(|pause| pause.until - now)
}

#[test]
fn messages_that_fail_in_a_row_pause_their_topic_and_no_other() {
    let (mut breakers, mut now) = (Breakers::default(), Instant::now());
    assert_eq!(publish(&mut breakers, "t", now, failures(100)), FAILURES as usize, "nothing begins after that");
    assert!(!breakers.is_paused("u"));
    assert_eq!(publish(&mut breakers, "u", now, failures(FAILURES - 1)), 7);
    assert_eq!((breakers.is_paused("u"), breakers.paused()), (false, 1));
    assert_eq!(breakers.probes(9, LONGEST, now), [""; 0], "it waits");
    let began = now;
    assert_eq!(next(&mut breakers, &mut now), ["t"]);
    assert_eq!(now - began, WAITS.first);
}

#[test]
fn messages_that_fail_beside_others_or_again_never_pause_it() {
    let (mut breakers, now) = (Breakers::default(), Instant::now());
    for _ in 0..10 {
        let between = failures(FAILURES - 1).chain([Signal::Success]);
        assert_eq!(publish(&mut breakers, "t", now, between), 8);
    }
    assert_eq!(publish(&mut breakers, "t", now, [Signal::Nothing; 100]), 100);
    assert!(!breakers.is_paused("t"));
}

#[test]
fn probes_follow_waits_that_double_up_to_a_limit() {
    let (mut breakers, mut now) = (Breakers::default(), Instant::now());
    publish(&mut breakers, "t", now, failures(100));
    let mut waits = vec![];
    for _ in 0..9 {
        assert_eq!(next(&mut breakers, &mut now), ["t"]);
        // One round at a time.
        assert_eq!(breakers.probes(9, LONGEST, now + LONGEST), [""; 0]);
        let wait = probe(&mut breakers, "t", now, &[Signal::Nothing, Signal::Failure, Signal::Failure]);
        waits.extend(wait.map(|wait| wait.as_millis()));
    }
    assert_eq!(waits, [400, 800, 1_600, 3_200, 6_400, 12_800, 25_600, 30_000, 30_000]);
    // A success ends it, and the next pause begins with the shortest wait.
    next(&mut breakers, &mut now);
    assert_eq!(probe(&mut breakers, "t", now, &[Signal::Failure, Signal::Success, Signal::Failure]), None);
    assert_eq!(publish(&mut breakers, "t", now, failures(100)), 7, "the last probe was the first to fail");
    let began = now;
    next(&mut breakers, &mut now);
    assert_eq!(now - began, WAITS.first);
}

#[test]
fn a_wait_grows_only_when_something_new_fails() {
    let (mut breakers, mut now) = (Breakers::default(), Instant::now());
    publish(&mut breakers, "t", now, failures(100));
    for probes in [&[][..], &[Signal::Nothing], &[Signal::Nothing; 8]] {
        assert_eq!(next(&mut breakers, &mut now), ["t"]);
        assert_eq!(probe(&mut breakers, "t", now, probes), Some(WAITS.first));
    }
}

#[test]
fn what_began_before_the_pause_does_not_lengthen_it_and_may_end_it() {
    let (mut breakers, mut now) = (Breakers::default(), Instant::now());
    publish(&mut breakers, "t", now, failures(100));
    next(&mut breakers, &mut now);
    breakers.probing("t", 1, now, 0);
    for signal in failures(100) {
        assert_eq!(breakers.ended("t", false, signal, now, 0), None);
    }
    breakers.ended("t", true, Signal::Nothing, now, 0);
    breakers.probed("t", now, 0);
    assert_eq!(breakers.paused["t"].until, now + WAITS.first);
    assert_eq!(breakers.ended("t", false, Signal::Success, now, 0), Some(Change::Resumed));
    breakers.probed("t", now, 0);
    assert!(!breakers.is_paused("t"));
}

#[test]
fn probes_of_which_nobody_hears_again_are_followed_by_others() {
    let (mut breakers, mut now) = (Breakers::default(), Instant::now());
    publish(&mut breakers, "t", now, failures(100));
    next(&mut breakers, &mut now);
    breakers.probing("t", 3, now, 0);
    breakers.probed("t", now, 0);
    let began = now;
    assert_eq!(next(&mut breakers, &mut now), ["t"]);
    assert_eq!(now - began, 2 * LONGEST);
}

#[test]
fn ten_thousand_topics_take_bounded_memory_and_turns() {
    let (mut breakers, now) = (Breakers::default(), Instant::now());
    for n in 0..10_000 {
        publish(&mut breakers, &format!("once {n}"), now, failures(1));
        publish(&mut breakers, &format!("often {n}"), now, failures(8));
        assert!(breakers.paused() <= TOPICS_MAX && breakers.failing.len() <= TOPICS_MAX);
    }
    assert_eq!(breakers.paused(), TOPICS_MAX);
    let later = now + WAITS.first;
    let mut probed = std::collections::HashSet::new();
    while breakers.probe_at().is_some_and(|at| at <= later) {
        for topic in breakers.probes(16, LONGEST, later) {
            assert!(probed.insert(topic.clone()));
            breakers.probing(&topic, 0, later, 0);
        }
    }
    assert_eq!(probed.len(), TOPICS_MAX);
}
