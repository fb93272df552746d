//! A queue as Amazon SQS is one: what is received is hidden for a while, and comes again, counted,
//! unless it is deleted.

use hapax::stream::Source;
use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::time::Instant;

/// What was received.
#[derive(Clone, Debug)]
pub struct Received {
    pub id: String,
    pub deliveries: u32,
    place: usize,
}

struct Sent {
    id: String,
    visible: Instant,
    deliveries: u32,
    is_deleted: bool,
}

/// Messages until they are deleted, and what was put aside, with why.
pub struct Queue {
    sent: Mutex<Vec<Sent>>,
    dead: Mutex<HashMap<String, Vec<String>>>,
    visibility: Duration,
}

impl Queue {
    pub fn new(visibility: Duration) -> Self {
        Queue { sent: Mutex::default(), dead: Mutex::default(), visibility }
    }

    pub fn of(visibility: Duration, ids: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let queue = Self::new(visibility);
        ids.into_iter().for_each(|id| queue.send(id));
        queue
    }

    pub fn send(&self, id: impl Into<String>) {
        let sent = Sent { id: id.into(), visible: Instant::now(), deliveries: 0, is_deleted: false };
        self.sent().push(sent);
    }

    fn sent(&self) -> MutexGuard<'_, Vec<Sent>> {
        self.sent.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Why messages of this id were put aside, each time that they were.
    pub fn put_aside(&self, id: &str) -> Vec<String> {
        self.dead.lock().unwrap().get(id).cloned().unwrap_or_default()
    }

    pub fn dead(&self) -> Vec<String> {
        self.dead.lock().unwrap().keys().cloned().collect()
    }

    pub fn is_empty(&self) -> bool {
        self.sent().iter().all(|sent| sent.is_deleted)
    }

    /// The largest number of deliveries of a message of this id.
    pub fn deliveries(&self, id: &str) -> u32 {
        self.sent().iter().filter(|sent| sent.id == id).map(|sent| sent.deliveries).max().unwrap_or(0)
    }

    /// Somebody receives everything, and dies with it.
    pub fn receive_in_vain(&self) {
        let visibility = self.visibility;
        for sent in self.sent().iter_mut() {
            sent.visible = Instant::now() + visibility;
            sent.deliveries += 1;
        }
    }

    /// Until all is deleted.
    pub async fn emptied(&self) {
        while !self.is_empty() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

impl Source for Queue {
    type Message = Received;
    type Error = Infallible;

    async fn receive(&self, max: usize) -> Result<Option<Vec<Received>>, Infallible> {
        let (mut received, now) = (Vec::new(), Instant::now());
        for (place, sent) in self.sent().iter_mut().enumerate() {
            if received.len() < max && !sent.is_deleted && sent.visible <= now {
                sent.visible = now + self.visibility;
                sent.deliveries += 1;
                received.push(Received { id: sent.id.clone(), deliveries: sent.deliveries, place });
            }
        }
        if received.is_empty() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(Some(received))
    }

    async fn acknowledge(&self, messages: &[Arc<Received>]) -> Result<(), Infallible> {
        let mut sent = self.sent();
        messages.iter().for_each(|message| sent[message.place].is_deleted = true);
        Ok(())
    }

    async fn retry(&self, message: &Arc<Received>, after: Duration) -> Result<(), Infallible> {
        self.sent()[message.place].visible = Instant::now() + after;
        Ok(())
    }

    async fn dead_letter(&self, message: &Arc<Received>, why: &str) -> Result<(), Infallible> {
        self.dead.lock().unwrap().entry(message.id.clone()).or_default().push(why.to_owned());
        Ok(())
    }

    fn deliveries(&self, message: &Received) -> Option<u32> {
        Some(message.deliveries)
    }
}
