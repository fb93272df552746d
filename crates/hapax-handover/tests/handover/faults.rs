//! A store with faults: requests fail, before and after they are done, and answers are lost.

use crate::{Temporary, offset_of, open, options, take};
use futures_util::stream::BoxStream;
use futures_util::{StreamExt, TryStreamExt};
use hapax::seam::random::Random;
use hapax_handover::object_store::memory::InMemory;
use hapax_handover::object_store::path::Path;
use hapax_handover::object_store::{
    CopyOptions, Error, GetOptions, GetRange, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    ObjectStoreExt, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use hapax_handover::{Acquired, Handover, HandoverError, Owned};
use std::fmt;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;

pub(crate) async fn paths(store: &InMemory) -> Vec<Path> {
    store.list(None).map_ok(|meta| meta.location).try_collect().await.unwrap()
}

pub(crate) async fn flip(store: &InMemory, path: &Path) {
    let mut bytes = store.get(path).await.unwrap().bytes().await.unwrap().to_vec();
    bytes[20] ^= 1;
    store.put(path, bytes.into()).await.unwrap();
}

/// Leaves an object as an owner whose upload came late.
pub(crate) async fn orphan(store: &InMemory, root: &str, epoch: u64) -> Path {
    let path = Path::from(format!("{root}/objects/{epoch:020}/{:010}-{:016x}", 999, 7));
    store.put(&path, "late".into()).await.unwrap();
    path
}

/// The things that the store does when an object is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reads {
    /// One of six fails.
    Drawn,
    Well,
    /// All fail but those of a page, and of what is behind the pages: no file comes whole.
    NoFiles,
    Gone,
    /// Nobody answers.
    Hang,
}

#[derive(Debug)]
pub(crate) struct Faulty {
    pub(crate) inner: InMemory,
    random: Mutex<Random>,
    reads: Mutex<Reads>,
    /// The number of pages that were asked for while nobody answered, or all was gone.
    pub(crate) in_vain: AtomicUsize,
    /// True if other requests fail, too.
    is_faulty: bool,
}

impl fmt::Display for Faulty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a store with faults")
    }
}

fn fault() -> Error {
    Error::Generic { store: "faulty", source: "the connection was closed".into() }
}

impl Faulty {
    pub(crate) fn new(seed: u64) -> Arc<Self> {
        Self::with(seed, Reads::Drawn, true)
    }

    /// Returns a store in which nothing fails until something is to.
    pub(crate) fn well() -> Arc<Self> {
        Self::with(0, Reads::Well, false)
    }

    fn with(seed: u64, reads: Reads, is_faulty: bool) -> Arc<Self> {
        let (random, reads) = (Mutex::new(Random::new(seed)), Mutex::new(reads));
        Arc::new(Faulty { inner: InMemory::new(), random, reads, in_vain: AtomicUsize::new(0), is_faulty })
    }

    pub(crate) fn reads(&self, reads: Reads) {
        *self.reads.lock().unwrap() = reads;
    }

    /// Draws whether a request fails before it is done, and whether its answer is lost.
    fn draw(&self) -> (bool, bool) {
        let mut random = self.random.lock().unwrap();
        if !self.is_faulty {
            return (false, false);
        }
        (random.below(6) == 0, random.below(6) == 0)
    }
}

type Answer<'a, T> = std::pin::Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>;

impl Faulty {
    fn put_faulty<'a>(&'a self, at: &'a Path, payload: PutPayload, options: PutOptions) -> Answer<'a, PutResult> {
        Box::pin(async move {
            let (fails, is_lost) = self.draw();
            if fails {
                return Err(fault());
            }
            let put = self.inner.put_opts(at, payload, options).await?;
            if is_lost { Err(fault()) } else { Ok(put) }
        })
    }
}

#[async_trait::async_trait]
impl ObjectStore for Faulty {
    async fn put_opts(&self, at: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        self.put_faulty(at, payload, options).await
    }

