//! The objects of a partition: requests with time-outs, bounded attempts and jitter.

use crate::manifest::{Manifest, Object, Part};
use crate::protocol::Answer;
use crate::{HandoverError, HandoverOptions};
use bytes::Bytes;
use futures_util::TryStreamExt;
use hapax::seam::random;
use object_store::path::Path;
use object_store::{Error, ObjectStore, ObjectStoreExt, PutMode, PutOptions, PutPayload, UpdateVersion};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;
use xxhash_rust::xxh3::xxh3_128;

/// The number of uploads, downloads or deletions at a time.
pub(crate) const PARALLEL: usize = 8;

pub(crate) struct Remote {
    store: Arc<dyn ObjectStore>,
    root: Path,
    pub(crate) options: HandoverOptions,
    /// The version that was read or written last, as the store calls it.
    seen: Mutex<Option<(u64, UpdateVersion)>>,
}

impl Remote {
    pub(crate) fn new(store: Arc<dyn ObjectStore>, root: Path, options: HandoverOptions) -> Self {
        Remote { store, root, options, seen: Mutex::new(None) }
    }

    fn manifest_path(&self) -> Path {
        self.root.clone().join("manifest")
    }

    fn object_path(&self, object: &Object) -> Path {
        Path::from(format!("{}/objects/{}", self.root, object.path()))
    }

    fn see(&self, seen: Option<(u64, UpdateVersion)>) {
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = seen;
    }

    /// Asks until there is an answer, or too often.
    async fn ask<T, F>(&self, doing: &'static str, path: &Path, ask: impl Fn() -> F) -> Result<T, HandoverError>
    where
        F: Future<Output = Result<T, Error>>,
    {
        self.ask_until(doing, path, self.options.request_timeout, None, ask).await
    }

    /// The same, each time for so long, and not beyond an end.
    async fn ask_until<T, F>(
        &self,
        doing: &'static str,
        path: &Path,
        after: Duration,
        end: Option<Instant>,
        ask: impl Fn() -> F,
    ) -> Result<T, HandoverError>
    where
        F: Future<Output = Result<T, Error>>,
    {
        let mut made = 0;
        loop {
            let (is_final, error) = match tokio::time::timeout(after, ask()).await {
                Ok(Ok(answer)) => return Ok(answer),
                Ok(Err(source)) => (
                    matches!(source, Error::NotFound { .. } | Error::NotImplemented { .. }),
                    HandoverError::Store { doing, path: path.to_string(), source: Arc::new(source) },
                ),
                Err(_) => (false, HandoverError::TimedOut { doing, path: path.to_string(), after }),
            };
            made += 1;
            let pause = self.options.back_off.after(made, random::any());
            if is_final || made >= self.options.attempts || end.is_some_and(|end| Instant::now() + pause >= end) {
                return Err(error);
            }
            tokio::time::sleep(pause).await;
        }
    }

    pub(crate) async fn pause(&self, made: u32) {
        tokio::time::sleep(self.options.back_off.after(made, random::any())).await;
    }

    /// Makes sure that the store refuses what replaces another version than the one that is there.
    pub(crate) async fn must_be_conditional(&self) -> Result<(), HandoverError> {
        let path = self.root.clone().join("never-written");
        let mode = || PutMode::Update(UpdateVersion { e_tag: Some("\"0\"".into()), version: Some("0".into()) });
        let put = || async {
            match self.store.put_opts(&path, PutPayload::new(), PutOptions::from(mode())).await {
                Ok(_) => Ok(Some("written".to_owned())),
                Err(Error::Precondition { .. } | Error::NotFound { .. } | Error::AlreadyExists { .. }) => Ok(None),
                Err(error @ (Error::NotImplemented { .. } | Error::NotSupported { .. })) => Ok(Some(error.to_string())),
                Err(error) => Err(error),
            }
        };
        match self.ask("put", &path, put).await? {
            Some(answer) => Err(HandoverError::NotConditional { store: self.store.to_string(), answer }),
            None => Ok(()),
        }
    }

    async fn fetch(&self) -> Result<Option<(Manifest, UpdateVersion)>, HandoverError> {
        let path = self.manifest_path();
        let read = || async {
            let got = self.store.get(&path).await?;
            let version = UpdateVersion { e_tag: got.meta.e_tag.clone(), version: got.meta.version.clone() };
            Ok((got.bytes().await?, version))
        };
        let (bytes, version) = match self.ask("read", &path, read).await {
            Err(HandoverError::Store { source, .. }) if matches!(*source, Error::NotFound { .. }) => return Ok(None),
            read => read?,
        };
        let decoded = Manifest::decode(&bytes);
        let manifest = decoded.map_err(|what| HandoverError::Damaged { path: path.to_string(), what: what.into() })?;
        Ok(Some((manifest, version)))
    }

    /// Reads the manifest, to put another over it.
    pub(crate) async fn read(&self) -> Result<Option<Manifest>, HandoverError> {
        let fetched = self.fetch().await?;
        let (manifest, seen) = fetched.map_or((None, None), |(manifest, version)| {
            let seen = (manifest.version, version);
            (Some(manifest), Some(seen))
        });
        self.see(seen);
        Ok(manifest)
    }

    /// Reads the manifest, to see whose it is.
    pub(crate) async fn look(&self) -> Result<Option<Manifest>, HandoverError> {
        Ok(self.fetch().await?.map(|(manifest, _)| manifest))
    }

    /// Writes a manifest over the version that was seen, once. An error is one that does not go
    /// away.
    pub(crate) async fn put(&self, manifest: &Manifest, over: Option<u64>) -> Result<Answer, HandoverError> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mode = match (over, seen) {
            (None, _) => PutMode::Create,
            (Some(over), Some((version, seen))) if over == version => PutMode::Update(seen),
            _ => return Ok(Answer::Refused),
        };
        let path = self.manifest_path();
        let put = self.store.put_opts(&path, PutPayload::from(manifest.encode()), PutOptions::from(mode));
        match tokio::time::timeout(self.options.request_timeout, put).await {
            Ok(Ok(put)) => {
                let version = UpdateVersion { e_tag: put.e_tag, version: put.version };
                let is_known = version.e_tag.is_some() || version.version.is_some();
                self.see(is_known.then_some((manifest.version, version)));
                Ok(Answer::Written)
            }
            Ok(Err(Error::Precondition { .. } | Error::AlreadyExists { .. } | Error::NotFound { .. })) => {
                Ok(Answer::Refused)
            }
            Ok(Err(error @ (Error::NotImplemented { .. } | Error::NotSupported { .. }))) => {
                Err(HandoverError::NotConditional { store: self.store.to_string(), answer: error.to_string() })
            }
            Ok(Err(source @ (Error::PermissionDenied { .. } | Error::Unauthenticated { .. }))) => {
                Err(HandoverError::Store { doing: "write", path: path.to_string(), source: Arc::new(source) })
            }
            Ok(Err(_)) | Err(_) => Ok(Answer::Unknown),
        }
    }

