//! Requests that were given up, and that something on the way to the server delivers much later.

use crate::store::installed;
use hapax::Outcome;
use hapax_redis::{RedisOptions, RedisStore};
use hapax_store::sync::{Mutex, lock};
use hapax_store::*;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use testkit::processes::PATIENCE;
use testkit::redis_server::Server;
use testkit::stores::runtime;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

const LATE: Duration = Duration::from_millis(300);
const RETENTION: Duration = Duration::from_secs(600);

/// A middlebox. Told to hold, it keeps what clients send over the connections that it has, and its
/// own connections to the server, also if the client is gone; new connections pass.
struct Middlebox {
    address: SocketAddr,
    /// The number of times that it was told to hold, and of those the last that it was told to let
    /// go.
    held: watch::Sender<(u64, u64)>,
    bytes_held: Arc<Mutex<usize>>,
}

impl Middlebox {
    async fn to(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("its address");
        let (held, receiver) = watch::channel((0, 0));
        let bytes_held = Arc::<Mutex<usize>>::default();
        let count = Arc::clone(&bytes_held);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(forward(client, server, receiver.clone(), Arc::clone(&count)));
            }
        });
        Middlebox { address, held, bytes_held }
    }

    fn hold(&self) {
        self.held.send_modify(|held| held.0 += 1);
    }

    fn let_go(&self) {
        self.held.send_modify(|held| held.1 = held.0);
    }
}

async fn forward(
    client: TcpStream,
    server: SocketAddr,
    mut held: watch::Receiver<(u64, u64)>,
    count: Arc<Mutex<usize>>,
) {
    let began_at = held.borrow().0;
    let Ok(server) = TcpStream::connect(server).await else { return };
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    tokio::spawn(async move { tokio::io::copy(&mut from_server, &mut to_client).await });
    let mut bytes = vec![0; 64 << 10];
    while let Ok(len @ 1..) = from_client.read(&mut bytes).await {
        let is_held = |held: &(u64, u64)| held.0 > began_at && held.1 <= began_at;
        if is_held(&held.borrow()) {
            *lock(&count) += len;
            if held.wait_for(|held| !is_held(held)).await.is_err() {
                return;
            }
        }
        if to_server.write_all(&bytes[..len]).await.is_err() {
            return;
        }
    }
}

async fn connect(address: SocketAddr) -> RedisStore {
    connect_to(format!("redis://{address}")).await
}

async fn connect_to(url: String) -> RedisStore {
    answer(async || RedisStore::connect(RedisOptions::single(url.clone(), "orders").response_timeout(LATE)).await).await
}

fn key(id: &str) -> RecordKey {
    RecordKey::new(&Scope::default(), id)
}

/// Returns the first answer that is no error: of a busy machine one may be late.
async fn answer<A>(ask: impl AsyncFn() -> Result<A, StoreError>) -> A {
    let answered = async {
        loop {
            match ask().await {
                Ok(answer) => break answer,
                Err(_) => sleep(LATE / 10).await,
            }
        }
    };
    timeout(PATIENCE, answered).await.expect("an answer in time")
}

/// Uses both connections of a store.
async fn look(store: &RedisStore, ids: &[&str]) -> Vec<Known> {
    let keys: Vec<RecordKey> = ids.iter().map(|id| key(id)).collect();
    let mut known = Vec::new();
    for _ in 0..8 {
        let answers = answer(async || store.look_up(&keys).await).await;
        known = answers.into_iter().map(|answer| answer.expect("a state")).collect();
    }
    known
}

#[test]
fn what_was_given_up_is_not_carried_out_when_the_network_delivers_it() {
    let Some(server) = installed(|| Server::start_on_loopback(&[])) else { return };
    runtime().block_on(async {
        let middlebox = Middlebox::to(server.address()).await;
        let store = connect(middlebox.address).await;
        let ids = ["marked", "claimed", "recorded"];
        look(&store, &ids).await;
        // The server knows the script.
        let other = ClaimRequest {
            key: key("other"),
            attempt: 7,
            lease: RETENTION,
            fingerprint: None,
            held_by: None,
            doubt: Duration::ZERO,
        };
        answer(async || store.claim(std::slice::from_ref(&other)).await).await;
        middlebox.hold();
        let (retention, lease) = (RETENTION, RETENTION);
        let mark = [Mark { key: key("marked"), attempt: 7, retention }];
        let claim = [ClaimRequest {
            key: key("claimed"),
            attempt: 7,
            lease,
            fingerprint: None,
            held_by: None,
            doubt: Duration::ZERO,
        }];
        let record = [Record { key: key("recorded"), retention, fingerprint: None, result: None }];
        let (marked, claimed, recorded) = tokio::join!(store.mark(&mark), store.claim(&claim), store.record(&record));
        let given_up = [marked.err(), claimed.err(), recorded.err()].map(|error| error.map(|error| error.kind()));
        assert_eq!(given_up, [Some(ErrorKind::Timeout); 3]);
        assert!(look(&store, &ids).await.iter().all(|known| *known == Known::Unknown));
        middlebox.let_go();
        sleep(LATE).await;
        assert!(*lock(&middlebox.bytes_held) > 0, "nothing was held");
        assert_eq!(look(&store, &ids).await, [Known::Unknown, Known::Unknown, Known::Unknown]);
    });
}

