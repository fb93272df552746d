//! The fuzz target `filter`: contents of files and state directories, given to the code that reads
//! them. The first byte selects the reader, and the rest is its input.

use super::options::{self, FilterArgs};
use super::record::cut::Cutter;
use super::record::extract::Extractor;
use super::record::fields::{Dialect, Splitter};
use super::record::json::{self, Pointer};
use super::record::time::Times;
use super::source::blocks::{Block, Blocks};
use super::source::checkpoint::{Beginning, is_same};
use super::source::encoding::decode;
use super::source::input::{Source, decompress};
use super::source::lines::{Line, Lines, each_record};
use super::state;
use crate::args::{TimeFormat, units};
use serde_json::Value;
use std::borrow::Cow;
use std::io::{Cursor, Read};
use std::sync::OnceLock;
use std::time::Duration;

#[cfg(fuzzing)]
#[path = "../../../../fuzz/allocation.rs"]
mod allocation;
#[cfg(test)]
use testkit::corpus;

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    // A block is read at a time, and zstd keeps a window of 8 MiB for most files.
    allocation::at_most(64 << 20, || fuzz(bytes));
});

/// Runs the fuzz target on its input; returns true if the reader accepted it.
fn fuzz(bytes: &[u8]) -> bool {
    let Some((which, bytes)) = bytes.split_first() else { return false };
    match which {
        b'f' => fields(bytes),
        b'c' => records(bytes),
        b'j' => pointer(bytes),
        b't' => when(bytes),
        b'd' => values(bytes),
        b'z' => compressed(bytes),
        b'p' => place(bytes),
        b'l' => lines(bytes),
        _ => false,
    }
}

const DIALECTS: [Dialect; 3] = [
    Dialect { delimiter: b'\t', quote: None },
    Dialect { delimiter: b',', quote: Some(b'"') },
    Dialect { delimiter: b';', quote: Some(b'\'') },
];

/// Checks a record's fields: written again with quotes, they are the same, and each is the one of
/// its number.
fn fields(bytes: &[u8]) -> bool {
    let Some((&dialect, line)) = bytes.split_first() else { return false };
    let dialect = DIALECTS[usize::from(dialect) % DIALECTS.len()];
    let splitter = Splitter::new(dialect);
    let split: Result<Vec<_>, _> = splitter.split(line).collect();
    let Ok(fields) = split else {
        assert!(splitter.nth(line, 1).is_err(), "a line that is doubtful is so for all");
        return false;
    };
    assert!(fields.iter().map(|field| field.len() + 1).sum::<usize>() <= line.len() + 1);
    for n in [1, fields.len() / 2 + 1, fields.len(), fields.len() + 1] {
        assert_eq!(splitter.nth(line, n), Ok(fields.get(n - 1).cloned()), "field {n}");
    }
    let Some(quote) = dialect.quote else {
        assert_eq!(fields.join(&dialect.delimiter), line);
        return true;
    };
    let mut quoted = Vec::new();
    for field in &fields {
        quoted.push(quote);
        field.iter().for_each(|&byte| quoted.extend(std::iter::repeat_n(byte, 1 + usize::from(byte == quote))));
        quoted.extend([quote, dialect.delimiter]);
    }
    quoted.pop();
    let again: Result<Vec<_>, _> = splitter.split(&quoted).collect();
    assert_eq!(again, Ok(fields));
    let (plain, of_quoted) = (splitter.plain(line), splitter.plain(&quoted));
    assert!(line.contains(&b'\n') || plain == of_quoted, "values count, and not their quotes");
    true
}

/// Checks the records of a file: they are the same in whatever pieces it comes, and together all of
/// it.
fn records(bytes: &[u8]) -> bool {
    let Some((&[dialect, at_once], content)) = bytes.split_first_chunk() else { return false };
    let dialect = Some(DIALECTS[usize::from(dialect) % DIALECTS.len()]);
    let whole = cut(content, usize::MAX, dialect);
    assert_eq!(whole.concat(), content);
    assert_eq!(cut(content, 1 + usize::from(at_once), dialect), whole);
    whole.iter().rev().skip(1).all(|record| record.ends_with(b"\n"))
}