    pub(crate) async fn upload(&self, object: &Object, bytes: Bytes) -> Result<(), HandoverError> {
        let path = self.object_path(object);
        self.ask("upload", &path, || self.store.put(&path, PutPayload::from(bytes.clone()))).await.map(|_| ())
    }

    /// Downloads a part, as it was published.
    pub(crate) async fn download(&self, part: &Part) -> Result<Bytes, HandoverError> {
        let path = self.object_path(&part.object);
        let get = || async { self.store.get(&path).await?.bytes().await };
        let bytes = self.ask("download", &path, get).await?;
        if bytes.len() as u64 != part.bytes || xxh3_128(&bytes) != part.checksum {
            let what = format!("{} bytes, expected {} with another checksum", bytes.len(), part.bytes);
            return Err(HandoverError::Damaged { path: path.to_string(), what });
        }
        Ok(bytes)
    }

    /// Reads a range of an object: within a time, if somebody waits for it.
    pub(crate) async fn read_range(
        &self,
        object: &Object,
        range: std::ops::Range<u64>,
        within: Option<Duration>,
    ) -> Result<Bytes, HandoverError> {
        let path = self.object_path(object);
        let get = || self.store.get_range(&path, range.clone());
        let Some(within) = within else { return self.ask("read", &path, get).await };
        // (One request may hang where the next one does not.)
        self.ask_until("read", &path, within / 2, Some(Instant::now() + within), get).await
    }

    pub(crate) async fn delete(&self, object: &Object) -> Result<(), HandoverError> {
        let path = self.object_path(object);
        match self.ask("delete", &path, || self.store.delete(&path)).await {
            Err(HandoverError::Store { source, .. }) if matches!(*source, Error::NotFound { .. }) => Ok(()),
            deleted => deleted,
        }
    }

    /// Lists the objects, with their age in seconds by the store's clock: before the manifest.
    pub(crate) async fn list(&self) -> Result<Vec<(Object, u64)>, HandoverError> {
        let (manifest, root) = (self.manifest_path(), self.root.clone().join("objects"));
        let now = self.ask("look at", &manifest, || self.store.head(&manifest)).await?.last_modified;
        let list = || self.store.list(Some(&root)).try_collect::<Vec<_>>();
        let listed = self.ask("list", &root, list).await?;
        let object = |meta: object_store::ObjectMeta| {
            let name = meta.location.as_ref().strip_prefix(root.as_ref())?.strip_prefix('/')?.to_owned();
            let age = Duration::from_secs(u64::try_from((now - meta.last_modified).num_seconds()).unwrap_or(0));
            Some((Object::named(&name)?, age.as_secs()))
        };
        Ok(listed.into_iter().filter_map(object).collect())
    }
}
