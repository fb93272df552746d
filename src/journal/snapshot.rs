//! The memory tiers in one file: written while checks go on, read by the next engine.
//!
//! ```text
//! file      header as that of a segment, with a magic of its own, then blocks as in a segment
//! payload   section, section, …
//! section   24 bytes: kind 4 | words 4 | a 8 | b 8, then the words, 8 bytes each
//!
//! window    a = nanoseconds a tick                        the window begins
//! table     a = lines                                     a table of it, older ones first
//! ids       a = tick they were stamped with; words: place, mark, place, mark, …
//! history   a = how many words there are; words: what the other history must be like
//! bits      words of the history
//! prints    words: place, mark, 2 of the digest with its fingerprint, until when (ns), and so on
//! end       a = ids, b = sections so far                  nothing is missing
//! ```

use super::disk::private;
use super::error::JournalError;
use super::format::{BLOCK_HEADER_BYTES, BlockHeader, HEADER_BYTES, Header, u32_at, u64_at};
use super::recovery::Resumed;
use crate::Timestamp;
use crate::claims::Fingerprint;
use crate::clock::Clocks;
use crate::digest::{Digest, Digester};
use crate::engine::Engine;
use crate::window::Dumped;
use crate::{Dedup, Error};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

/// What a snapshot begins with, rather than a segment of a journal.
const MAGIC: [u8; 8] = *b"HAPAXSNP";
const SECTION_BYTES: usize = 24;
/// A block is written when it has so much.
const BLOCK_BYTES: usize = 1 << 20;
/// Words in a section.
const WORDS_MAX: usize = 1 << 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
enum Kind {
    Window = 1,
    Table,
    Ids,
    History,
    Bits,
    End,
    Fingerprints,
}

impl Kind {
    fn of(number: u32) -> Option<Self> {
        [Kind::Window, Kind::Table, Kind::Ids, Kind::History, Kind::Bits, Kind::End, Kind::Fingerprints]
            .into_iter()
            .find(|&k| k as u32 == number)
    }
}

impl Dedup {
    /// Writes what the engine remembers into a file, which [`restore`](crate::Builder::restore) reads: for a restart that is clean and fast. An older
    /// file is replaced when the new one is on the disk, at once. How many ids it has.
    ///
    /// ```
    /// # let path = std::env::temp_dir().join(format!("hapax-doc-snapshot-{}", std::process::id()));
    /// use hapax::Dedup;
    ///
    /// let dedup = Dedup::builder().build()?;
    /// dedup.check("a");
    /// dedup.snapshot(&path)?;
    /// drop(dedup);
    ///
    /// let dedup = Dedup::builder().restore(&path).build()?;
    /// assert!(dedup.check("a").is_duplicate());
    /// # std::fs::remove_file(path)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Guarantees
    ///
    /// - Every id that was accepted before the call is in it, unless it had to go early, and with
    ///   it its [fingerprint](crate::ClaimOptions::fingerprint); of what is accepted meanwhile,
    ///   some. Checks do not wait.
    /// - What is claimed is not in it.
    /// - The file is private to the user, and has checksums: it is read as a whole or refused.
    ///
    /// # Errors
    ///
    /// [`JournalError::Io`]; then an older file is as it was.
    ///
    /// # Cost
    ///
    /// About 17 bytes an id, and a read of the window's whole memory; the history as it is.
    pub fn snapshot(&self, path: impl AsRef<Path>) -> Result<u64, JournalError> {
        let path = path.as_ref();
        let temporary = sibling(path);
        let written = write(&self.engine, &temporary).and_then(|ids| {
            fs::rename(&temporary, path).map_err(JournalError::io("rename to", path))?;
            sync_directory(path)?;
            Ok(ids)
        });
        if written.is_err() {
            // What is left of it helps nobody; that it cannot be deleted is not what went wrong.
            let _ = fs::remove_file(&temporary);
        }
        written
    }
}

/// Where a file is written before it takes its place.
fn sibling(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.{:x}.new", std::process::id(), Digester::random_seed()));
    path.with_file_name(name)
}

fn sync_directory(path: &Path) -> Result<(), JournalError> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if !cfg!(unix) {
        return Ok(());
    }
    File::open(directory).and_then(|directory| directory.sync_all()).map_err(JournalError::io("sync", directory))
}

