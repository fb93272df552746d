//! Time that comes from events continues after restarts.

use super::*;
use hapax::JournalOptions;
use testkit::directory::Directory;

fn open(directory: &Directory) -> Dedup {
    let builder = Dedup::builder().window(WINDOW).capacity(1_000).seed(5);
    builder.journal(directory.path().join("journal"), JournalOptions::new()).build().unwrap()
}

/// The calls before the first event; the offset with them differs from that without.
const BEFORE: [fn(&Dedup); 2] = [|_| (), |dedup| assert!(!dedup.check("warm-up").is_in_progress())];

#[test]
fn a_replay_of_2020_goes_on_after_restarts() {
    let calls: [fn(&Dedup); 5] = [
        |_| (),
        |dedup| assert!(dedup.contains("a").is_some()),
        |dedup| assert!(dedup.check("a").is_duplicate()),
        |dedup| drop(dedup.stats()),
        |dedup| assert!(dedup.check_at("a", secs(IN_2020 - 30)).is_duplicate()),
    ];
    for (n, before) in BEFORE.into_iter().enumerate() {
        for (first, second) in (0..25).map(|n| (n / 5, n % 5)) {
            let directory = Directory::new(&format!("replay-{n}-{first}-{second}"));
            let dedup = open(&directory);
            before(&dedup);
            assert!(dedup.check_at("a", secs(IN_2020)).is_fresh());
            assert_eq!(dedup.check_at("x", secs(IN_2200)).refusal(), Some(Refusal::Ahead));
            drop(dedup);
            let dedup = open(&directory);
            calls[first](&dedup);
            calls[second](&dedup);
            assert!(dedup.check_at("a", secs(IN_2020 + 550)).is_duplicate(), "{first}, {second}");
            assert!(dedup.check_at("b", secs(IN_2020 + 560)).is_fresh(), "{first}, {second}");
            drop(dedup);
            let dedup = open(&directory);
            assert!(dedup.check_at("x", secs(IN_2020 + 561)).is_fresh(), "refused, and yet in the journal");
            assert!(dedup.check_at("b", secs(IN_2020 + 1_100)).is_duplicate(), "{first}, {second}");
            assert!(dedup.check_at("a", secs(IN_2020 + 1_101)).is_fresh(), "{first}, {second}: frozen");
            assert!(dedup.check_at("b", secs(IN_2020 + 1_175)).is_fresh(), "{first}, {second}: frozen");
        }
    }
}

#[test]
fn a_reset_of_stream_time_survives() {
    let directory = Directory::new("reset");
    let dedup = open(&directory);
    assert!(dedup.check_at("a", secs(IN_2020 + 1_000_000)).is_fresh());
    dedup.reset_stream_time(secs(IN_2020)).unwrap();
    assert!(dedup.check_at("b", secs(IN_2020)).is_fresh());
    drop(dedup);
    let dedup = open(&directory);
    assert!(dedup.check_at("a", secs(IN_2020 + 590)).is_duplicate());
    assert!(dedup.check_at("b", secs(IN_2020 + 612)).is_fresh());
}

/// Opens one journal with an engine by its clock, and then with one by events.
#[test]
fn a_journal_of_now_serves_a_replay_of_2020() {
    let directory = Directory::new("now");
    let dedup = open(&directory);
    assert!(dedup.check("a").is_fresh());
    drop(dedup);
    let dedup = open(&directory);
    assert!(dedup.check_at("a", secs(IN_2020)).is_duplicate());
    for hour in 1..5 {
        assert!(dedup.check_at("a", secs(IN_2020 + hour * 3_600)).is_fresh(), "hour {hour}");
    }
}
