//! Commands and answers on one connection: many callers at once, in the order in which they ask.
//!
//! One task reads and writes. It alone decides that the other end owes an answer for too long, so a
//! silent connection is detected even if each caller gives up before that.

use crate::resp::commands::Commands;
use crate::resp::errors::{error, failed};
use crate::resp::reply::{Replies, Scanner};
use crate::server::role;
use hapax_store::sync::{Ordering, StdAtomicBool};
use hapax_store::{ErrorKind, StoreError};
use std::collections::VecDeque;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

/// The number of requests that wait for the task. Further callers wait for a place.
const QUEUE: usize = 64;
/// The number of unwritten bytes from which on nothing more is taken from the queue.
const OUTGOING_MAX: usize = 256 << 10;
/// The smallest number of bytes that is read at a time.
const READ_MIN: usize = 16 << 10;
/// The memory that is kept for the next batch.
const KEPT_MAX: usize = 1 << 20;

/// A stream of bytes in both directions.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static {}
impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> Stream for S {}

/// A connection, which all callers may use at once.
#[derive(Clone)]
pub(crate) struct Wire {
    requests: mpsc::Sender<Request>,
    is_left: Arc<StdAtomicBool>,
}

struct Request {
    commands: Arc<Commands>,
    reply: oneshot::Sender<Result<Answered, StoreError>>,
}

/// The answers to the commands that were sent together.
#[derive(Debug)]
pub(crate) struct Answered {
    bytes: Vec<u8>,
    count: usize,
    has_refusals: bool,
}

impl Answered {
    pub(crate) fn replies(&self) -> Replies<'_> {
        Replies::new(self.count, &self.bytes)
    }
}

impl Wire {
    /// Starts to use a connection: a request that waits longer than this for an answer ends it.
    pub(crate) fn new(stream: Box<dyn Stream>, response_timeout: Duration) -> Self {
        let (requests, receiver) = mpsc::channel(QUEUE);
        let is_left = Arc::<StdAtomicBool>::default();
        let (reader, writer) = tokio::io::split(stream);
        let ends = Ends { reader, writer, incoming: Incoming::default(), outgoing: Outgoing::default() };
        tokio::spawn(run(ends, receiver, response_timeout));
        Wire { requests, is_left }
    }

    /// Returns true if requests may be sent here. (A caller that is late gets an error.)
    pub(crate) fn is_open(&self) -> bool {
        // Relaxed: a caller that sees it late finds the connection left.
        !self.requests.is_closed() && !self.is_left.load(Ordering::Relaxed)
    }

    /// Returns true if the connection has ended, and all who waited were told.
    pub(crate) fn has_ended(&self) -> bool {
        self.requests.is_closed()
    }

    /// Lets no further request in. Those that wait still get an answer.
    pub(crate) fn leave(&self) {
        self.is_left.store(true, Ordering::Relaxed);
    }

    /// Sends commands, once, and waits for their answers.
    pub(crate) async fn ask(&self, commands: Arc<Commands>) -> Result<Answered, StoreError> {
        debug_assert!(commands.len() > 0, "a request without commands has no answer that ends it");
        let (reply, answered) = oneshot::channel();
        let closed = || error(ErrorKind::Unavailable, "the connection has ended");
        self.requests.send(Request { commands, reply }).await.map_err(|_| closed())?;
        let answered = answered.await.map_err(|_| closed())??;
        // The server was demoted: the master is elsewhere, possibly behind the same address.
        if answered.has_refusals && answered.replies().any(role::is_demotion) {
            self.leave();
        }
        Ok(answered)
    }
}

/// Both directions of the connection.
struct Ends {
    reader: ReadHalf<Box<dyn Stream>>,
    writer: WriteHalf<Box<dyn Stream>>,
    incoming: Incoming,
    outgoing: Outgoing,
}

/// A caller that waits for answers: their number, and the time since which it waits.
struct Waiting {
    count: usize,
    since: Instant,
    reply: oneshot::Sender<Result<Answered, StoreError>>,
}

/// Sends requests, and gives answers to the callers that wait, until the connection ends or has no
/// user left.
async fn run(mut ends: Ends, mut requests: mpsc::Receiver<Request>, response_timeout: Duration) {
    let mut waiting = VecDeque::new();
    let why = drive(&mut ends, &mut requests, &mut waiting, response_timeout).await;
    // First further requests are refused, then the waiting callers are told: a caller that asks
    // again connects anew.
    requests.close();
    drop(ends);
    for Waiting { reply, .. } in waiting {
        // A caller that is gone gets nothing.
        let _ = reply.send(Err(why.clone()));
    }
    while let Ok(Request { reply, .. }) = requests.try_recv() {
        let _ = reply.send(Err(why.clone()));
    }
}

