//! Counts what becomes of messages that relays and workers claim: for their callers, and as metrics.

use super::Backlog;
use super::tables::Queue;
use super::trial::Cause;
use crate::sync::StdAtomicU64;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

#[cfg_attr(not(feature = "metrics"), path = "meters/absent.rs")]
mod recorder;

use recorder::Recorder;

/// What becomes of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    Claimed,
    Done,
    Failed,
    Panicked,
    TimedOut,
    Dead,
    Expired,
    Lost,
    Released,
}

impl Event {
    const ALL: [Event; 9] = [
        Event::Claimed,
        Event::Done,
        Event::Failed,
        Event::Panicked,
        Event::TimedOut,
        Event::Dead,
        Event::Expired,
        Event::Lost,
        Event::Released,
    ];
}

/// What became of the messages of a [`Relay`](super::Relay) or a [`Worker`](super::Worker) since it was made: of all its
/// clones together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueueStats {
    /// Messages that were claimed.
    pub claimed: u64,
    /// Those that were published or handled.
    pub done: u64,
    /// Attempts that failed, panics and time-outs included.
    pub failed: u64,
    /// Attempts that panicked.
    pub panicked: u64,
    /// Attempts that took too long.
    pub timed_out: u64,
    /// Messages that were given up after an attempt.
    pub dead: u64,
    /// Messages that expired before they were tried; they are dead letters, too.
    pub expired: u64,
    /// Messages that somebody else had when an attempt was to begin: their lease was over.
    pub lost: u64,
    /// Messages that were given back untried.
    pub released: u64,
    /// How often a relay paused, since its broker was away.
    pub pauses: u64,
}

/// The numbers behind [`QueueStats`].
#[derive(Default)]
pub(super) struct Counts {
    events: [StdAtomicU64; Event::ALL.len()],
    pauses: StdAtomicU64,
}

impl Counts {
    pub(super) fn stats(&self) -> QueueStats {
        let of = |event: Event| self.events[event as usize].load(Ordering::Relaxed);
        QueueStats {
            claimed: of(Event::Claimed),
            done: of(Event::Done),
            failed: of(Event::Failed),
            panicked: of(Event::Panicked),
            timed_out: of(Event::TimedOut),
            dead: of(Event::Dead),
            expired: of(Event::Expired),
            lost: of(Event::Lost),
            released: of(Event::Released),
            pauses: self.pauses.load(Ordering::Relaxed),
        }
    }
}

impl fmt::Debug for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.stats().fmt(f)
    }
}

/// Where a relay or a worker counts while it runs.
pub(super) struct Meters {
    counts: Arc<Counts>,
    recorder: Recorder,
}

impl Meters {
    /// Of a consumer or a topic, or of all topics.
    pub(super) fn new(counts: &Arc<Counts>, queue: Queue, name: Option<&str>) -> Self {
        Meters { counts: Arc::clone(counts), recorder: Recorder::new(queue, name.unwrap_or("*")) }
    }

    pub(super) fn happened(&self, event: Event, messages: usize) {
        if messages > 0 {
            self.counts.events[event as usize].fetch_add(messages as u64, Ordering::Relaxed);
            self.recorder.happened(event, messages);
        }
    }

    /// An attempt failed.
    pub(super) fn failed(&self, cause: Cause) {
        self.happened(Event::Failed, 1);
        match cause {
            Cause::Panic => self.happened(Event::Panicked, 1),
            Cause::TimeOut => self.happened(Event::TimedOut, 1),
            Cause::Error | Cause::GaveUp => {}
        }
    }

    /// How long publishing or handling took.
    pub(super) fn took(&self, took: Duration) {
        self.recorder.took(took);
    }

    /// A message that was stored then is done.
    pub(super) fn lagged(&self, enqueued_at: SystemTime) {
        self.recorder.lagged(enqueued_at);
    }

    /// So many keys and messages without one are being published or handled.
    pub(super) fn in_flight(&self, runs: usize) {
        self.recorder.in_flight(runs);
    }

    /// A relay has paused, or goes on.
    pub(super) fn paused(&self, is_paused: bool) {
        if is_paused {
            self.counts.pauses.fetch_add(1, Ordering::Relaxed);
        }
        self.recorder.paused(is_paused);
    }

    /// What waits.
    pub(super) fn waiting(&self, backlog: &Backlog) {
        self.recorder.waiting(backlog);
    }
}

/// Returns true if there is anybody to tell what waits.
pub(super) const IS_RECORDED: bool = cfg!(feature = "metrics");
