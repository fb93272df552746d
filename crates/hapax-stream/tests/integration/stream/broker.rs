//! A broker that delivers at least once, and checks the acknowledgements.

use super::Store as TestStore;
use hapax_store::{Known, RecordKey, Scope, Store};
use hapax_stream::{Acks, Partition, Source};
use std::collections::{HashMap, HashSet, VecDeque};
use std::io::Error;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;

/// A delivery of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The number of the delivery: its place in the log.
    pub offset: usize,
    pub partition: u32,
    pub id: Option<String>,
    pub deliveries: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Queued,
    Out,
    Acknowledged,
}

/// The state of the broker.
#[derive(Default)]
pub struct State {
    log: Vec<(Message, Fate)>,
    ready: VecDeque<usize>,
    later: Vec<(Instant, usize)>,
    /// The partitions whose messages nobody may acknowledge.
    released: HashSet<u32>,
    pub acknowledged: Vec<usize>,
    pub dead: HashMap<usize, String>,
    pub retried: Vec<(usize, Duration)>,
    pub releases: Vec<Vec<Partition>>,
    pub most_out: usize,
    is_closed: bool,
}

impl State {
    /// Assigns the partition to the consumer again: messages that it had not acknowledged are
    /// delivered again.
    pub fn reassign(&mut self, partition: u32) {
        self.released.remove(&partition);
        let of_it = |i: &usize| self.log[*i].0.partition == partition && self.log[*i].1 != Fate::Acknowledged;
        let again: Vec<usize> = (0..self.log.len()).filter(of_it).collect();
        self.later.retain(|(_, offset)| !again.contains(offset));
        self.ready.retain(|offset| !again.contains(offset));
        self.ready.extend(again);
    }
}

pub struct Broker {
    store: TestStore,
    acks: Acks,
    counts_deliveries: bool,
    /// Ids that need not be completed when they are acknowledged.
    pub lenient: bool,
    /// True if messages have positions. (Each checkpoint has something to write then, and in paused
    /// time nobody waits for a journal's thread.)
    pub has_positions: bool,
    state: Mutex<State>,
    changed: Notify,
    revoke: mpsc::UnboundedSender<Vec<Partition>>,
    revoked: tokio::sync::Mutex<mpsc::UnboundedReceiver<Vec<Partition>>>,
    pub scope_of: fn(u32) -> String,
    pub refuses: Mutex<HashSet<&'static str>>,
    /// The time that acknowledgements and dead letters take.
    pub takes: Duration,
}

impl Broker {
    pub fn new(store: &TestStore, acks: Acks) -> Self {
        let (revoke, revoked) = mpsc::unbounded_channel();
        Broker {
            store: Arc::clone(store),
            acks,
            counts_deliveries: false,
            lenient: false,
            has_positions: false,
            state: Mutex::default(),
            changed: Notify::new(),
            revoke,
            revoked: tokio::sync::Mutex::new(revoked),
            scope_of: |_| "orders".to_owned(),
            refuses: Mutex::default(),
            takes: Duration::from_millis(1),
        }
    }

    pub fn counting_deliveries(self) -> Self {
        Broker { counts_deliveries: true, ..self }
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Queues a message.
    pub fn send(&self, partition: u32, id: impl Into<Option<&'static str>>) -> usize {
        self.send_id(partition, id.into().map(str::to_owned))
    }

    pub fn send_id(&self, partition: u32, id: Option<String>) -> usize {
        let mut state = self.state();
        let offset = state.log.len();
        state.log.push((Message { offset, partition, id, deliveries: 0 }, Fate::Queued));
        state.ready.push_back(offset);
        self.changed.notify_one();
        offset
    }

    /// Ends the messages: consumers end when all are acknowledged.
    pub fn close(&self) {
        self.state().is_closed = true;
        self.changed.notify_one();
    }

    pub fn refuse(&self, call: &'static str) {
        self.refuses.lock().unwrap().insert(call);
    }

    /// Takes partitions away from the consumer.
    pub fn revoke(&self, partitions: impl IntoIterator<Item = u32>) {
        self.revoke.send(partitions.into_iter().map(partition).collect()).unwrap();
    }

    /// Reconnects after the consumer is gone: everything that is not acknowledged is delivered
    /// again, in order.
    pub fn reconnect(&self) {
        let mut state = self.state();
        state.later.clear();
        state.released.clear();
        state.ready = (0..state.log.len()).filter(|&i| state.log[i].1 != Fate::Acknowledged).collect();
        for offset in state.ready.clone() {
            state.log[offset].1 = Fate::Queued;
        }
    }

    pub fn is_done(&self) -> bool {
        self.state().log.iter().all(|(_, fate)| *fate == Fate::Acknowledged)
    }

    /// Returns deliveries that are out, and not acknowledged.
    pub fn out(&self) -> Vec<usize> {
        let state = self.state();
        (0..state.log.len()).filter(|&i| state.log[i].1 == Fate::Out).collect()
    }

    fn take(&self, max: usize) -> Option<Vec<Message>> {
        let mut state = self.state();
        let now = Instant::now();
        let due: Vec<usize> = state.later.extract_if(.., |(due, _)| *due <= now).map(|(_, offset)| offset).collect();
        state.ready.extend(due);
        let count = max.min(state.ready.len());
        let taken: Vec<usize> = state.ready.drain(..count).collect();
        let messages = taken.into_iter().map(|offset| {
            let (message, fate) = &mut state.log[offset];
            message.deliveries += 1;
            *fate = Fate::Out;
            message.clone()
        });
        let messages: Vec<Message> = messages.collect();
        let out = state.log.iter().filter(|(_, fate)| *fate == Fate::Out).count();
        state.most_out = state.most_out.max(out);
        let all_done = state.is_closed && state.log.iter().all(|(_, fate)| *fate == Fate::Acknowledged);
        (!messages.is_empty()).then_some(messages).or_else(|| all_done.then(Vec::new))
    }

    fn refused(&self, call: &str) -> Result<(), Error> {
        let refuses = self.refuses.lock().unwrap().contains(call);
        if refuses { Err(Error::other("the broker refuses, as it was asked to")) } else { Ok(()) }
    }

    /// Returns true if a message is done, as the store knows.
    async fn is_completed(&self, message: &Message) -> bool {
        let Some(id) = &message.id else { return true };
        let key = RecordKey::new(&Scope::new(&(self.scope_of)(message.partition)).unwrap(), id);
        matches!(self.store.inner().look_up(&[key]).await.unwrap()[0], Ok(Known::Completed(_)))
    }
}

pub fn partition(number: u32) -> Partition {
    Partition::new("topic", number)
}

impl Source for Broker {
    type Message = Message;
    type Error = Error;