fn write(engine: &Engine, path: &Path) -> Result<u64, JournalError> {
    let file = private(0o600).create_new(true).open(path).map_err(JournalError::io("create", path))?;
    let machine = engine.machine();
    let clocks = (machine.clocks)();
    let header = Header {
        seed: engine.unscoped.seed(),
        salt: Digester::random_seed(),
        number: 0,
        created: clocks.wall_nanos,
        ids: 0,
        boot: machine.boot,
        time: engine.time_base(),
    };
    let mut sections = Sections { file, path, salt: header.salt, clocks, payload: Vec::new(), blocks: 0, sections: 0 };
    let io = JournalError::io("write", path);
    sections.file.write_all(&header.encode_as(MAGIC)).map_err(io)?;
    let ids = write_window(engine, &mut sections)?;
    if let Some(history) = &engine.history {
        sections.push(Kind::History, history.words_len() as u64, 0, &history.geometry())?;
        let mut words = Vec::with_capacity(WORDS_MAX);
        let mut all = history.words();
        loop {
            words.clear();
            words.extend(all.by_ref().take(WORDS_MAX));
            if words.is_empty() {
                break;
            }
            sections.push(Kind::Bits, 0, 0, &words)?;
        }
    }
    write_fingerprints(engine, &mut sections)?;
    sections.push(Kind::End, ids, sections.sections, &[])?;
    sections.write()?;
    sections.file.sync_all().map_err(JournalError::io("sync", path))?;
    Ok(ids)
}

/// Writes the window's ids in portions of one tick each. How many.
fn write_window(engine: &Engine, sections: &mut Sections<'_>) -> Result<u64, JournalError> {
    let tick_nanos = engine.window.tick().as_nanos() as u64;
    let (mut ids, mut result) = (0, sections.push(Kind::Window, tick_nanos, 0, &[]));
    let mut by_stamp: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    let mut flush = |by_stamp: &mut BTreeMap<u64, Vec<u64>>, sections: &mut Sections<'_>| {
        std::mem::take(by_stamp).into_iter().try_for_each(|(stamp, words)| {
            ids += words.len() as u64 / 2;
            sections.push(Kind::Ids, stamp, 0, &words)
        })
    };
    let mut pending = 0;
    engine.window.dump(|what| {
        let step = match what {
            Dumped::Table { lines } => {
                pending = 0;
                flush(&mut by_stamp, sections).and_then(|()| sections.push(Kind::Table, lines as u64, 0, &[]))
            }
            Dumped::Entry { id, stamp } => {
                by_stamp.entry(stamp).or_default().extend([id.place, id.mark]);
                pending += 2;
                if pending < WORDS_MAX {
                    return;
                }
                pending = 0;
                flush(&mut by_stamp, sections)
            }
        };
        if result.is_ok() {
            result = step;
        }
    });
    result?;
    flush(&mut by_stamp, sections)?;
    Ok(ids)
}

/// Writes what ids are done with, after the ids: so that what is forgotten meanwhile, and done with
/// another one, is not written with the old one.
fn write_fingerprints(engine: &Engine, sections: &mut Sections<'_>) -> Result<(), JournalError> {
    for shard in engine.claims.fingerprints() {
        for part in shard.chunks(WORDS_MAX / FINGERPRINT_WORDS) {
            let words: Vec<u64> = part.iter().flat_map(words_of).collect();
            sections.push(Kind::Fingerprints, 0, 0, &words)?;
        }
    }
    Ok(())
}

const FINGERPRINT_WORDS: usize = 5;

fn words_of(&Fingerprint { id, digest, until }: &Fingerprint) -> [u64; FINGERPRINT_WORDS] {
    [id.place, id.mark, digest.place, digest.mark, until.as_nanos()]
}

fn fingerprint_of([place, mark, with_place, with_mark, until]: [u64; FINGERPRINT_WORDS]) -> Fingerprint {
    let digest = Digest { place: with_place, mark: with_mark };
    Fingerprint { id: Digest { place, mark }, digest, until: Timestamp::from_nanos(until) }
}

/// A file that is being written.
struct Sections<'p> {
    file: File,
    path: &'p Path,
    salt: u64,
    clocks: Clocks,
    payload: Vec<u8>,
    blocks: u64,
    sections: u64,
}