/// Returns the records of content that comes this many bytes at once.
pub fn cut(content: &[u8], at_once: usize, dialect: Option<Dialect>) -> Vec<Vec<u8>> {
    let mut cutter = Cutter::new(dialect, b'\n');
    let mut records = vec![Vec::new()];
    for mut piece in content.chunks(at_once) {
        // It is asked again when nothing is left.
        while let Some(end) = cutter.end(piece) {
            records.last_mut().expect("there is one").extend_from_slice(&piece[..end]);
            records.push(Vec::new());
            piece = &piece[end..];
        }
        records.last_mut().expect("there is one").extend_from_slice(piece);
    }
    records.retain(|record| !record.is_empty());
    records
}

/// Checks the value at a pointer: another reader of JSON finds the same.
fn pointer(bytes: &[u8]) -> bool {
    let Some((&length, rest)) = bytes.split_first() else { return false };
    let Some((text, line)) = rest.split_at_checked(usize::from(length)) else { return false };
    let Ok(text) = std::str::from_utf8(text) else { return false };
    if !text.is_empty() && !text.starts_with('/') {
        return false;
    }
    let found = Pointer::new(text).find(line);
    // (It refuses some numbers, and halves of surrogate pairs; ours does not.)
    if let Ok(document) = serde_json::from_slice::<Value>(line) {
        match (document.pointer(text), &found) {
            (None | Some(Value::Null), found) => assert_eq!(*found, Ok(None)),
            (Some(Value::Object(_) | Value::Array(_)), found) => assert!(found.is_err()),
            (Some(Value::String(expected)), found) => {
                assert_eq!(*found, Ok(Some(Cow::Borrowed(expected.as_bytes()))));
            }
            (Some(expected), Ok(Some(found))) => {
                assert_eq!(serde_json::from_slice::<Value>(found).as_ref().ok(), Some(expected));
            }
            (expected, found) => panic!("{expected:?} is not {found:?}"),
        }
    }
    let id = Pointer::new(text).find_id(line);
    let shown = id.as_ref().map(|id| id.as_deref().map(json::shown));
    assert_eq!(shown, found.as_ref().map(Option::as_deref), "an id is shown as its text");
    found.is_ok()
}

/// Checks a time as text.
fn when(bytes: &[u8]) -> bool {
    let Some((&format, text)) = bytes.split_first() else { return false };
    use TimeFormat::{Ms, Ns, Rfc3339, S, Us};
    let format = [S, Ms, Us, Ns, Rfc3339][usize::from(format) % 5].clone();
    let times = Times::new(&format, None).expect("it needs no zone");
    let Ok(at) = times.parse(text) else { return false };
    let nanos = at.as_nanos();
    assert!(nanos < i64::MAX as u64);
    let again = match format.unit_nanos() {
        None => jiff::Timestamp::from_nanosecond(nanos.into()).expect("it is before 2262").to_string(),
        Some(unit) => format!("{}.{:09}", nanos / unit, nanos % unit * (1_000_000_000 / unit)),
    };
    assert_eq!(times.parse(again.as_bytes()), Ok(at), "{again}");
    true
}

/// Checks values of options: durations, numbers with suffixes.
fn values(bytes: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(bytes) else { return false };
    let duration = units::duration(text);
    if let Ok(duration) = duration {
        let again = format!("{}s {}ns", duration.as_secs(), duration.subsec_nanos());
        assert!(duration > Duration::from_secs(1 << 32) || units::duration(&again) == Ok(duration));
    }
    if let Ok(capacity) = units::capacity(text) {
        assert_eq!(units::capacity(&capacity.to_string()), Ok(capacity));
        assert_eq!(units::bytes(&capacity.to_string()), Ok(capacity));
    }
    assert!(units::rate(text).is_ok_and(|rate| !rate.is_nan()) || units::rate(text).is_err());
    assert!(units::number(text).is_ok_and(f64::is_finite) || units::number(text).is_err());
    let _ = units::bytes(text);
    options::history(text).is_ok() || duration.is_ok()
}

/// Checks compressed content: the result is the same in whatever pieces it comes.
fn compressed(bytes: &[u8]) -> bool {
    let Some((&at_once, content)) = bytes.split_first() else { return false };
    let whole = decompressed(content, usize::MAX);
    let in_pieces = decompressed(content, 1 + usize::from(at_once));
    assert_eq!(whole, in_pieces);
    whole.is_some_and(|(_, is_whole)| is_whole)
}

/// Returns a beginning of the content, and whether it is good up to there.
fn decompressed(content: &[u8], at_once: usize) -> Option<(Vec<u8>, bool)> {
    const ENOUGH: u64 = 256 << 10;
    let trickle = Trickle(Cursor::new(content.to_vec()), at_once);
    let mut output = Vec::new();
    let is_good = decompress(trickle).ok()?.bytes.take(ENOUGH).read_to_end(&mut output).is_ok();
    // The output before an error depends on the size of the reads.
    Some(if is_good { (output, true) } else { (Vec::new(), false) })
}