    async fn receive(&self, max: usize) -> Result<Option<Vec<Message>>, Error> {
        loop {
            self.refused("receive")?;
            match self.take(max) {
                Some(messages) if messages.is_empty() => return Ok(None),
                Some(messages) => return Ok(Some(messages)),
                None => {}
            }
            let next = self.state().later.iter().map(|(due, _)| *due).min();
            let patience = Instant::now() + Duration::from_secs(20);
            tokio::select! {
                () = self.changed.notified() => {}
                () = tokio::time::sleep_until(next.unwrap_or(patience)) => {
                    if next.is_none() {
                        return Ok(Some(Vec::new()));
                    }
                }
            }
        }
    }

    async fn acknowledge(&self, messages: &[Arc<Message>]) -> Result<(), Error> {
        self.refused("acknowledge")?;
        assert!(!messages.is_empty(), "nothing is acknowledged");
        tokio::time::sleep(self.takes).await;
        for message in messages {
            let covered: Vec<Message> = match self.acks {
                Acks::Each => vec![Message::clone(message)],
                Acks::Cumulative => {
                    let is_covered = |other: &&(Message, Fate)| {
                        let is_before = other.0.partition == message.partition && other.0.offset <= message.offset;
                        is_before && other.1 != Fate::Acknowledged
                    };
                    self.state().log.iter().filter(is_covered).map(|(message, _)| message.clone()).collect()
                }
            };
            for message in covered {
                let is_aside = self.lenient || self.state().dead.contains_key(&message.offset);
                let is_completed = is_aside || self.is_completed(&message).await;
                assert!(is_completed, "{message:?} is acknowledged, and the store does not know that it is done");
                let mut state = self.state();
                assert!(!state.released.contains(&message.partition), "{message:?} is acknowledged after its release");
                state.log[message.offset].1 = Fate::Acknowledged;
                state.acknowledged.push(message.offset);
            }
        }
        self.changed.notify_one();
        Ok(())
    }

    async fn retry(&self, message: &Arc<Message>, after: Duration) -> Result<(), Error> {
        self.refused("retry")?;
        assert_eq!(self.acks, Acks::Each, "a cumulative broker takes nothing back");
        let mut state = self.state();
        state.retried.push((message.offset, after));
        state.log[message.offset].1 = Fate::Queued;
        state.later.push((Instant::now() + after, message.offset));
        self.changed.notify_one();
        Ok(())
    }

    async fn dead_letter(&self, message: &Arc<Message>, why: &str) -> Result<(), Error> {
        self.refused("dead_letter")?;
        tokio::time::sleep(self.takes).await;
        self.state().dead.insert(message.offset, why.to_owned());
        Ok(())
    }

    fn acks(&self) -> Acks {
        self.acks
    }

    fn position(&self, message: &Message) -> Option<Vec<u8>> {
        self.has_positions.then(|| (message.offset + 1).to_string().into_bytes())
    }

    fn partition(&self, message: &Message) -> Partition {
        partition(message.partition)
    }

    fn deliveries(&self, message: &Message) -> Option<u32> {
        self.counts_deliveries.then_some(message.deliveries)
    }

    fn sent_as(&self, message: &Message) -> Option<Vec<u8>> {
        Some(message.offset.to_le_bytes().into())
    }

    /// Returns true: it delivers nothing again before its consumer is gone.
    fn keeps_received(&self) -> bool {
        true
    }

    async fn revoked(&self) -> Vec<Partition> {
        self.revoked.lock().await.recv().await.expect("the broker has the other end")
    }

    async fn released(&self, partitions: &[Partition]) {
        let mut state = self.state();
        state.releases.push(partitions.to_vec());
        let State { log, ready, .. } = &mut *state;
        ready.retain(|offset| !partitions.contains(&partition(log[*offset].0.partition)));
        state.released.extend(partitions.iter().map(|partition| partition.number));
    }
}
