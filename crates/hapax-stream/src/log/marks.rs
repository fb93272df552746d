//! Marks of messages that are being handled: one that is dropped before its message is done is
//! taken back, however that comes about.

use hapax::{Attempt, Claim, ClaimOptions, Dedup, Forgotten, Outcome, Verdict};
use hapax_store::sync::{Ordering, StdAtomicU64};
use std::sync::Arc;
use std::time::Duration;

/// The lease of a claim. Nobody else claims ids of this engine, so only a copy in the same batch
/// asks, or nobody.
const LEASE: Duration = Duration::from_secs(366 * 24 * 3_600);

/// The engine that has the marks.
pub(crate) struct Marks {
    pub(crate) engine: Dedup,
    /// The number of marks that could not be taken back: the history cannot forget.
    stuck: StdAtomicU64,
}

/// The engine's answer for the id of a message.
pub(crate) enum Sight {
    /// It is to be handled.
    New(Option<Mark>),
    Duplicate,
    /// The id is that of a message with another content.
    Mismatch,
}

impl Marks {
    pub(crate) fn new(engine: Dedup) -> Self {
        Marks { engine, stuck: StdAtomicU64::new(0) }
    }

    /// Returns the number of marks that could not be taken back.
    pub(crate) fn stuck(&self) -> u64 {
        // Relaxed: a counter that the task itself, or the one before it, has raised.
        self.stuck.load(Ordering::Relaxed)
    }

    /// Marks the ids of a batch on sight, or claims them, if there are contents to be compared: the
    /// engine keeps fingerprints of claims. Returns an answer for each message that has an id.
    pub(crate) fn see(self: &Arc<Self>, ids: &[Option<Vec<u8>>], contents: Option<&[Option<Vec<u8>>]>) -> Vec<Sight> {
        if let Some(contents) = contents {
            let both = ids.iter().zip(contents);
            return both.filter_map(|(id, content)| Some(self.claim(id.as_ref()?, content.as_deref()))).collect();
        }
        // Nothing of others is called between the check and the marks that take it back.
        let mut verdicts = Vec::new();
        self.engine.check_batch(ids.iter().flatten(), &mut verdicts);
        ids.iter().flatten().zip(verdicts).map(|(id, verdict)| self.checked(id, verdict)).collect()
    }

    fn checked(self: &Arc<Self>, id: &[u8], verdict: Verdict) -> Sight {
        match verdict.outcome() {
            Outcome::Duplicate => Sight::Duplicate,
            Outcome::Fresh => {
                let checked = Checked { marks: Arc::clone(self), id: id.to_vec(), is_done: false };
                Sight::New(Some(Mark::Checked(checked)))
            }
            // Nobody claims ids of this engine, and no time is refused where none is given: rather
            // handled again than lost.
            _ => Sight::New(None),
        }
    }

    fn claim(&self, id: &[u8], content: Option<&[u8]>) -> Sight {
        let options = ClaimOptions::new().lease(LEASE);
        let options = content.map_or(options, |content| options.fingerprint(content));
        match self.engine.claim_with(id, options) {
            Attempt::Claimed(claim) => Sight::New(Some(Mark::Claimed(claim.into_owned()))),
            // In progress: a message before it in its batch has this id, and no other content.
            Attempt::Duplicate(_) | Attempt::InProgress { .. } => Sight::Duplicate,
            Attempt::Mismatch => Sight::Mismatch,
            // Rather handled again than lost, as above.
            Attempt::TooMany => Sight::New(None),
        }
    }
}

/// The mark of a message.
pub(crate) enum Mark {
    Checked(Checked),
    /// A claim becomes a mark when it is completed. Dropping it takes nothing back but itself.
    Claimed(Claim<'static>),
}

impl Mark {
    /// Takes the mark back: its message is put aside, and not done. (A history cannot forget, and
    /// may take a copy that is sent anew for a duplicate.)
    pub(crate) fn put_aside(self) {
        if let Mark::Checked(mut checked) = self {
            checked.is_done = true;
            checked.marks.engine.forget(&checked.id);
        }
    }

    /// Keeps the mark: its message is done.
    pub(crate) fn keep(self) {
        match self {
            Mark::Checked(mut checked) => checked.is_done = true,
            // It is lost only if somebody else claims ids of this engine. Then it is theirs.
            Mark::Claimed(claim) => _ = claim.complete(),
        }
    }
}

/// A mark that was made on sight.
pub(crate) struct Checked {
    marks: Arc<Marks>,
    id: Vec<u8>,
    is_done: bool,
}

impl Drop for Checked {
    fn drop(&mut self) {
        if !self.is_done && self.marks.engine.forget(&self.id) != Forgotten::Entirely {
            self.marks.stuck.fetch_add(1, Ordering::Relaxed);
        }
    }
}
