//! Publishes claimed messages: one message after the other, or the first of many keys at once.

use crate::Publisher;
use crate::claims::attempt::{self, Cause, Failed};
use crate::claims::queue::{Claimed, Outcome, Run};
use crate::claims::retry::Retry;
use crate::relay::breaker::{Breakers, Change, Signal};
use crate::telemetry::meters::{Event, Meters};
use crate::telemetry::spans;
use crate::{BoxError, Message};
use hapax::seam::random;
use hapax_store::sync::{Mutex, MutexGuard, Ordering, StdAtomicBool, StdAtomicU64};
use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::time::Instant;

/// The state that all publications of a relay share.
pub(super) struct Publishing<P> {
    publisher: Arc<P>,
    retry: Retry,
    timeout: Duration,
    breakers: Mutex<Breakers>,
    /// True if the publisher has batches, once that is known.
    has_batches: OnceLock<bool>,
    in_flight: Arc<InFlight>,
    /// True once the messages that were claimed and not begun are to be given back.
    is_stopping: StdAtomicBool,
    pub(super) meters: Arc<Meters>,
}

/// The runs, and their bytes, that are claimed and not at their end.
#[derive(Default)]
struct InFlight {
    runs: StdAtomicU64,
    bytes: StdAtomicU64,
}

/// Messages of one key on their way, and the outcome of those in front.
pub(super) struct OpenRun {
    outcome: Outcome,
    /// True if it probes whether its topic's messages can be published.
    is_probe: bool,
    left: VecDeque<Claimed>,
    begin_until: Instant,
    _held: Held,
}

/// A run that counts as in flight until it is dropped, wherever that is.
struct Held {
    in_flight: Arc<InFlight>,
    bytes: u64,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.in_flight.runs.fetch_sub(1, Ordering::Relaxed);
        self.in_flight.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl<P: Publisher> Publishing<P> {
    pub(super) fn new(publisher: Arc<P>, retry: Retry, timeout: Duration, meters: Meters) -> Self {
        let (breakers, has_batches, in_flight) = (Mutex::default(), OnceLock::new(), Arc::default());
        let meters = Arc::new(meters);
        let is_stopping = StdAtomicBool::new(false);
        Publishing { publisher, retry, timeout, breakers, has_batches, in_flight, is_stopping, meters }
    }

    /// Begins no more publications.
    pub(super) fn stop(&self) {
        self.is_stopping.store(true, Ordering::Relaxed);
    }

    /// Returns the keys and messages without one that are in flight, and their bytes.
    pub(super) fn in_flight(&self) -> (usize, usize) {
        // Relaxed, as all of these: nothing else is published with a count.
        let of = |count: &StdAtomicU64| usize::try_from(count.load(Ordering::Relaxed)).unwrap_or(usize::MAX);
        (of(&self.in_flight.runs), of(&self.in_flight.bytes))
    }

    /// Returns the topics that pause.
    pub(super) fn breakers(&self) -> MutexGuard<'_, Breakers> {
        self.breakers.lock().expect("nothing panics while it holds this")
    }

    /// Returns how many batches may be in flight: the next is claimed while one is published.
    pub(super) fn batches(&self) -> usize {
        if self.has_batches.get() == Some(&true) { 2 } else { 1 }
    }

    /// Returns true if many messages are given to the publisher at once, as far as is known.
    pub(super) fn is_batching(&self) -> bool {
        self.has_batches.get() != Some(&false)
    }

    /// Wraps claimed messages of which none begins later than `begin_until`.
    pub(super) fn open(&self, run: Run, is_probe: bool, begin_until: Instant) -> OpenRun {
        let bytes = run.messages.iter().map(|claimed| bytes(&claimed.message) as u64).sum();
        self.in_flight.runs.fetch_add(1, Ordering::Relaxed);
        self.in_flight.bytes.fetch_add(bytes, Ordering::Relaxed);
        let held = Held { in_flight: Arc::clone(&self.in_flight), bytes };
        OpenRun { outcome: run.outcome(), is_probe, left: run.messages.into(), begin_until, _held: held }
    }

    /// Publishes messages of a key one after the other, up to the first that fails. The others are
    /// given back, and so are those for which no time is left.
    pub(super) async fn singly(&self, mut run: OpenRun) -> Outcome {
        while let Some(claimed) = self.next(&mut run) {
            let began = Instant::now();
            let publishing = attempt::run(self.timeout, async { self.publisher.publish(&claimed.message).await });
            let tried = spans::publishing(&claimed.message, publishing).await;
            self.meters.took([&claimed.message], began.elapsed());
            if !self.tried(&mut run, claimed.position, &claimed.message, tried) {
                break;
            }
        }
        self.over(run)
    }

