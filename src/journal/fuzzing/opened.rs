//! Opening of made-up files: it ends in an error or in an engine that works.

use super::super::Surroundings;
use super::Fields;
use super::files::{self, Genuine};
use crate::clock::{Clocks, Machine};
use crate::error::JournalError;
use crate::history::history;
use crate::journal::encoding::format::{BLOCK_HEADER_BYTES, BlockHeader, HEADER_BYTES, Header, Mark};
use crate::journal::files::simulated::Simulated;
use crate::journal::write::mark;
use crate::journal::write::writer::name;
use crate::{Damage, Dedup, Error, Int, JournalOptions, ManualClock, Timestamp};
use std::fmt::Write;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// The outcome of opening a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    Refused,
    Opened,
}

const DIRECTORY: &str = "/journal";
/// The present in these tests, 2026-11-22.
const NOW: Timestamp = Timestamp::from_secs(1_795_305_600);
const WINDOW: Duration = Duration::from_secs(100);

/// Does the work of the fuzz target `hostile` with its input. The first byte says how the files are
/// opened; the others are their contents.
pub(crate) fn fuzz(bytes: &[u8]) -> Option<Seen> {
    let (&how, bytes) = bytes.split_first()?;
    let mut fields = Fields::new(bytes);
    let builder = builder(how & 2 != 0);
    let disk = Simulated::new();
    files::put(&disk, Path::new(DIRECTORY), genuine(), &mut fields);
    let damage = if how & 4 != 0 { Damage::Keep } else { Damage::Refuse };
    let before = disk.copy();
    let opened = journal(builder, &disk, damage);
    let is_open = opened.is_ok();
    let seen = judged(opened);
    if is_open {
        // Any defect was refused, or is known now. (Where blocks have numbers from before their
        // file, which no engine writes, the blocks that are kept may be damaged for the next open,
        // too.)
        let after = disk.copy();
        let again = journal(self::builder(how & 2 != 0), &disk, damage);
        if let (Err(error), Damage::Refuse) = (again, damage) {
            panic!("it was opened, and is refused then: {error}\nbefore:\n{}after:\n{}", said(&before), said(&after));
        }
    }
    Some(seen)
}

/// Returns the headers of a journal's files, as they stand, for debugging a failure.
fn said(disk: &Simulated) -> String {
    let mut said = String::new();
    for path in disk.paths() {
        let bytes = disk.read(&path).unwrap_or_default();
        let _ = writeln!(said, "{}: {} bytes", path.display(), bytes.len());
        if let Some(Ok(mark)) = bytes.first_chunk().filter(|_| path.ends_with(mark::NAME)).map(Mark::decode) {
            let Mark { is_clean, number, ids, first, first_ids, .. } = mark;
            let _ =
                writeln!(said, "  clean {is_clean}, number {number}, ids {ids}, first {first}, {first_ids} ids before");
        }
        let Some(Ok(header)) = bytes.first_chunk().map(Header::decode) else { continue };
        let _ = writeln!(said, "  number {}, ids {}", header.number, header.ids);
        let mut at = HEADER_BYTES;
        while let Some(block) = bytes.get(at..).and_then(|rest| rest.first_chunk()).and_then(BlockHeader::decode) {
            let BlockHeader { number, skipped, ids, first, first_ids, payload_bytes, .. } = block;
            let _ = writeln!(
                said,
                "  {at}: block {number}, {skipped} skipped, ids {ids}, first {first}, {first_ids} ids before, {payload_bytes} bytes"
            );
            at += BLOCK_HEADER_BYTES + payload_bytes as usize;
        }
    }
    said
}

fn builder(has_history: bool) -> crate::Builder {
    let clock = ManualClock::new();
    clock.set(NOW);
    // Little memory, so that a window that grows is soon at its budget.
    let builder = Dedup::builder().window(WINDOW).capacity(1).max_memory_bytes(1 << 20).growth_thread(false);
    let builder = builder.seed(7).clock(clock);
    if has_history { builder.history(history(WINDOW * 10, 1e-2, 100)) } else { builder }
}

fn journal(builder: crate::Builder, disk: &Simulated, damage: Damage) -> Result<Dedup, Error> {
    let clocks = || Clocks { engine: NOW, wall_nanos: NOW.as_nanos(), boot_nanos: 1 };
    let machine = Machine { clocks: Arc::new(clocks), boot: 4 };
    let surroundings = Surroundings {
        disk: Arc::new(disk.clone()),
        machine,
        is_inline: true,
        #[cfg(test)]
        clock: None,
    };
    builder.journal(DIRECTORY, JournalOptions::new().damage(damage)).surroundings(surroundings).build()
}

/// Checks the outcome: an engine must work whatever it was told; an error must say what is wrong.
fn judged(opened: Result<Dedup, Error>) -> Seen {
    let dedup = match opened {
        Ok(dedup) => dedup,
        Err(Error::Journal(JournalError::Damaged { .. } | JournalError::NotOurs { .. })) => return Seen::Refused,
        Err(Error::InvalidOption { .. }) => return Seen::Refused,
        Err(error) => panic!("{error}"),
    };
    for id in 0..4_u64 {
        let _ = dedup.check(Int::from(id));
        assert!(dedup.contains(Int::from(id)).is_some(), "id {id} is forgotten at once");
    }
    let _ = dedup.once(Int::from(100_u64), |_| Ok::<_, ()>(()));
    let _ = dedup.forget(Int::from(1_u64));
    let stats = dedup.stats();
    if stats.journal.is_some() {
        // Stand-ins for blocks that never existed may have expired, and taken a file along: that is
        // reported.
        let flushed = dedup.journal().unwrap().flush();
        assert!(matches!(flushed, Ok(()) | Err(JournalError::Gone { .. })), "{flushed:?}");
    }
    Seen::Opened
}

/// Returns files that an engine has written, once.
fn genuine() -> Genuine {
    static GENUINE: OnceLock<Genuine> = OnceLock::new();
    *GENUINE.get_or_init(|| {
        let disk = Simulated::new();
        let dedup = journal(builder(false), &disk, Damage::Refuse).expect("the directory is empty");
        let _ = dedup.check("an id");
        dedup.journal().unwrap().flush().expect("there is room on the disk");
        drop(dedup);
        let read = |name: &str| disk.read(&Path::new(DIRECTORY).join(name)).expect("it was written");
        let (segment, mark) = (read(&name(0)), read(mark::NAME));
        let header = segment.first_chunk().map(Header::decode).expect("it has a header").expect("it is ours");
        let mark = mark.first_chunk().map(Mark::decode).expect("it is whole").expect("it is ours");
        Genuine { header, mark, now: NOW }
    })
}
