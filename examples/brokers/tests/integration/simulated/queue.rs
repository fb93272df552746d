//! A source that hands the simulation's deliveries to a consumer of `hapax_stream`, and tells the
//! simulation whether they are acknowledged.

use hapax_store::Store;
use hapax_stream::{Consumer, Delivery, Source};
use hapax_testing::consumer::{Failed, Message, World};
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};

/// A message of the simulation.
pub struct Envelope {
    pub id: String,
    pub world: World,
    done: Mutex<Option<oneshot::Sender<Result<(), String>>>>,
}

impl Envelope {
    fn end(&self, result: Result<(), String>) {
        if let Some(done) = self.done.lock().unwrap().take() {
            // (Nobody waits in a process that has died.)
            let _ = done.send(result);
        }
    }
}

/// The messages that were sent to a process.
struct Queue(tokio::sync::Mutex<mpsc::UnboundedReceiver<Envelope>>);

impl Source for Queue {
    type Message = Envelope;
    type Error = Infallible;

    async fn receive(&self, max: usize) -> Result<Option<Vec<Envelope>>, Infallible> {
        let mut batch = Vec::new();
        let received = self.0.lock().await.recv_many(&mut batch, max).await;
        Ok((received > 0).then_some(batch))
    }

    async fn acknowledge(&self, messages: &[Arc<Envelope>]) -> Result<(), Infallible> {
        messages.iter().for_each(|message| message.end(Ok(())));
        Ok(())
    }

    async fn retry(&self, message: &Arc<Envelope>, _: Duration) -> Result<(), Infallible> {
        message.end(Err("given back".into()));
        Ok(())
    }

    async fn dead_letter(&self, message: &Arc<Envelope>, why: &str) -> Result<(), Infallible> {
        message.end(Err(format!("put aside: {why}")));
        Ok(())
    }
}

/// A consumer that runs in a process of the simulation.
pub struct Running(mpsc::UnboundedSender<Envelope>);

/// Runs a consumer as long as its process lives.
pub fn exchange<S, H, F>(consumer: Consumer<S, Envelope>, handle: H) -> Running
where
    S: Store,
    H: Fn(Delivery<Envelope>) -> F + Send + Sync + 'static,
    F: Future<Output = Result<(), Failed>> + Send + 'static,
{
    let (sender, receiver) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        let queue = Queue(tokio::sync::Mutex::new(receiver));
        consumer.run(&queue, handle, std::future::pending()).await.map(drop)
    });
    Running(sender)
}

impl Running {
    /// Delivers a message, and waits until it is acknowledged or given back.
    pub async fn deliver(&self, message: &Message, world: &World) -> Result<(), Failed> {
        let (done, is_done) = oneshot::channel();
        let envelope = Envelope { id: message.id.clone(), world: world.clone(), done: Mutex::new(Some(done)) };
        self.0.send(envelope).map_err(|_| "the consumer has ended")?;
        Ok(is_done.await??)
    }
}
