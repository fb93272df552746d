//! Fuzzing with journals that are made up, with checksums that are right: the fuzz
//! target `hostile` gives them to an engine to open. And fuzzing of each codec with any bytes at
//! all: the target `journal`.
//!
//! All files are made by the crate's own encoders, from a journal that an engine has written, so
//! that no layout is written down here again.

mod codecs;
mod fields;
mod files;
mod opened;

use self::fields::Fields;

pub(crate) use self::codecs::fuzz as codecs;
pub(crate) use self::opened::fuzz as hostile;

#[cfg(test)]
mod tests {
    use super::opened::Seen;
    use crate::journal::files::simulated::below;
    use testkit::corpus::replay;

    #[test]
    fn the_corpus_of_the_fuzz_target_journal() {
        let mut taken = 0;
        let files = replay("journal", |bytes| taken += usize::from(super::codecs(bytes)));
        assert!(files == 0 || taken > 2, "of {files} only {taken} are anything");
    }

    /// Runs files: `HAPAX_HOSTILE` sets how many, `HAPAX_HOSTILE_SEED` which.
    #[test]
    fn random_files_with_right_checksums_are_refused_or_an_engine() {
        let number = |name: &str, usual| std::env::var(name).map_or(usual, |text| text.parse().expect("a number"));
        let mut state = number("HAPAX_HOSTILE_SEED", 16);
        let (mut refused, mut opened) = (0, 0);
        for _ in 0..number("HAPAX_HOSTILE", 500) {
            println!("HAPAX_HOSTILE_SEED={state}");
            // Mostly zeros, which expect nothing special, and few numbers that are far off.
            let length = below(&mut state, 300);
            let byte = |state: &mut u64| match below(state, 8) {
                0..4 => 0,
                4 | 5 => below(state, 9) as u8,
                _ => below(state, 256) as u8,
            };
            let bytes: Vec<u8> = (0..=length).map(|_| byte(&mut state)).collect();
            match super::hostile(&bytes) {
                Some(Seen::Refused) => refused += 1,
                Some(Seen::Opened) => opened += 1,
                None => {}
            }
        }
        println!("{refused} refused, {opened} opened");
        assert!(refused > 0 && opened > 0);
    }

    #[test]
    fn the_corpus_of_the_fuzz_target_hostile() {
        let (mut refused, mut opened) = (0, 0);
        let files = replay("hostile", |bytes| match super::hostile(bytes) {
            Some(Seen::Refused) => refused += 1,
            Some(Seen::Opened) => opened += 1,
            None => {}
        });
        println!("{files} files: {refused} refused, {opened} opened");
        assert!(files == 0 || (refused > 0 && opened > 0), "the corpus has been outgrown by the format");
    }
}
