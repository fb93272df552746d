//! Sealing and merging: what writes new segments, and lets them count.

use super::merge::{Merging, plan_of};
use super::set::{Change, Segments};
use crate::mutation::{Rule, obeys};
use crate::segments::encoding::format::TRAILER_BYTES;
use crate::segments::encoding::key::TOMBSTONE;
use crate::segments::plan::plan_merge;
use crate::segments::read::segment::Segment;
use crate::segments::write::sort::{Extent, Span, sorted};
use crate::segments::write::writer::{Plan, Writer};
use crate::sync::{Ordering, unpoisoned};
use crate::{SegmentError, Timestamp};
use std::path::PathBuf;
use std::sync::Arc;

/// The bytes that are written in one go after the pages.
const FINISH_BYTES: usize = 1 << 20;

impl Segments {
    /// Makes a segment of a span, and records a number for the caller: that of the last block of
    /// its journal that is in it, say. When this returns both are durable, and
    /// [`look`](Segments::look) sees the ids.
    ///
    /// The span is read once for its extent, and then as often as it takes to sort it in
    /// [`SegmentOptions::sort_bytes_max`](crate::segments::SegmentOptions::sort_bytes_max).
    ///
    /// # Errors
    ///
    /// Those of reading the span and of writing. Nothing has changed then, and the same call may be
    /// made again.
    pub fn seal(&self, span: &mut dyn Span, sealed: u64) -> Result<(), SegmentError> {
        self.must_be_here()?;
        let _alone = unpoisoned(self.sealing.lock());
        let extent = Extent::of(span)?;
        let segment = match extent.events {
            0 => None,
            _ => self.write_span(span, &extent)?,
        };
        let mut state = self.state();
        let mut segments = self.segments().to_vec();
        let added = segment.as_ref().map(|segment| segment.path().to_owned());
        segments.extend(segment.map(Arc::new));
        self.commit(&mut state, Change { segments, sealed, added })?;
        // Relaxed: counts.
        self.counters.sealed_events.fetch_add(extent.events, Ordering::Relaxed);
        Ok(())
    }

    /// Writes the segment of a span; `None` if nothing is left of it.
    fn write_span(&self, span: &mut dyn Span, extent: &Extent) -> Result<Option<Segment>, SegmentError> {
        let (number, span_number) = {
            let mut state = self.state();
            state.manifest.next_number += 1;
            state.manifest.next_span += 1;
            (state.manifest.next_number - 1, state.manifest.next_span - 1)
        };
        // Tombstones are for older segments. (While this is written some may go, and none comes.)
        let is_oldest = self.segments().is_empty();
        let (keys, spans, records_max) = (self.keys, [span_number; 2], extent.events);
        let plan = Plan { keys, number, level: 0, spans, times: extent.times(), records_max };
        let path = self.path_of(number);
        let written = Writer::new(&*self.disk, &path, &plan).and_then(|mut writer| {
            let scale = writer.scale();
            sorted(span, extent, scale, self.options.sort_bytes_max, &mut |(key, tick)| match tick {
                TOMBSTONE if is_oldest => Ok(()),
                _ => writer.push(key, tick),
            })?;
            while !writer.finish(FINISH_BYTES)? {}
            Ok(writer.written())
        });
        let records = written.as_ref().map_or(0, |written| written.trailer.ids + written.trailer.tombstones);
        let opened = written.and_then(|written| Segment::of(&*self.disk, written));
        if records == 0 || opened.is_err() {
            self.discard(&path);
        }
        // Relaxed: a count.
        self.counters.written_records.fetch_add(records, Ordering::Relaxed);
        opened.map(|segment| (records > 0).then_some(segment))
    }

