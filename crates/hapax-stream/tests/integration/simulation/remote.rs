//! A store on another host: its server, and its client.

use crate::simulation::wire::{Wire, decode, encode};
use hapax_store::*;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::Mutex;
use turmoil::net::{TcpListener, TcpStream};

/// The largest number of nodes.
pub const NODES: usize = 3;
const PORT: u16 = 4_711;
const FRAME_MAX_BYTES: usize = 1 << 20;

/// Returns the host of a node.
pub fn host_of(node: usize) -> String {
    format!("node-{node}")
}

/// Returns which of the nodes has a key.
pub fn node_of(key: &RecordKey, nodes: usize) -> usize {
    key.to_stored().iter().fold(7_usize, |hash, byte| (hash * 31 + usize::from(*byte)) % 65_537) % nodes
}

async fn send(stream: &mut TcpStream, frame: &[u8]) -> std::io::Result<()> {
    let mut bytes = encode(&frame.len());
    bytes.extend(frame);
    stream.write_all(&bytes).await
}

async fn receive(stream: &mut TcpStream) -> std::io::Result<Vec<u8>> {
    let mut len = [0; 8];
    stream.read_exact(&mut len).await?;
    let len = u64::from_le_bytes(len) as usize;
    if len > FRAME_MAX_BYTES {
        return Err(std::io::Error::other("a frame that is too long"));
    }
    let mut frame = vec![0; len];
    stream.read_exact(&mut frame).await?;
    Ok(frame)
}

/// The delays of a server: it is slow, or hangs, before it has done something, or after. It may die
/// in between.
pub type Slowness = Arc<dyn Fn() -> Duration + Send + Sync>;

/// Serves a store to each client that connects, until it is killed.
pub async fn serve<S: Store>(store: Arc<S>, slowness: Slowness) -> turmoil::Result {
    let listener = TcpListener::bind(("0.0.0.0", PORT)).await?;
    loop {
        let (mut stream, _) = listener.accept().await?;
        let (store, slowness) = (Arc::clone(&store), Arc::clone(&slowness));
        // The task is local: others are dropped in an order that depends on how many tasks there
        // were before, in other simulations, too.
        tokio::task::spawn_local(async move {
            while let Ok(asked) = receive(&mut stream).await {
                tokio::time::sleep(slowness()).await;
                let answer = answer(&store, &asked).await.expect("what clients send can be read");
                tokio::time::sleep(slowness()).await;
                if send(&mut stream, &answer).await.is_err() {
                    return;
                }
            }
        });
    }
}

/// Names the calls, for both sides.
macro_rules! calls {
    ($($number:literal: $call:ident ($request:ty) -> $answer:ty, of $key:expr;)*) => {
        async fn answer(store: &impl Store, asked: &[u8]) -> Option<Vec<u8>> {
            let (call, body) = asked.split_first()?;
            Some(match call {
                $($number => encode(&store.$call(&decode::<Vec<$request>>(body)?).await),)*
                20 => encode(&store.expire(decode(body)?).await),
                21 => {
                    let (from, limit) = decode::<(Option<Cursor>, usize)>(body)?;
                    encode(&store.scan(from.as_ref(), limit).await)
                }
                _ => return None,
            })
        }

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
                let key: fn(&$request) -> &RecordKey = $key;
                self.ask_all($number, requests, key).await
            })*

            async fn expire(&self, limit: usize) -> Result<Expired, StoreError> {
                let mut all = Expired::default();
                for node in &self.nodes {
                    let expired: Expired = node.ask(20, &limit).await?;
                    all = Expired::new(all.records + expired.records, all.more || expired.more);
                }
                Ok(all)
            }

            /// (Only a store of one node is scanned.)
            async fn scan(&self, from: Option<&Cursor>, limit: usize) -> Result<Page, StoreError> {
                self.nodes[0].ask(21, &(from.cloned(), limit)).await
            }
        }
    };
}

calls! {
    1: mark(Mark) -> Marked, of |mark| &mark.key;
    2: claim(ClaimRequest) -> Claimed, of |claim| &claim.key;
    3: complete(Completion) -> Held, of |completion| &completion.hold.key;
    4: release(Hold) -> Held, of |hold| &hold.key;
    5: fail(ClaimFailure) -> Held, of |failure| &failure.hold.key;
    6: renew(Renewal) -> Held, of |renewal| &renewal.hold.key;
    7: look_up(RecordKey) -> Known, of |key| key;
    8: record(Record) -> (), of |record| &record.key;
    9: forget(RecordKey) -> bool, of |key| key;
    10: unmark(Unmark) -> Unmarked, of |mark| &mark.key;
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

    async fn ask_all<R: Wire + Clone, A: Wire>(
        &self,
        call: u8,
        requests: &[R],
        key: fn(&R) -> &RecordKey,
    ) -> Answers<A> {
        let mut parts: [Vec<usize>; NODES] = Default::default();
        for (place, request) in requests.iter().enumerate() {
            parts[node_of(key(request), self.nodes.len())].push(place);
        }
        if let Some(node) = parts.iter().position(|part| part.len() == requests.len()) {
            return self.nodes[node].ask(call, &requests.to_vec()).await;
        }
        let (one, two, three) = tokio::join!(
            self.ask_some(0, call, requests, &parts[0]),
            self.ask_some(1, call, requests, &parts[1]),
            self.ask_some(2, call, requests, &parts[2])
        );
        let mut answers: Vec<_> = [one, two, three].into_iter().flatten().collect();
        answers.sort_by_key(|(place, _)| *place);
        Ok(answers.into_iter().map(|(_, answer)| answer).collect())
    }

    /// Asks one node the questions at these places.
    async fn ask_some<R: Wire + Clone, A: Wire>(
        &self,
        node: usize,
        call: u8,
        requests: &[R],
        places: &[usize],
    ) -> Vec<(usize, Result<A, StoreError>)> {
        if places.is_empty() {
            return Vec::new();
        }
        let asked: Vec<R> = places.iter().map(|&place| requests[place].clone()).collect();
        let answers: Answers<A> = self.nodes[node].ask(call, &asked).await;
        let answers = answers.unwrap_or_else(|error| places.iter().map(|_| Err(error.clone())).collect());
        places.iter().copied().zip(answers).collect()
    }
}

impl Node {
    async fn ask<A: Wire>(&self, call: u8, body: &impl Wire) -> Result<A, StoreError>
    where
        Result<A, StoreError>: Wire,
    {
        let mut connection = self.connection.lock().await;
        let mut asked = vec![call];
        body.put(&mut asked);
        // It is taken out: if this future is dropped, or fails, no other call reads an answer that
        // is not its own.
        let mut stream = match connection.take() {
            Some(stream) => stream,
            None => TcpStream::connect((self.host.as_str(), PORT)).await.map_err(broken)?,
        };
        send(&mut stream, &asked).await.map_err(broken)?;
        let answer = receive(&mut stream).await.map_err(broken)?;
        *connection = Some(stream);
        decode(&answer)
            .unwrap_or_else(|| Err(StoreError::new(ErrorKind::Corrupt, "simulated", "an answer to something else")))
    }
}

fn broken(error: std::io::Error) -> StoreError {
    StoreError::caused(ErrorKind::Unavailable, "simulated", "the connection broke", error)
}
