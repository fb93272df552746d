//! A trace's file: what every trace begins with, its header, its events (a tick and an id each),
//! and the XXH3 of all that, little-endian. Header and events are as `postcard` writes them.

use super::{EVENTS_MAX, TICKS_MAX, Trace, TraceHeader};
use crate::measure::IdKind;
use crate::measure::workload::{Bytes, Ids};
use crate::strategy::Failure;
use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::path::Path;
use xxhash_rust::xxh3::{Xxh3Default, xxh3_64};

/// The beginning of every trace; the last digit is the version.
const MAGIC: [u8; 8] = *b"hapaxtr1";

/// The most bytes of what a trace begins with and its header, and the least of an event.
const HEADER_BYTES_MAX: usize = 64;
const EVENT_BYTES_MIN: usize = 2;

impl Trace {
    /// Writes the trace to a file.
    ///
    /// # Errors
    ///
    /// Those of the file.
    pub fn write(&self, path: &Path) -> Result<(), Failure> {
        let write = |file| {
            let mut file = BufWriter::new(file);
            self.write_to(&mut file).and_then(|()| file.flush())
        };
        File::create(path).and_then(write).map_err(|error| in_file(path, error))
    }

    /// Reads a file that [`write`](Trace::write) wrote.
    ///
    /// # Errors
    ///
    /// Those of the file. If it is no trace, or damaged, the error says where.
    pub fn read(path: &Path) -> Result<Trace, Failure> {
        let bytes = std::fs::read(path).map_err(|error| in_file(path, error))?;
        parse(&bytes).map_err(|problem| in_file(path, problem))
    }

    /// Reads the beginning of a file, and not the rest of it.
    ///
    /// # Errors
    ///
    /// Those of [`read`](Trace::read).
    pub fn read_header(path: &Path) -> Result<TraceHeader, Failure> {
        let mut beginning = Vec::new();
        let read = |file: File| {
            let file_bytes = file.metadata()?.len();
            file.take(HEADER_BYTES_MAX as u64).read_to_end(&mut beginning)?;
            Ok(file_bytes)
        };
        let file_bytes = File::open(path).and_then(read).map_err(|error| in_file(path, error))?;
        Ok(parse_header(&beginning, file_bytes).map_err(|problem| in_file(path, problem))?.0)
    }

    fn write_to(&self, file: &mut impl Write) -> io::Result<()> {
        let mut checksum = Xxh3Default::new();
        let mut put = |bytes: &[u8]| {
            checksum.update(bytes);
            file.write_all(bytes)
        };
        put(&MAGIC)?;
        put(&postcard::to_stdvec(&self.header()).map_err(io::Error::other)?)?;
        for (id, tick) in self.events() {
            put(&postcard::to_stdvec(&(tick as u32, id)).map_err(io::Error::other)?)?;
        }
        file.write_all(&checksum.digest().to_le_bytes())
    }
}

fn in_file(path: &Path, problem: impl std::fmt::Display) -> Failure {
    format!("{}: {problem}", path.display()).into()
}

/// Reads the header of a file of this length. Returns it with the bytes behind it.
fn parse_header(beginning: &[u8], file_bytes: u64) -> Result<(TraceHeader, &[u8]), String> {
    let rest = beginning.strip_prefix(&MAGIC);
    let rest = rest.ok_or_else(|| format!("byte 0: a trace begins with `{}`", MAGIC.escape_ascii()))?;
    let parsed = postcard::take_from_bytes(rest);
    let (header, rest): (TraceHeader, _) = parsed.map_err(|error| format!("byte 8: the header: {error}"))?;
    let TraceHeader { ticks, events, live, has_window } = header;
    let ticks_max = if has_window { TICKS_MAX as usize } else { 1 };
    let events_max = EVENTS_MAX.min(usize::try_from(file_bytes).unwrap_or(usize::MAX) / EVENT_BYTES_MIN);
    for (what, number, max) in [("ticks", ticks, ticks_max), ("events", events, events_max), ("live ids", live, events)]
    {
        if number > max {
            return Err(format!("byte 8: {what}: {number}; at most {max} are possible here"));
        }
    }
    Ok((header, rest))
}

fn parse(bytes: &[u8]) -> Result<Trace, String> {
    let (header, mut rest) = parse_header(bytes, bytes.len() as u64)?;
    let mut trace = Trace {
        has_window: header.has_window,
        clock: None,
        ids: Bytes::with_capacity(IdKind::Bytes, header.events),
        ticks: Vec::with_capacity(header.events),
    };
    for _ in 0..header.events {
        let at = bytes.len() - rest.len();
        let parsed = postcard::take_from_bytes(rest).map_err(|error| format!("byte {at}: an event: {error}"));
        let (tick, id): (u32, &[u8]);
        ((tick, id), rest) = parsed?;
        if (tick as usize) >= header.ticks || trace.ticks.last().is_some_and(|&last| tick < last) {
            return Err(format!("byte {at}: tick {tick} of {}, after {:?}", header.ticks, trace.ticks.last()));
        }
        trace.ids.push_bytes(id).map_err(|error| format!("byte {at}: {error}"))?;
        trace.ticks.push(tick);
    }
    let at = bytes.len() - rest.len();
    let expected = xxh3_64(&bytes[..at]).to_le_bytes();
    if rest != expected {
        return Err(format!("byte {at}: the checksum is {rest:x?}, and of what is there {expected:x?}"));
    }
    Ok(trace)
}

#[cfg(any(fuzzing, all(test, not(modelled))))]
/// Runs the fuzz target `reports` on a trace: bytes get their right checksum, and if they are a
/// trace then, writing it makes a trace that is the same.
pub fn fuzz(events: &[u8]) -> bool {
    let bytes = [events, &xxh3_64(events).to_le_bytes()].concat();
    let Ok(trace) = parse(&bytes) else { return false };
    assert!(trace.events().map(|(_, tick)| tick).is_sorted());
    let mut written = Vec::new();
    trace.write_to(&mut written).expect("memory can be written");
    let again = parse(&written).unwrap_or_else(|problem| panic!("{problem}"));
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
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("trace");
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
            let offset: usize = problem["byte ".len()..].split(':').next().unwrap().parse().unwrap();
            assert!(offset <= len.max(8), "{problem}");
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
            let mut changed = bytes[..bytes.len() - 8].to_vec();
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
            parse(&bytes).err().expect("it is damaged")
        };
        assert_eq!(problem(|bytes| bytes[0] = b'x'), "byte 0: a trace begins with `hapaxtr2`");
        assert_eq!(problem(|bytes| bytes[7] = b'1'), "byte 0: a trace begins with `hapaxtr2`");
        // Two bytes of ticks, then the numbers of events and of live ids, and if there is a window.
        assert!(problem(|bytes| bytes[10] = 127).starts_with("byte 8: events: 127; at most "));
        assert_eq!(problem(|bytes| bytes[11] = 6), "byte 8: live ids: 6; at most 5 are possible here");
        assert!(problem(|bytes| bytes[12] = 7).starts_with("byte 8: the header: "));
        assert!(problem(|bytes| bytes[14] = 120).starts_with("byte 13: an event: "));
        assert_eq!(problem(|bytes| bytes[13] = 9), "byte 16: tick 3 of 214, after Some(9)");
    }
}
