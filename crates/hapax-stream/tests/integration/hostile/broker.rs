//! A queue that delivers what is not acknowledged in time again, misses acknowledgements, and sends
//! anew what was put aside.

use super::{IDS, Place, TROUBLE, World};
use hapax_stream::Source;
use std::convert::Infallible;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// For so long a received message is hidden from others.
const HIDDEN: Duration = Duration::from_secs(45);
/// After so long what was put aside is sent anew.
const REDRIVEN: Duration = Duration::from_secs(300);
/// So often a message is delivered that is given back by others than a `Consumer`.
const DELIVERIES_MAX: u32 = 5;

/// A delivery.
#[derive(Clone, Debug)]
pub struct Message {
    pub id: String,
    pub place: usize,
    pub deliveries: u32,
}

struct Sent {
    id: String,
    visible: Instant,
    deliveries: u32,
    missed: u32,
    is_done: bool,
}

#[derive(Clone)]
pub struct Broker {
    world: Arc<World>,
    sent: Arc<Mutex<Vec<Sent>>>,
    /// Ids that were put aside, and the times at which they are sent anew.
    aside: Arc<Mutex<Vec<(String, Instant)>>>,
}

impl Broker {
    /// Returns a queue with all ids, some of them twice, each at its time.
    pub fn new(world: &Arc<World>) -> Self {
        let broker = Broker { world: Arc::clone(world), sent: Arc::default(), aside: Arc::default() };
        for n in 0..IDS {
            // Four at a time, so that there are batches.
            let at = world.begun + TROUBLE * (n as u32 / 4) / (IDS as u32 / 4 + 1);
            broker.send(format!("m-{n}"), at);
            if world.below(3) == 0 {
                broker.send(format!("m-{n}"), at + Duration::from_millis(world.below(100_000)));
            }
        }
        broker
    }

    fn sent(&self) -> MutexGuard<'_, Vec<Sent>> {
        self.sent.lock().unwrap()
    }

    fn send(&self, id: String, visible: Instant) {
        self.sent().push(Sent { id, visible, deliveries: 0, missed: 0, is_done: false });
    }

    /// Returns all messages in the order in which they were sent.
    pub fn log(&self) -> Vec<String> {
        self.sent().iter().map(|sent| sent.id.clone()).collect()
    }

    /// Acknowledges everything, as by an offset.
    pub fn all_done(&self) {
        self.sent().iter_mut().for_each(|sent| sent.is_done = true);
    }

    pub fn is_finished(&self) -> bool {
        self.sent().iter().all(|sent| sent.is_done) && self.aside.lock().unwrap().is_empty()
    }

    /// Waits for messages. Returns none when all are done.
    pub async fn take(&self, max: usize) -> Option<Vec<Message>> {
        while !self.is_finished() {
            let (mut taken, now) = (Vec::new(), Instant::now());
            for (place, sent) in self.sent().iter_mut().enumerate() {
                if taken.len() < max && !sent.is_done && sent.visible <= now {
                    sent.visible = now + HIDDEN;
                    sent.deliveries += 1;
                    taken.push(Message { id: sent.id.clone(), place, deliveries: sent.deliveries });
                }
            }
            if !taken.is_empty() {
                return Some(taken);
            }
            // (At random, or it would always be the same process that is first.)
            sleep(Duration::from_millis(500 + self.world.below(1_000))).await;
            self.redrive();
        }
        None
    }

    /// Sends anew what was put aside long enough ago.
    fn redrive(&self) {
        let now = Instant::now();
        let due: Vec<_> = self.aside.lock().unwrap().extract_if(.., |(_, due)| *due <= now).collect();
        due.into_iter().for_each(|(id, _)| self.send(id, now));
    }

    /// Acknowledges a delivery. The broker may miss that, and deliver it again.
    pub fn done(&self, place: usize) {
        let misses = self.world.below(6) == 0;
        let sent = &mut self.sent()[place];
        if misses && sent.missed < 2 {
            (sent.missed, sent.visible) = (sent.missed + 1, Instant::now() + HIDDEN);
        } else {
            sent.is_done = true;
        }
    }

    /// Gives a delivery back, whose message is put aside if it was delivered too often.
    pub fn failed(&self, place: usize) {
        let deliveries = self.sent()[place].deliveries;
        if deliveries < DELIVERIES_MAX {
            self.again(place, Duration::from_secs(5) * deliveries)
        } else {
            self.put_aside(place);
            self.sent()[place].is_done = true;
        }
    }

    fn again(&self, place: usize, after: Duration) {
        self.sent()[place].visible = Instant::now() + after;
    }

    fn put_aside(&self, place: usize) {
        let id = self.sent()[place].id.clone();
        self.aside.lock().unwrap().push((id, Instant::now() + REDRIVEN));
    }

    /// Returns the place of a delivery of this id that is out.
    fn out(&self, id: &str) -> usize {
        let sent = self.sent();
        let is_out = |sent: &Sent| sent.id == id && sent.deliveries > 0 && !sent.is_done;
        let any = || sent.iter().position(|sent| sent.id == id);
        sent.iter().position(is_out).or_else(any).expect("it was sent")
    }
}

/// A message as a block has it.
pub trait Carries: Send + Sync + 'static {
    fn of(message: Message, place: &Place) -> Self;
    fn id(&self) -> &str;
    /// Returns the delivery, if the message says which one it is.
    fn delivery(&self) -> Option<&Message>;
}

/// The queue as a source of such messages for a process.
pub struct Queue<M> {
    broker: Broker,
    process: Place,
    of: PhantomData<fn() -> M>,
}

impl<M: Carries> Queue<M> {
    pub fn new(broker: Broker, process: Place) -> Self {
        Queue { broker, process, of: PhantomData }
    }

    fn place(&self, message: &M) -> usize {
        message.delivery().map_or_else(|| self.broker.out(message.id()), |delivery| delivery.place)
    }
}

impl<M: Carries> Source for Queue<M> {
    type Message = M;
    type Error = Infallible;

    async fn receive(&self, max: usize) -> Result<Option<Vec<M>>, Infallible> {
        let of = |message| M::of(message, &self.process);
        Ok(self.broker.take(max).await.map(|messages| messages.into_iter().map(of).collect()))
    }

    async fn acknowledge(&self, messages: &[Arc<M>]) -> Result<(), Infallible> {
        messages.iter().for_each(|message| self.broker.done(self.place(message)));
        Ok(())
    }

    async fn retry(&self, message: &Arc<M>, after: Duration) -> Result<(), Infallible> {
        self.broker.again(self.place(message), after);
        Ok(())
    }

    async fn dead_letter(&self, message: &Arc<M>, _: &str) -> Result<(), Infallible> {
        self.broker.put_aside(self.place(message));
        Ok(())
    }

    fn deliveries(&self, message: &M) -> Option<u32> {
        message.delivery().map(|delivery| delivery.deliveries)
    }

    fn sent_as(&self, message: &M) -> Option<Vec<u8>> {
        message.delivery().map(|delivery| delivery.place.to_le_bytes().into())
    }
}
