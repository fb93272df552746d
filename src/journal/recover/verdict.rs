//! The verdict: what is missing of a journal, or damaged, and what is to be kept of each file.
//! Pure: it is computed from the [survey](super::survey).
//!
//! The possible causes: a crash leaves the end of the last file torn, or a file that the mark does
//! not name, in which nothing was acknowledged. Everything else was done by others.

use super::survey::{Bad, Piece, Stretch, Survey, Surveyed};
use crate::Timestamp;
use crate::error::Loss;
use crate::journal::damage::Defect;
use crate::journal::encoding::format::{BlockHeader, HEADER_BYTES, Header, ID_BYTES, Mark};
use crate::journal::write::mark;
use crate::journal::write::writer::name;
use std::path::{Path, PathBuf};

/// A stretch of a file that is to be kept, or a stand-in for lost blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::journal) enum Part {
    Bytes { offset: u64, bytes: u64 },
    StandIn(BlockHeader),
}

/// A missing file.
#[derive(Clone, Copy, Debug)]
pub(in crate::journal) struct Missing {
    /// The header of the block that stands for its blocks.
    pub(in crate::journal) block: BlockHeader,
    /// The number of ids that were accepted before it.
    pub(in crate::journal) first_ids: u64,
}

/// A file, with the verdict on it.
#[derive(Clone, Debug)]
pub(in crate::journal) struct Judged {
    pub(in crate::journal) path: PathBuf,
    pub(in crate::journal) number: u64,
    /// The first block of it that is kept, or has a stand-in.
    pub(in crate::journal) start: u64,
    /// True if it has any defect that no crash leaves.
    pub(in crate::journal) is_damaged: bool,
    pub(in crate::journal) header: Option<Header>,
    pub(in crate::journal) parts: Vec<Part>,
    pub(in crate::journal) blocks: u64,
    /// The number of its valid bytes.
    pub(in crate::journal) bytes: u64,
    pub(in crate::journal) latest: Timestamp,
    /// The number of ids that were accepted before it.
    pub(in crate::journal) first_ids: u64,
}

/// The verdict on all files.
#[derive(Clone, Debug, Default)]
pub(in crate::journal) struct Verdict {
    pub(in crate::journal) files: Vec<Judged>,
    /// The files that have expired, and were about to be deleted.
    pub(in crate::journal) expired: Vec<PathBuf>,
    /// The files to be written in the place of missing ones.
    pub(in crate::journal) stand_ins: Vec<Missing>,
    pub(in crate::journal) defects: Vec<Defect>,
    /// The end of the last file, as a crash leaves it.
    pub(in crate::journal) torn: Option<Bad>,
    /// The number of the next block; `ids` were accepted before it.
    pub(in crate::journal) number: u64,
    pub(in crate::journal) ids: u64,
    pub(in crate::journal) first: u64,
    pub(in crate::journal) first_ids: u64,
    /// The number of ids that are lost and were known to be.
    pub(in crate::journal) ids_lost_before: u64,
}

struct Judge<'s> {
    verdict: Verdict,
    directory: &'s Path,
    /// The last block so far.
    last: Option<BlockHeader>,
    latest: Timestamp,
    /// The defect to which the next gap belongs.
    open: Option<usize>,
}

pub(in crate::journal) fn judge(survey: &Survey, mark: &mark::Found, directory: &Path) -> Verdict {
    let of_last = survey.last_block().map_or((0, 0), |last| (last.first, last.first_ids));
    let of_mark = match mark {
        mark::Found::Here(mark) => (mark.first, mark.first_ids),
        _ => (0, 0),
    };
    let (first, first_ids) = of_last.max(of_mark);
    debug_assert!(survey.files.is_sorted_by_key(|file| file.listed.number));
    let (number, ids) = (first, first_ids);
    let verdict = Verdict { number, ids, first, first_ids, ..Verdict::default() };
    let mut judge = Judge { verdict, directory, last: None, latest: Timestamp::default(), open: None };
    let starts_after = |i: usize| survey.files.get(i + 1).is_some_and(|next| next.listed.number <= first);
    let ends_before = |file: &Surveyed| file.stretches().next_back().is_some_and(|stretch| stretch.end() <= first);
    for (i, file) in survey.files.iter().enumerate() {
        if starts_after(i) || ends_before(file) {
            judge.verdict.expired.push(file.listed.path.clone());
        } else {
            judge.file(file, mark, i + 1 == survey.files.len());
        }
    }
    judge.end(mark, survey);
    judge.verdict
}

