//! Fingerprints outlive the process, in a journal.

use super::fingerprints::{ask, pay};
use super::*;
use hapax::seam::inspect;
use hapax::{Builder, JournalOptions, Timestamp};
use testkit::directory::Directory;

fn clock() -> ManualClock {
    let clock = ManualClock::new();
    clock.set(Timestamp::from_secs(1_000_000));
    clock
}

fn builder(clock: &ManualClock, slides: bool) -> Builder {
    let builder = Dedup::builder().window(WINDOW).capacity(10_000).growth_thread(false).seed(29);
    builder.refresh_on_duplicate(slides).clock(clock.clone())
}

/// Ends an engine and begins another with the journal that the first has kept.
fn restart(directory: &Directory, old: Dedup, new: Builder) -> Dedup {
    drop(old);
    new.journal(directory.file("journal"), JournalOptions::new()).build().unwrap()
}

#[test]
fn what_ids_are_done_with_is_known_after_a_restart() {
    for slides in [false, true] {
        let (directory, clock) = (Directory::new(&format!("known-{slides}")), clock());
        let dedup = builder(&clock, slides).journal(directory.file("journal"), JournalOptions::new()).build().unwrap();
        assert!(pay(&dedup, "expired", "one"));
        clock.advance(WINDOW * 6 / 10);
        assert!(["id", "forgotten", "again", "rechecked"].into_iter().all(|id| pay(&dedup, id, "one")));
        assert!((0..2_000_u32).all(|id| pay(&dedup, id.to_be_bytes(), "one")));
        dedup.forget("forgotten");
        dedup.forget("again");
        assert!(pay(&dedup, "again", "two"));
        dedup.forget("rechecked");
        let _ = dedup.check("rechecked");
        let _ = dedup.check("checked");
        dedup.claim("without").claimed().unwrap().complete().unwrap();
        clock.advance(WINDOW * 5 / 10);

        let dedup = restart(&directory, dedup, builder(&clock, slides));
        let answers = |id: &str, payloads: [&str; 2]| payloads.map(|payload| ask(&dedup, id, payload));
        assert_eq!(answers("id", ["one", "other"]), ["duplicate", "mismatch"], "slides: {slides}");
        assert_eq!(answers("again", ["two", "one"]), ["duplicate", "mismatch"], "slides: {slides}");
        assert_eq!(answers("checked", ["one", "other"]), ["duplicate"; 2]);
        assert_eq!(answers("rechecked", ["one", "other"]), ["duplicate"; 2], "slides: {slides}");
        assert_eq!(answers("without", ["one", "other"]), ["duplicate"; 2]);
        assert_eq!(answers("expired", ["one", "other"]), ["claimed"; 2]);
        assert_eq!(answers("forgotten", ["one", "other"]), ["claimed"; 2]);
        assert!((0..2_000_u32).all(|id| ask(&dedup, id.to_be_bytes(), "other") == "mismatch"));
        assert_eq!(dedup.stats().claims.fingerprints, 2_002);

        // As long as before, and no longer.
        clock.advance(WINDOW * 5 / 10 - Duration::from_nanos(1));
        assert_eq!(answers("again", ["one", "two"]), ["mismatch", "duplicate"]);
        clock.advance(WINDOW + 2 * dedup.tick());
        assert!(pay(&dedup, "again", "one"));
    }
}

#[test]
fn a_clearing_takes_fingerprints_with_it_also_after_a_restart() {
    let (directory, clock) = (Directory::new("clear"), clock());
    let dedup = builder(&clock, false).journal(directory.file("journal"), JournalOptions::new()).build().unwrap();
    assert!(pay(&dedup, "id", "one") && pay(&dedup, "another", "one"));
    dedup.clear();
    let _ = dedup.check("id");
    let dedup = restart(&directory, dedup, builder(&clock, false));
    assert_eq!(ask(&dedup, "id", "other"), "duplicate");
    assert!(dedup.check("another").is_fresh());
    assert_eq!(ask(&dedup, "another", "other"), "duplicate");
}

#[test]
fn what_a_window_that_slides_was_asked_for_is_known_as_long_after_a_restart() {
    for by_claims in [false, true] {
        let (directory, clock) = (Directory::new(&format!("slides-{by_claims}")), clock());
        let dedup = builder(&clock, true).journal(directory.file("journal"), JournalOptions::new()).build().unwrap();
        assert!(pay(&dedup, "id", "one"));
        for _ in 0..3 {
            clock.advance(WINDOW * 6 / 10);
            assert!(if by_claims { dedup.claim("id").is_duplicate() } else { dedup.check("id").is_duplicate() });
        }
        let dedup = restart(&directory, dedup, builder(&clock, true));
        clock.advance(WINDOW * 6 / 10);
        assert_eq!(ask(&dedup, "id", "other"), "mismatch", "by claims: {by_claims}");
        assert_eq!(ask(&dedup, "id", "one"), "duplicate");
    }
}

#[test]
fn what_was_forgotten_early_and_accepted_again_has_no_fingerprint_after_a_restart_either() {
    let (directory, clock) = (Directory::new("early"), clock());
    for slides in [false, true] {
        let _ = std::fs::remove_dir_all(directory.file("journal"));
        let build = || builder(&clock, slides).capacity(1_000).max_memory_bytes(64 << 10);
        let dedup = build().journal(directory.file("journal"), JournalOptions::new()).build().unwrap();
        let ids = 0..12_000_u32;
        assert!(ids.clone().all(|id| pay(&dedup, id.to_be_bytes(), "one")));
        let accepts = |id: u32| match id % 2 {
            0 => dedup.check(id.to_be_bytes()).is_fresh(),
            _ => dedup.claim(id.to_be_bytes()).claimed().is_some_and(|claim| claim.complete().is_ok()),
        };
        let again: Vec<_> = ids.filter(|id| accepts(*id)).collect();
        assert!(again.len() > 200);
        // With room for all of them.
        drop(dedup);
        let dedup = builder(&clock, slides).capacity(50_000).journal(directory.file("journal"), JournalOptions::new());
        let dedup = dedup.build().unwrap();
        let mismatches = again.iter().filter(|id| ask(&dedup, id.to_be_bytes(), "other") != "duplicate").count();
        assert_eq!(mismatches, 0, "of {}, slides: {slides}", again.len());
    }
}

#[test]
fn a_fingerprint_takes_32_bytes_with_its_id_and_is_no_id() {
    let (directory, clock) = (Directory::new("bytes"), clock());
    let dedup = builder(&clock, false).journal(directory.file("journal"), JournalOptions::new()).build().unwrap();
    let claims: Vec<_> = (0..1_000_u32)
        .map(|id| dedup.claim_with(id.to_be_bytes(), ClaimOptions::new().fingerprint("one")).claimed().unwrap())
        .collect();
    dedup.complete_batch(claims, &mut Vec::new());
    assert_eq!(dedup.stats().window.live, 1_000);
    dedup.journal().unwrap().flush().unwrap();
    let runs: Vec<_> =
        inspect(directory.file("journal")).unwrap().segments.into_iter().flat_map(|it| it.runs).collect();
    assert_eq!(runs.iter().map(|run| (run.what, run.ids)).collect::<Vec<_>>(), [("fingerprinted", 1_000)]);
    let bytes = dedup.stats().journal.unwrap().disk_bytes;
    assert!((32_000..33_000).contains(&bytes), "{bytes}");
    let dedup = restart(&directory, dedup, builder(&clock, false));
    assert_eq!(dedup.stats().journal.unwrap().recovery.ids, 1_000);
}
