//! Reads of pages that wait for the disk, several at a time: by the caller and by threads that
//! help.
//!
//! A caller goes through its own reads, so that it gets on without any helper; what helpers take
//! overlaps with that. There is no queue that grows: a batch is offered to as many helpers as could
//! take part, and to no more than there are.

use super::segment::Segment;
use crate::SegmentError;
use crate::process::Origin;
use crate::segments::encoding::key::Key;
use crate::segments::encoding::page::{Bytes, PAGE_BYTES};
use crate::sync::{Condvar, Mutex, Ordering, StdAtomicU64, unpoisoned};
use std::collections::VecDeque;
use std::io::ErrorKind;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The most threads that help.
pub const READ_THREADS_MAX: usize = 64;

/// The record that a page has of an id.
#[derive(Clone, Debug)]
pub(in crate::segments) enum Found {
    Nothing,
    Tick(u16),
    /// The page could not be read.
    Failed(SegmentError),
}

/// A question to a page.
#[derive(Clone)]
pub(in crate::segments) struct Question {
    pub(in crate::segments) segment: Arc<Segment>,
    pub(in crate::segments) page: u64,
    pub(in crate::segments) key: Key,
}

/// The memory for a page.
#[repr(align(4096))]
pub(in crate::segments) struct Buffer(pub(in crate::segments) Bytes);

impl Buffer {
    pub(in crate::segments) fn new() -> Box<Self> {
        Box::new(Buffer([0; PAGE_BYTES]))
    }
}

/// Answers from a page that was read.
pub(in crate::segments) fn answer(segment: &Segment, page: u64, key: Key, bytes: &Bytes) -> Found {
    match segment.decode(page, bytes) {
        Ok(page) => page.find(key).map_or(Found::Nothing, Found::Tick),
        Err(error) => Found::Failed(error),
    }
}

impl Question {
    /// Reads the page, and waits for the disk.
    fn wait(&self, buffer: &mut Buffer) -> Found {
        match self.segment.read_pages(self.page, &mut buffer.0) {
            Ok(()) => answer(&self.segment, self.page, self.key, &buffer.0),
            Err(error) => Found::Failed(error),
        }
    }

    fn timed_out(&self) -> Found {
        Found::Failed(SegmentError::io("read", self.segment.path())(ErrorKind::TimedOut.into()))
    }
}

/// Questions that are answered together.
struct Batch {
    questions: Vec<Question>,
    /// The time from which on nothing is asked any more that is elsewhere.
    deadline: Instant,
    /// The next question that nobody has taken.
    next: StdAtomicU64,
    done: Mutex<Done>,
    all: Condvar,
}

struct Done {
    found: Vec<Option<Found>>,
    left: usize,
}

impl Batch {
    /// Answers questions until all are taken.
    fn work(&self, buffer: &mut Buffer) {
        loop {
            // Relaxed: it hands out numbers; the lock publishes the answers.
            let i = usize::try_from(self.next.fetch_add(1, Ordering::Relaxed)).unwrap_or(usize::MAX);
            let Some(question) = self.questions.get(i) else { return };
            let found = if question.segment.is_here() || Instant::now() < self.deadline {
                question.wait(buffer)
            } else {
                question.timed_out()
            };
            let mut done = unpoisoned(self.done.lock());
            done.found[i] = Some(found);
            done.left -= 1;
            if done.left == 0 {
                self.all.notify_all();
            }
        }
    }
}

#[derive(Default)]
struct Queue {
    offers: VecDeque<Arc<Batch>>,
    idle: usize,
    closed: bool,
}

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    offered: Condvar,
}

impl Shared {
    fn help(&self) {
        let mut buffer = Buffer::new();
        loop {
            let batch = {
                let mut queue = unpoisoned(self.queue.lock());
                queue.idle += 1;
                while queue.offers.is_empty() && !queue.closed {
                    queue = unpoisoned(self.offered.wait(queue));
                }
                queue.idle -= 1;
                match queue.offers.pop_front() {
                    Some(batch) => batch,
                    None => return,
                }
            };
            batch.work(&mut buffer);
        }
    }
}

