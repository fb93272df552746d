//! Versions in memory, in front of a store: what memory knows to be late needs no round trip.

mod in_doubt;

use self::in_doubt::{InDoubt, Versioned};
use crate::back_off::BackOff;
use crate::error::{ErrorKind, StoreError};
use crate::key::{RecordKey, Scope};
use crate::option;
use crate::sync::{Mutex, Ordering, StdAtomicU64, lock};
use crate::times;
use crate::versions::{Advance, Advanced, VersionStore};
use hapax::tier::random;
use hapax::{Latest, LatestBuilder, LatestStats, VersionVerdict};
use std::time::Duration;

/// The waits between two tries.
const BACK_OFF: BackOff = BackOff { first: Duration::from_millis(20), max: Duration::from_secs(1) };

/// The largest number of tries.
const TRIES_MAX: u32 = 100;

/// The highest version of each id, of any number of processes: a [`VersionStore`], with a
/// [`Latest`] in front of it.
///
/// ```
/// use hapax::VersionVerdict;
/// use hapax_store::{InMemoryStore, Scope, TieredLatest};
/// use std::{sync::Arc, time::Duration};
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
/// let store = Arc::new(InMemoryStore::new());
/// let scope = Scope::new("prices")?;
/// let here = TieredLatest::builder(Arc::clone(&store), scope.clone()).build()?;
/// let elsewhere = TieredLatest::builder(store, scope).retention(Duration::from_secs(86_400)).build()?;
///
/// assert!(elsewhere.check("article-17", 6).await?.is_newer());
/// assert_eq!(here.check("article-17", 5).await?, VersionVerdict::Stale { known: 6 }); // asked the store
/// assert_eq!(here.check("article-17", 6).await?, VersionVerdict::Duplicate); // knows by now
/// assert_eq!((here.stats().asked, here.stats().by_memory), (1, 1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Guarantees
///
/// - What the store promises: of any number of callers in any number of processes, each version of
///   an id passes once at most, and none after a higher one, for the store's retention.
/// - Memory answers only for what the store has confirmed: that a version, or a higher one, is
///   known. Every version that passes has passed in the store.
/// - *A lost answer* is asked for again, under the same attempt: it is newer if the first try has
///   advanced the id. If all tries fail, the caller gets the error, and the next check of that
///   version in this process goes on with the attempt: the broker's redelivery is newer, once. So
///   it is after a check, or a batch of them, that was cancelled. This holds for the last 1,024
///   such versions ([`in_doubt`](TieredLatestStats::in_doubt)).
/// - *Callers in this process who bring one version at the same time* share an attempt, so whoever
///   of them gets an answer first is told that it is newer, also if others fail or are cancelled.
/// - *A redelivery to another process* is a duplicate there, if the try whose answer was lost has
///   advanced the id: then nobody has had the effect, until a higher version comes. So is one to
///   this process after it has died. See [`VersionStore`] for how to advance with the effect
///   instead.
/// - Each try has a [time-out](TieredLatestBuilder::timeout).
/// - *What is [forgotten](crate::Store::forget) in the store* stays in the memory of each process,
///   for the [retention of that](LatestBuilder::retention).
///
/// # Errors
///
/// The store's, after the last try: then the version may or may not be known there. The message has
/// to come again.
///
/// # Cost
///
/// A version that memory knows to be late takes what [`Latest::known`] takes. Every other one is a
/// round trip: batches are put together by callers
/// ([`check_batch`](TieredLatest::check_batch)), not here.
pub struct TieredLatest<S> {
    store: S,
    scope: Scope,
    memory: Latest,
    retention: Duration,
    timeout: Duration,
    tries: u32,
    in_doubt: Mutex<InDoubt>,
    asked: StdAtomicU64,
    by_memory: StdAtomicU64,
}

/// Configures a [`TieredLatest`].
#[must_use = "a builder does nothing until `build` is called"]
pub struct TieredLatestBuilder<S> {
    store: S,
    scope: Scope,
    memory: LatestBuilder,
    retention: Duration,
    timeout: Duration,
    tries: u32,
}

