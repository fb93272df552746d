//! Runs the stages in their threads, and passes batches between them.

use super::source::input::Source;
use super::source::parse::{Batch, Channels};
use crate::error::CommandError;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// Batches in use: enough that no stage waits for a short delay of another one.
pub const BATCHES: usize = 8;

/// The first two stages, running. The last one stays in the caller's thread: when nobody reads its
/// output any more, the process ends, and does not wait for a stage that waits for input.
pub struct Stages {
    threads: [JoinHandle<()>; 2],
    empty: SyncSender<Batch>,
    messages: Receiver<Message>,
    sender: SyncSender<Message>,
}

/// A message to the last stage.
enum Message {
    Batch(Box<Batch>),
    Failed(CommandError),
    /// A wake-up from outside the stages.
    Wake,
    /// No more batches will come: all is done, or a stage has failed.
    End,
}

/// The next thing to do for the last stage.
pub enum Next<'a> {
    Batch(&'a Batch),
    /// No batch has come for a while, or a signal has.
    Nothing,
}

/// A guard that reports that there are no more batches, however its owner ends.
struct SaysEnd(SyncSender<Message>);

impl Drop for SaysEnd {
    fn drop(&mut self) {
        let _ = self.0.send(Message::End); // who has gone away needs no end
    }
}

impl Stages {
    /// Starts a stage that reads, `first`, and one that does its work on each batch: `second`. So
    /// many batches are in use.
    pub fn start(
        first: impl FnOnce(&[Source], Channels) + Send + 'static,
        mut second: impl FnMut(&mut Batch) -> Result<(), CommandError> + Send + 'static,
        batches: usize,
        sources: Vec<Source>,
    ) -> Self {
        let (empty, empties) = sync_channel(batches);
        let (full, fulls) = sync_channel(batches);
        let (sender, messages) = sync_channel(batches);
        (0..batches)
            .for_each(|_| empty.send(Batch::default()).expect("the channel has room, and its other end is here"));
        let channels = Channels { empty: empties, batches, full, spare: Vec::new() };
        let checked = SaysEnd(sender.clone());
        let threads = [
            std::thread::spawn(move || first(&sources, channels)),
            std::thread::spawn(move || {
                for batch in fulls {
                    let (batch, failure) = match batch {
                        Ok(mut batch) => {
                            let failure = second(&mut batch).err();
                            (Some(batch), failure)
                        }
                        Err(failure) => (None, Some(failure)),
                    };
                    // The lines before a failure are still printed.
                    let messages = batch
                        .map(|batch| Message::Batch(Box::new(batch)))
                        .into_iter()
                        .chain(failure.map(Message::Failed));
                    if messages.into_iter().any(|message| checked.0.send(message).is_err()) {
                        return;
                    }
                }
            }),
        ];
        Stages { threads, empty, messages, sender }
    }

    /// Returns a function that wakes the last stage.
    pub fn waker(&self) -> impl FnMut() + Send + 'static {
        let sender = self.sender.clone();
        // If the channel is full, the stage is awake anyway.
        move || drop(sender.try_send(Message::Wake))
    }

    /// Runs the last stage with every batch, up to the first failure of any stage. `last` returns
    /// how long to wait before it is to be called again, if no batch comes.
    pub fn run(self, mut last: impl FnMut(Next) -> Result<Option<Duration>, CommandError>) -> Result<(), CommandError> {
        let mut pause = None;
        loop {
            let message = match pause {
                Some(pause) => self.messages.recv_timeout(pause),
                None => self.messages.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            pause = match message {
                Ok(Message::Batch(batch)) => {
                    let pause = last(Next::Batch(&batch))?;
                    let _ = self.empty.send(*batch); // the first stage may be done, and need no more
                    pause
                }
                Ok(Message::Failed(failure)) => return Err(failure),
                Ok(Message::Wake) | Err(RecvTimeoutError::Timeout) => last(Next::Nothing)?,
                Ok(Message::End) | Err(RecvTimeoutError::Disconnected) => break,
            };
        }
        for thread in self.threads {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        }
        Ok(())
    }
}
