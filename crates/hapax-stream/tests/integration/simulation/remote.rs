//! A store on another host: its server, and its client. What they tell each other stays in this
//! process. The connection carries the number under which it lies, and loses or delays that.

use crate::simulation::wrong::ServerStore;
use hapax_store::*;
use std::any::Any;
use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::Mutex;
use turmoil::net::{TcpListener, TcpStream};

/// The largest number of nodes.
pub const NODES: usize = 3;
const PORT: u16 = 4_711;

/// Returns the host of a node.
pub fn host_of(node: usize) -> String {
    format!("node-{node}")
}

/// Returns which of the nodes has a key.
pub fn node_of(key: &RecordKey, nodes: usize) -> usize {
    key.to_stored().iter().fold(7_usize, |hash, byte| (hash * 31 + usize::from(*byte)) % 65_537) % nodes
}

type Answer = Box<dyn Any + Send>;
/// The work of the server with its store.
type Question = Box<dyn FnOnce(Arc<ServerStore>) -> Pin<Box<dyn Future<Output = Answer>>> + Send>;

thread_local! {
    /// The letters under way in the simulations of this thread, and the last number.
    static LETTERS: RefCell<(u64, HashMap<u64, Answer>)> = RefCell::default();
}

async fn send(stream: &mut TcpStream, letter: impl Any + Send) -> io::Result<()> {
    let number = LETTERS.with_borrow_mut(|(last, letters)| {
        *last += 1;
        letters.insert(*last, Box::new(letter));
        *last
    });
    stream.write_u64(number).await
}

async fn receive<T: 'static>(stream: &mut TcpStream) -> io::Result<T> {
    let number = stream.read_u64().await?;
    let letter = LETTERS.with_borrow_mut(|(_, letters)| letters.remove(&number)).map(|letter| letter.downcast());
    letter.and_then(Result::ok).map(|letter| *letter).ok_or_else(|| io::Error::other("nobody sent this"))
}

/// The delays of a server: it is slow, or hangs, before it has done something, or after. It may die
/// in between.
pub type Slowness = Arc<dyn Fn() -> Duration + Send + Sync>;

/// Serves a store to each client that connects, until it is killed.
pub async fn serve(store: Arc<ServerStore>, slowness: Slowness) -> turmoil::Result {
    let listener = TcpListener::bind(("0.0.0.0", PORT)).await?;
    loop {
        let (mut stream, _) = listener.accept().await?;
        let (store, slowness) = (Arc::clone(&store), Arc::clone(&slowness));
        // The task is local: others are dropped in an order that depends on how many tasks there
        // were before, in other simulations, too.
        tokio::task::spawn_local(async move {
            while let Ok(asked) = receive::<Question>(&mut stream).await {
                tokio::time::sleep(slowness()).await;
                let answer = asked(Arc::clone(&store)).await;
                tokio::time::sleep(slowness()).await;
                if send(&mut stream, answer).await.is_err() {
                    return;
                }
            }
        });
    }
}

/// Defines the calls that take a batch.
macro_rules! calls {
    ($($call:ident ($request:ty) -> $answer:ty, of $key:expr;)*) => {
        impl Store for RemoteStore {
            fn backend(&self) -> &'static str {
                "simulated"
            }

            fn limits(&self) -> Limits {
                Limits::batches_of(self.batch)
            }

            fn node_of(&self, key: &RecordKey) -> u32 {
                node_of(key, self.nodes.len()) as u32
            }

            $(async fn $call(&self, requests: &[$request]) -> Answers<$answer> {
                let call = |store: Arc<ServerStore>, asked: Vec<$request>| async move { store.$call(&asked).await };
                self.ask_all(call, requests, $key).await
            })*

            async fn expire(&self, limit: usize) -> Result<Expired, StoreError> {
                let mut all = Expired::default();
                for node in &self.nodes {
                    let expired = node.ask(move |store| async move { store.expire(limit).await }).await?;
                    all = Expired::new(all.records + expired.records, all.more || expired.more);
                }
                Ok(all)
            }

            /// (Only a store of one node is scanned.)
            async fn scan(&self, from: Option<&Cursor>, limit: usize) -> Result<Page, StoreError> {
                let from = from.cloned();
                self.nodes[0].ask(move |store| async move { store.scan(from.as_ref(), limit).await }).await
            }
        }
    };
}

