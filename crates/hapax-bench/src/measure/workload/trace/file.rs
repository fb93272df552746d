//! A trace's file: a header, the events, and a checksum over both.
//!
//! | bytes | |
//! |---|---|
//! | 8 | `hapaxtrc` |
//! | 4 | version |
//! | 4 | 1 with a window, 0 without |
//! | 8 each | ticks, events, live |
//! | 4 + 4 + n | for each event its tick, and its id after its length |
//! | 8 | XXH3 of all that |
//!
//! Numbers are little-endian.

use super::{EVENTS_MAX, TICKS_MAX, Trace, TraceHeader};
use crate::measure::IdKind;
use crate::measure::workload::{Bytes, Ids};
use crate::strategy::Failure;
use std::fmt;
use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use xxhash_rust::xxh3::{Xxh3Default, xxh3_64};

const MAGIC: [u8; 8] = *b"hapaxtrc";
const VERSION: u32 = 1;
const HEADER_BYTES: usize = 40;
const EVENT_BYTES: usize = 8;
const CHECKSUM_BYTES: usize = 8;

/// The reason why a trace cannot be read or written.
#[derive(Debug)]
#[non_exhaustive]
pub enum TraceError {
    /// The file cannot be read or written.
    Io {
        /// Its path.
        path: PathBuf,
        /// The error of the system.
        error: io::Error,
    },
    /// The contents are wrong.
    Content {
        /// Its path.
        path: PathBuf,
        /// The place in it.
        offset: usize,
        /// The expectation, and what was found instead.
        problem: String,
    },
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TraceError::Io { path, error } => write!(f, "{}: {error}", path.display()),
            TraceError::Content { path, offset, problem } => {
                write!(f, "{}, byte {offset}: {problem}", path.display())
            }
        }
    }
}

impl std::error::Error for TraceError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            TraceError::Io { error, .. } => Some(error),
            TraceError::Content { .. } => None,
        }
    }
}

/// A problem, and its place.
#[derive(Debug, PartialEq)]
struct Problem {
    offset: usize,
    problem: String,
}

impl Problem {
    fn of(self, path: &Path) -> TraceError {
        TraceError::Content { path: path.into(), offset: self.offset, problem: self.problem }
    }
}

impl Trace {
    /// Writes the trace to a file.
    ///
    /// # Errors
    ///
    /// Those of the file, and an id of 4 GiB.
    pub fn write(&self, path: &Path) -> Result<(), Failure> {
        let io = |error| TraceError::Io { path: path.into(), error };
        let mut file = BufWriter::new(File::create(path).map_err(io)?);
        self.write_to(&mut file).and_then(|()| file.flush()).map_err(io)?;
        Ok(())
    }

    /// Reads a file that [`write`](Trace::write) wrote.
    ///
    /// # Errors
    ///
    /// Those of the file. If it is no trace, or damaged, the error says where. All are a
    /// [`TraceError`].
    pub fn read(path: &Path) -> Result<Trace, Failure> {
        let bytes = std::fs::read(path).map_err(|error| TraceError::Io { path: path.into(), error })?;
        Ok(parse(&bytes).map_err(|problem| problem.of(path))?)
    }

    /// Reads the beginning of a file, and not the rest of it.
    ///
    /// # Errors
    ///
    /// Those of [`read`](Trace::read).
    pub fn read_header(path: &Path) -> Result<TraceHeader, Failure> {
        let io = |error| TraceError::Io { path: path.into(), error };
        let file = File::open(path).map_err(io)?;
        let file_bytes = file.metadata().map_err(io)?.len();
        let mut beginning = Vec::new();
        file.take(HEADER_BYTES as u64).read_to_end(&mut beginning).map_err(io)?;
        Ok(parse_header(&beginning, file_bytes).map_err(|problem| problem.of(path))?)
    }

    fn write_to(&self, file: &mut impl Write) -> io::Result<()> {
        let mut checksum = Xxh3Default::new();
        let mut put = |bytes: &[u8]| {
            checksum.update(bytes);
            file.write_all(bytes)
        };
        let TraceHeader { ticks, events, live, has_window } = self.header();
        put(&MAGIC)?;
        put(&VERSION.to_le_bytes())?;
        put(&u32::from(has_window).to_le_bytes())?;
        for number in [ticks, events, live] {
            put(&(number as u64).to_le_bytes())?;
        }
        for (id, tick) in self.events() {
            let len = u32::try_from(id.len()).map_err(|_| io::Error::other("an id of 4 GiB or more"))?;
            put(&(tick as u32).to_le_bytes())?;
            put(&len.to_le_bytes())?;
            put(id)?;
        }
        file.write_all(&checksum.digest().to_le_bytes())
    }
}