/// The counters of a [`TieredLatest`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TieredLatestStats {
    /// Versions that memory has answered.
    pub by_memory: u64,
    /// Versions that the store was asked about, tries that were repeated not included.
    pub asked: u64,
    /// Versions whose answer was lost, or is still awaited, and whose attempt is kept.
    pub in_doubt: usize,
    /// Such versions that had to be given up, since there were too many.
    pub given_up: u64,
    /// The memory.
    pub memory: LatestStats,
}

/// The attempts of a batch. Those of which the caller was not told when this is dropped are in
/// doubt.
struct Asking<'t, S> {
    tiered: &'t TieredLatest<S>,
    /// For each version, the key of its attempt, until the caller is told.
    untold: Vec<Option<Versioned>>,
    /// For each version, true if a try has failed that the store may have carried out.
    may_be_done: Vec<bool>,
}

impl<S: VersionStore> TieredLatest<S> {
    /// Starts configuring versions in a scope of a store, in which nothing else is recorded.
    pub fn builder(store: S, scope: Scope) -> TieredLatestBuilder<S> {
        TieredLatestBuilder {
            store,
            scope,
            memory: Latest::builder(),
            retention: Duration::from_secs(86_400),
            timeout: Duration::from_secs(1),
            tries: 3,
        }
    }

    /// Checks a version of an id: newer than any that is known in any process, a duplicate, or
    /// stale. A newer one is known from now on.
    ///
    /// # Errors
    ///
    /// Those of the store; see [`TieredLatest`].
    pub async fn check(&self, id: impl AsRef<[u8]>, version: u64) -> Result<VersionVerdict, StoreError> {
        let mut answers = self.check_batch(&[(id, version)]).await;
        answers.pop().unwrap_or_else(|| Err(self.unanswered()))
    }

    /// Checks many versions, in order, with one round trip for as many as suit the store.
    ///
    /// # Errors
    ///
    /// For each version by itself, those of the store; see [`TieredLatest`].
    pub async fn check_batch<K: AsRef<[u8]>>(&self, versions: &[(K, u64)]) -> Vec<Result<VersionVerdict, StoreError>> {
        let mut answers: Vec<Option<Result<VersionVerdict, StoreError>>> =
            versions.iter().map(|(id, version)| self.by_memory(id.as_ref(), *version).map(Ok)).collect();
        let open: Vec<usize> = (0..versions.len()).filter(|&place| answers[place].is_none()).collect();
        // Relaxed: counters.
        self.by_memory.fetch_add((versions.len() - open.len()) as u64, Ordering::Relaxed);
        self.asked.fetch_add(open.len() as u64, Ordering::Relaxed);
        let mut asked = Vec::new();
        for places in open.chunks(self.store.limits().batch.max(1)) {
            let batch = places.iter().map(|&place| (versions[place].0.as_ref(), versions[place].1)).collect::<Vec<_>>();
            asked.push((places, self.ask(&batch).await));
        }
        // Not before the last of them: a caller that is cancelled meanwhile was told of none.
        for (places, (mut asking, told)) in asked {
            for (n, (&place, answer)) in places.iter().zip(told).enumerate() {
                let (id, version) = &versions[place];
                let told = asking.tell(n, answer);
                answers[place] = Some(told.map(|advanced| self.learn(id.as_ref(), *version, advanced)));
            }
        }
        answers.into_iter().map(|answer| answer.unwrap_or_else(|| Err(self.unanswered()))).collect()
    }

    /// Returns what was counted.
    pub fn stats(&self) -> TieredLatestStats {
        let in_doubt = lock(&self.in_doubt);
        TieredLatestStats {
            by_memory: self.by_memory.load(Ordering::Relaxed),
            asked: self.asked.load(Ordering::Relaxed),
            in_doubt: in_doubt.len(),
            given_up: in_doubt.given_up(),
            memory: self.memory.stats(),
        }
    }

    /// Returns the store.
    pub fn store(&self) -> &S {
        &self.store
    }

    /// Returns the answer, if memory knows that version or a higher one.
    fn by_memory(&self, id: &[u8], version: u64) -> Option<VersionVerdict> {
        match self.memory.known(id)? {
            // Memory may know it from another caller, who met an attempt of this process whose
            // answer was lost: nobody has been told yet that it is newer.
            known if known == version => (!self.is_in_doubt(id, version)).then_some(VersionVerdict::Duplicate),
            known if known > version => Some(VersionVerdict::Stale { known }),
            _ => None,
        }
    }

