//! Recovery: opens a journal's directory, reads the valid parts of its files, and makes it ready to
//! go on.

use super::listing::{Keys, Listing, list};
use super::replay::{Replay, Step, Useful};
use super::salvage::{self, salvage};
use super::survey::{Survey, again, survey};
use super::verdict::{Judged, Verdict, judge};
use crate::clock::{Clocks, Machine, TimeBase};
use crate::digest::{DigestKey, WantedKey};
use crate::error::JournalError;
use crate::error::Loss;
use crate::journal::damage::{Defect, Sum};
use crate::journal::encoding::format::{ID_BYTES, Mark};
use crate::journal::encoding::gap::Gap;
use crate::journal::encoding::payload::Run;
use crate::journal::encoding::positions::Positions;
use crate::journal::files::disk::{Disk, Held};
use crate::journal::options::{Damage, Reopening, SyncMode};
use crate::journal::write::mark;
use crate::journal::write::writer::{Segment, Start, lock};
use crate::mutation::{Rule, obeys};
use crate::{Timestamp, random};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The findings when a journal was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Recovery {
    /// The number of files that were read.
    pub segments: u64,
    /// The number of blocks, each of which was written as one.
    pub blocks: u64,
    /// The number of ids that were accepted.
    pub ids: u64,
    /// The number of bytes of all that.
    pub bytes: u64,
    /// The end of the last file, if that was no block, as a crash leaves it.
    pub torn: Vec<Torn>,
    /// The damage that is now known, and accepted; see [`Damage::Keep`].
    pub damage: Vec<Defect>,
    /// The number of files of [`damage`](Recovery::damage) that were missing.
    pub files_lost: u64,
    /// The number of blocks that are lost by it; or that are in no segment of a long memory either,
    /// since the journal was written without it for a while.
    pub blocks_lost: u64,
    /// The number of ids that are lost by it.
    pub ids_lost: Loss,
    /// The number of ids that are lost by damage that was found when the journal was opened before.
    pub ids_lost_before: u64,
    /// The damaged files, under the names that they have now.
    pub moved_aside: Vec<PathBuf>,
    /// The time by which the wall clock was set forward since the last engine wrote, if that is
    /// more than a second and more than a tick of the window: people, NTP, a battery. Time goes on
    /// by the time that has really passed, as far as that can be known. Only with the default
    /// clock, and not where time comes with events.
    pub clock_set_forward: Option<Duration>,
    /// The same, if it was set back. If the machine was also started again, it was set back by at
    /// least this much.
    pub clock_set_back: Option<Duration>,
    /// The time that recovery took.
    pub took: Duration,
}

/// The end of a file that could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Torn {
    /// The file.
    pub path: PathBuf,
    /// The offset at which it begins.
    pub offset: u64,
    /// The number of its bytes.
    pub bytes: u64,
    /// The most ids that it can have held.
    pub ids_at_most: u64,
    /// A description of the defect there.
    pub reason: &'static str,
    /// True if it was cut off: it is, if nothing comes after it.
    pub truncated: bool,
}

/// A directory that is ours, and its files.
pub(in crate::journal) struct Found {
    pub(in crate::journal) disk: Arc<dyn Disk>,
    pub(in crate::journal) directory: PathBuf,
    listing: Listing,
    pub(in crate::journal) lock: Box<dyn Held>,
}

/// The time at which the journal was written last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Resumed {
    /// The way in which time was counted.
    pub(crate) base: TimeBase,
    /// The clocks at the last block; `None` if there is none.
    pub(crate) clocks: Option<Clocks>,
    /// True if the machine has been running since then.
    pub(crate) is_same_boot: bool,
}

/// The state in which a recovered journal goes on.
pub(in crate::journal) struct Recovered {
    pub(in crate::journal) recovery: Recovery,
    pub(in crate::journal) start: Start,
    pub(in crate::journal) salt: u64,
    pub(in crate::journal) resumed: Resumed,
}

