//! Replays the corpus that `cargo fuzz` has collected for the files of journals, and damage drawn
//! at random; see `fuzz/README.md`.

use crate::fuzzed::files::{self, Read};
use proptest::prelude::*;
use testkit::corpus;

#[test]
fn damaged_files_are_read_in_part_or_refused_on_the_corpus() {
    let mut in_part = 0;
    let files = corpus::replay("files", |bytes| {
        in_part += usize::from(matches!(files::fuzz(bytes), Some(Read::Ids(1..40))));
    });
    println!("{files} files, {in_part} read in part");
    assert!(files == 0 || in_part > 0, "the corpus has been outgrown by the format");
}

#[test]
fn undamaged_files_are_read() {
    assert_eq!(files::fuzz(&[0]), Some(Read::Ids(40)));
    assert_eq!(files::fuzz(&[1, 1, 2, 3]), Some(Read::Ids(0)));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(testkit::long(100, 1_000)))]

    #[test]
    fn damaged_files_are_read_in_part_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..30)) {
        files::fuzz(&bytes);
    }
}
