//! The survey of a journal: reads all of it, changes nothing, and finds which stretches of which
//! files are blocks. [`verdict`](super::verdict) finds what is missing.

use super::listing::{Keys, Listed, Listing};
use super::scan::{Item, scan};
use crate::Timestamp;
use crate::clock::TimeBase;
use crate::error::JournalError;
use crate::journal::encoding::format::{BLOCK_HEADER_BYTES, BlockHeader};
use crate::journal::encoding::payload::{Run, runs};
use crate::journal::encoding::positions::Positions;
use crate::journal::files::disk::Disk;

/// A piece of a file; a file is a sequence of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::journal) enum Piece {
    Blocks(Stretch),
    Bad(Bad),
}

/// Blocks that follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::journal) struct Stretch {
    pub(in crate::journal) offset: u64,
    pub(in crate::journal) bytes: u64,
    pub(in crate::journal) blocks: u64,
    pub(in crate::journal) first: BlockHeader,
    pub(in crate::journal) last: BlockHeader,
    /// The number of ids that were accepted until its end, in the journal's life.
    pub(in crate::journal) end_ids: u64,
    pub(in crate::journal) latest: Timestamp,
    /// The number of ids that it knows to be lost.
    pub(in crate::journal) lost_before: u64,
}

impl Stretch {
    /// Returns the number of the block after it.
    pub(in crate::journal) fn end(&self) -> u64 {
        self.last.number + 1
    }
}

/// Bytes that are no block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::journal) struct Bad {
    pub(in crate::journal) offset: u64,
    pub(in crate::journal) bytes: u64,
    pub(in crate::journal) reason: &'static str,
}

#[derive(Clone, Debug)]
pub(in crate::journal) struct Surveyed {
    pub(in crate::journal) listed: Listed,
    pub(in crate::journal) pieces: Vec<Piece>,
}

impl Surveyed {
    pub(in crate::journal) fn stretches(&self) -> impl DoubleEndedIterator<Item = &Stretch> {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Blocks(stretch) => Some(stretch),
            Piece::Bad(_) => None,
        })
    }
}

/// The contents of all files.
#[derive(Clone, Debug, Default)]
pub(in crate::journal) struct Survey {
    /// The files, by number, also those that have expired.
    pub(in crate::journal) files: Vec<Surveyed>,
    pub(in crate::journal) blocks: u64,
    pub(in crate::journal) ids: u64,
    pub(in crate::journal) positions: Positions,
    /// The way in which time was counted last, and (in `boot`) in which boot.
    pub(in crate::journal) time: TimeBase,
    pub(in crate::journal) boot: u64,
}

impl Survey {
    pub(in crate::journal) fn last_block(&self) -> Option<&BlockHeader> {
        self.files.iter().flat_map(Surveyed::stretches).next_back().map(|stretch| &stretch.last)
    }
}

/// Reads all files; `each` gets every run of every block, in order, with the place of its file.
pub(in crate::journal) fn survey(
    disk: &dyn Disk,
    listing: &Listing,
    mut each: impl FnMut(usize, &Run<'_>),
) -> Result<Survey, JournalError> {
    let mut survey = Survey::default();
    if listing.keys.is_none() {
        return Ok(survey);
    }
    let mut next = 0;
    for (i, listed) in listing.files.iter().enumerate() {
        if let Ok(header) = listed.header {
            survey.time = header.time;
        }
        survey.boot = listed.header.map_or(0, |header| header.boot);
        let mut pieces = Vec::new();
        in_file(disk, listing, i, &mut next, &mut |item| match item {
            Item::Bad { offset, bytes, reason } => pieces.push(Piece::Bad(Bad { offset, bytes, reason })),
            Item::Block { offset, header, payload } => {
                let bytes = (BLOCK_HEADER_BYTES + payload.len()) as u64;
                let accepted = survey.take(payload, &mut |run| each(i, run));
                add(&mut pieces, offset, bytes, header, accepted);
            }
        })?;
        survey.files.push(Surveyed { listed: listed.clone(), pieces });
    }
    Ok(survey)
}

/// Goes through all runs again, as they were when the journal was surveyed.
pub(in crate::journal) fn again(
    disk: &dyn Disk,
    listing: &Listing,
    mut each: impl FnMut(&Run<'_>),
) -> Result<(), JournalError> {
    let mut next = 0;
    (0..listing.files.len()).try_for_each(|i| {
        in_file(disk, listing, i, &mut next, &mut |item| {
            if let Item::Block { payload, .. } = item {
                runs(payload).flatten().for_each(|run| each(&run));
            }
        })
    })
}

/// Goes through a file. `next` is the number of the next block, if there was one.
fn in_file(
    disk: &dyn Disk,
    listing: &Listing,
    i: usize,
    next: &mut u64,
    each: &mut dyn FnMut(Item<'_>),
) -> Result<(), JournalError> {
    let Some(Keys { salt, .. }) = listing.keys else { return Ok(()) };
    let listed = &listing.files[i];
    let path = &listed.path;
    let mut file = disk.open(path).map_err(JournalError::io("open", path))?;
    let first = listed.header.map_or(0, |file| file.number);
    let scanned = scan(file.as_mut(), salt, &mut |item| match item {
        Item::Block { offset, header, payload } => {
            let bytes = (BLOCK_HEADER_BYTES + payload.len()) as u64;
            match misplaced(&header, first, *next) {
                Some(reason) => each(Item::Bad { offset, bytes, reason }),
                None => {
                    *next = header.number.saturating_add(1);
                    each(Item::Block { offset, header, payload });
                }
            }
        }
        bad => each(bad),
    });
    scanned.map_err(JournalError::io("read", path)).map(|_| ())
}

/// Returns the defect of a block's number in a file that begins with `first`, if it has one.
fn misplaced(header: &BlockHeader, first: u64, next: u64) -> Option<&'static str> {
    if header.start() < next {
        return Some("a block has a number that was there before");
    }
    // (A block that stands for lost ones may be in a file that was begun later.)
    (!header.is_stand_in() && header.number < first).then_some("a block has a number from before its file")
}

impl Survey {
    /// Takes the contents of a block. Returns how many ids it has accepted.
    fn take(&mut self, payload: &[u8], each: &mut impl FnMut(&Run<'_>)) -> u64 {
        let mut accepted = 0;
        for run in runs(payload).flatten() {
            accepted += run.accepted();
            if let Some((source, position)) = run.position() {
                self.positions.set(source, position);
            }
            self.time = run.time_base().unwrap_or(self.time);
            each(&run);
        }
        self.blocks += 1;
        self.ids += accepted;
        accepted
    }
}

fn add(pieces: &mut Vec<Piece>, offset: u64, bytes: u64, block: BlockHeader, accepted: u64) {
    let end_ids = block.ids.saturating_add(accepted);
    match pieces.last_mut() {
        Some(Piece::Blocks(stretch)) if stretch.end() == block.start() => {
            stretch.lost_before += if block.is_stand_in() { block.ids.saturating_sub(stretch.end_ids) } else { 0 };
            stretch.bytes += bytes;
            stretch.blocks += 1;
            stretch.last = block;
            stretch.end_ids = end_ids;
            stretch.latest = stretch.latest.max(block.latest);
        }
        _ => pieces.push(Piece::Blocks(Stretch {
            offset,
            bytes,
            blocks: 1,
            first: block,
            last: block,
            end_ids,
            latest: block.latest,
            lost_before: 0,
        })),
    }
}