impl Found {
    /// Opens a directory, which need not exist, for this process alone.
    pub(in crate::journal) fn open(
        disk: Arc<dyn Disk>,
        directory: &Path,
        machine: &Machine,
    ) -> Result<Self, JournalError> {
        disk.create_directory(directory).map_err(JournalError::io("create", directory))?;
        let lock = lock(&*disk, directory, machine)?;
        let listing = list(&*disk, directory)?;
        Ok(Found { disk, directory: directory.into(), listing, lock })
    }

    /// Returns the salt of its checksums, if there are any files.
    pub(in crate::journal) fn salt(&self) -> Option<u64> {
        self.listing.keys.map(|keys| keys.salt)
    }

    /// Returns the key of the digests in it, if there are any, and if it is the one that is wanted.
    pub(in crate::journal) fn key(&self, wanted: WantedKey) -> Result<Option<DigestKey>, JournalError> {
        let Some(Keys { key, .. }) = self.listing.keys else { return Ok(None) };
        let Some([what, got, expected]) = wanted.differs(key) else { return Ok(Some(key)) };
        let path = self.listing.files.first().map_or_else(|| self.directory.clone(), |file| file.path.clone());
        Err(JournalError::NotOurs { path, what, got: got.into(), expected: expected.into() })
    }

    /// Reads the valid parts of each file, in order, twice: first to know what there is, then,
    /// unless damage is refused, to tell the engine what it needs. Then the remains of a crash are
    /// cleaned up.
    pub(in crate::journal) fn replay(
        &self,
        rules: &Reopening,
        mut each: impl FnMut(Told<'_>),
    ) -> Result<Recovered, JournalError> {
        let began = Instant::now();
        let disk = &*self.disk;
        let mut useful = Useful::default();
        let survey = survey(disk, &self.listing, |_, run| useful.note(run))?;
        let mut verdict = judge(&survey, &self.listing.mark, &self.directory);
        if !obeys(Rule::GapsAreKnown) {
            verdict.defects.clear();
        }
        if let (Some(first), Damage::Refuse) = (verdict.defects.first(), rules.damage) {
            let Sum { files, blocks, ids } = Sum::of(&verdict.defects);
            let Defect { ref path, what, offset, .. } = *first;
            let (path, defects) = (path.clone(), verdict.defects.len());
            let (files_lost, blocks_lost, ids_lost) = (files, blocks, ids);
            return Err(JournalError::Damaged { path, what, offset, defects, files_lost, blocks_lost, ids_lost });
        }
        self.sync_last(&verdict, rules.sync)?;
        let mut replay = Replay::new(useful, rules.retention);
        again(disk, &self.listing, |run| {
            if let Step::Tell(time) = replay.step(run) {
                time.into_iter().for_each(|time| each(Told::Time(time)));
                each(Told::Run(run));
            }
        })?;
        replay.end().into_iter().for_each(|time| each(Told::Time(time)));
        let salt = self.listing.keys.map_or_else(random::any, |keys| keys.salt);
        let mut recovery = self.report(&survey, &verdict);
        let keys = Keys { key: rules.key, salt };
        let remove = |path: &Path| disk.remove(path).map_err(JournalError::io("delete", path));
        self.listing.leftovers.iter().try_for_each(|path| remove(path))?;
        if !verdict.defects.is_empty() {
            recovery.moved_aside = salvage(disk, &self.directory, &verdict, keys, rules)?;
        }
        verdict.expired.iter().try_for_each(|path| remove(path))?;
        let start = self.tidy(&verdict, keys, rules)?;
        recovery.took = began.elapsed();
        let clocks = survey.last_block().map(|last| last.clocks);
        let is_same_boot = survey.boot != 0 && survey.boot == rules.boot;
        let resumed = Resumed { base: survey.time, clocks, is_same_boot };
        Ok(Recovered { recovery, start: Start { positions: survey.positions, ..start }, salt, resumed })
    }

    /// Makes durable what is in the last file: the engine before may have ended after it has
    /// written a block, and before that was synced, or that failed. It was read from the system's
    /// memory, perhaps; and what it says is about to be relied on: ids in it are duplicates, files
    /// before it are deleted.
    fn sync_last(&self, verdict: &Verdict, sync: SyncMode) -> Result<(), JournalError> {
        let is_clean = matches!(self.listing.mark, mark::Found::Here(mark) if mark.is_clean);
        let (Some(last), SyncMode::Disk, false) = (verdict.files.last(), sync, is_clean) else { return Ok(()) };
        let path = &last.path;
        let mut file = self.disk.open_to_append(path).map_err(JournalError::io("open", path))?;
        file.sync().map_err(JournalError::io("sync", path))
    }

    fn report(&self, survey: &Survey, verdict: &Verdict) -> Recovery {
        let Sum { files, blocks, ids } = Sum::of(&verdict.defects);
        Recovery {
            clock_set_forward: None,
            clock_set_back: None,
            segments: survey.files.len() as u64,
            blocks: survey.blocks,
            ids: survey.ids,
            bytes: verdict.files.iter().map(|file| file.bytes).sum(),
            torn: verdict.torn().into_iter().collect(),
            damage: verdict.defects.clone(),
            files_lost: files,
            blocks_lost: blocks,
            ids_lost: ids,
            ids_lost_before: verdict.ids_lost_before,
            moved_aside: Vec::new(),
            took: Duration::ZERO,
        }
    }

    /// Cleans up what a crash has left at the end. Returns the point from which the journal goes
    /// on.
    fn tidy(&self, verdict: &Verdict, Keys { key, salt }: Keys, rules: &Reopening) -> Result<Start, JournalError> {
        let disk = &*self.disk;
        let Verdict { number, ids, first, first_ids, .. } = *verdict;
        let mut is_clean =
            matches!(self.listing.mark, mark::Found::Here(mark) if mark.is_clean && mark.number == number);
        let gap = match self.listing.mark {
            mark::Found::Here(mark) => mark.gap,
            _ => Gap::default(),
        };
        let mark = Mark { key, salt, is_clean: true, number, ids, first, first_ids, gap };
        let has_nothing = |file: &&Judged| file.blocks == 0;
        let empty: Vec<_> = verdict.files.iter().filter(has_nothing).collect();
        // First, since half a block is damage where the mark says that all is complete.
        if let (Some(torn), Some(last)) = (verdict.torn(), verdict.files.last())
            && last.blocks == 0
            && !last.is_damaged
        {
            rules.sync.truncate(disk, &torn.path, torn.offset)?;
        }
        if !verdict.defects.is_empty() || (!empty.is_empty() && !is_clean) {
            // After this, no open looks for an empty file that is about to be deleted, nor for
            // blocks that are known to be lost.
            mark::write(disk, &self.directory, &mark, rules.sync)?;
            is_clean = true;
        }
        for file in empty {
            // Its name is that of the file that is written next.
            disk.remove(&file.path).map_err(JournalError::io("delete", &file.path))?;
        }
        if let Some(torn) = verdict.torn()
            && verdict.files.last().is_some_and(|file| file.blocks > 0 && !file.is_damaged)
        {
            rules.sync.truncate(disk, &torn.path, torn.offset)?;
        }
        let kept = verdict.files.iter().filter(|file| file.blocks > 0).map(|file| Segment {
            path: file.path.clone(),
            bytes: file.kept_bytes(),
            latest: file.latest,
            first: file.start,
            first_ids: file.first_ids,
        });
        let stand_ins = verdict.stand_ins.iter().map(|missing| salvage::segment_of(&self.directory, missing));
        let mut old: Vec<_> = kept.chain(stand_ins).collect();
        old.sort_by_key(|segment| segment.first);
        Ok(Start { old, number, ids, positions: Positions::default(), is_clean, gap })
    }
}

/// A part of a journal that an engine is told.
pub(crate) enum Told<'r> {
    Run(&'r Run<'r>),
    /// The present is this time, at least.
    Time(Timestamp),
}

impl Verdict {
    pub(in crate::journal) fn torn(&self) -> Option<Torn> {
        let (bad, file) = (self.torn?, self.files.last()?);
        Some(Torn {
            path: file.path.clone(),
            offset: bad.offset,
            bytes: bad.bytes,
            ids_at_most: bad.bytes / ID_BYTES as u64,
            reason: bad.reason,
            truncated: true,
        })
    }
}
