//! Redis: one server; servers that are killed, forget scripts, want passwords;
//! networks that misbehave.

use hapax_redis::{RedisOptions, RedisStore};
use hapax_store::*;
use hapax_testing::store::{Fixture, verify_store};
use std::sync::Arc;
use std::time::{Duration, Instant};
use testkit::long;
use testkit::processes::PATIENCE;
use testkit::proxy::{Mode, Proxy};
use testkit::redis_server::{Server, is_missing};
use testkit::stores::runtime;
use tokio::sync::Semaphore;

const RETENTION: Duration = Duration::from_secs(3_600);
const LEASE: Duration = Duration::from_secs(30);

pub struct OnServers<'s> {
    pub servers: &'s [Server],
    pub options: RedisOptions,
}

impl Fixture for OnServers<'_> {
    type Store = RedisStore;

    async fn open(&self) -> RedisStore {
        RedisStore::connect(self.options.clone()).await.expect("a store")
    }

    async fn advance(&self, by: Duration) {
        for server in self.servers {
            server.age(by);
        }
    }
}

/// Starts what a test needs, if the server is installed.
pub fn installed<S>(start: impl FnOnce() -> S) -> Option<S> {
    (!is_missing()).then(start)
}

pub fn key(id: impl AsRef<[u8]>) -> RecordKey {
    RecordKey::new(&Scope::default(), id)
}

pub fn mark_of(id: impl AsRef<[u8]>, attempt: u64) -> Mark {
    Mark { key: key(id), attempt, retention: RETENTION }
}

pub fn claim_of(id: &str, attempt: u64) -> ClaimRequest {
    ClaimRequest { key: key(id), attempt, lease: LEASE, fingerprint: None, held_by: None, doubt: Duration::ZERO }
}

pub fn all<A>(answers: Answers<A>) -> Vec<A> {
    let answers = answers.unwrap_or_else(|error| panic!("a batch came to nothing: {error}"));
    let one =
        |answer: Result<A, StoreError>| answer.unwrap_or_else(|error| panic!("a request came to nothing: {error}"));
    answers.into_iter().map(one).collect()
}

pub fn one<A>(answers: Answers<A>) -> A {
    all(answers).remove(0)
}

pub async fn connect(options: RedisOptions) -> RedisStore {
    RedisStore::connect(options).await.expect("a store")
}

#[test]
fn one_server_is_what_a_store_promises() {
    let Some(server) = installed(|| Server::start(&[])) else { return };
    let options = RedisOptions::single(server.url(), "h");
    runtime().block_on(verify_store(&OnServers { servers: &[server], options })).unwrap();
}

pub fn redis_cmd(words: &[&str]) -> redis::Cmd {
    let mut command = redis::Cmd::new();
    command.arg(words);
    command
}

pub fn ask_with<A: redis::FromRedisValue>(server: &Server, command: &redis::Cmd) -> A {
    let client = redis::Client::open(server.url()).expect("an address");
    let mut connection = client.get_connection().expect("a connection");
    command.query(&mut connection).expect("an answer")
}