    /// Returns true if an attempt of this version was left without an answer.
    fn is_in_doubt(&self, id: &[u8], version: u64) -> bool {
        let in_doubt = lock(&self.in_doubt);
        !in_doubt.is_empty() && in_doubt.is_left(&(RecordKey::new(&self.scope, id).to_stored(), version))
    }

    /// Asks the store, as often as it takes and is allowed.
    async fn ask(&self, batch: &[(&[u8], u64)]) -> (Asking<'_, S>, Vec<Result<Advanced, StoreError>>) {
        let (mut asking, mut advances) = self.begin(batch);
        let mut answers: Vec<Option<Result<Advanced, StoreError>>> = vec![None; batch.len()];
        let mut places: Vec<usize> = (0..batch.len()).collect();
        for tried in 1..=self.tries {
            let asked = tokio::time::timeout(self.timeout, self.store.advance(&advances)).await;
            let answered = asked.unwrap_or_else(|_| Err(self.late())).and_then(|answers| self.all(answers, &places));
            let (mut again, mut again_at) = (Vec::new(), Vec::new());
            for (n, &place) in places.iter().enumerate() {
                let answer = match &answered {
                    Ok(answered) => answered[n].clone(),
                    Err(error) => Err(error.clone()),
                };
                asking.may_be_done[place] |= answer.as_ref().is_err_and(|error| !has_done_nothing(error.kind()));
                if answer.as_ref().is_err_and(|error| error.kind().is_transient()) {
                    again.push(advances[n].clone());
                    again_at.push(place);
                }
                answers[place] = Some(answer);
            }
            (advances, places) = (again, again_at);
            if places.is_empty() || tried == self.tries {
                break;
            }
            tokio::time::sleep(BACK_OFF.after(tried, random::any())).await;
        }
        let answers = answers.into_iter().map(|answer| answer.unwrap_or_else(|| Err(self.unanswered())));
        (asking, answers.collect())
    }

    /// Learns what the store has answered; memory never knows more than that.
    fn learn(&self, id: &[u8], version: u64, advanced: Advanced) -> VersionVerdict {
        let (known, verdict) = match advanced {
            Advanced::Newer => (version, VersionVerdict::Newer),
            Advanced::Duplicate => (version, VersionVerdict::Duplicate),
            Advanced::Stale { known } => (known, VersionVerdict::Stale { known }),
        };
        // What memory says to that does not matter: it may have learned of a higher one meanwhile.
        let _ = self.memory.check(id, known);
        verdict
    }

    /// Returns the requests of a batch, with the attempts that were begun before, if any.
    fn begin(&self, batch: &[(&[u8], u64)]) -> (Asking<'_, S>, Vec<Advance>) {
        let mut in_doubt = lock(&self.in_doubt);
        let mut untold = Vec::with_capacity(batch.len());
        let advance = |&(id, version): &(&[u8], u64)| {
            let key = RecordKey::new(&self.scope, id);
            let attempt = in_doubt.begin((key.to_stored(), version));
            untold.push(Some((key.to_stored(), version)));
            Advance { key, version, attempt, retention: self.retention }
        };
        let advances = batch.iter().map(advance).collect();
        (Asking { tiered: self, untold, may_be_done: vec![false; batch.len()] }, advances)
    }

    /// Returns the answers, if there is one for each request.
    fn all(
        &self,
        answers: Vec<Result<Advanced, StoreError>>,
        places: &[usize],
    ) -> Result<Vec<Result<Advanced, StoreError>>, StoreError> {
        if answers.len() == places.len() { Ok(answers) } else { Err(self.unanswered()) }
    }

    fn late(&self) -> StoreError {
        let what = format!("expected an answer within {:?}", self.timeout);
        StoreError::new(ErrorKind::Timeout, self.store.backend(), what)
    }

    fn unanswered(&self) -> StoreError {
        StoreError::new(ErrorKind::Corrupt, self.store.backend(), "a request was left without an answer")
    }
}

