//! The protocol, driven: does what the state machine says, and tells it what came of it.

use crate::HandoverError;
use crate::local::Source;
use crate::manifest::{File, Manifest, Object};
use crate::protocol::{Action, Answer, Event, Owning, PUTS_MAX, State};
use crate::remote::{PARALLEL, Remote};
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The bytes of new objects: stretches of files.
pub(crate) type Sources = BTreeMap<Object, (Arc<Source>, Range<u64>)>;

/// The owner of a partition, or who is to be.
pub(crate) struct Driver {
    pub(crate) remote: Arc<Remote>,
    pub(crate) partition: String,
    state: Mutex<State>,
}

/// The result of an acquisition or a publication.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Driven {
    pub(crate) deleted: u64,
    pub(crate) not_deleted: u64,
}

impl Driver {
    pub(crate) fn new(remote: Remote, partition: &str) -> Self {
        Driver { remote: Arc::new(remote), partition: partition.into(), state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing that could panic leaves it half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn on(&self, event: Event) -> Vec<Action> {
        self.state().on(event)
    }

    /// Returns something of this owner, or the reason why it is none.
    pub(crate) fn owning<T>(&self, of: impl FnOnce(&mut Owning) -> T) -> Result<T, HandoverError> {
        let (epoch, by) = match &mut *self.state() {
            State::Owning(owning) => return Ok(of(owning)),
            State::Fenced { epoch, by } => (*epoch, *by),
            _ => (0, 0),
        };
        Err(HandoverError::Fenced { partition: self.partition.clone(), epoch, by })
    }

    pub(crate) fn current(&self) -> Result<Manifest, HandoverError> {
        self.owning(|owning| owning.current.clone())
    }

    pub(crate) fn must_own(&self) -> Result<(), HandoverError> {
        self.owning(|_| ())
    }

    /// Looks whether this still is the owner.
    pub(crate) async fn look(&self) -> Result<(), HandoverError> {
        let manifest = self.remote.look().await?;
        self.on(Event::Looked(manifest));
        self.must_own()
    }

    /// Returns true if this still is the owner, false if the store does not say: it is asked again,
    /// until there is an answer or the lease ends. An error if another one is.
    pub(crate) async fn still_owns(&self) -> Result<bool, HandoverError> {
        match self.look().await {
            Ok(()) => Ok(true),
            Err(error @ HandoverError::Fenced { .. }) => Err(error),
            Err(_) => Ok(false),
        }
    }

    /// Downloads files into a directory that has none of them.
    pub(crate) async fn download(&self, directory: &Path, files: &[File]) -> Result<(), HandoverError> {
        let make = |file: &File| {
            let to = directory.join(&file.name);
            crate::local::create(&to)?.set_len(file.bytes()).map_err(HandoverError::io("make room for", &to))
        };
        files.iter().try_for_each(make)?;
        // (Owned, as borrowed items would make of this a future that no task can be spawned of.)
        let mut parts = Vec::new();
        for file in files {
            let (to, mut end) = (directory.join(&file.name), 0);
            for part in &file.parts {
                parts.push((*part, end, to.clone()));
                end += part.bytes;
            }
        }
        let mut downloads = stream::iter(parts.into_iter().map(|(part, offset, to)| async move {
            let bytes = self.remote.download(&part).await?;
            blocking(move || crate::local::write_at(&to, offset, &bytes)).await
        }))
        .buffer_unordered(PARALLEL);
        while let Some(downloaded) = downloads.next().await {
            downloaded?;
        }
        Ok(())
    }

    /// Goes on until the event has come to its end.
    pub(crate) async fn drive(&self, event: Event, sources: &Sources) -> Result<Driven, HandoverError> {
        let mut todo = VecDeque::from(self.on(event));
        let (mut driven, mut unanswered, mut last, mut is_done) = (Driven::default(), 0, None, false);
        // (Each put is followed by a read, and there are few puts.)
        while let Some(action) = todo.pop_front() {
            match action {
                Action::Read => {
                    if unanswered > 0 {
                        self.remote.pause(unanswered).await;
                    }
                    let read = self.remote.read().await.map_err(|error| last = Some(error));
                    todo.extend(self.on(read.map_or(Event::NotRead, Event::Read)));
                }
                Action::Put { manifest, over } => match self.remote.put(&manifest, over).await {
                    Ok(answer) => {
                        unanswered += u32::from(answer != Answer::Written);
                        todo.extend(self.on(Event::Put(answer)));
                    }
                    Err(error) => {
                        // It has not been written, and never will be.
                        self.on(Event::Put(Answer::Refused));
                        self.on(Event::NotRead);
                        return Err(error);
                    }
                },
                Action::Upload(new) => match self.upload(&new, sources).await {
                    Ok(()) => new.iter().for_each(|object| todo.extend(self.on(Event::Uploaded(*object)))),
                    Err(error) => {
                        last = Some(error);
                        todo.extend(self.on(Event::UploadFailed));
                    }
                },
                Action::Delete(old) => {
                    let deleted = self.delete(&old).await;
                    driven.deleted += deleted;
                    driven.not_deleted += old.len() as u64 - deleted;
                }
                Action::Acquired | Action::Published => is_done = true,
                Action::Fenced => self.must_own()?,
                Action::GaveUp => {
                    let partition = self.partition.clone();
                    return Err(last.unwrap_or(HandoverError::Contended { partition, puts: PUTS_MAX }));
                }
            }
        }
        if is_done {
            Ok(driven)
        } else {
            // Whatever the state machine waits for, it is not what was asked.
            Err(HandoverError::Contended { partition: self.partition.clone(), puts: PUTS_MAX })
        }
    }

    async fn upload(&self, new: &BTreeSet<Object>, sources: &Sources) -> Result<(), HandoverError> {
        // (Owned, as borrowed items would make of this a future that no task can be spawned of.)
        let source = |object: &Object| sources.get(object).cloned().map(|(source, range)| (*object, source, range));
        let uploads: Vec<_> = new.iter().filter_map(source).collect();
        let mut uploads = stream::iter(uploads.into_iter().map(|(object, source, range)| async move {
            let bytes = blocking(move || source.read(&range)).await?;
            self.remote.upload(&object, Bytes::from(bytes)).await
        }))
        .buffer_unordered(PARALLEL);
        while let Some(uploaded) = uploads.next().await {
            uploaded?;
        }
        Ok(())
    }

    /// Deletes objects that nobody names. What cannot be deleted is tried again after the next
    /// publication, or by a later owner.
    pub(crate) async fn delete(&self, old: &BTreeSet<Object>) -> u64 {
        let old: Vec<Object> = old.iter().copied().collect();
        let deletions =
            old.into_iter().map(|object| async move { (object, self.remote.delete(&object).await.is_ok()) });
        let mut deletions = stream::iter(deletions).buffer_unordered(PARALLEL);
        let mut deleted = 0;
        while let Some((object, is_deleted)) = deletions.next().await {
            if is_deleted {
                self.on(Event::Deleted(object));
                deleted += 1;
            }
        }
        deleted
    }
}

/// Does what blocks a thread on one that may be blocked.
pub(crate) async fn blocking<T: Send + 'static>(
    call: impl FnOnce() -> Result<T, HandoverError> + Send + 'static,
) -> Result<T, HandoverError> {
    match tokio::task::spawn_blocking(call).await {
        Ok(outcome) => outcome,
        Err(error) => Err(HandoverError::io("finish a task for", "")(std::io::Error::other(error))),
    }
}
