//! The parts of a consumer of a log that all its runs share, and the messages that a run holds.

use super::marks::{Mark, Marks, Sight};
use crate::options::{ANOTHER_CONTENT, OnMissing};
use crate::shared::Shared;
use crate::source::Partition;
use crate::telemetry::event::Event;
use crate::telemetry::meters::KindMeters;
use hapax_message::OnMismatch;
use std::sync::Arc;
use tokio::sync::Semaphore;

/// The memory of a log, in the place of an engine with a store.
pub(crate) struct LogMemory<K> {
    pub(crate) memory: K,
    pub(crate) marks: Arc<Marks>,
    /// A permit for the one message that is tried in an outage.
    pub(crate) alone: Semaphore,
}

pub(crate) type LogShared<M, K> = Shared<LogMemory<K>, M>;

/// A message, and the metrics of its kind, if it is told apart.
pub(crate) struct Held<M> {
    pub(crate) message: Arc<M>,
    pub(crate) kind: Option<Arc<KindMeters>>,
}

impl<M> Clone for Held<M> {
    fn clone(&self) -> Self {
        Held { message: Arc::clone(&self.message), kind: self.kind.clone() }
    }
}

/// The treatment of a message that was received.
pub(crate) enum Sorted {
    /// Nothing: it is done.
    Done,
    /// It is handled.
    Handled(Option<Mark>),
    /// It is put aside, for this reason.
    Aside(&'static str),
}

impl<M, K> LogShared<M, K> {
    /// Returns a message with its kind, which is asked for once.
    pub(crate) fn held(&self, message: M) -> Held<M> {
        Held { kind: self.kind(&message), message: Arc::new(message) }
    }

    /// Says what is to be done about a message, by the engine's answer for its id, if it has one.
    pub(crate) fn sorted(&self, held: &Held<M>, partition: &Partition, sight: Option<Sight>) -> Sorted {
        match sight {
            Some(Sight::New(mark)) => Sorted::Handled(mark),
            Some(Sight::Duplicate) => {
                self.count(held, Event::Duplicate);
                Sorted::Done
            }
            Some(Sight::Mismatch) => {
                self.count(held, Event::Mismatch);
                match self.options.on_mismatch {
                    OnMismatch::DeadLetter => Sorted::Aside(ANOTHER_CONTENT),
                    OnMismatch::Handle => Sorted::Handled(None),
                    OnMismatch::Drop => Sorted::Done,
                }
            }
            None => {
                self.count(held, Event::Missing);
                self.counts.missing(partition);
                match self.options.on_missing {
                    OnMissing::DeadLetter => Sorted::Aside("it has no id, or a blank one"),
                    OnMissing::Drop => Sorted::Done,
                    OnMissing::Pass | OnMissing::Error => Sorted::Handled(None),
                }
            }
        }
    }

    /// Counts what happened to a message.
    pub(crate) fn count(&self, held: &Held<M>, event: Event) {
        self.counts.add_of(held.kind.as_deref(), event, 1);
    }
}
