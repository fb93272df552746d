//! The reading of a snapshot, as a whole or not at all, and its restoration into an engine.

use super::{FINGERPRINT_WORDS, Kind, MAGIC, SECTION_BYTES};
use crate::claims::Fingerprint;
use crate::clock::Clocks;
use crate::digest::{Digest, DigestKey, WantedKey};
use crate::engine::Engine;
use crate::error::JournalError;
use crate::id_set::IdSet;
use crate::journal::Resumed;
use crate::journal::format::{BLOCK_HEADER_BYTES, BlockHeader, HEADER_BYTES, Header, u32_at, u64_at};
use crate::journal::trust::Writers;
use crate::{Error, Timestamp};
use std::fs::OpenOptions;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// A snapshot that was read and found to be whole.
pub(crate) struct Snapshot {
    path: PathBuf,
    key: DigestKey,
    /// The time at which it was taken.
    resumed: Resumed,
    bytes: Vec<u8>,
    sections: Vec<Section>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Section {
    kind: Kind,
    a: u64,
    /// The offset of its words in the file.
    start: usize,
    words: usize,
}

impl Snapshot {
    pub(crate) fn read(path: &Path) -> Result<Self, Error> {
        let bytes = read(path).map_err(JournalError::io("read", path))?;
        let parsed = parse(&bytes).map_err(|(what, got, expected)| JournalError::NotOurs {
            path: path.into(),
            what,
            got,
            expected,
        });
        let (header, clocks, sections) = parsed?;
        let is_same_boot = header.boot != 0 && header.boot == crate::clock::boot();
        let resumed = Resumed { base: header.time, clocks: Some(clocks), is_same_boot };
        Ok(Snapshot { path: path.into(), key: header.key, resumed, bytes, sections })
    }

    /// Returns the time at which it was taken.
    pub(crate) fn resumed(&self) -> Resumed {
        self.resumed
    }

    /// Returns the key of the digests in it, if it is the one that is wanted.
    pub(crate) fn key(&self, wanted: WantedKey) -> Result<DigestKey, Error> {
        match wanted.differs(self.key) {
            Some([what, got, expected]) => Err(self.not_ours(what, got, expected)),
            None => Ok(self.key),
        }
    }

    fn not_ours(&self, what: &'static str, got: impl ToString, expected: impl ToString) -> Error {
        let (got, expected) = (got.to_string(), expected.to_string());
        JournalError::NotOurs { path: self.path.clone(), what, got, expected }.into()
    }

    /// Restores it into an engine that no other thread knows yet.
    pub(crate) fn restore(&self, engine: &Engine) -> Result<(), Error> {
        engine.window.look_after_tables(false);
        let mut tables = self.sections.iter().enumerate().filter(|(_, section)| section.kind == Kind::Table).peekable();
        let mut is_first = true;
        while let Some((i, table)) = tables.next() {
            let end = tables.peek().map_or(self.sections.len(), |(next, _)| *next);
            engine.window.restore_table(table.a, is_first)?;
            is_first = false;
            // In the order in which they were accepted: the contents of a line rely on it.
            let mut ids: Vec<_> = self.sections[i..end].iter().filter(|section| section.kind == Kind::Ids).collect();
            ids.sort_by_key(|section| section.a);
            let mut digests = Vec::new();
            for section in ids {
                digests.clear();
                digests.extend(self.pairs(section));
                let at = engine.window.reading_of_stamp(section.a);
                engine.window.check_chunks(digests.iter().copied(), at, |_| IdSet::EMPTY, |_, _, _| ());
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

    /// Checks that it has the window of an engine with this tick.
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

fn fingerprint_of([place, mark, with_place, with_mark, until]: [u64; FINGERPRINT_WORDS]) -> Fingerprint {
    let digest = Digest { place: with_place, mark: with_mark };
    Fingerprint { id: Digest { place, mark }, digest, until: Timestamp::from_nanos(until) }
}

/// Reads all of a file that is trusted.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut file = Writers::Mode(0o600).open(OpenOptions::new().read(true), path)?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

pub(super) type Wrong = (&'static str, String, String);

/// Returns the contents of a file, if all of it is as it was written.
pub(super) fn parse(bytes: &[u8]) -> Result<(Header, Clocks, Vec<Section>), Wrong> {
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
        Some((Section { kind: Kind::End, .. }, count)) if count.checked_add(1) == Some(sections.len() as u64) => {}
        _ => return wrong("its end", "missing", "there"),
    }
    Ok((header, clocks, sections.into_iter().map(|(section, _)| section).collect()))
}

/// Appends the sections of a payload, each with the second word of its header.
pub(super) fn take_sections(mut payload: &[u8], mut at: usize, sections: &mut Vec<(Section, u64)>) -> Option<()> {
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