/// Takes bytes from the beginning of the rest, and knows its place.
struct Cursor<'a> {
    left: &'a [u8],
    offset: usize,
}

impl<'a> Cursor<'a> {
    fn problem(&self, problem: impl Into<String>) -> Problem {
        Problem { offset: self.offset, problem: problem.into() }
    }

    fn take(&mut self, len: usize, what: &str) -> Result<&'a [u8], Problem> {
        let Some((taken, left)) = self.left.split_at_checked(len) else {
            let found = self.left.len();
            return Err(self.problem(format!("{what} takes {len} bytes, and {found} are left")));
        };
        self.left = left;
        self.offset += len;
        Ok(taken)
    }

    fn array<const LEN: usize>(&mut self, what: &str) -> Result<[u8; LEN], Problem> {
        let mut array = [0; LEN];
        array.copy_from_slice(self.take(LEN, what)?);
        Ok(array)
    }

    fn u32(&mut self, what: &str) -> Result<u32, Problem> {
        self.array(what).map(u32::from_le_bytes)
    }

    /// Reads a number that is at most `max`.
    fn number(&mut self, what: &str, max: u64) -> Result<usize, Problem> {
        let offset = self.offset;
        match u64::from_le_bytes(self.array(what)?) {
            number if number <= max => Ok(number as usize),
            number => Err(Problem { offset, problem: format!("{what}: {number}; at most {max} are possible here") }),
        }
    }
}

/// Reads the header of a file of this length.
fn parse_header(beginning: &[u8], file_bytes: u64) -> Result<TraceHeader, Problem> {
    let mut cursor = Cursor { left: beginning, offset: 0 };
    if cursor.array("the beginning of a trace")? != MAGIC {
        return Err(Problem { offset: 0, problem: format!("a trace begins with `{}`", MAGIC.escape_ascii()) });
    }
    match cursor.u32("the version")? {
        VERSION => {}
        version => return Err(Problem { offset: 8, problem: format!("version {version}; {VERSION} can be read") }),
    }
    let has_window = match cursor.u32("whether there is a window")? {
        0 => false,
        1 => true,
        other => {
            return Err(Problem { offset: 12, problem: format!("a window is there (1) or not (0), and not {other}") });
        }
    };
    let room = file_bytes.saturating_sub((HEADER_BYTES + CHECKSUM_BYTES) as u64) / EVENT_BYTES as u64;
    let ticks = cursor.number("ticks", if has_window { TICKS_MAX } else { 1 })?;
    let events = cursor.number("events", room.min(EVENTS_MAX as u64))?;
    let live = cursor.number("live ids", events as u64)?;
    Ok(TraceHeader { ticks, events, live, has_window })
}

fn parse(bytes: &[u8]) -> Result<Trace, Problem> {
    let header = parse_header(bytes, bytes.len() as u64)?;
    let mut cursor = Cursor { left: bytes, offset: 0 };
    cursor.take(HEADER_BYTES, "the header")?;
    let mut trace = Trace {
        has_window: header.has_window,
        clock: None,
        ids: Bytes::with_capacity(IdKind::Bytes, header.events),
        ticks: Vec::with_capacity(header.events),
    };
    for _ in 0..header.events {
        let tick = cursor.u32("an event's tick")?;
        if (tick as usize) >= header.ticks || trace.ticks.last().is_some_and(|&last| tick < last) {
            return Err(cursor.problem(format!("tick {tick} of {}, after {:?}", header.ticks, trace.ticks.last())));
        }
        let len = cursor.u32("an id's length")?;
        let id = cursor.take(len as usize, "an id")?;
        trace.ids.push_bytes(id).map_err(|error| cursor.problem(error.to_string()))?;
        trace.ticks.push(tick);
    }
    let expected = xxh3_64(&bytes[..cursor.offset]);
    let found = u64::from_le_bytes(cursor.array("the checksum")?);
    if found != expected {
        return Err(cursor.problem(format!("the checksum is {found:#x}, and of what is there {expected:#x}")));
    }
    if !cursor.left.is_empty() {
        return Err(cursor.problem(format!("{} bytes after the end", cursor.left.len())));
    }
    Ok(trace)
}