    /// Begins the next merge; `None` if none is due, or if one is under way.
    ///
    /// # Errors
    ///
    /// Those of reading and writing; the merge may be begun again.
    pub fn begin_merge(self: &Arc<Self>, now: Timestamp) -> Result<Option<Merge>, SegmentError> {
        self.must_be_here()?;
        let (sources, drops, number) = {
            let mut state = self.state();
            if state.is_merging {
                return Ok(None);
            }
            let Some(range) = plan_merge(&self.live()) else { return Ok(None) };
            if !self.segments()[range.clone()].iter().all(|source| source.is_here()) {
                // Page by page, a merge would take longer than they take to come.
                return Ok(None);
            }
            state.manifest.next_number += 1;
            state.is_merging = true;
            let drops = range.start == 0 || !obeys(Rule::TombstoneStays);
            (self.segments()[range].to_vec(), drops, state.manifest.next_number - 1)
        };
        let path = self.path_of(number);
        // From here on its end says that no merge is under way any more.
        let mut merge = Merge { segments: Arc::clone(self), merging: None, sources, path, is_published: false };
        let plan = plan_of(&merge.sources, self.keys, number);
        let drops = drops.then_some((now, self.options.retention));
        merge.merging = Some(Merging::new(&*self.disk, &merge.path, &merge.sources, &plan, drops)?);
        Ok(Some(merge))
    }

    /// Lets a merged segment count in place of its sources; of those some may have expired.
    /// Returns false if none of them counts any more.
    fn publish_merged(&self, merged: Segment, sources: &[Arc<Segment>]) -> Result<bool, SegmentError> {
        let mut state = self.state();
        let is_source = |segment: &Arc<Segment>| sources.iter().any(|source| Arc::ptr_eq(source, segment));
        let mut segments = self.segments().to_vec();
        let Some(at) = segments.iter().position(is_source) else { return Ok(false) };
        segments.retain(|segment| !is_source(segment));
        let added = Some(merged.path().to_owned());
        // (Nothing is left of it, if all was out of retention.)
        let records = merged.records();
        if records > 0 {
            segments.insert(at, Arc::new(merged));
        }
        let sealed = state.manifest.sealed;
        self.commit(&mut state, Change { segments, sealed, added })?;
        // Relaxed: a count.
        self.counters.written_records.fetch_add(records, Ordering::Relaxed);
        Ok(records > 0)
    }
}

/// A merge that is under way, in steps between which its thread does other things. Dropping it
/// gives it up: its sources go on counting.
pub struct Merge {
    segments: Arc<Segments>,
    /// The segment that is being written; none after an error, or at the end.
    merging: Option<Merging>,
    sources: Vec<Arc<Segment>>,
    path: PathBuf,
    /// True if a manifest that may be on the disk names the file.
    is_published: bool,
}

impl Merge {
    /// Merges this many records, or writes about as many bytes as those take; some 50 ns each.
    /// Returns true when it is done: the merged segment counts, durably, or there is no need of it
    /// any more.
    ///
    /// # Errors
    ///
    /// Those of reading, writing and publishing. The merge is over then, with its sources as they
    /// were; another one may be begun.
    pub fn step(&mut self, records: usize) -> Result<bool, SegmentError> {
        let Some(mut merging) = self.merging.take() else { return Ok(true) };
        if !merging.step(records.max(1))? {
            self.merging = Some(merging);
            return Ok(false);
        }
        let merged = Segment::of(&*self.segments.disk, merging.written())?;
        debug_assert!(merged.listed.bytes > TRAILER_BYTES as u64);
        // An error leaves it in doubt what the manifest on the disk names.
        self.is_published = true;
        self.is_published = self.segments.publish_merged(merged, &self.sources)?;
        Ok(true)
    }
}

impl Drop for Merge {
    fn drop(&mut self) {
        if self.segments.must_be_here().is_err() {
            // The merge is the parent's, and locks may be held by threads that are not here.
            return;
        }
        self.segments.state().is_merging = false;
        if !self.is_published {
            self.segments.discard(&self.path);
        }
    }
}