    /// Publishes the first messages of these keys at once, then the next of each, and so on.
    /// Returns the runs if the publisher has no batches: none was published then.
    pub(super) async fn together(&self, mut runs: Vec<OpenRun>) -> Result<Vec<Outcome>, Vec<OpenRun>> {
        let mut going: Vec<usize> = (0..runs.len()).collect();
        loop {
            let head = |run: &usize| self.next(&mut runs[*run]).map(|head| ((*run, head.position), head.message));
            let (tries, messages): (Vec<(usize, i64)>, Vec<Message>) = going.iter().filter_map(head).unzip();
            if messages.is_empty() {
                return Ok(runs.into_iter().map(|run| self.over(run)).collect());
            }
            let began = Instant::now();
            let publishing = attempt::limited(self.timeout, async { self.publisher.publish_batch(&messages).await });
            let answers = spans::publishing_batch(&messages, publishing).await;
            if matches!(answers, Ok(None)) && !*self.has_batches.get_or_init(|| false) {
                for ((run, position), message) in tries.into_iter().zip(messages) {
                    runs[run].left.push_front(Claimed { position, message, unfit: None, was_lost: false });
                }
                return Err(runs);
            }
            if matches!(answers, Ok(Some(_))) {
                self.has_batches.get_or_init(|| true);
            }
            self.meters.took(&messages, began.elapsed());
            going.clear();
            let answers = answered(answers, messages.len());
            for (((run, position), message), answer) in tries.into_iter().zip(&messages).zip(answers) {
                if self.tried(&mut runs[run], position, message, answer) {
                    going.push(run);
                }
            }
        }
    }

    /// Returns the next message, if it may be published now. One that has expired or cannot be read
    /// becomes a dead letter, and holds up no other.
    fn next(&self, run: &mut OpenRun) -> Option<Claimed> {
        while let Some(tried) = self.meters.unfit(run.left.front()?, "published") {
            run.left.pop_front();
            run.outcome.fates.push(tried);
        }
        if Instant::now() >= run.begin_until || self.is_stopping.load(Ordering::Relaxed) {
            return None;
        }
        if !run.is_probe && self.breakers().is_paused(&run.outcome.name) {
            return None;
        }
        run.left.pop_front()
    }

    /// Records how an attempt ended. Returns true if the next message of the key may follow.
    fn tried(&self, run: &mut OpenRun, position: i64, message: &Message, tried: Result<(), Failed>) -> bool {
        let attempts = message.attempts.saturating_add(1);
        run.outcome.fates.push(self.meters.tried(&self.retry, position, message, attempts, tried.as_ref().err()));
        let signal = match &tried {
            Ok(()) => Signal::Success,
            Err(Failed { cause: Cause::GaveUp, .. }) => Signal::Nothing,
            Err(_) if message.attempts > 0 => Signal::Nothing,
            Err(_) => Signal::Failure,
        };
        let mut breakers = self.breakers();
        // A success needs no random number, which takes a call of the system.
        let random = if signal == Signal::Success { 0 } else { random::any() };
        if let Some(change) = breakers.ended(&run.outcome.name, run.is_probe, signal, Instant::now(), random) {
            self.meters.paused(breakers.paused(), change == Change::Paused);
        }
        tried.is_ok()
    }

    /// Ends a run: no more of its messages are published.
    fn over(&self, run: OpenRun) -> Outcome {
        self.meters.happened(Event::Released, run.left.iter().map(|claimed| claimed.message.kind.as_deref()));
        if run.is_probe {
            self.breakers().probed(&run.outcome.name, Instant::now(), random::any());
        }
        run.outcome
    }
}

/// Returns an answer for each message, however the batch ended.
fn answered(answers: Result<Option<Vec<Result<(), BoxError>>>, Failed>, messages: usize) -> Vec<Result<(), Failed>> {
    let failed = match answers {
        Ok(Some(answers)) if answers.len() == messages => {
            return answers.into_iter().map(|answer| answer.map_err(|error| Failed::of(&error))).collect();
        }
        Ok(Some(answers)) => {
            let error = format!("expected {messages} answers of publish_batch, got {}", answers.len());
            Failed::new(Cause::Error, error)
        }
        Ok(None) => Failed::new(Cause::Error, format!("expected {messages} answers of publish_batch, got None")),
        Err(failed) => Failed::new(failed.cause, format!("publish_batch of {messages} messages: {}", failed.error)),
    };
    vec![Err(failed); messages]
}

/// Returns the bytes of memory that a message takes, and a little more.
fn bytes(message: &Message) -> usize {
    let headers: usize = message.headers.iter().map(|(name, value)| name.len() + value.len()).sum();
    let described = [&message.kind, &message.source, &message.subject];
    let described: usize = described.into_iter().flatten().map(String::len).sum();
    message.payload.len() + message.id.len() + message.key.as_ref().map_or(0, Vec::len) + headers + described
}

#[cfg(test)]
mod tests;