/// A reader that returns its bytes a few at a time.
pub struct Trickle(pub Cursor<Vec<u8>>, pub usize);

impl Read for Trickle {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let n = buffer.len().min(self.1);
        self.0.read(&mut buffer[..n])
    }
}

/// Checks a place, as a state directory has it, with an input that begins with some bytes.
fn place(bytes: &[u8]) -> bool {
    let end = bytes.iter().position(|&byte| byte == b'\n').unwrap_or(bytes.len());
    let (record, content) = (&bytes[..end], &bytes[end..]);
    let Ok(place) = state::place("input/0", record) else { return false };
    let _ = Beginning::known(place.first, place.beginning).spans();
    assert!(place.read_from() <= place.offset);
    let same = is_same(&place, content, true);
    assert!(same.is_some(), "an input that has ended is the same or is not");
    assert!(!place.covers(place.offset, b"a\n"), "what comes behind it was not printed");
    let written = serde_json::to_vec(&place).expect("numbers and text have a form in JSON");
    assert_eq!(state::place("input/0", &written).ok(), Some(place));
    true
}

const OPTIONS: [&[&str]; 5] = [
    &[],
    &["--column", "id", "--delimiter", ",", "--missing", "drop"],
    &["--json", "/a/0", "--time-json", "/t", "--window", "1m", "--missing", "drop"],
    &["--field", "2", "--time-field", "1", "--time-format", "ms", "--window", "1m", "--missing", "drop"],
    &["--regex", "id=(\\w+)", "--header", "--missing", "drop"],
];

/// Checks whole files, by some options: the ids found in them do not depend on the pieces in which
/// they come.
fn lines(bytes: &[u8]) -> bool {
    let Some((&[options, at_once], content)) = bytes.split_first_chunk() else { return false };
    if content.contains(&0) {
        return false; // it may seem to be UTF-16, as far as it has come
    }
    let args = &filters()[usize::from(options) % OPTIONS.len()];
    let read = |at_once| {
        let extractor = Extractor::new(&args.lines).expect("the options are valid");
        events(Lines::new(&args.lines, &args.bad, extractor), content, at_once)
    };
    let whole = read(usize::MAX);
    assert_eq!(read(1 + usize::from(at_once)), whole);
    whole.is_some_and(|events| !events.is_empty())
}

/// Returns the options, parsed once.
fn filters() -> &'static [FilterArgs] {
    static FILTERS: OnceLock<Vec<FilterArgs>> = OnceLock::new();
    let usual = ["--on-bad", "skip", "--line-bytes-max", "1000"];
    let parse = |options: &&[&str]| {
        let parsed = FilterArgs::parse(usual.iter().chain(*options).copied());
        parsed.unwrap_or_else(|why| panic!("the options are valid: {why}"))
    };
    FILTERS.get_or_init(|| OPTIONS.iter().map(parse).collect())
}

/// An id, and its time.
type Event = (Vec<u8>, Option<hapax::Timestamp>);

fn events(mut lines: Lines, content: &[u8], at_once: usize) -> Option<Vec<Event>> {
    let content = decode(Box::new(Trickle(Cursor::new(content.to_vec()), at_once))).ok()?;
    let mut blocks = Blocks::new(content, lines.cutter(), lines.line_bytes_max());
    lines.begin_file(&Source::new("-".into()));
    let (mut block, mut ends, mut events) = (Vec::new(), Vec::new(), Vec::new());
    loop {
        let next = blocks.next(&mut block, &mut ends).ok()?; // UTF-16 may be damaged
        lines.skipped(blocks.take_skipped());
        match next {
            Block::End => return Some(events),
            Block::TooLong => lines.no_record(None).ok()?,
            Block::Unterminated => lines.no_record(Some(&block)).ok()?,
            Block::Records => each_record(&block, &ends, |line| {
                if let Line::Event { id, at } = lines.next(line)? {
                    events.push((id.into_owned(), at));
                }
                Ok::<_, super::source::lines::BadLine>(())
            })
            .ok()?,
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_corpus_of_the_fuzz_target_filter() {
        let mut taken = 0;
        let files = super::corpus::replay("filter", |bytes| taken += usize::from(super::fuzz(bytes)));
        assert!(files == 0 || taken > 6, "of {files} only {taken} are anything");
    }
}
