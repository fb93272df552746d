//! A queue like Amazon SQS: a received message is hidden for a while, and comes again, counted,
//! unless it is deleted. One with keys is like a FIFO queue: while messages of a key are hidden, no
//! others of it are delivered. It never fails, and keeps the record of handlers' runs.

use crate::simulation::broker::now;
use crate::simulation::effects::{PutAside, Run};
use hapax_store::sync::lock;
use hapax_stream::Source;
use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

/// The troubles that handlers have with a message.
#[derive(Clone, Debug)]
pub struct Message {
    pub id: String,
    /// The group of the message, if the queue has groups.
    pub key: Option<u64>,
    /// The time that it takes to handle it.
    pub takes: Duration,
    /// The number of first attempts that never end.
    pub hangs: u32,
    /// The number of attempts after these that fail.
    pub fails: u32,
}

pub struct Queue {
    visibility: Duration,
    state: Mutex<State>,
}

struct State {
    sent: Vec<Sent>,
    runs: Vec<Run>,
    put_aside: Vec<PutAside>,
}

struct Sent {
    message: Message,
    visible: Duration,
    deliveries: u32,
    is_deleted: bool,
}

/// A delivery. Its number is its receipt: only the latest one's holder can put the next one off.
#[derive(Debug)]
pub struct Received {
    pub message: Message,
    place: usize,
    delivery: u32,
}

impl Queue {
    pub fn new(visibility: Duration, messages: &[Message]) -> Self {
        let sent = |message: &Message| Sent {
            message: message.clone(),
            visible: Duration::ZERO,
            deliveries: 0,
            is_deleted: false,
        };
        let state = State { sent: messages.iter().map(sent).collect(), runs: Vec::new(), put_aside: Vec::new() };
        Queue { visibility, state: Mutex::new(state) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Returns messages that were not deleted.
    pub fn open(&self) -> Vec<String> {
        self.lock().sent.iter().filter(|sent| !sent.is_deleted).map(|sent| sent.message.id.clone()).collect()
    }

    pub fn runs(&self) -> Vec<Run> {
        self.lock().runs.clone()
    }

    pub fn put_aside(&self) -> Vec<PutAside> {
        self.lock().put_aside.clone()
    }

    /// Records that a handler begins. Returns its number, and how many of this id began before.
    pub fn begin(&self, client: usize, id: &str) -> (usize, u32) {
        let mut state = self.lock();
        let before = state.runs.iter().filter(|run| run.id == id).count() as u32;
        state.runs.push(Run { client, id: id.to_owned(), began: now(), done: None, has_failed: false });
        (state.runs.len() - 1, before)
    }

    /// Records that the effect is there.
    pub fn done(&self, run: usize) {
        self.lock().runs[run].done = Some(now());
    }

    pub fn failed(&self, run: usize) {
        self.lock().runs[run].has_failed = true;
    }

    fn deliver(&self, max: usize) -> Vec<Received> {
        let (mut received, mut state) = (Vec::new(), self.lock());
        let hidden = state.sent.iter().filter(|sent| !sent.is_deleted && sent.visible > now());
        let closed: BTreeSet<u64> = hidden.filter_map(|sent| sent.message.key).collect();
        for (place, sent) in state.sent.iter_mut().enumerate() {
            let is_closed = sent.message.key.is_some_and(|key| closed.contains(&key));
            if received.len() < max && !sent.is_deleted && sent.visible <= now() && !is_closed {
                sent.visible = now() + self.visibility;
                sent.deliveries += 1;
                received.push(Received { message: sent.message.clone(), place, delivery: sent.deliveries });
            }
        }
        received
    }

    /// Delays the next delivery by this much, if this is the latest one.
    fn put_off(&self, received: &Received, by: Duration) {
        let sent = &mut self.lock().sent[received.place];
        if sent.deliveries == received.delivery {
            sent.visible = now() + by;
        }
    }
}

/// The queue's side from which a consumer receives.
pub struct Inlet {
    pub queue: Arc<Queue>,
    pub heartbeat: Option<Duration>,
}

impl Source for Inlet {
    type Message = Received;
    type Error = Infallible;

    async fn receive(&self, max: usize) -> Result<Option<Vec<Received>>, Infallible> {
        let received = self.queue.deliver(max);
        if received.is_empty() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(Some(received))
    }

    async fn acknowledge(&self, messages: &[Arc<Received>]) -> Result<(), Infallible> {
        let mut state = self.queue.lock();
        messages.iter().for_each(|message| state.sent[message.place].is_deleted = true);
        Ok(())
    }

    async fn retry(&self, message: &Arc<Received>, after: Duration) -> Result<(), Infallible> {
        self.queue.put_off(message, after);
        Ok(())
    }

    async fn dead_letter(&self, message: &Arc<Received>, why: &str) -> Result<(), Infallible> {
        let id = message.message.id.clone();
        self.queue.lock().put_aside.push(PutAside { id, why: why.to_owned(), at: now() });
        Ok(())
    }

    fn heartbeat(&self) -> Option<Duration> {
        self.heartbeat
    }

    async fn extend(&self, messages: &[Arc<Received>]) -> Result<(), Infallible> {
        messages.iter().for_each(|message| self.queue.put_off(message, self.queue.visibility));
        Ok(())
    }

    fn deliveries(&self, message: &Received) -> Option<u32> {
        Some(message.delivery)
    }
}