#[test]
fn a_user_who_may_not_end_connections_connects_anew_all_the_same() {
    let Some(server) = installed(|| Server::start_on_loopback(&[])) else { return };
    let user = ["ACL", "SETUSER", "u", "on", ">p", "~*", "+@all", "-client|kill"];
    assert_eq!(server.ask::<String>(&user), "OK");
    runtime().block_on(async {
        let middlebox = Middlebox::to(server.address()).await;
        let store = connect_to(format!("redis://u:p@{}", middlebox.address)).await;
        look(&store, &["a"]).await;
        middlebox.hold();
        let keys = [key("a")];
        let both = tokio::join!(store.look_up(&keys), store.look_up(&keys));
        assert!(both.0.is_err() && both.1.is_err());
        look(&store, &["a"]).await;
    });
}

#[test]
fn a_check_that_was_given_up_loses_no_message_however_late_it_is_delivered() {
    let Some(server) = installed(|| Server::start_on_loopback(&[])) else { return };
    runtime().block_on(async {
        let middlebox = Middlebox::to(server.address()).await;
        let grace = LATE * 5;
        let engine = async |address| {
            answer(async || {
                let engine = TieredDedup::builder(connect(address).await).timeout(LATE / 2).retries(0).in_doubt(grace);
                engine.circuit_breaker(u32::MAX, LATE).build().await
            })
            .await
        };
        let (here, there) = (engine(middlebox.address).await, engine(server.address()).await);
        for id in 0..8 {
            assert!(answer(async || here.check(format!("before {id}")).await).await.is_fresh());
        }
        middlebox.hold();
        let mut asked = JoinSet::new();
        for id in 0..40 {
            let here = here.clone();
            asked.spawn(async move { here.check(format!("{id}")).await.is_err().then_some(id) });
        }
        let given_up: Vec<i32> = asked.join_all().await.into_iter().flatten().collect();
        assert!(given_up.len() >= 30, "{given_up:?}");
        // Longer than the store waits for answers, and than marks are taken back.
        sleep(LATE * 2 + grace * 2).await;
        middlebox.let_go();
        sleep(grace + LATE).await;
        let mut lost = Vec::new();
        for id in &given_up {
            let verdict = answer(async || there.check(format!("{id}")).await).await;
            lost.extend((!verdict.is_fresh()).then_some(*id));
        }
        println!("{} were given up; of these are lost: {lost:?}", given_up.len());
        assert!(lost.is_empty(), "{lost:?}");
    });
}

/// Asks an instance while the server stands still, and gives the messages to another one after
/// 0.2 s, each until it is decided. Returns the number of messages that were lost.
async fn stands_still(server: &Server, round: u32, time: Duration) -> usize {
    const MESSAGES: usize = 100;
    let engine = async || {
        answer(async || {
            let store =
                RedisStore::connect(RedisOptions::single(format!("redis://{}", server.address()), "orders")).await?;
            let engine = TieredDedup::builder(store).timeout(Duration::from_millis(50)).retries(0);
            engine.circuit_breaker(u32::MAX, LATE).build().await
        })
        .await
    };
    let (here, there) = (engine().await, engine().await);
    let id = |message: usize| format!("{round}/{message}");
    for dedup in [&here, &there] {
        let _ = answer(async || dedup.check(format!("before {round}")).await).await;
    }
    server.pause();
    let mut asked = JoinSet::new();
    for message in 0..MESSAGES {
        let (here, id) = (here.clone(), id(message));
        asked.spawn(async move { here.check(id).await.is_err() });
    }
    assert!(asked.join_all().await.into_iter().all(|is_given_up| is_given_up));
    sleep(Duration::from_millis(200)).await;
    let mut decided = JoinSet::new();
    for message in 0..MESSAGES {
        let (there, id) = (there.clone(), id(message));
        decided.spawn(async move {
            loop {
                match there.check(&id).await.map(|verdict| verdict.outcome()) {
                    Ok(Outcome::Fresh) => break false,
                    Ok(Outcome::Duplicate) => break true,
                    _ => sleep(Duration::from_millis(20)).await,
                }
            }
        });
    }
    sleep(time).await;
    server.resume();
    let lost = timeout(PATIENCE, decided.join_all()).await.expect("decided in time");
    lost.into_iter().filter(|is_lost| *is_lost).count()
}

#[test]
fn a_server_that_stands_still_loses_no_message_though_time_outs_are_short() {
    let Some(server) = installed(|| Server::start_on_loopback(&[])) else { return };
    runtime().block_on(async {
        // Shorter and longer than marks are doubted, and than the store waits for answers.
        for (round, ms) in [(1, 400), (2, 1_500), (3, 6_000)] {
            let lost = stands_still(&server, round, Duration::from_millis(ms)).await;
            println!("{ms} ms: {lost} lost");
            assert_eq!(lost, 0, "{ms} ms");
        }
    });
}