impl<S> std::fmt::Debug for TieredLatest<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TieredLatest").field("scope", &self.scope).finish_non_exhaustive()
    }
}

/// Returns true for an error that says that the store has not carried out the try.
fn has_done_nothing(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::Conflict | ErrorKind::Misconfigured)
}

impl<S> Asking<'_, S> {
    /// Returns what the caller is told, who is told now.
    fn tell(&mut self, place: usize, answer: Result<Advanced, StoreError>) -> Result<Advanced, StoreError> {
        let Some(version) = self.untold[place].take() else { return answer };
        let mut in_doubt = lock(&self.tiered.in_doubt);
        match answer {
            Ok(advanced) => return Ok(in_doubt.settle(&version, advanced)),
            Err(_) if self.may_be_done[place] => in_doubt.leave(&version),
            Err(_) => in_doubt.fail(&version),
        }
        answer
    }
}

impl<S> Drop for Asking<'_, S> {
    fn drop(&mut self) {
        let mut in_doubt = lock(&self.tiered.in_doubt);
        self.untold.iter().flatten().for_each(|version| in_doubt.leave(version));
    }
}

impl<S: VersionStore> TieredLatestBuilder<S> {
    /// Sets the memory: its capacity and retention. What it forgets is asked for again. Its time is
    /// a clock's: [`event_time`](LatestBuilder::event_time) is refused. Default: that of
    /// [`Latest::builder`].
    ///
    /// ```
    /// use hapax::Latest;
    /// use hapax_store::{InMemoryStore, Scope, TieredLatest};
    ///
    /// let memory = Latest::builder().capacity(10_000);
    /// let latest = TieredLatest::builder(InMemoryStore::new(), Scope::new("prices")?).memory(memory).build()?;
    /// assert!(latest.stats().memory.room >= 10_000);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn memory(self, memory: LatestBuilder) -> Self {
        TieredLatestBuilder { memory, ..self }
    }

    /// Sets how long the store knows a version, from when it was accepted. Longer than a message
    /// can be late, and no shorter than the memory's [retention](LatestBuilder::retention): memory
    /// would go on to answer when the store has forgotten. Default: a day.
    pub fn retention(self, retention: Duration) -> Self {
        TieredLatestBuilder { retention, ..self }
    }

    /// Sets the longest time that a try may take. Default: 1 s.
    pub fn timeout(self, timeout: Duration) -> Self {
        TieredLatestBuilder { timeout, ..self }
    }

    /// Sets how often the store is asked at most, 1 to 100 times, if it is unavailable or late,
    /// with waits in between that double, from 20 ms to a second, and are jittered. Default: 3.
    pub fn tries(self, tries: u32) -> Self {
        TieredLatestBuilder { tries, ..self }
    }

    /// Builds it. Nothing is asked yet.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Misconfigured`] for an option that makes no sense, which it names, also one of
    /// the memory; [`ErrorKind::Unavailable`] if there is no memory.
    pub fn build(self) -> Result<TieredLatest<S>, StoreError> {
        let TieredLatestBuilder { store, scope, memory, retention, timeout, tries } = self;
        times::check("retention", retention)?;
        times::check("timeout", timeout)?;
        option::within("hapax", "tries", tries, 1..=TRIES_MAX)?;
        // Without checks that give times, its time would stand still: it would never forget.
        let got = format_args!("one with `event_time`");
        option::check("hapax", !memory.is_by_events(), "memory", &got, "one whose time is a clock's")?;
        // Otherwise one process says duplicate, by its memory, and another one newer.
        let expected = format!("at least the memory's retention, {:?}", memory.known_for());
        option::check("hapax", retention >= memory.known_for(), "retention", &retention, &expected)?;
        let memory = memory.build().map_err(|error| {
            let kind = match &error {
                hapax::Error::InvalidOption { .. } => ErrorKind::Misconfigured,
                _ => ErrorKind::Unavailable,
            };
            StoreError::caused(kind, "hapax", "the memory in front of the store", error)
        })?;
        let zero = || StdAtomicU64::new(0);
        let in_doubt = Mutex::default();
        Ok(TieredLatest { store, scope, memory, retention, timeout, tries, in_doubt, asked: zero(), by_memory: zero() })
    }
}