impl Sections<'_> {
    fn push(&mut self, kind: Kind, a: u64, b: u64, words: &[u64]) -> Result<(), JournalError> {
        self.payload.extend_from_slice(&(kind as u32).to_le_bytes());
        self.payload.extend_from_slice(&(words.len() as u32).to_le_bytes());
        [a, b].iter().chain(words).for_each(|word| self.payload.extend_from_slice(&word.to_le_bytes()));
        self.sections += 1;
        if self.payload.len() >= BLOCK_BYTES { self.write() } else { Ok(()) }
    }

    fn write(&mut self) -> Result<(), JournalError> {
        let header = BlockHeader { number: self.blocks, clocks: self.clocks, ..BlockHeader::default() };
        let header = header.seal(&self.payload, self.salt).encode();
        let written = self.file.write_all(&header).and_then(|()| self.file.write_all(&self.payload));
        written.map_err(JournalError::io("write", self.path))?;
        self.blocks += 1;
        self.payload.clear();
        Ok(())
    }
}

/// A snapshot that was read and found to be whole.
pub(crate) struct Snapshot {
    path: PathBuf,
    seed: u64,
    /// The time at which it was taken.
    resumed: Resumed,
    bytes: Vec<u8>,
    sections: Vec<Section>,
}

#[derive(Clone, Copy, Debug)]
struct Section {
    kind: Kind,
    a: u64,
    /// Where its words are in the file.
    start: usize,
    words: usize,
}

impl Snapshot {
    pub(crate) fn read(path: &Path) -> Result<Self, Error> {
        let bytes = fs::read(path).map_err(JournalError::io("read", path))?;
        let parsed = parse(&bytes).map_err(|(what, got, expected)| JournalError::NotOurs {
            path: path.into(),
            what,
            got,
            expected,
        });
        let (header, clocks, sections) = parsed?;
        let is_same_boot = header.boot != 0 && header.boot == crate::clock::boot();
        let resumed = Resumed { base: header.time, clocks: Some(clocks), is_same_boot };
        Ok(Snapshot { path: path.into(), seed: header.seed, resumed, bytes, sections })
    }

    /// Returns the time at which it was taken.
    pub(crate) fn resumed(&self) -> Resumed {
        self.resumed
    }

    /// The seed of the digests in it; `wanted`, if somebody insists on one.
    pub(crate) fn seed(&self, wanted: Option<u64>) -> Result<u64, Error> {
        match wanted {
            Some(wanted) if wanted != self.seed => Err(self.not_ours("seed", "another one", "that of the engine")),
            _ => Ok(self.seed),
        }
    }

    fn not_ours(&self, what: &'static str, got: impl ToString, expected: impl ToString) -> Error {
        let (got, expected) = (got.to_string(), expected.to_string());
        JournalError::NotOurs { path: self.path.clone(), what, got, expected }.into()
    }

    /// Tells an engine that nobody else knows yet what is in it.
    pub(crate) fn restore(&self, engine: &Engine) -> Result<(), Error> {
        engine.window.look_after_tables(false);
        let mut tables = self.sections.iter().enumerate().filter(|(_, section)| section.kind == Kind::Table).peekable();
        let mut is_first = true;
        while let Some((i, table)) = tables.next() {
            let end = tables.peek().map_or(self.sections.len(), |(next, _)| *next);
            engine.window.restore_table(table.a as usize, is_first)?;
            is_first = false;
            // In the order in which they were accepted: what is in a line relies on it.
            let mut ids: Vec<_> = self.sections[i..end].iter().filter(|section| section.kind == Kind::Ids).collect();
            ids.sort_by_key(|section| section.a);
            let mut digests = Vec::new();
            for section in ids {
                digests.clear();
                digests.extend(self.pairs(section));
                let at = engine.window.reading_of_stamp(section.a);
                engine.window.check_chunks(digests.iter().copied(), at, |_| 0, |_, _, _| ());
            }
        }
        engine.window.look_after_tables(true);
        self.restore_fingerprints(engine);
        self.restore_history(engine)
    }

    fn restore_fingerprints(&self, engine: &Engine) {
        let now = engine.now().time;
        for section in self.sections.iter().filter(|section| section.kind == Kind::Fingerprints) {
            let words: Vec<u64> = self.words(section).collect();
            let (all, _) = words.as_chunks::<FINGERPRINT_WORDS>();
            let live = all.iter().copied().map(fingerprint_of).filter(|fingerprint| now < fingerprint.until);
            live.for_each(|fingerprint| engine.claims.restore_fingerprint(fingerprint, now));
        }
    }

