//! The writing of a snapshot, while checks go on.

use super::{BLOCK_BYTES, FINGERPRINT_WORDS, Kind, MAGIC, WORDS_MAX};
use crate::claims::Fingerprint;
use crate::clock::{Clocks, nanos_of};
use crate::engine::Engine;
use crate::error::JournalError;
use crate::journal::disk::private;
use crate::journal::format::{BlockHeader, Header};
use crate::random;
use crate::window::Dumped;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::path::Path;

pub(super) fn write(engine: &Engine, path: &Path) -> Result<u64, JournalError> {
    let file = private(0o600).create_new(true).open(path).map_err(JournalError::io("create", path))?;
    let machine = engine.machine();
    let clocks = (machine.clocks)();
    let header = Header {
        key: engine.unscoped.key(),
        salt: random::any(),
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

/// Writes the window's ids in portions of one tick each. Returns their number.
fn write_window(engine: &Engine, sections: &mut Sections<'_>) -> Result<u64, JournalError> {
    let tick_nanos = nanos_of(engine.window.tick());
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
            Dumped::Table { buckets } => {
                pending = 0;
                flush(&mut by_stamp, sections).and_then(|()| sections.push(Kind::Table, buckets as u64, 0, &[]))
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

/// Writes the fingerprints of done ids, after the ids: so that an id that is forgotten meanwhile,
/// and done with another fingerprint, is not written with the old one.
fn write_fingerprints(engine: &Engine, sections: &mut Sections<'_>) -> Result<(), JournalError> {
    for shard in engine.claims.fingerprints() {
        for part in shard.chunks(WORDS_MAX / FINGERPRINT_WORDS) {
            let words: Vec<u64> = part.iter().flat_map(words_of).collect();
            sections.push(Kind::Fingerprints, 0, 0, &words)?;
        }
    }
    Ok(())
}

fn words_of(&Fingerprint { id, digest, until }: &Fingerprint) -> [u64; FINGERPRINT_WORDS] {
    [id.place, id.mark, digest.place, digest.mark, until.as_nanos()]
}

#[expect(clippy::cast_possible_truncation, reason = "sections are shorter than 4 GiB")]
pub(super) fn put_section(payload: &mut Vec<u8>, kind: u32, numbers: [u64; 2], words: &[u64]) {
    payload.extend_from_slice(&kind.to_le_bytes());
    payload.extend_from_slice(&(words.len() as u32).to_le_bytes());
    numbers.iter().chain(words).for_each(|word| payload.extend_from_slice(&word.to_le_bytes()));
}

/// A file under construction.
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
        put_section(&mut self.payload, kind as u32, [a, b], words);
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
