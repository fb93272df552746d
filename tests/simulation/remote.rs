//! A store on another host: who serves it, and who asks for it.

use crate::wire::{Wire, decode, encode};
use hapax::store::*;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::Mutex;
use turmoil::net::{TcpListener, TcpStream};

pub const SERVER: &str = "server";
const PORT: u16 = 4_711;
const FRAME_MAX_BYTES: usize = 1 << 20;

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

/// What a server does with its time, besides: it is slow before it has done something, or after. It may die in between.
pub type Slowness = Arc<dyn Fn() -> Duration + Send + Sync>;

/// Serves a store to whoever connects, until it is killed.
pub async fn serve<S: Store>(store: Arc<S>, slowness: Slowness) -> turmoil::Result {
    let listener = TcpListener::bind(("0.0.0.0", PORT)).await?;
    loop {
        let (mut stream, _) = listener.accept().await?;
        let (store, slowness) = (Arc::clone(&store), Arc::clone(&slowness));
        // Local, since what is spawned otherwise dies in an order that depends on how many tasks there were before, in other simulations, too.
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

/// Names what is asked, for both sides.
macro_rules! calls {
    ($($number:literal: $call:ident ($request:ty) -> $answer:ty;)*) => {
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

            $(async fn $call(&self, requests: &[$request]) -> Answers<$answer> {
                self.ask($number, &requests.to_vec()).await
            })*

            async fn expire(&self, limit: usize) -> Result<Expired, StoreError> {
                self.ask(20, &limit).await
            }

            async fn scan(&self, from: Option<&Cursor>, limit: usize) -> Result<Page, StoreError> {
                self.ask(21, &(from.cloned(), limit)).await
            }
        }
    };
}

calls! {
    1: mark(Mark) -> Marked;
    2: claim(ClaimRequest) -> Claimed;
    3: complete(Completion) -> Held;
    4: release(Hold) -> Held;
    5: fail(Failure) -> Held;
    6: renew(Renewal) -> Held;
    7: look_up(RecordKey) -> Known;
    8: record(Record) -> ();
    9: forget(RecordKey) -> bool;
    10: unmark(Unmark) -> Unmarked;
}

/// Asks over one connection, one question after the other. Whatever fails or is given up ends the connection: the next question makes another,
/// and what was asked may still arrive.
#[derive(Default)]
pub struct RemoteStore {
    connection: Mutex<Option<TcpStream>>,
}

impl RemoteStore {
    async fn ask<A: Wire>(&self, call: u8, body: &impl Wire) -> Result<A, StoreError>
    where
        Result<A, StoreError>: Wire,
    {
        let mut connection = self.connection.lock().await;
        let mut asked = vec![call];
        body.put(&mut asked);
        // Taken out: if this future is dropped, or fails, nobody reads an answer that is not their own.
        let mut stream = match connection.take() {
            Some(stream) => stream,
            None => TcpStream::connect((SERVER, PORT)).await.map_err(broken)?,
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
