//! The segments of a long memory at a new owner: read in the store until they are here.
//!
//! Whoever asks waits on a thread of its own, perhaps one of the caller's runtime, so requests are
//! made by a runtime on another thread: nobody waits for a task that only itself could run.

use crate::HandoverError;
use crate::manifest::{File, Part, Segments};
use crate::remote::{PARALLEL, Remote};
use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt, stream};
use hapax::seam::{DurableSegments, SegmentSource};
use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

/// The bytes up to which somebody waits for an answer: a page. (A whole file is longer than that.)
const SMALL: usize = 4096;

/// The most bytes of one request.
const REQUEST_BYTES: u64 = 4 << 20;

/// The time for which the store is left alone by those who wait for answers, after an error.
const REST: Duration = Duration::from_secs(1);

/// The longest time after which a reader notices that it is to give up.
const GLANCE: Duration = Duration::from_millis(25);

/// Makes a directory for segments, in which only their manifest is.
pub(crate) fn prepare(directory: &Path, segments: &Segments) -> Result<(), HandoverError> {
    if segments.manifest.is_empty() {
        return Ok(());
    }
    crate::local::create_directory(directory)?;
    crate::local::write(&directory.join(DurableSegments::MANIFEST), &segments.manifest)
}

/// The segments that a manifest names, in the store.
pub(crate) struct InStore {
    remote: Arc<Remote>,
    files: BTreeMap<String, Vec<Part>>,
    runtime: Handle,
    /// The runtime ends with it.
    _ends: oneshot::Sender<()>,
    /// The time of the last error of a small read, and what it was, until there is an answer.
    failed: Mutex<Option<(Instant, Arc<HandoverError>)>>,
    is_closed: AtomicBool,
}

impl InStore {
    pub(crate) fn new(remote: Arc<Remote>, files: &[File]) -> Result<Self, HandoverError> {
        let failed = |error| HandoverError::io("start a thread for", "segments")(error);
        let runtime = Builder::new_current_thread().enable_all().build().map_err(failed)?;
        let (handle, (ends, ended)) = (runtime.handle().clone(), oneshot::channel::<()>());
        let run = move || drop(runtime.block_on(ended));
        std::thread::Builder::new().name("hapax-segments".into()).spawn(run).map_err(failed)?;
        let files = files.iter().map(|file| (file.name.clone(), file.parts.clone())).collect();
        let (failed, is_closed) = (Mutex::new(None), AtomicBool::new(false));
        Ok(InStore { remote, files, runtime: handle, _ends: ends, failed, is_closed })
    }

    /// Lets nobody wait any more: the partition is not owned any longer.
    pub(crate) fn close(&self) {
        // Relaxed: it is only looked at now and then.
        self.is_closed.store(true, Ordering::Relaxed);
    }

    /// Returns the parts of a stretch of a file, each with a range of its own.
    fn parts_of(&self, name: &str, wanted: Range<u64>) -> io::Result<Vec<(Part, Range<u64>)>> {
        let parts = self.files.get(name).ok_or_else(|| {
            let what = format!("the manifest of the hand-over does not name segment {name}");
            io::Error::new(io::ErrorKind::NotFound, what)
        })?;
        let (mut requests, mut start) = (Vec::new(), 0);
        for part in parts {
            let end = start + part.bytes;
            let mut at = wanted.start.max(start);
            while at < wanted.end.min(end) {
                let to = wanted.end.min(end).min(at + REQUEST_BYTES);
                requests.push((*part, at - start..to - start));
                at = to;
            }
            start = end;
        }
        if wanted.end > start {
            let what = format!("segment {name} has {start} bytes in the store, and {} are wanted", wanted.end);
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, what));
        }
        Ok(requests)
    }

    /// Fails if there was an error just now.
    fn rests(&self) -> io::Result<()> {
        match &*self.failed.lock().unwrap_or_else(PoisonError::into_inner) {
            Some((at, error)) if at.elapsed() < REST => Err(io::Error::other(Arc::clone(error))),
            _ => Ok(()),
        }
    }

    /// Makes requests, and waits for all of them, for this long at most.
    fn ask(&self, requests: Vec<(Part, Range<u64>)>, is_small: bool) -> Result<Vec<Bytes>, HandoverError> {
        let (tell, told) = sync_channel(1);
        let (remote, began) = (Arc::clone(&self.remote), Instant::now());
        let limit = self.remote.options.read_timeout;
        let task = self.runtime.spawn(async move {
            let ranges = requests.into_iter().map(|(part, range)| {
                let remote = &remote;
                async move { remote.read_range(&part.object, range, is_small.then_some(limit)).await }
            });
            let read: Result<Vec<_>, _> = stream::iter(ranges).buffered(PARALLEL).try_collect().await;
            // If nobody waits any more, nobody is told.
            let _ = tell.send(read);
        });
        let gave_up = |error| {
            task.abort();
            Err(error)
        };
        loop {
            match told.recv_timeout(GLANCE) {
                Ok(read) => return read,
                Err(RecvTimeoutError::Disconnected) => {
                    return gave_up(HandoverError::io("read", "segments")(io::ErrorKind::BrokenPipe.into()));
                }
                Err(RecvTimeoutError::Timeout) if self.is_closed.load(Ordering::Relaxed) => {
                    return gave_up(HandoverError::io("read", "segments")(io::ErrorKind::NotConnected.into()));
                }
                Err(RecvTimeoutError::Timeout) if is_small && began.elapsed() >= limit => {
                    let path = "a segment in the store".into();
                    return gave_up(HandoverError::TimedOut { doing: "read", path, after: limit });
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }
}

impl SegmentSource for InStore {
    fn read_at(&self, name: &str, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        let is_small = bytes.len() <= SMALL;
        if self.is_closed.load(Ordering::Relaxed) {
            return Err(io::ErrorKind::NotConnected.into());
        }
        if is_small {
            self.rests()?;
        }
        let requests = self.parts_of(name, offset..offset.saturating_add(bytes.len() as u64))?;
        let read = self.ask(requests, is_small);
        let failed = read.as_ref().err().map(|error| (Instant::now(), Arc::new(error.clone())));
        // (That a large part of a file has not come says nothing of pages.)
        if is_small || failed.is_none() {
            *self.failed.lock().unwrap_or_else(PoisonError::into_inner) = failed;
        }
        let read = read.map_err(io::Error::other)?;
        if read.iter().map(Bytes::len).sum::<usize>() != bytes.len() {
            let what = format!("the store has other ranges of segment {name} than were asked for");
            return Err(io::Error::new(io::ErrorKind::InvalidData, what));
        }
        let mut at = 0;
        for part in read {
            bytes[at..at + part.len()].copy_from_slice(&part);
            at += part.len();
        }
        Ok(())
    }
}
