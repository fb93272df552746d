//! The suite passes what is right, and notices each flaw.

use super::*;
use hapax::ManualClock;

/// A way in which a store's versions are wrong.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Flaw {
    None,
    PassesEqual,
    PassesLower,
    IgnoresAttempts,
    ComparesText,
    ComparesDoubles,
    ComparesSigned,
    ExtendsByStale,
    NeverForgets,
    ReplacesMarks,
    LooksThenWrites,
    AnswersTheLastFirst,
}

const FLAWS: [Flaw; 11] = [
    Flaw::PassesEqual,
    Flaw::PassesLower,
    Flaw::IgnoresAttempts,
    Flaw::ComparesText,
    Flaw::ComparesDoubles,
    Flaw::ComparesSigned,
    Flaw::ExtendsByStale,
    Flaw::NeverForgets,
    Flaw::ReplacesMarks,
    Flaw::LooksThenWrites,
    Flaw::AnswersTheLastFirst,
];

struct Flawed {
    inner: InMemoryStore,
    flaw: Flaw,
}

impl Flawed {
    async fn one(&self, advance: &Advance) -> Result<Advanced, StoreError> {
        use version_record::Version;
        let known = || async {
            let known = self.inner.look_up(std::slice::from_ref(&advance.key)).await?.remove(0)?;
            Ok::<_, StoreError>(match known {
                Known::Completed(completed) => Version::decode(completed.result.as_deref()),
                _ => None,
            })
        };
        let write = |retention| async move {
            let result = Some(Version::of(advance).encode());
            let record = Record { key: advance.key.clone(), retention, fingerprint: None, result };
            self.inner.record(&[record]).await?.remove(0)
        };
        let is_higher = |known: u64| match self.flaw {
            Flaw::PassesEqual => advance.version >= known,
            Flaw::PassesLower => true,
            Flaw::ComparesText => advance.version.to_string() > known.to_string(),
            Flaw::ComparesDoubles => advance.version as f64 > known as f64,
            Flaw::ComparesSigned => advance.version.cast_signed() > known.cast_signed(),
            _ => advance.version > known,
        };
        let asked = Version::of(advance);
        match self.flaw {
            Flaw::None | Flaw::AnswersTheLastFirst => {
                self.inner.advance(std::slice::from_ref(advance)).await?.remove(0)
            }
            Flaw::IgnoresAttempts => {
                let again = Advance { attempt: hapax::tier::random::any(), ..advance.clone() };
                self.inner.advance(&[again]).await?.remove(0)
            }
            Flaw::NeverForgets => {
                let longer = Advance { retention: 24 * advance.retention, ..advance.clone() };
                self.inner.advance(&[longer]).await?.remove(0)
            }
            Flaw::ReplacesMarks if known().await?.is_none() => write(advance.retention).await.map(|()| Newer),
            Flaw::ExtendsByStale => {
                let answer = self.inner.advance(std::slice::from_ref(advance)).await?.remove(0)?;
                if let (Stale { .. }, Some(known)) = (answer, known().await?) {
                    let result = Some(known.encode());
                    let key = advance.key.clone();
                    let record = Record { key, retention: advance.retention, fingerprint: None, result };
                    self.inner.record(&[record]).await?.remove(0)?;
                }
                Ok(answer)
            }
            _ => {
                let known = known().await?;
                if self.flaw == Flaw::LooksThenWrites {
                    tokio::task::yield_now().await;
                }
                match known {
                    Some(known) if known == asked => Ok(Newer),
                    Some(known) if !is_higher(known.number) => match known.number == asked.number {
                        true => Ok(Duplicate),
                        false => Ok(Stale { known: known.number }),
                    },
                    Some(_) => write(advance.retention).await.map(|()| Newer),
                    None => self.inner.advance(std::slice::from_ref(advance)).await?.remove(0),
                }
            }
        }
    }
}

/// Passes everything but versions on.
impl Store for Flawed {
    fn backend(&self) -> &'static str {
        "flawed"
    }

    async fn mark(&self, marks: &[Mark]) -> Answers<Marked> {
        self.inner.mark(marks).await
    }

    async fn unmark(&self, marks: &[Unmark]) -> Answers<Unmarked> {
        self.inner.unmark(marks).await
    }

    async fn claim(&self, claims: &[ClaimRequest]) -> Answers<Claimed> {
        self.inner.claim(claims).await
    }

    async fn complete(&self, completions: &[Completion]) -> Answers<Held> {
        self.inner.complete(completions).await
    }

    async fn release(&self, holds: &[Hold]) -> Answers<Held> {
        self.inner.release(holds).await
    }

    async fn fail(&self, failures: &[ClaimFailure]) -> Answers<Held> {
        self.inner.fail(failures).await
    }

    async fn renew(&self, renewals: &[Renewal]) -> Answers<Held> {
        self.inner.renew(renewals).await
    }

    async fn look_up(&self, keys: &[RecordKey]) -> Answers<Known> {
        self.inner.look_up(keys).await
    }

    async fn record(&self, records: &[Record]) -> Answers<()> {
        self.inner.record(records).await
    }

    async fn forget(&self, keys: &[RecordKey]) -> Answers<bool> {
        self.inner.forget(keys).await
    }

    async fn expire(&self, limit: usize) -> Result<Expired, StoreError> {
        self.inner.expire(limit).await
    }

    async fn scan(&self, from: Option<&Cursor>, limit: usize) -> Result<Page, StoreError> {
        self.inner.scan(from, limit).await
    }
}

impl VersionStore for Flawed {
    async fn advance(&self, advances: &[Advance]) -> Answers<Advanced> {
        let mut answers = Vec::new();
        for advance in advances {
            answers.push(match hapax_store::times::check("retention", advance.retention) {
                Ok(()) => self.one(advance).await,
                Err(error) => Err(error),
            });
        }
        if self.flaw == Flaw::AnswersTheLastFirst {
            answers.reverse();
        }
        Ok(answers)
    }
}

struct Fixed<S>(ManualClock, Arc<S>);

impl<S: Store> Fixture for Fixed<S> {
    type Store = Arc<S>;

    async fn open(&self) -> Arc<S> {
        Arc::clone(&self.1)
    }

    async fn advance(&self, by: Duration) {
        self.0.advance(by);
    }

    fn time(&self) -> StoreTime {
        StoreTime::EXACT
    }
}

fn verified(flaw: Flaw) -> Result<Report, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let clock = ManualClock::new();
    clock.advance(Duration::from_secs(1_000_000));
    let inner = InMemoryStore::with_clock(clock.clone());
    runtime.block_on(verify_versions(&Fixed(clock, Arc::new(Flawed { inner, flaw }))))
}

#[test]
fn the_reference_passes_by_itself_and_one_by_one() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let clock = ManualClock::new();
    let store = Arc::new(InMemoryStore::with_clock(clock.clone()));
    let report = runtime.block_on(verify_versions(&Fixed(clock, store))).unwrap();
    assert_eq!(report.cases.len(), 9, "{report:?}");
    verified(Flaw::None).unwrap();
}

#[test]
fn every_flaw_of_versions_is_noticed() {
    for flaw in FLAWS {
        let failure = verified(flaw).err();
        println!("{flaw:?}: {}", failure.as_ref().map_or("not noticed".into(), Failure::to_string));
        assert!(failure.is_some(), "the suite passes a store with the flaw {flaw:?}");
    }
}