calls! {
    mark(Mark) -> Marked, of |mark| &mark.key;
    claim(ClaimRequest) -> Claimed, of |claim| &claim.key;
    complete(Completion) -> Held, of |completion| &completion.hold.key;
    release(Hold) -> Held, of |hold| &hold.key;
    fail(ClaimFailure) -> Held, of |failure| &failure.hold.key;
    renew(Renewal) -> Held, of |renewal| &renewal.hold.key;
    look_up(RecordKey) -> Known, of |key| key;
    record(Record) -> (), of |record| &record.key;
    forget(RecordKey) -> bool, of |key| key;
    unmark(Unmark) -> Unmarked, of |mark| &mark.key;
}

/// A client that asks the node that has a key, each over a connection of its own, all concurrently.
/// A node that fails fails its own requests.
pub struct RemoteStore {
    nodes: Vec<Node>,
    batch: usize,
}

/// A client that asks over one connection, one question after the other. A question that fails or
/// is given up ends the connection: the next question makes another, and the earlier one may still
/// arrive.
struct Node {
    host: String,
    connection: Mutex<Option<TcpStream>>,
}

impl RemoteStore {
    /// Creates a store of this many nodes, which takes this many requests at a time.
    pub fn new(nodes: usize, batch: usize) -> Self {
        let node = |node| Node { host: host_of(node), connection: Mutex::default() };
        RemoteStore { nodes: (0..nodes).map(node).collect(), batch }
    }

    async fn ask_all<R, A, F>(
        &self,
        call: fn(Arc<ServerStore>, Vec<R>) -> F,
        requests: &[R],
        key: fn(&R) -> &RecordKey,
    ) -> Answers<A>
    where
        R: Clone + Send + Sync + 'static,
        A: Send + 'static,
        F: Future<Output = Answers<A>> + Send + 'static,
    {
        let mut parts: Vec<Vec<usize>> = vec![Vec::new(); self.nodes.len()];
        for (place, request) in requests.iter().enumerate() {
            parts[node_of(key(request), self.nodes.len())].push(place);
        }
        if let Some(node) = parts.iter().position(|part| part.len() == requests.len()) {
            let asked = requests.to_vec();
            return self.nodes[node].ask(move |store| call(store, asked)).await;
        }
        let parts = self.nodes.iter().zip(parts).filter(|(_, places)| !places.is_empty());
        let answers = join_all(parts.map(async |(node, places)| {
            let asked: Vec<R> = places.iter().map(|&place| requests[place].clone()).collect();
            let answers = node.ask(move |store| call(store, asked)).await;
            let answers = answers.unwrap_or_else(|error| places.iter().map(|_| Err(error.clone())).collect());
            places.into_iter().zip(answers)
        }));
        let mut answers: Vec<_> = answers.await.into_iter().flatten().collect();
        answers.sort_by_key(|(place, _)| *place);
        Ok(answers.into_iter().map(|(_, answer)| answer).collect())
    }
}

impl Node {
    async fn ask<A, F>(&self, ask: impl FnOnce(Arc<ServerStore>) -> F + Send + 'static) -> Result<A, StoreError>
    where
        A: Send + 'static,
        F: Future<Output = Result<A, StoreError>> + Send + 'static,
    {
        let mut connection = self.connection.lock().await;
        // It is taken out: if this future is dropped, or fails, no other call reads an answer that
        // is not its own.
        let mut stream = match connection.take() {
            Some(stream) => stream,
            None => TcpStream::connect((self.host.as_str(), PORT)).await.map_err(broken)?,
        };
        let question: Question = Box::new(move |store| Box::pin(async move { Box::new(ask(store).await) as Answer }));
        send(&mut stream, question).await.map_err(broken)?;
        let answer: Answer = receive(&mut stream).await.map_err(broken)?;
        *connection = Some(stream);
        *answer.downcast().expect("the answer to this question")
    }
}

fn broken(error: io::Error) -> StoreError {
    StoreError::caused(ErrorKind::Unavailable, "simulated", "the connection broke", error)
}