    fn restore_history(&self, engine: &Engine) -> Result<(), Error> {
        let theirs = self.sections.iter().find(|section| section.kind == Kind::History);
        let theirs = theirs.map(|section| self.words(section).collect::<Vec<_>>());
        let ours = engine.history.as_ref().map(|history| history.geometry().to_vec());
        if theirs != ours {
            let say = |geometry: &Option<Vec<u64>>| geometry.as_ref().map_or("none".into(), |g| format!("{g:?}"));
            return Err(self.not_ours(
                "the history (blocks, ticks of 4 ns a horizon, words, bits)",
                say(&theirs),
                say(&ours),
            ));
        }
        if let Some(history) = &engine.history {
            let bits = self.sections.iter().filter(|section| section.kind == Kind::Bits);
            history.restore(bits.flat_map(|section| self.words(section)));
        }
        Ok(())
    }

    /// Whether it has the window of an engine with this tick.
    pub(crate) fn fits(&self, tick_nanos: u64) -> Result<(), Error> {
        let theirs = self.sections.iter().find(|section| section.kind == Kind::Window).map_or(0, |section| section.a);
        if theirs != tick_nanos {
            return Err(self.not_ours("the window's tick in ns", theirs, tick_nanos));
        }
        Ok(())
    }

    fn words(&self, section: &Section) -> impl Iterator<Item = u64> {
        let words = &self.bytes[section.start..section.start + 8 * section.words];
        words.chunks_exact(8).map(|word| u64_at(word, 0))
    }

    fn pairs(&self, section: &Section) -> impl Iterator<Item = Digest> {
        let words = &self.bytes[section.start..section.start + 8 * section.words];
        words.chunks_exact(16).map(|id| Digest { place: u64_at(id, 0), mark: u64_at(id, 8) })
    }
}

type Wrong = (&'static str, String, String);

/// What is in a file, if all of it is as it was written.
fn parse(bytes: &[u8]) -> Result<(Header, Clocks, Vec<Section>), Wrong> {
    let wrong = |what, got: &str, expected: &str| Err((what, got.to_owned(), expected.to_owned()));
    let Some(header) = bytes.first_chunk::<HEADER_BYTES>() else {
        return wrong("its length", &bytes.len().to_string(), "more");
    };
    let header = Header::decode_as(header, MAGIC).map_err(|wrong| (wrong.what, wrong.got, wrong.expected))?;
    let (mut at, mut sections, mut clocks) = (HEADER_BYTES, Vec::new(), Clocks::default());
    for number in 0.. {
        if at == bytes.len() {
            break;
        }
        let block = bytes[at..].first_chunk::<BLOCK_HEADER_BYTES>().and_then(BlockHeader::decode);
        let Some(block) = block else {
            return wrong("what is", &format!("no block at {at}"), "one");
        };
        let start = at + BLOCK_HEADER_BYTES;
        let payload = bytes.get(start..start.saturating_add(block.payload_bytes as usize));
        let Some(payload) = payload.filter(|payload| block.number == number && block.holds(payload, header.salt))
        else {
            return wrong("a block", &format!("not as it was written, at {at}"), "as it was");
        };
        if take_sections(payload, start, &mut sections).is_none() {
            return wrong("a section", &format!("malformed, after {at}"), "whole");
        }
        at = start + payload.len();
        clocks = block.clocks;
    }
    match sections.last() {
        Some((Section { kind: Kind::End, .. }, count)) if *count + 1 == sections.len() as u64 => {}
        _ => return wrong("its end", "missing", "there"),
    }
    Ok((header, clocks, sections.into_iter().map(|(section, _)| section).collect()))
}

/// Appends the sections of a payload, each with what it says of itself beside `a`.
fn take_sections(mut payload: &[u8], mut at: usize, sections: &mut Vec<(Section, u64)>) -> Option<()> {
    while !payload.is_empty() {
        let (header, rest) = payload.split_at_checked(SECTION_BYTES)?;
        let words = u32_at(header, 4) as usize;
        let (_, rest) = rest.split_at_checked(8 * words)?;
        let section =
            Section { kind: Kind::of(u32_at(header, 0))?, a: u64_at(header, 8), start: at + SECTION_BYTES, words };
        sections.push((section, u64_at(header, 16)));
        at += SECTION_BYTES + 8 * words;
        payload = rest;
    }
    Some(())
}