/// The threads that help to read, started when they are needed first.
pub(in crate::segments) struct Reads {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    threads_max: usize,
    /// The longest time that a caller waits for helpers, when it has done its own part; and for
    /// which it asks for pages that are elsewhere.
    wait_max: Duration,
    origin: Origin,
}

impl Reads {
    pub(in crate::segments) fn new(threads_max: usize, wait_max: Duration, origin: Origin) -> Self {
        let (shared, threads) = (Arc::default(), Mutex::new(Vec::new()));
        Reads { shared, threads, threads_max: threads_max.min(READ_THREADS_MAX), wait_max, origin }
    }

    /// Answers questions, and waits for the disk as often as it takes.
    pub(in crate::segments) fn answer(&self, questions: Vec<Question>) -> Vec<Found> {
        // (A child of a fork has none of the threads.)
        let helpers = if self.origin.is_here() { self.threads_max.min(questions.len().saturating_sub(1)) } else { 0 };
        let count = questions.len();
        let done = Mutex::new(Done { found: vec![None; count], left: count });
        let deadline = Instant::now() + self.wait_max;
        let batch = Arc::new(Batch { questions, deadline, next: StdAtomicU64::new(0), done, all: Condvar::new() });
        if helpers > 0 {
            self.offer(&batch, helpers);
        }
        batch.work(&mut Buffer::new());
        if helpers > 0 {
            // What nobody has taken up would keep its segments.
            unpoisoned(self.shared.queue.lock()).offers.retain(|offer| !Arc::ptr_eq(offer, &batch));
        }
        let deadline = Instant::now() + self.wait_max;
        let mut done = unpoisoned(batch.done.lock());
        while done.left > 0 {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            done = unpoisoned(batch.all.wait_timeout(done, left)).0;
        }
        let unanswered = |i: usize| batch.questions[i].timed_out();
        let found = std::mem::take(&mut done.found);
        // (A late answer has nowhere to go, and needs a place all the same.)
        done.found = if done.left == 0 { Vec::new() } else { vec![None; count] };
        found.into_iter().enumerate().map(|(i, found)| found.unwrap_or_else(|| unanswered(i))).collect()
    }

    /// Offers a batch to helpers, of which more are started if too few are idle.
    fn offer(&self, batch: &Arc<Batch>, helpers: usize) {
        let idle = {
            let mut queue = unpoisoned(self.shared.queue.lock());
            let room = READ_THREADS_MAX.saturating_sub(queue.offers.len());
            (0..helpers.min(room)).for_each(|_| queue.offers.push_back(Arc::clone(batch)));
            queue.idle
        };
        self.shared.offered.notify_all();
        let mut threads = unpoisoned(self.threads.lock());
        for _ in idle..helpers {
            if threads.len() >= self.threads_max {
                return;
            }
            let shared = Arc::clone(&self.shared);
            let thread = std::thread::Builder::new().name("hapax-read".into()).spawn(move || shared.help());
            match thread {
                Ok(thread) => threads.push(thread),
                // Where there are no more threads, the caller does it all.
                Err(_) => return,
            }
        }
    }
}

impl Drop for Reads {
    fn drop(&mut self) {
        let threads = std::mem::take(&mut *unpoisoned(self.threads.lock()));
        if !self.origin.is_here() {
            // The threads are the parent's; handles of threads that do not exist must not be
            // dropped.
            std::mem::forget(threads);
            return;
        }
        let mut queue = unpoisoned(self.shared.queue.lock());
        queue.closed = true;
        // What is offered still is answered already: its caller has gone.
        queue.offers.clear();
        drop(queue);
        self.shared.offered.notify_all();
        for thread in threads {
            // If the thread has panicked, there is nobody left to tell.
            let _ = thread.join();
        }
    }
}
