//! Versions in fjall.

use hapax::{ManualClock, Timestamp};
use hapax_fjall::{FjallOptions, FjallStore};
use hapax_store::{Advance, Advanced, Durability, RecordKey, Scope, VersionStore};
use hapax_testing::store::{Fixture, StoreTime, verify_versions};
use std::sync::Arc;
use std::time::Duration;
use testkit::directory::Directory;

const HOUR: Duration = Duration::from_secs(3_600);

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

fn clock() -> ManualClock {
    let clock = ManualClock::new();
    clock.set(Timestamp::from_secs(1_700_000_000));
    clock
}

struct Shared(Arc<FjallStore>, ManualClock);

impl Fixture for Shared {
    type Store = Arc<FjallStore>;

    async fn open(&self) -> Arc<FjallStore> {
        Arc::clone(&self.0)
    }

    async fn advance(&self, by: Duration) {
        self.1.advance(by);
    }

    fn time(&self) -> StoreTime {
        StoreTime::EXACT
    }
}

#[test]
fn it_keeps_the_promises_of_versions() {
    let (directory, clock) = (Directory::new("versions"), clock());
    runtime().block_on(async {
        // Buckets so short that an id's version moves from one to the next.
        let options = FjallOptions::new().clock(clock.clone()).durability(Durability::System).bucket(HOUR / 8);
        let store = Arc::new(options.open(directory.path()).await.unwrap());
        verify_versions(&Shared(store, clock)).await.unwrap();
    });
}

#[test]
fn a_version_is_known_after_a_restart() {
    let (directory, clock) = (Directory::new("versions-restart"), clock());
    let key = RecordKey::new(&Scope::new("prices").unwrap(), "a");
    let of = |version, attempt| Advance { key: key.clone(), version, attempt, retention: HOUR };
    runtime().block_on(async {
        for (version, attempt, expected) in [
            (6, 1, Advanced::Newer),
            (6, 1, Advanced::Newer),
            (6, 2, Advanced::Duplicate),
            (5, 3, Advanced::Stale { known: 6 }),
            (7, 4, Advanced::Newer),
        ] {
            let store = FjallOptions::new().clock(clock.clone()).open(directory.path()).await.unwrap();
            let got = store.advance(&[of(version, attempt)]).await.unwrap().remove(0).unwrap();
            assert_eq!(got, expected, "version {version}, attempt {attempt}");
        }
    });
}
