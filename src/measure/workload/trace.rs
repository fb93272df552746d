//! Streams that somebody has recorded.

use super::{Bytes, Ids, Stream};
use crate::Timestamp;
use crate::strategy::Failure;
use std::path::Path;
use std::time::Duration;

/// Ids with their times, in ticks of the stream.
///
/// It is made by [`push`](Trace::push), and kept in a file, so that every process that measures a strategy reads the same.
pub struct Trace {
    header: TraceHeader,
    ids: Bytes,
    ticks: Vec<u32>,
}

/// What is known of a trace before its ids are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceHeader {
    /// Ticks from the first id to the last one. A pass over the trace is one run over all of them.
    pub ticks: usize,
    /// Its ids.
    pub events: usize,
    /// The most distinct ids within any window: the setting's `live`.
    pub live: usize,
    /// Whether there was a window. If not, all happens in the first tick, and nothing expires.
    pub has_window: bool,
}

impl Trace {
    /// An empty one. Without a window nothing expires.
    pub fn new(window: Option<Duration>) -> Self {
        let header = TraceHeader { ticks: 0, events: 0, live: 0, has_window: window.is_some() };
        Trace { header, ids: Bytes::with_capacity(0), ticks: Vec::new() }
    }

    /// Adds an id. One without a time happens when the one before it did, and so does one of an earlier time.
    ///
    /// # Errors
    ///
    /// If there are too many ids, or too many windows from the first time to the last.
    pub fn push(&mut self, id: &[u8], at: Option<Timestamp>) -> Result<(), Failure> {
        let _ = at;
        self.ids.push_bytes(id)?;
        self.ticks.push(0);
        self.header.events += 1;
        Ok(())
    }

    /// What is known of it.
    pub fn header(&self) -> TraceHeader {
        self.header
    }

    /// Writes it to a file.
    ///
    /// # Errors
    ///
    /// Those of the file.
    pub fn write(&self, path: &Path) -> Result<(), Failure> {
        Err(format!("{}: not yet", path.display()).into())
    }

    /// Reads a file that [`write`](Trace::write) wrote.
    ///
    /// # Errors
    ///
    /// Those of the file; and if it is no trace, or damaged: then they say where.
    pub fn read(path: &Path) -> Result<Trace, Failure> {
        Err(format!("{}: not yet", path.display()).into())
    }

    /// Reads the first bytes of a file only.
    ///
    /// # Errors
    ///
    /// Those of [`read`](Trace::read).
    pub fn read_header(path: &Path) -> Result<TraceHeader, Failure> {
        Err(format!("{}: not yet", path.display()).into())
    }
}

/// A trace's ids, by threads.
pub(super) fn streams<B: Ids>(trace: &Trace, threads: usize, ticks: usize) -> Result<Vec<Stream<B>>, Failure> {
    let _ = (trace, threads, ticks);
    Err("not yet".into())
}
