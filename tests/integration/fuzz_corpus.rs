//! Replays the corpus that `cargo fuzz` has collected for the engine; see `fuzz/README.md`.

use crate::fuzzed::decode::{self, Tiers};
use testkit::corpus;

#[test]
fn the_engine_agrees_with_the_model_on_the_corpus() {
    let (mut evicted, mut duplicates) = (0, 0);
    let files = corpus::replay("engine", |bytes| {
        if let Some(stats) = decode::fuzz(Tiers::Window, bytes) {
            evicted += stats.window.evicted_live;
            duplicates += stats.duplicates_by_window;
        }
    });
    println!("{files} files: {evicted} evicted, {duplicates} duplicates");
    assert!(files == 0 || (evicted > 0 && duplicates > 0), "the corpus has been outgrown by the format");
}

#[test]
fn the_engine_with_a_history_agrees_with_the_model_on_the_corpus() {
    let (mut guessed_fresh, mut guessed_duplicate) = (0, 0);
    let files = corpus::replay("history", |bytes| {
        if let Some(stats) = decode::fuzz(Tiers::WindowAndHistory, bytes) {
            guessed_fresh += stats.fresh_unconfirmed;
            guessed_duplicate += stats.duplicates_by_history;
        }
    });
    println!("{files} files: {guessed_fresh} were fresh, {guessed_duplicate} duplicates by the history's guess");
    assert!(files == 0 || (guessed_fresh > 0 && guessed_duplicate > 0), "the corpus has been outgrown by the format");
}

#[test]
fn the_crowd_is_crowded() {
    // A window of 100 s; a batch of the whole crowd.
    let all = decode::fuzz(Tiers::Window, &[0, 7, 0, 47]).expect("the bytes are a run");
    assert_eq!((all.fresh, all.window.live, all.window.evicted_live), (48, 16, 32));
}
