//! The place up to which an input was printed, as a state directory remembers it. Pure.

use super::lines::without_end;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

/// The place up to which an input was printed, and how to tell whether another one is the same.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Checkpoint {
    /// The input: a file by device and inode, standard input, or a named pipe by its path.
    pub input: String,
    /// A hash of the options that say what its events are, and which of them are printed.
    pub options: u64,
    /// The end of the last record that was printed, or dropped; an offset in the decompressed
    /// content.
    pub offset: u64,
    /// The length of that record, if the input ended before it did: it may grow one day.
    pub unended: u64,
    pub lines: u64,
    /// Its first line, and its first 64 KiB, as far as they were read.
    pub first: Span,
    pub beginning: Span,
    /// True if the input was read to its end.
    pub ended: bool,
    /// The slot in which it is remembered.
    pub slot: usize,
    /// The last run that has seen it.
    pub run: u64,
}

/// The first bytes of a content: their number, and their hash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Span {
    pub bytes: u64,
    pub hash: u64,
}

impl Span {
    fn of(bytes: &[u8]) -> Self {
        Span { bytes: bytes.len() as u64, hash: xxh3_64(bytes) }
    }

    /// Returns true if content with this beginning begins with the span; none if it takes more
    /// bytes to tell.
    fn begins(self, content: &[u8]) -> Option<bool> {
        content.get(..self.bytes as usize).map(|beginning| xxh3_64(beginning) == self.hash)
    }
}

/// The number of bytes of an input that are compared.
pub const BEGINNING_BYTES: usize = 64 << 10;

/// Returns true if an input that begins with `content` is the one of a place; none if it takes more
/// bytes to tell. A first line that differs is enough to tell, so that nobody waits for more input.
pub fn is_same(place: &Checkpoint, content: &[u8], has_ended: bool) -> Option<bool> {
    let first_bytes = place.first.bytes as usize;
    let line = &content[..content.len().min(first_bytes)];
    if memchr::memchr(b'\n', line).is_some_and(|end| end + 1 < first_bytes)
        || place.first.begins(content) == Some(false)
    {
        return Some(false);
    }
    // The content is shorter than what was read of the other one: cut off, or not yet as long.
    place.beginning.begins(content).or(has_ended.then_some(false))
}

/// The largest number of runs: more than anybody makes.
pub const RUNS_MAX: u64 = 1 << 62;

/// Hashes the beginning of an input, while it is read.
pub struct Beginning {
    first: Option<Span>,
    hasher: Xxh3,
    bytes: usize,
    /// The whole span, if it was known before.
    whole: Option<Span>,
    /// The first line, until it has ended.
    line: Vec<u8>,
}

impl Beginning {
    /// Creates the beginning of an input of which nothing was read yet.
    pub fn new() -> Self {
        Beginning { first: None, hasher: Xxh3::new(), bytes: 0, whole: None, line: Vec::new() }
    }

    /// Creates a beginning that was completely read, and is known.
    pub fn known(first: Span, beginning: Span) -> Self {
        let bytes = beginning.bytes as usize;
        Beginning { first: Some(first), whole: Some(beginning), bytes, ..Beginning::new() }
    }

    /// Adds the next content.
    pub fn add(&mut self, content: &[u8]) {
        let content = &content[..content.len().min(BEGINNING_BYTES - self.bytes.min(BEGINNING_BYTES))];
        if content.is_empty() {
            return;
        }
        self.hasher.update(content);
        self.bytes += content.len();
        if self.first.is_none() {
            let end = memchr::memchr(b'\n', content).map(|end| end + 1);
            self.line.extend_from_slice(&content[..end.unwrap_or(content.len())]);
            if end.is_some() || self.bytes == BEGINNING_BYTES {
                self.first = Some(Span::of(&std::mem::take(&mut self.line)));
            }
        }
    }

    /// Returns the first line if it was read, and all that was read.
    pub fn spans(&self) -> (Span, Span) {
        let read = || Span { bytes: self.bytes as u64, hash: self.hasher.digest() };
        (self.first.unwrap_or(Span::of(b"")), self.whole.unwrap_or_else(read))
    }
}

impl Checkpoint {
    /// Returns true if a run can have reached this place: additions to its numbers and differences
    /// do not overflow, and no more of an input is compared than ever is.
    pub fn is_possible(&self) -> bool {
        let is_length = |bytes: u64| bytes <= i64::MAX as u64;
        is_length(self.offset)
            && is_length(self.lines)
            && self.run < RUNS_MAX
            && self.unended <= self.offset
            && u64::from(self.unended > 0) <= self.lines
            && self.first.bytes <= self.beginning.bytes
            && self.beginning.bytes <= BEGINNING_BYTES as u64
    }

    /// Returns the offset at which reading must begin so that whole records are skipped.
    pub fn read_from(&self) -> u64 {
        self.offset - self.unended.min(self.offset)
    }

    /// Returns true if a record with this beginning and end was printed, or dropped. The last one
    /// may have got its end since, or more.
    pub fn covers(&self, start: u64, record: &[u8]) -> bool {
        let end = start + record.len() as u64;
        let content_end = start + without_end(record).len() as u64;
        end <= self.offset || self.unended > 0 && start < self.offset && content_end <= self.offset
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place_of(content: &[u8]) -> Checkpoint {
        let mut beginning = Beginning::new();
        content.chunks(7).for_each(|piece| beginning.add(piece));
        let (first, beginning) = beginning.spans();
        Checkpoint { first, beginning, ..Checkpoint::default() }
    }

    #[test]
    fn another_input_is_told_as_early_as_can_be() {
        let long = b"some line\n".repeat(10_000);
        for content in [&b""[..], b"a", b"a\n", b"a\nb\nc", &long] {
            let place = place_of(content);
            assert_eq!(is_same(&place, content, true), Some(true), "{}", content.len());
            let more = [content, b"more\n"].concat();
            assert_eq!(is_same(&place, &more, false), Some(true));
        }
        let place = place_of(&long);
        assert_eq!(place.beginning.bytes, BEGINNING_BYTES as u64);
        // The first line is another one, shorter, or longer.
        for first in [&b"same line\n"[..], b"some\n", b"some lines\n"] {
            assert_eq!(is_same(&place, first, false), Some(false), "{}", first.escape_ascii());
        }
        assert_eq!((is_same(&place, b"some", false), is_same(&place, b"some", true)), (None, Some(false)));
        assert_eq!(is_same(&place, &long[..10], false), None, "the same first line, so far");
        let mut later = long.clone();
        later[60_000] = b'!';
        assert_eq!(is_same(&place, &later, false), Some(false));
        later = long.clone();
        later[BEGINNING_BYTES] ^= 1;
        assert_eq!(is_same(&place, &later, false), Some(true), "no more is compared");
    }

    #[test]
    fn the_last_record_may_get_its_end_or_go_on() {
        let whole = Checkpoint { offset: 5, ..Checkpoint::default() };
        assert!(whole.covers(0, b"ab\n") && whole.covers(3, b"c\n"));
        assert!(!whole.covers(5, b"\n") && !whole.covers(5, b"d"));
        let unended = Checkpoint { offset: 5, unended: 2, ..Checkpoint::default() };
        assert_eq!(unended.read_from(), 3);
        assert!(unended.covers(3, b"cd") && unended.covers(3, b"cd\n") && unended.covers(3, b"cd\r\n"));
        assert!(!unended.covers(3, b"cde\n") && !unended.covers(6, b"\n") && !unended.covers(5, b"\n"));
    }
}
