//! Commands and answers on one connection: many callers at once, in the order in which they ask.
//!
//! One task reads and writes. It alone decides that the other end owes an answer for too long, so a
//! silent connection is detected even if each caller gives up before that.

use super::commands::Commands;
use super::errors::{error, failed};
use super::reply::{Replies, Scanner};
use super::role;
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
pub(super) trait Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static {}
impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> Stream for S {}

/// A connection, which all callers may use at once.
#[derive(Clone)]
pub(super) struct Wire {
    requests: mpsc::Sender<Request>,
    is_left: Arc<StdAtomicBool>,
}

struct Request {
    commands: Arc<Commands>,
    reply: oneshot::Sender<Result<Answered, StoreError>>,
}

/// The answers to the commands that were sent together.
#[derive(Debug)]
pub(super) struct Answered {
    bytes: Vec<u8>,
    count: usize,
    has_refusals: bool,
}

impl Answered {
    pub(super) fn replies(&self) -> Replies<'_> {
        Replies::new(self.count, &self.bytes)
    }
}

impl Wire {
    /// Starts to use a connection: a request that waits longer than this for an answer ends it.
    pub(super) fn new(stream: Box<dyn Stream>, response_timeout: Duration) -> Self {
        let (requests, receiver) = mpsc::channel(QUEUE);
        let is_left = Arc::<StdAtomicBool>::default();
        let (reader, writer) = tokio::io::split(stream);
        let ends = Ends { reader, writer, incoming: Incoming::default(), outgoing: Outgoing::default() };
        tokio::spawn(run(ends, receiver, response_timeout));
        Wire { requests, is_left }
    }

    /// Returns true if requests may be sent here. (A caller that is late gets an error.)
    pub(super) fn is_open(&self) -> bool {
        // Relaxed: a caller that sees it late finds the connection left.
        !self.requests.is_closed() && !self.is_left.load(Ordering::Relaxed)
    }

    /// Lets no further request in. Those that wait still get an answer.
    pub(super) fn leave(&self) {
        self.is_left.store(true, Ordering::Relaxed);
    }

