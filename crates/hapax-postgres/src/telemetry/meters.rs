//! Counts what becomes of messages that relays and workers claim, for their callers and as metrics;
//! and ids that were marked, as a metric.

use super::backlog::{self, Backlog};
use crate::claims::attempt::{Cause, Failed};
use crate::claims::queue::{Claimed, Fate, Tried, Unfit};
use crate::claims::retry::Retry;
use crate::schema::statements;
use crate::schema::tables::{Queue, Tables};
use crate::{Database, Message};
use hapax::seam::random;
use hapax_store::back_off::jittered;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

#[cfg_attr(not(feature = "metrics"), path = "meters/no_metrics.rs")]
mod recorder;

use recorder::Recorder;
pub(crate) use recorder::{marked, mismatched, routed};

/// The least time between two counts of the waiting messages; counting takes at most a hundredth of
/// the time.
const COUNT_EVERY: Duration = Duration::from_secs(10);
const COUNT_SHARE: u32 = 100;

hapax::counted! {
    /// Counts of what became of the messages of a [`Relay`](crate::Relay) or a
    /// [`Worker`](crate::Worker) since it was made: of all its clones together.
    QueueStats,
    pub(crate) Event in Counts {
        /// Messages that were claimed.
        claimed: Claimed,
        /// Messages that were published or handled.
        done: Done,
        /// Attempts that failed, panics and time-outs included.
        failed: Failed,
        /// Attempts that panicked.
        panicked: Panicked,
        /// Attempts that took too long.
        timed_out: TimedOut,
        /// Attempts that were none, as their handlers said.
        later: Later,
        /// Messages that were given up after an attempt.
        dead: Dead,
        /// Messages that expired before they were tried; they are dead letters, too.
        expired: Expired,
        /// Messages that another worker or relay had when an attempt was to begin: their lease was
        /// over.
        lost: Lost,
        /// Messages that were given back untried.
        released: Released,
        /// The number of times that a topic of a relay paused, as if its broker were away.
        pauses: Paused,
    }
}

/// The counters of a relay or a worker that runs.
pub(crate) struct Meters {
    counts: Arc<Counts>,
    pub(crate) recorder: Recorder,
}

/// Sets the gauges of current activity to zero.
impl Drop for Meters {
    fn drop(&mut self) {
        self.recorder.in_flight(0);
        self.recorder.paused(0, false);
    }
}

impl Meters {
    /// Creates the counters of a consumer or a topic, or of all topics.
    pub(crate) fn new(counts: &Arc<Counts>, queue: Queue, name: Option<&str>) -> Self {
        Meters { counts: Arc::clone(counts), recorder: Recorder::new(queue, name.unwrap_or("*")) }
    }

    /// Records that this happened to messages of these kinds.
    pub(crate) fn happened<'k>(&self, event: Event, kinds: impl IntoIterator<Item = Option<&'k str>>) {
        let mut messages = 0;
        for kind in kinds {
            messages += 1;
            self.recorder.happened(event, kind);
        }
        self.counts.add(event, messages);
    }

    /// Records how an attempt ended, and returns what becomes of its message.
    pub(crate) fn tried(
        &self,
        retry: &Retry,
        position: i64,
        message: &Message,
        attempts: u32,
        failed: Option<&Failed>,
    ) -> Tried {
        let kind = message.kind.as_deref();
        let Some(failed) = failed else {
            self.happened(Event::Done, [kind]);
            self.recorder.lagged(kind, message.enqueued_at);
            return Tried { position, attempts, fate: Fate::Done };
        };
        let tried = Tried::failed(retry, position, attempts, failed);
        self.failed(kind, failed.cause, &tried.fate);
        tried
    }

    /// Records that an attempt failed, and what becomes of its message.
    fn failed(&self, kind: Option<&str>, cause: Cause, fate: &Fate) {
        if matches!(cause, Cause::Later(_)) {
            return self.happened(Event::Later, [kind]);
        }
        self.happened(Event::Failed, [kind]);
        if matches!(fate, Fate::Dead { .. }) {
            self.happened(Event::Dead, [kind]);
        }
        match cause {
            Cause::Panic => self.happened(Event::Panicked, [kind]),
            Cause::TimeOut => self.happened(Event::TimedOut, [kind]),
            Cause::Error | Cause::GaveUp | Cause::Later(_) => {}
        }
    }

    /// Records that a message becomes a dead letter before this is done to it, if it cannot be
    /// tried.
    pub(crate) fn unfit(&self, claimed: &Claimed, done: &str) -> Option<Tried> {
        let kind = claimed.message.kind.as_deref();
        let fate = match claimed.unfit.as_ref()? {
            Unfit::Expired => {
                self.happened(Event::Expired, [kind]);
                Fate::dead(&format!("it expired before it was {done}"))
            }
            Unfit::Unreadable(what) => {
                let fate = Fate::dead(what);
                self.failed(kind, Cause::GaveUp, &fate);
                fate
            }
        };
        Some(Tried { position: claimed.position, attempts: claimed.message.attempts, fate })
    }

    /// Records how long an attempt at some messages took, under the kind that all of them have.
    pub(crate) fn took<'m>(&self, messages: impl IntoIterator<Item = &'m Message>, took: Duration) {
        let mut kinds = messages.into_iter().map(|message| message.kind.as_deref());
        let first = kinds.next().flatten();
        self.recorder.took(first.filter(|_| kinds.all(|kind| kind == first)), took);
    }

    /// Records that so many topics of a relay pause now, and whether one of them has just begun to.
    pub(crate) fn paused(&self, topics: usize, is_new: bool) {
        self.counts.add(Event::Paused, u64::from(is_new));
        self.recorder.paused(topics, is_new);
    }

    /// Counts the waiting messages now and then, if there is a recorder to tell.
    pub(crate) async fn watch(
        &self,
        database: &Database,
        tables: &Tables,
        queue: Queue,
        name: Option<&str>,
    ) -> Infallible {
        if !cfg!(feature = "metrics") {
            return std::future::pending().await;
        }
        let sql = statements::call(tables, &queue.function("figures"), 2);
        loop {
            let began = Instant::now();
            // An error is ignored: the claims find out whether there is a server.
            let rows = database.call("count what waits", &sql, &backlog::values(name)).await;
            if let Ok(backlog) = rows.and_then(|rows| Backlog::of_rows(&rows)) {
                self.recorder.waiting(&backlog);
            }
            let pause = COUNT_EVERY.max(began.elapsed() * COUNT_SHARE);
            tokio::time::sleep(jittered(pause, random::any())).await;
        }
    }
}