#[cfg(any(fuzzing, all(test, not(modelled))))]
/// Runs the fuzz target `reports` on a trace: bytes get their right checksum, and if they are a
/// trace then, writing it returns the same bytes.
pub fn fuzz(events: &[u8]) -> bool {
    let bytes = [events, &xxh3_64(events).to_le_bytes()].concat();
    let Ok(trace) = parse(&bytes) else { return false };
    assert!(trace.events().map(|(_, tick)| tick).is_sorted());
    let mut written = Vec::new();
    trace.write_to(&mut written).expect("memory can be written");
    let again = parse(&written).unwrap_or_else(|problem| panic!("{problem:?}"));
    assert!(again.events().eq(trace.events()));
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use hapax::tier::random::Random;

    fn example() -> Trace {
        let mut trace = Trace::new(Some(std::time::Duration::from_secs(100)));
        for (second, id) in [(0, "a"), (3, "bb"), (3, ""), (250, "a"), (260, "a rather long one")] {
            trace.push(id.as_bytes(), Some(hapax::Timestamp::from_secs(second))).unwrap();
        }
        trace
    }

    fn bytes_of(trace: &Trace) -> Vec<u8> {
        let mut bytes = Vec::new();
        trace.write_to(&mut bytes).unwrap();
        bytes
    }

    #[test]
    fn what_was_written_is_read() {
        for trace in [example(), Trace::new(None), Trace::new(Some(std::time::Duration::from_secs(1)))] {
            let read = parse(&bytes_of(&trace)).unwrap();
            assert_eq!(read.header(), trace.header());
            assert!(read.events().eq(trace.events()));
        }
        let path = std::env::temp_dir().join(format!("hapax-trace-{}", std::process::id()));
        example().write(&path).unwrap();
        let (read, header) = (Trace::read(&path), Trace::read_header(&path));
        std::fs::remove_file(&path).unwrap();
        assert!(read.unwrap().events().eq(example().events()));
        assert_eq!(header.unwrap(), TraceHeader { ticks: 214, events: 5, live: 3, has_window: true });
        assert!(Trace::read(&path).err().unwrap().to_string().starts_with(path.to_str().unwrap()));
    }

    #[test]
    fn any_damage_is_found() {
        let bytes = bytes_of(&example());
        for len in 0..bytes.len() {
            let problem = parse(&bytes[..len]).err().expect("it is cut off");
            assert!(problem.offset <= len, "{problem:?}");
        }
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(parse(&flipped).is_err(), "bit {bit}");
        }
        assert!(parse(&[&bytes[..], b"x"].concat()).is_err());
    }

    /// Since the checksum fits, the contents have to be checked.
    #[test]
    fn nonsense_with_a_checksum_is_refused_or_a_trace() {
        let seed = 0xf022;
        println!("seed {seed}");
        let mut random = Random::new(seed);
        let bytes = bytes_of(&example());
        let mut read = 0;
        for _ in 0..20_000 {
            let mut changed = bytes[..bytes.len() - CHECKSUM_BYTES].to_vec();
            for _ in 0..=random.below(3) {
                let at = random.below(changed.len() as u64) as usize;
                changed[at] = [0, 1, 0xff, random.next() as u8][random.below(4) as usize];
            }
            changed.extend(xxh3_64(&changed).to_le_bytes());
            if let Ok(trace) = parse(&changed) {
                assert!(trace.events().map(|(_, tick)| tick).is_sorted());
                read += 1;
            }
        }
        assert!(read > 1_000, "some ids only are others: {read}");
    }

    #[test]
    fn a_problem_says_where_it_is() {
        let problem = |change: fn(&mut Vec<u8>)| {
            let mut bytes = bytes_of(&example());
            change(&mut bytes);
            let Problem { offset, problem } = parse(&bytes).err().expect("it is damaged");
            format!("{offset}: {problem}")
        };
        assert_eq!(problem(|bytes| bytes[0] = b'x'), "0: a trace begins with `hapaxtrc`");
        assert_eq!(problem(|bytes| bytes[8] = 2), "8: version 2; 1 can be read");
        assert_eq!(problem(|bytes| bytes[12] = 7), "12: a window is there (1) or not (0), and not 7");
        assert_eq!(
            problem(|bytes| bytes[31] = 1),
            format!("24: events: {}; at most 7 are possible here", 5 + (1_u64 << 56))
        );
        assert_eq!(problem(|bytes| bytes[44] = 200), "48: an id takes 200 bytes, and 61 are left");
        assert!(problem(|bytes| bytes[40] = 9).starts_with("53: tick 3 of 214, after Some(9)"));
    }
}