    async fn put_multipart_opts(&self, at: &Path, options: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(at, options).await
    }

    async fn get_opts(&self, at: &Path, options: GetOptions) -> Result<GetResult> {
        let is_file = matches!(&options.range, Some(GetRange::Bounded(range)) if range.start == 0 && range.end > 4096);
        let reads = *self.reads.lock().unwrap();
        if !is_file && at.as_ref().contains("/objects/") && matches!(reads, Reads::Gone | Reads::Hang) {
            self.in_vain.fetch_add(1, Ordering::Relaxed);
        }
        match reads {
            Reads::Drawn if self.draw().0 => return Err(fault()),
            Reads::Gone => return Err(fault()),
            Reads::NoFiles if is_file => return Err(fault()),
            Reads::Hang => std::future::pending().await,
            Reads::Drawn | Reads::NoFiles | Reads::Well => {}
        }
        self.inner.get_opts(at, options).await
    }

    fn delete_stream(&self, at: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        let fails = self.draw().0;
        self.inner.delete_stream(at).map(move |deleted| if fails { Err(fault()) } else { deleted }).boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.inner.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}

pub(crate) fn seed() -> u64 {
    let seed = std::env::var("HAPAX_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(7);
    println!("seed {seed}");
    seed
}

/// Runs some work for this many steps at most: it is polled so often, and then dropped. (Steps, not
/// time: a busy machine gets as far in them as an idle one.)
async fn steps<T>(count: u64, work: impl Future<Output = T>) -> Option<T> {
    let (mut work, mut left) = (pin!(work), count);
    std::future::poll_fn(|context| {
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        let polled = work.as_mut().poll(context).map(Some);
        if left == 0 {
            context.waker().wake_by_ref();
        }
        polled
    })
    .await
}

/// Hands a partition over many times, by owners that publish some times, and may be dropped in the
/// middle of that: after so many steps at most. Checks what each of them knows. Calls `after` after
/// each publication. Returns the last position of which one was told that it is
/// published.
pub(crate) async fn hands_over_at_random(
    (handover, seed, steps_max): (Handover, u64, u64),
    open: impl AsyncFn(Acquired) -> Owned,
    mut after: impl FnMut(&Owned, &mut Random),
) -> u64 {
    let (directory, mut random) = (Temporary::new(), Random::new(seed));
    let (mut committed, mut at_most) = (0, 0);
    for turn in 0..25 {
        let acquired = handover.acquire("3", &directory.0.join(format!("{}", turn % 3))).await.unwrap();
        let offset = offset_of(&acquired);
        assert!((committed..=at_most).contains(&offset), "{committed} were published, and the position is {offset}");
        let owned = open(acquired).await;
        assert_eq!(take(&owned, 0..offset), 0, "what lies before the position is known");
        let mut next = offset;
        for _ in 0..1 + random.below(4) {
            assert_eq!(take(&owned, next..next + 40), 40, "and nothing else");
            next += 40;
            at_most = at_most.max(next);
            match steps(random.below(steps_max), owned.publish()).await {
                Some(Ok(_)) => committed = next,
                Some(Err(error)) => assert!(!matches!(error, HandoverError::Fenced { .. }), "{error}"),
                None => {} // whoever waited for it has gone
            }
            after(&owned, &mut random);
        }
    }
    committed
}

/// Twice as many steps as a publication takes.
pub(crate) const STEPS_MAX: u64 = 40;

/// Real engines, handed over while the store fails one request in three, and owners are dropped in
/// the middle of a publication.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_lost_or_fresh_again_over_a_store_with_faults() {
    let seed = seed();
    let handover = Handover::new(Faulty::new(seed + 1), "hapax", options().attempts(20)).unwrap();
    let committed = hands_over_at_random((handover, seed, STEPS_MAX), open, |_, _| ()).await;
    assert!(committed > 200, "{committed}");
}
