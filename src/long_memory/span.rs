//! The events of the journal's complete files, as they are sealed.

use crate::SegmentError;
use crate::digest::Digest;
use crate::journal::Kind;
use crate::journal::carry::unsealed_files::Unsealed;
use crate::segments::{Event, EventKind, Span};
use crate::{Timestamp, clock::Reading};
use std::time::Duration;

/// Files from which something is skipped.
pub(super) struct JournalSpan<'u> {
    files: &'u Unsealed,
    /// The number of the first block that counts: all before it was cleared.
    void_below: u64,
    /// The number of the first run after the last that clears everything; 0 if none does.
    first: u64,
    /// The ids that are forgotten in all of it.
    pub(super) forgotten: Vec<Digest>,
}

impl<'u> JournalSpan<'u> {
    /// Reads files, for what all of it means together.
    pub(super) fn of(files: &'u Unsealed, void_below: u64) -> Result<Self, SegmentError> {
        let mut span = JournalSpan { files, void_below, first: 0, forgotten: Vec::new() };
        let mut runs = 0;
        files.read(&mut |_, run| {
            runs += 1;
            match run.kind {
                Kind::Cleared => span.first = runs,
                Kind::Forgotten => span.forgotten.extend(run.ids()),
                _ => {}
            }
        })?;
        Ok(span)
    }

    /// Returns true if everything was forgotten meanwhile, also what is in segments.
    pub(super) fn clears(&self) -> bool {
        self.first > 0
    }
}

impl Span for JournalSpan<'_> {
    fn read(&mut self, each: &mut dyn FnMut(Event)) -> Result<(), SegmentError> {
        let (first, void_below, mut runs) = (self.first, self.void_below, 0);
        self.files.read(&mut |block, run| {
            runs += 1;
            if runs <= first || block < void_below {
                return;
            }
            let (time, kind) = (latest(run.at), EventKind::Accepted);
            match run.kind {
                Kind::Accepted => run.ids().for_each(|digest| each(Event { digest, time, kind })),
                Kind::Fingerprinted => run.fingerprinted().for_each(|(digest, _)| each(Event { digest, time, kind })),
                Kind::Forgotten => {
                    let kind = EventKind::Forgotten;
                    run.ids().for_each(|digest| each(Event { digest, time, kind }));
                }
                Kind::Cleared | Kind::Position | Kind::Time | Kind::TimeBase => {}
            }
        })?;
        Ok(())
    }
}

/// Returns the latest time that it may have been, so that nothing is forgotten early.
fn latest(Reading { time, lag_nanos }: Reading) -> Timestamp {
    time + Duration::from_nanos(lag_nanos)
}
