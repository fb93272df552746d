//! A queue like Amazon SQS: a received message is hidden for a while, and comes again, counted,
//! unless it is deleted.

use hapax_store::sync::lock;
use hapax_stream::Source;
use std::collections::HashMap;
use std::io::Error;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::time::Instant;

static NUMBER: AtomicU64 = AtomicU64::new(0);

/// A received message.
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
    is_given_back: bool,
}

/// The outcome of calls that extend.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Extending {
    #[default]
    Done,
    Fails,
    Hangs,
}

/// A queue of messages until they are deleted, and those that were put aside, with the reasons.
pub struct Queue {
    pub heartbeat: Option<Duration>,
    pub extending: Mutex<Extending>,
    /// The time that it waits for a message to become visible, before it is asked again.
    pub patience: Duration,
    /// True if messages are received though no handler is free for them.
    pub is_hoarded: bool,
    /// The number of extensions with a receipt that was not valid any more.
    pub extended_late: AtomicU64,
    pub most_extended: AtomicU64,
    /// The number of this queue in its process.
    number: u64,
    sent: Mutex<Vec<Sent>>,
    dead: Mutex<HashMap<String, Vec<String>>>,
    visibility: Duration,
}

impl Queue {
    pub fn new(visibility: Duration) -> Self {
        Queue {
            heartbeat: None,
            extending: Mutex::default(),
            patience: Duration::from_millis(20),
            is_hoarded: false,
            extended_late: AtomicU64::new(0),
            most_extended: AtomicU64::new(0),
            number: NUMBER.fetch_add(1, Ordering::Relaxed),
            sent: Mutex::default(),
            dead: Mutex::default(),
            visibility,
        }
    }

    pub fn of(visibility: Duration, ids: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let queue = Self::new(visibility);
        ids.into_iter().for_each(|id| queue.send(id));
        queue
    }

    pub fn send(&self, id: impl Into<String>) {
        let sent =
            Sent { id: id.into(), visible: Instant::now(), deliveries: 0, is_deleted: false, is_given_back: false };
        self.sent().push(sent);
    }

    fn sent(&self) -> MutexGuard<'_, Vec<Sent>> {
        lock(&self.sent)
    }

    /// Delivers messages of this id again, as a queue does that has missed that they were deleted.
    pub fn restore(&self, id: &str) {
        for sent in self.sent().iter_mut().filter(|sent| sent.id == id) {
            (sent.is_deleted, sent.visible) = (false, Instant::now());
        }
    }

    /// Returns the reasons for which messages of this id were put aside, each time.
    pub fn put_aside(&self, id: &str) -> Vec<String> {
        self.dead.lock().unwrap().get(id).cloned().unwrap_or_default()
    }

    pub fn dead(&self) -> Vec<String> {
        self.dead.lock().unwrap().keys().cloned().collect()
    }

    pub fn is_empty(&self) -> bool {
        self.sent().iter().all(|sent| sent.is_deleted)
    }

    /// Returns the largest number of deliveries of a message of this id.
    pub fn deliveries(&self, id: &str) -> u32 {
        self.sent().iter().filter(|sent| sent.id == id).map(|sent| sent.deliveries).max().unwrap_or(0)
    }

    /// Receives everything, as a consumer that then dies.
    pub fn receive_in_vain(&self) {
        let visibility = self.visibility;
        for sent in self.sent().iter_mut() {
            sent.visible = Instant::now() + visibility;
            sent.deliveries += 1;
        }
    }

    /// Waits until all is deleted.
    pub async fn emptied(&self) {
        while !self.is_empty() {
            tokio::time::sleep(self.patience / 2).await;
        }
    }
}

impl Source for Queue {
    type Message = Received;
    type Error = Error;

    async fn receive(&self, max: usize) -> Result<Option<Vec<Received>>, Error> {
        let (mut received, now) = (Vec::new(), Instant::now());
        for (place, sent) in self.sent().iter_mut().enumerate() {
            if received.len() < max && !sent.is_deleted && sent.visible <= now {
                (sent.visible, sent.is_given_back) = (now + self.visibility, false);
                sent.deliveries += 1;
                received.push(Received { id: sent.id.clone(), deliveries: sent.deliveries, place });
            }
        }
        if received.is_empty() {
            tokio::time::sleep(self.patience).await;
        }
        Ok(Some(received))
    }

    async fn acknowledge(&self, messages: &[Arc<Received>]) -> Result<(), Error> {
        let mut sent = self.sent();
        messages.iter().for_each(|message| sent[message.place].is_deleted = true);
        Ok(())
    }

    async fn retry(&self, message: &Arc<Received>, after: Duration) -> Result<(), Error> {
        let sent = &mut self.sent()[message.place];
        (sent.visible, sent.is_given_back) = (Instant::now() + after, true);
        Ok(())
    }

    async fn dead_letter(&self, message: &Arc<Received>, why: &str) -> Result<(), Error> {
        self.dead.lock().unwrap().entry(message.id.clone()).or_default().push(why.to_owned());
        Ok(())
    }

    fn heartbeat(&self) -> Option<Duration> {
        self.heartbeat
    }

    fn keeps_received(&self) -> bool {
        self.is_hoarded || self.heartbeat.is_some()
    }

    async fn extend(&self, messages: &[Arc<Received>]) -> Result<(), Error> {
        let extending = *self.extending.lock().unwrap();
        match extending {
            Extending::Done => {}
            Extending::Fails => return Err(Error::other("the receipt has expired")),
            Extending::Hangs => std::future::pending().await,
        }
        self.most_extended.fetch_max(messages.len() as u64, Ordering::Relaxed);
        for message in messages {
            let sent = &mut self.sent()[message.place];
            let is_out = !sent.is_deleted && sent.deliveries == message.deliveries && sent.visible > Instant::now();
            if is_out && !sent.is_given_back {
                sent.visible = Instant::now() + self.visibility;
            } else {
                _ = self.extended_late.fetch_add(1, Ordering::Relaxed);
            }
        }
        Ok(())
    }

    fn deliveries(&self, message: &Received) -> Option<u32> {
        Some(message.deliveries)
    }

    fn sent_as(&self, message: &Received) -> Option<Vec<u8>> {
        Some(format!("{}/{}", self.number, message.place).into())
    }
}