impl Judge<'_> {
    fn file(&mut self, file: &Surveyed, mark: &mark::Found, is_last: bool) {
        let listed = &file.listed;
        if let (Ok(header), None) = (listed.header, file.stretches().next())
            && header.number > self.verdict.number
        {
            // This file has no blocks, but was begun after the missing ones.
            let loss = Loss::Exactly(header.ids.saturating_sub(self.verdict.ids));
            self.gap(self.verdict.number, header.number, loss, header.ids, None);
            (self.verdict.number, self.verdict.ids) = (header.number, header.ids);
        }
        self.verdict.files.push(Judged {
            path: listed.path.clone(),
            number: listed.number,
            start: listed.number,
            is_damaged: false,
            header: listed.header.ok(),
            parts: Vec::new(),
            blocks: 0,
            bytes: HEADER_BYTES as u64,
            latest: self.latest,
            first_ids: self.verdict.ids,
        });
        self.open = None;
        if let Err(what) = listed.header {
            let was_cut = is_last && listed.size < HEADER_BYTES as u64 && !is_clean(mark);
            // Nothing says how much followed it.
            self.defect(0, what, if was_cut { Loss::AtLeast(0) } else { Loss::default() });
        }
        for (i, piece) in file.pieces.iter().enumerate() {
            let is_end = is_last && i + 1 == file.pieces.len();
            match piece {
                Piece::Blocks(stretch) => self.blocks(stretch),
                Piece::Bad(bad) if is_end && listed.header.is_ok() && may_be_torn(mark, listed.number) => {
                    self.verdict.torn = Some(*bad);
                }
                Piece::Bad(bad) => {
                    let is_bounded = !is_end || is_clean(mark);
                    let ids = if is_bounded { Loss::default() } else { Loss::AtMost(bad.bytes / ID_BYTES as u64) };
                    self.defect(bad.offset, bad.reason, ids);
                }
            }
        }
    }

    fn current(&mut self) -> Option<&mut Judged> {
        self.verdict.files.last_mut()
    }

    /// Records a defect of the file at hand.
    fn defect(&mut self, offset: u64, what: &'static str, ids_lost: Loss) {
        let Some(file) = self.verdict.files.last_mut() else { return };
        file.is_damaged = true;
        let path = file.path.clone();
        self.open = Some(self.verdict.defects.len());
        self.verdict.defects.push(Defect { path, offset, what, file_is_missing: false, blocks_lost: 0, ids_lost });
    }

    fn blocks(&mut self, stretch: &Stretch) {
        let (from, to) = (self.verdict.number, stretch.first.start());
        if to > from {
            let ids = stretch.first.ids.saturating_sub(self.verdict.ids);
            // Of the ids in the gap before a stand-in, some may have been known to be lost.
            let loss = if stretch.first.is_stand_in() { Loss::AtMost(ids) } else { Loss::Exactly(ids) };
            self.gap(from, to, loss, stretch.first.ids, Some(stretch));
        } else if stretch.first.is_stand_in() {
            self.verdict.ids_lost_before += stretch.first.ids.saturating_sub(self.verdict.ids);
        }
        self.verdict.ids_lost_before += stretch.lost_before;
        self.open = None;
        self.verdict.number = stretch.end();
        self.verdict.ids = stretch.end_ids;
        self.latest = self.latest.max(stretch.latest);
        self.last = Some(stretch.last);
        let latest = self.latest;
        if let Some(file) = self.current() {
            if file.parts.is_empty() {
                file.start = stretch.first.start();
            }
            file.parts.push(Part::Bytes { offset: stretch.offset, bytes: stretch.bytes });
            file.blocks += stretch.blocks;
            file.bytes += stretch.bytes;
            file.latest = latest;
        }
    }

    /// Records that these blocks are missing. Their stand-in goes into the file that they were in,
    /// if that is still there.
    fn gap(&mut self, from: u64, to: u64, loss: Loss, ids: u64, next: Option<&Stretch>) {
        let neighbour = self.last.or(next.map(|next| next.first)).unwrap_or_default();
        let (latest, clocks) = (self.latest.max(neighbour.latest), neighbour.clocks);
        let (first, first_ids) = (self.verdict.first, self.verdict.first_ids);
        let (number, skipped) = (to - 1, to - 1 - from);
        let block = BlockHeader { number, skipped, ids, first, first_ids, latest, clocks, ..BlockHeader::default() };
        let files = self.verdict.files.len();
        // A file without blocks that is not the last must have had some.
        let had_more = |file: &Judged| file.is_damaged || file.parts.is_empty();
        let is_in = |file: &Judged| file.number <= from || !file.parts.is_empty();
        let here = match next {
            // A gap at the end of all may be in the last file, in one after it, or, if the last was
            // begun after the missing blocks, in the one before. The missing blocks come after
            // every block that is there.
            None => (0..files).rev().take(2).find(|&i| {
                let file = &self.verdict.files[i];
                let is_last = self.verdict.files[i + 1..].iter().all(|later| later.parts.is_empty());
                had_more(file) && file.number <= from && is_last
            }),
            Some(_) => files.checked_sub(1).filter(|i| is_in(&self.verdict.files[*i])),
        };
        let before = files.checked_sub(2).filter(|i| next.is_some() && had_more(&self.verdict.files[*i]));
        match here.or(before) {
            Some(i) => self.gap_in(i, block, to - from, loss),
            None => {
                let path = self.directory.join(name(from));
                let what = "the file is missing";
                let (blocks_lost, file_is_missing) = (to - from, true);
                let defect = Defect { path, offset: 0, what, file_is_missing, blocks_lost, ids_lost: loss };
                self.verdict.defects.push(defect);
                self.verdict.stand_ins.push(Missing { block, first_ids: self.verdict.ids });
            }
        }
    }

    fn gap_in(&mut self, i: usize, block: BlockHeader, blocks_lost: u64, ids_lost: Loss) {
        let path = self.verdict.files[i].path.clone();
        let is_at_hand = i + 1 == self.verdict.files.len();
        let of_it = self.verdict.defects.iter().rposition(|defect| defect.path == path);
        match of_it.filter(|_| !is_at_hand || self.open.is_some()) {
            Some(known) => {
                let defect = &mut self.verdict.defects[known];
                // The loss is exact now, and was only bounded before.
                let bounded = matches!(defect.ids_lost, Loss::AtMost(_)) && defect.blocks_lost == 0;
                defect.ids_lost = if bounded { ids_lost } else { defect.ids_lost.and(ids_lost) };
                defect.blocks_lost += blocks_lost;
            }
            None => {
                let (offset, what) = (self.verdict.files[i].bytes, "blocks are missing");
                let file_is_missing = false;
                self.verdict.defects.push(Defect { path, offset, what, file_is_missing, blocks_lost, ids_lost });
            }
        }
        let file = &mut self.verdict.files[i];
        file.is_damaged = true;
        if file.parts.is_empty() {
            file.start = block.start();
        }
        file.parts.push(Part::StandIn(block));
        file.blocks += 1;
        file.latest = file.latest.max(block.latest);
    }

    /// Decides, after the last file, whether it was the last one.
    fn end(&mut self, mark: &mark::Found, survey: &Survey) {
        let found = match mark {
            mark::Found::Here(mark) => return self.end_at(mark, survey),
            mark::Found::Missing => "the mark is missing: whether there were files after the last one nobody knows",
            mark::Found::Damaged(_) => "the mark is damaged: whether there were files after the last one nobody knows",
        };
        // The first file of all, begun when the process died, has nothing yet.
        let had_none_yet = survey.files.iter().all(|file| file.listed.number == 0 && file.pieces.is_empty());
        if !had_none_yet || matches!(mark, mark::Found::Damaged(_)) {
            let (path, ids_lost) = (self.directory.join(mark::NAME), Loss::AtLeast(0));
            let (offset, file_is_missing, blocks_lost) = (0, false, 0);
            self.verdict.defects.push(Defect { path, offset, what: found, file_is_missing, blocks_lost, ids_lost });
        }
    }

    fn end_at(&mut self, mark: &Mark, survey: &Survey) {
        let before = self.verdict.defects.len();
        if mark.number > self.verdict.number {
            let loss = Loss::Exactly(mark.ids.saturating_sub(self.verdict.ids));
            if self.verdict.torn.take().is_some() {
                self.defect(0, "it ends early, and torn", Loss::default());
            }
            self.gap(self.verdict.number, mark.number, loss, mark.ids, None);
            self.verdict.number = mark.number;
            self.verdict.ids = mark.ids;
        }
        let is_named = |file: &Surveyed| file.listed.number >= mark.number;
        if !mark.is_clean && self.verdict.number <= mark.number && !survey.files.iter().any(is_named) {
            let (path, what) = (self.directory.join(name(mark.number)), "the file is missing");
            let (offset, file_is_missing, blocks_lost, ids_lost) = (0, true, 0, Loss::AtLeast(0));
            self.verdict.defects.push(Defect { path, offset, what, file_is_missing, blocks_lost, ids_lost });
        }
        if self.verdict.defects.len() > before {
            // The last block says which block is the oldest that is kept; a missing one may have
            // said otherwise.
            let exact = self.verdict.defects[..before].iter_mut().filter(|defect| defect.file_is_missing);
            exact.for_each(|defect| defect.ids_lost = defect.ids_lost.and(Loss::AtMost(0)));
        }
    }
}

fn is_clean(mark: &mark::Found) -> bool {
    matches!(mark, mark::Found::Here(mark) if mark.is_clean)
}

/// Returns true if a crash may have torn the end of this file, if it is the last. (Also after a
/// clean stop: a file that was begun after that and is empty is removed when the journal is opened,
/// and another crash may bring it back.)
fn may_be_torn(mark: &mark::Found, number: u64) -> bool {
    match mark {
        mark::Found::Here(mark) => mark.number <= number,
        _ => false,
    }
}
