//! Replays a fuzzer's corpus.

use std::path::{Path, PathBuf};

/// Gives every file of a target's corpus, in order, to the target's body. Returns how many there
/// were.
pub fn replay(target: &str, mut body: impl FnMut(&[u8])) -> usize {
    let fuzz = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz");
    if !fuzz.exists() {
        crate::skipped(format_args!("no {} (a published package has none)", fuzz.display()));
        return 0;
    }
    let folder = fuzz.join("corpus").join(target);
    let entries = std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("the corpus can be listed").path()).collect();
    assert!(!files.is_empty(), "{} is empty", folder.display());
    files.sort();
    for file in &files {
        // It is printed before the run, so that it is the last line whatever happens.
        println!("replaying {}", file.display());
        body(&std::fs::read(file).expect("the corpus can be read"));
    }
    files.len()
}