/// Waits until a condition holds, and not for ever.
pub async fn eventually(what: &str, is_so: impl AsyncFn() -> bool) {
    let began = Instant::now();
    while !is_so().await {
        assert!(began.elapsed() < PATIENCE, "not within {PATIENCE:?}: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[test]
fn a_server_that_forgets_its_scripts_is_told_again() {
    let Some(server) = installed(|| Server::start(&[])) else { return };
    runtime().block_on(async {
        let store = Arc::new(connect(RedisOptions::single(server.url(), "h")).await);
        let again = Arc::clone(&store);
        let flushing = async {
            for _ in 0..100 {
                server.ask::<()>(&["SCRIPT", "FLUSH", "SYNC"]);
                tokio::task::yield_now().await;
            }
        };
        let claiming = tokio::spawn(async move {
            for round in 0..50_u64 {
                let claims: Vec<ClaimRequest> = (0..300).map(|i| claim_of(&format!("{round} {i}"), i)).collect();
                let tokens = all(store.claim(&claims).await).into_iter().map(|claimed| match claimed {
                    Claimed::Claimed { token, .. } => token,
                    other => panic!("{other:?}"),
                });
                let completions = claims.iter().zip(tokens).map(|(claim, token)| Completion {
                    hold: Hold { key: claim.key.clone(), token },
                    retention: RETENTION,
                    result: None,
                });
                let completions: Vec<Completion> = completions.collect();
                assert!(all(store.complete(&completions).await).iter().all(|held| *held == Held::Done));
            }
        });
        flushing.await;
        claiming.await.expect("claims are not disturbed");
        // At the latest now, on a machine that has done one after the other.
        server.ask::<()>(&["SCRIPT", "FLUSH", "SYNC"]);
        one(again.claim(&[claim_of("another", 1)]).await);
        assert!(server.ask::<String>(&["INFO", "errorstats"]).contains("NOSCRIPT"), "nothing was forgotten in time");
    });
}

#[test]
fn what_was_acknowledged_survives_kills() {
    if is_missing() {
        return;
    }
    let kills: u64 =
        std::env::var("HAPAX_KILLS").map_or(long(10, 50), |kills| kills.parse().expect("HAPAX_KILLS is a number"));
    let server = Server::start(&["--appendonly", "yes", "--appendfsync", "always"]);
    runtime().block_on(async {
        let options = RedisOptions::single(server.url(), "h").reconnect_wait_max(Duration::from_millis(20));
        let store = Arc::new(connect(options).await);
        let (mut acknowledged, mut unanswered) = (Vec::new(), 0);
        for kill in 0..kills {
            let begun = Arc::new(Semaphore::new(0));
            let markers: Vec<_> = (0..2_u64)
                .map(|marker| {
                    let (store, begun) = (Arc::clone(&store), Arc::clone(&begun));
                    tokio::spawn(async move {
                        let mut acknowledged = Vec::new();
                        for batch in 0.. {
                            let id = |i: u64| ((kill * 2 + marker) * 100_000 + batch) * 64 + i;
                            let marks: Vec<Mark> = (0..64).map(|i| mark_of(id(i).to_be_bytes(), id(i))).collect();
                            match store.mark(&marks).await {
                                Ok(marked) => {
                                    assert!(marked.into_iter().all(|marked| marked.is_ok_and(|m| m == Marked::Fresh)));
                                    acknowledged.extend((0..64).map(id));
                                    begun.add_permits(1);
                                }
                                Err(error) => {
                                    assert!(error.kind().is_transient(), "{error}");
                                    break;
                                }
                            }
                        }
                        acknowledged
                    })
                })
                .collect();
            // A batch at least is acknowledged, however slow the machine is.
            begun.acquire().await.expect("it is open").forget();
            tokio::time::sleep(Duration::from_millis(kill % 7)).await;
            server.kill();
            for marker in markers {
                acknowledged.extend(marker.await.expect("no answer is wrong"));
                unanswered += 1;
            }
            server.start_again();
            let known = async || store.look_up(&[key("")]).await.is_ok();
            eventually("the store is connected again", known).await;
        }
        println!("{} marks acknowledged, {unanswered} batches lost to {kills} kills", acknowledged.len());
        assert!(acknowledged.len() as u64 >= kills * 64);
        for ids in acknowledged.chunks(1_024) {
            let again: Vec<Mark> = ids.iter().map(|id| mark_of(id.to_be_bytes(), id + (1 << 40))).collect();
            for (id, marked) in ids.iter().zip(all(store.mark(&again).await)) {
                assert!(matches!(marked, Marked::Duplicate { .. }), "{id} was acknowledged, and is {marked:?}");
            }
        }
    });
}

#[test]
fn networks_that_misbehave() {
    let Some(server) = installed(|| Server::start_on_loopback(&[])) else { return };
    runtime().block_on(async {
        server.ask::<()>(&["FLUSHALL"]);
        let proxy = Proxy::to(server.address()).await;
        let options = RedisOptions::single(format!("redis://{}", proxy.address()), "h")
            .response_timeout(Duration::from_secs(1))
            .connect_timeout(Duration::from_secs(1))
            .reconnect_wait_max(Duration::from_millis(50));
        let store = connect(options).await;
        let works = async || store.look_up(&[key("")]).await.is_ok();
        assert!(works().await && works().await);
        // The server knows the script then: a request with a script that it does not know was not
        // done.
        one(store.claim(&[claim_of("another", 1)]).await);

        // Answers are lost: the same attempt again finds out what was claimed and marked.
        proxy.set(Mode::Mute);
        assert_eq!(store.claim(&[claim_of("claimed", 1)]).await.unwrap_err().kind(), ErrorKind::Timeout);
        assert!(store.mark(&[mark_of("marked", 1)]).await.unwrap_err().kind().is_transient());
        proxy.set(Mode::Pass);
        eventually("the network is back", works).await;
        let Claimed::InProgress { .. } = one(store.claim(&[claim_of("claimed", 2)]).await) else {
            panic!("the claim had arrived");
        };
        let Claimed::Claimed { token, .. } = one(store.claim(&[claim_of("claimed", 1)]).await) else {
            panic!("it is one's own");
        };
        let completion = Completion { hold: Hold { key: key("claimed"), token }, retention: RETENTION, result: None };
        proxy.set(Mode::Mute);
        assert_eq!(store.complete(std::slice::from_ref(&completion)).await.unwrap_err().kind(), ErrorKind::Timeout);
        proxy.set(Mode::Pass);
        eventually("the network is back", works).await;
        assert_eq!(one(store.complete(&[completion]).await), Held::Done);
        assert_eq!(one(store.mark(&[mark_of("marked", 1)]).await), Marked::Fresh);

        // The connection is half open: the other end is gone without notice. A connection that owes
        // an answer is given up.
        proxy.set(Mode::Stall);
        let began = Instant::now();
        for attempt in 0..4 {
            assert!(store.mark(&[mark_of("stalled", attempt)]).await.unwrap_err().kind().is_transient());
        }
        assert!(began.elapsed() < PATIENCE, "whoever cannot connect is told, and does not wait for the network");
        proxy.set(Mode::Pass);
        eventually("the network is back", works).await;

        // Connections are cut during requests: at worst, those requests fail.
        for _ in 0..20 {
            proxy.cut();
            let failed = store.look_up(&[key("")]).await.err();
            assert!(failed.is_none_or(|error| error.kind() == ErrorKind::Unavailable));
        }
        eventually("the network is back", works).await;

        proxy.set(Mode::Refuse);
        // One connection may notice it later than another.
        let refused = async || store.look_up(&[key("")]).await.is_err_and(|why| why.kind() == ErrorKind::Unavailable);
        eventually("nobody is there", refused).await;
        proxy.set(Mode::Pass);
        eventually("somebody is there", works).await;
    });
}

#[test]
fn who_restarts_while_nobody_asks_fails_nobody() {
    let Some(server) = installed(|| Server::start(&[])) else { return };
    runtime().block_on(async {
        let store = connect(RedisOptions::single(server.url(), "h")).await;
        for _ in 0..4 {
            all(store.look_up(&[key("")]).await);
        }
        server.kill();
        server.start_again();
        for _ in 0..4 {
            all(store.look_up(&[key("")]).await);
        }
    });
}

#[test]
fn passwords_are_asked_for() {
    let Some(server) = installed(|| Server::start_on_loopback(&["--requirepass", "s3cret"])) else { return };
    runtime().block_on(async {
        let with = |credentials: &str| RedisOptions::single(format!("redis://{credentials}{}", server.address()), "h");
        assert_eq!(one(connect(with(":s3cret@")).await.look_up(&[key("a")]).await), Known::Unknown);
        for wrong in ["", ":wrong@", "nobody:s3cret@"] {
            let error = RedisStore::connect(with(wrong)).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Misconfigured, "{wrong}: {error}");
            assert!(!error.to_string().contains("wrong@"), "{error}");
        }
        for nonsense in ["", "redis://", "http://127.0.0.1", "redis://127.0.0.1:port"] {
            let error = RedisStore::connect(RedisOptions::single(nonsense, "h")).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Misconfigured, "{nonsense}: {error}");
        }
        let nobody = RedisOptions::single("redis+unix:///nowhere/redis.sock", "h");
        assert_eq!(RedisStore::connect(nobody).await.unwrap_err().kind(), ErrorKind::Unavailable);
    });
}

#[test]
fn what_is_not_hapaxs_is_corrupt_and_disturbs_nobody_else() {
    let Some(server) = installed(|| Server::start(&[])) else { return };
    runtime().block_on(async {
        let store = connect(RedisOptions::single(server.url(), "h")).await;
        let keys = [key("a list"), key("a text"), key("nothing")];
        ask_with::<()>(&server, redis_cmd(&["LPUSH"]).arg(b"h:\0a list").arg("x"));
        ask_with::<()>(&server, redis_cmd(&["SET"]).arg(b"h:\0a text").arg("Perhaps"));
        fn kinds<A>(answers: Answers<A>) -> Vec<Option<ErrorKind>> {
            answers.expect("a batch").into_iter().map(|answer| answer.err().map(|error| error.kind())).collect()
        }
        let expected = [Some(ErrorKind::Corrupt), Some(ErrorKind::Corrupt), None];
        assert_eq!(kinds(store.look_up(&keys).await), expected);
        let claims = ["a list", "a text", "nothing"].map(|id| claim_of(id, 1));
        assert_eq!(kinds(store.claim(&claims).await), expected);
        let marks = ["a list", "a text", "something else"].map(|id| mark_of(id, 1));
        assert_eq!(kinds(store.mark(&marks).await), expected);
        let holds = keys.map(|key| Hold { key, token: 1 });
        // A value with an unknown beginning is not a held claim.
        assert_eq!(kinds(store.release(&holds).await), [Some(ErrorKind::Corrupt), None, None]);
    });
}

#[cfg(feature = "tls")]
#[test]
fn encrypted_connections_are_as_good_and_strangers_are_not_trusted() {
    if is_missing() {
        return;
    }
    let Some(pair) = testkit::redis_server::Certificate::make() else {
        testkit::skipped_without("openssl", "openssl");
        return;
    };
    let Some(server) = Server::start_encrypted(&pair) else {
        testkit::skipped("encrypted connections: this redis-server knows none (Debian: redis-server)");
        return;
    };
    runtime().block_on(async {
        let options = RedisOptions::single(server.encrypted_url(), "h");
        let error = RedisStore::connect(options.clone()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        let trusting = options.root_certificate(pair.root_pem());
        let servers = std::slice::from_ref(&server);
        verify_store(&OnServers { servers, options: trusting.clone() }).await.unwrap();
        // The server, too, wants to know whom it talks to.
        server.ask::<()>(&["CONFIG", "SET", "tls-auth-clients", "yes"]);
        let error = RedisStore::connect(trusting.clone()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        let [certificate, key] = pair.leaf_pem();
        let swapped = trusting.clone().client_certificate(key.clone(), certificate.clone());
        let error = RedisStore::connect(swapped).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
        let presenting = trusting.client_certificate(certificate, key);
        assert_eq!(all(RedisStore::connect(presenting).await.unwrap().mark(&[mark_of("a", 1)]).await).len(), 1);
    });
}
