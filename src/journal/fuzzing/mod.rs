//! Journals, and snapshots, that somebody has made up, with checksums that are right: what the fuzz
//! target `hostile` gives an engine to open. And what each of the codecs does with any bytes at
//! all: the target `journal`.
//!
//! All is made by the crate's own encoders, from a journal that an engine has written, so that no
//! layout is said here again.

mod codecs;
mod fields;
mod files;
mod opened;

pub(crate) use self::codecs::fuzz as codecs;
pub(crate) use self::fields::Fields;
pub(crate) use self::files::damage;
pub(crate) use self::opened::fuzz as hostile;

#[cfg(test)]
#[path = "../../../tests/common/corpus.rs"]
mod corpus;

#[cfg(test)]
mod tests {
    use super::corpus::replay;
    use super::opened::Seen;

    #[test]
    fn the_corpus_of_the_fuzz_target_journal() {
        let mut taken = 0;
        let files = replay("journal", |bytes| taken += usize::from(super::codecs(bytes)));
        assert!(files == 0 || taken > 3, "of {files} only {taken} are anything");
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