/// Runs the connection, and returns the reason for its end.
async fn drive(
    ends: &mut Ends,
    requests: &mut mpsc::Receiver<Request>,
    waiting: &mut VecDeque<Waiting>,
    response_timeout: Duration,
) -> StoreError {
    let mut is_used = true;
    // Checked when it fires, and reset only then: not with each request.
    let mut alarm = pin!(tokio::time::sleep(response_timeout));
    loop {
        if !is_used && waiting.is_empty() && ends.outgoing.is_empty() {
            return error(ErrorKind::Unavailable, "the connection is not used any more");
        }
        tokio::select! {
            biased;
            read = ends.incoming.read(&mut ends.reader) => match read.and_then(|()| ends.incoming.deliver(waiting)) {
                Ok(()) => {}
                Err(cause) => return failed(cause, "the connection failed"),
            },
            request = requests.recv(), if is_used && ends.outgoing.has_room() => match request {
                Some(request) => {
                    ends.outgoing.take(request, waiting);
                    while ends.outgoing.has_room() && let Ok(request) = requests.try_recv() {
                        ends.outgoing.take(request, waiting);
                    }
                }
                None => is_used = false,
            },
            written = ends.outgoing.write(&mut ends.writer), if !ends.outgoing.is_empty() => {
                if let Err(cause) = written {
                    return failed(cause, "the connection failed");
                }
            }
            () = &mut alarm, if !waiting.is_empty() => {
                let since = waiting.front().map_or_else(Instant::now, |oldest| oldest.since);
                if since.elapsed() >= response_timeout {
                    let late = format!("no answer within {response_timeout:?}");
                    return error(ErrorKind::Timeout, late);
                }
                alarm.as_mut().reset(since + response_timeout);
            }
        }
    }
}

/// Bytes that are not written yet.
#[derive(Default)]
struct Outgoing {
    bytes: Vec<u8>,
    written: usize,
}

impl Outgoing {
    fn is_empty(&self) -> bool {
        self.written == self.bytes.len()
    }

    fn has_room(&self) -> bool {
        self.bytes.len() - self.written < OUTGOING_MAX
    }

    fn take(&mut self, Request { commands, reply }: Request, waiting: &mut VecDeque<Waiting>) {
        // The caller has gone, so the request is skipped.
        if !reply.is_closed() {
            self.bytes.extend_from_slice(commands.bytes());
            waiting.push_back(Waiting { count: commands.len(), since: Instant::now(), reply });
        }
    }

    async fn write(&mut self, writer: &mut WriteHalf<Box<dyn Stream>>) -> io::Result<()> {
        debug_assert!(self.written < self.bytes.len(), "an empty write counts as the connection's end");
        match writer.write(&self.bytes[self.written..]).await? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            len => self.written += len,
        }
        if self.is_empty() {
            self.bytes.clear();
            self.bytes.shrink_to(KEPT_MAX);
            self.written = 0;
            // Encrypted connections may hold some bytes back.
            writer.flush().await?;
        }
        Ok(())
    }
}

/// Bytes that were read, and not given to a caller yet.
#[derive(Default)]
struct Incoming {
    bytes: Vec<u8>,
    scanner: Scanner,
    /// The number of whole answers in it.
    whole: usize,
}

impl Incoming {
    async fn read(&mut self, reader: &mut ReadHalf<Box<dyn Stream>>) -> io::Result<()> {
        // As much again as is there already, so that it is not copied each time.
        self.bytes.reserve(READ_MIN.max(self.bytes.len()));
        match reader.read_buf(&mut self.bytes).await? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }

    /// Gives the answers that have arrived in whole to the callers that wait longest.
    fn deliver(&mut self, waiting: &mut VecDeque<Waiting>) -> io::Result<()> {
        let invalid = |what: &'static str| io::Error::new(io::ErrorKind::InvalidData, what);
        while let Some(end) =
            self.scanner.next_end(&self.bytes).map_err(|_| invalid("the other end does not answer as Redis does"))?
        {
            self.whole += 1;
            let Some(first) = waiting.front() else { return Err(invalid("an answer that nobody has asked for")) };
            if self.whole == first.count
                && let Some(Waiting { count, reply, .. }) = waiting.pop_front()
            {
                let has_refusals = self.scanner.take_refusals();
                let bytes = self.take(end);
                // A caller that is gone gets nothing.
                let _ = reply.send(Ok(Answered { bytes, count, has_refusals }));
            }
        }
        Ok(())
    }

    /// Takes the bytes before this one; the others move to the front.
    fn take(&mut self, end: usize) -> Vec<u8> {
        let taken = self.bytes[..end].to_vec();
        self.bytes.drain(..end);
        if self.bytes.is_empty() {
            self.bytes.shrink_to(KEPT_MAX);
        }
        self.scanner.taken(end);
        self.whole = 0;
        taken
    }
}

#[cfg(test)]
mod tests;