    /// Sends commands, once, and waits for their answers.
    pub(super) async fn ask(&self, commands: Arc<Commands>) -> Result<Answered, StoreError> {
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
mod tests {
    use super::*;
    use tokio::io::DuplexStream;

    const PATIENCE: Duration = Duration::from_secs(2);

    /// Runs with the clock stopped: it advances when no task has anything to do.
    fn block_on(work: impl Future<Output = ()>) {
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap().block_on(work);
    }

    fn wire() -> (Wire, DuplexStream) {
        let (ours, theirs) = tokio::io::duplex(64);
        (Wire::new(Box::new(ours), PATIENCE), theirs)
    }

    fn ping() -> Arc<Commands> {
        Arc::new(Commands::of(&["PING"]))
    }

    /// Answers each command after this long, until the connection ends.
    async fn serve(mut server: DuplexStream, after: Duration, answer: &'static [u8]) {
        let mut request = [0; b"*1\r\n$4\r\nPING\r\n".len()];
        while server.read_exact(&mut request).await.is_ok() {
            tokio::time::sleep(after).await;
            if server.write_all(answer).await.is_err() {
                return;
            }
        }
    }

    #[test]
    fn silence_is_found_out_also_if_whoever_asks_gives_up_soon() {
        block_on(async {
            let (wire, _silent) = wire();
            let began = Instant::now();
            while wire.is_open() {
                let given_up = tokio::time::timeout(Duration::from_millis(10), wire.ask(ping())).await;
                assert!(given_up.is_err() || !wire.is_open(), "nobody has answered");
                assert!(began.elapsed() <= PATIENCE + Duration::from_millis(20), "{:?}", began.elapsed());
            }
            assert!(began.elapsed() >= PATIENCE, "{:?}", began.elapsed());
            assert_eq!(wire.ask(ping()).await.unwrap_err().kind(), ErrorKind::Unavailable);
        });
    }

    #[test]
    fn who_waits_is_told_and_idleness_is_no_silence() {
        block_on(async {
            let (wire, server) = wire();
            tokio::spawn(serve(server, Duration::from_millis(1), b"+PONG\r\n"));
            for _ in 0..5 {
                assert_eq!(wire.ask(ping()).await.unwrap().replies().count(), 1);
                tokio::time::sleep(3 * PATIENCE).await;
            }
            assert!(wire.is_open());
            let (wire, _silent) = self::wire();
            let (one, other) = tokio::join!(wire.ask(ping()), wire.ask(ping()));
            assert_eq!([one, other].map(|told| told.unwrap_err().kind()), [ErrorKind::Timeout; 2]);
        });
    }

    #[test]
    fn whoever_gives_up_early_on_a_busy_connection_does_not_end_it() {
        block_on(async {
            let (wire, server) = wire();
            tokio::spawn(serve(server, Duration::from_millis(300), b"+PONG\r\n"));
            // As many at a time as are answered within the patience, each given up after 10 ms.
            for _ in 0..20 {
                for _ in 0..5 {
                    let given_up = tokio::time::timeout(Duration::from_millis(10), wire.ask(ping())).await;
                    assert!(given_up.is_err());
                }
                tokio::time::sleep(Duration::from_millis(1_500)).await;
                assert!(wire.is_open());
            }
            assert!(wire.ask(ping()).await.is_ok(), "and answers are not mixed up");
        });
    }

    #[test]
    fn answers_are_told_apart_however_many_ask() {
        block_on(async {
            let (wire, mut server) = wire();
            tokio::spawn(async move {
                let (mut request, mut next) = ([0; b"*2\r\n$4\r\nECHO\r\n$3\r\n000\r\n".len()], 0);
                while server.read_exact(&mut request).await.is_ok() {
                    let echo = [b"$3\r\n", &request[request.len() - 5..]].concat();
                    // In pieces, some of which end in the middle.
                    for piece in echo.chunks(next % 4 + 1) {
                        server.write_all(piece).await.expect("somebody reads");
                    }
                    next += 1;
                }
            });
            let mut asked = tokio::task::JoinSet::new();
            for caller in 0..50 {
                let wire = wire.clone();
                asked.spawn(async move {
                    let mut commands = Commands::default();
                    let words: Vec<String> = (0..3).map(|i| format!("{:03}", caller * 3 + i)).collect();
                    words.iter().for_each(|word| commands.add(&["ECHO", word]));
                    let answered = wire.ask(Arc::new(commands)).await.expect("answers");
                    let told: Vec<_> = answered.replies().map(|reply| reply.text().map(str::to_owned)).collect();
                    assert_eq!(told, words.into_iter().map(Some).collect::<Vec<_>>());
                });
            }
            asked.join_all().await;
        });
    }

    #[test]
    fn ends_and_nonsense_and_demotions_leave_the_connection() {
        block_on(async {
            let (wire, server) = wire();
            drop(server);
            assert_eq!(wire.ask(ping()).await.unwrap_err().kind(), ErrorKind::Unavailable);
            assert!(!wire.is_open());

            for nonsense in [b"HTTP/1.1 400 Bad Request\r\n".as_slice(), b"+PONG\r\n+PONG\r\n"] {
                let (wire, server) = self::wire();
                tokio::spawn(serve(server, Duration::ZERO, nonsense));
                let told = [wire.ask(ping()).await, wire.ask(ping()).await];
                assert!(told.into_iter().any(|told| told.is_err_and(|why| why.kind() != ErrorKind::Timeout)));
                assert!(!wire.is_open());
            }

            let (wire, server) = self::wire();
            tokio::spawn(serve(server, Duration::ZERO, b"-READONLY You can't write against a read only replica.\r\n"));
            assert!(wire.ask(ping()).await.is_ok(), "it is an answer");
            assert!(!wire.is_open(), "and the last one");
        });
    }
}
