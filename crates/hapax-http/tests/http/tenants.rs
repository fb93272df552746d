//! One hostile tenant among ordinary ones: bodies that never end, that trickle or are large,
//! endless new keys, handlers that hang. Time is the runtime's, which is stopped and jumps.

use crate::world::*;
use bytes::Bytes;
use hapax_http::{IdempotencyLayer, IdempotencyService, LayerBuilder};
use http::{Method, Response, StatusCode};
use http_body::Frame;
use http_body_util::Full;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use testkit::long;
use tokio::task::JoinSet;
use tokio::time::{Instant, Sleep};
use tower_layer::Layer;
use tower_service::Service;

/// The caller, as an authentication outside of the layer has verified.
#[derive(Clone)]
pub struct Tenant(pub &'static str);

/// A handler that takes as long as its request says.
#[derive(Clone)]
pub struct Takes(Duration);

pub const TAKES: Duration = Duration::from_millis(50);
/// The time after which the client gives up.
const GIVES_UP: Duration = Duration::from_secs(20);
pub const FOR_EVER: Duration = Duration::from_secs(1_000_000);

/// A body that comes in pieces, each after a pause.
pub struct Slow {
    pieces: usize,
    piece: Bytes,
    pause: Duration,
    until: Pin<Box<Sleep>>,
}

impl Slow {
    pub fn new(pieces: usize, bytes: usize, pause: Duration) -> Self {
        let until = Box::pin(tokio::time::sleep(pause));
        Slow { pieces, piece: Bytes::from(vec![b'x'; bytes]), pause, until }
    }

    pub fn at_once(bytes: usize) -> Self {
        Self::new(1, bytes, Duration::ZERO)
    }

    pub fn never() -> Self {
        Self::new(1, 1, FOR_EVER)
    }
}

impl http_body::Body for Slow {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.pieces == 0 {
            return Poll::Ready(None);
        }
        if !self.pause.is_zero() && self.until.as_mut().poll(context).is_pending() {
            return Poll::Pending;
        }
        let next = Instant::now() + self.pause;
        self.until.as_mut().reset(next);
        self.pieces -= 1;
        Poll::Ready(Some(Ok(Frame::data(self.piece.clone()))))
    }
}

/// The handler.
#[derive(Clone)]
pub struct Handler;

impl<B: Send + 'static> Service<http::Request<B>> for Handler {
    type Response = Response<Full<Bytes>>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<B>) -> Self::Future {
        let takes = request.extensions().get::<Takes>().map_or(Duration::ZERO, |takes| takes.0);
        Box::pin(async move {
            tokio::time::sleep(takes).await;
            drop(request);
            Ok(Response::builder().status(201).body(Full::from("done")).unwrap())
        })
    }
}

pub type Served = IdempotencyService<Handler, Faulty>;

pub async fn builder(world: &World) -> LayerBuilder<Faulty> {
    IdempotencyLayer::builder(world.engine().build().await.unwrap())
        .scope(|request| request.extensions.get::<Tenant>().map(|tenant| tenant.0.to_owned()))
}

pub fn request(tenant: &'static str, key: &str, body: Slow, takes: Duration) -> http::Request<Slow> {
    let request = http::Request::builder().method(Method::POST).header("idempotency-key", key);
    request.extension(Tenant(tenant)).extension(Takes(takes)).body(body).unwrap()
}

/// The part of the layer's own limits, and of the attackers, with which this runs.
fn part() -> usize {
    long(8, 1)
}

/// The kinds of attack. (An eighth of all but `Large` without `HAPAX_LONG`.)
#[derive(Clone, Copy, Debug, PartialEq)]
enum Attack {
    None,
    /// Ten thousand concurrent requests whose bodies never come.
    Idle,
    /// Ten thousand whose bodies come by a byte a second.
    Trickle,
    /// A hundred keys a second, each with a body of 1 MiB that takes 20 seconds to come.
    Large,
    /// Ten thousand whose handlers hang.
    Hang,
    /// A thousand keys a second, each small and handled at once.
    Keys,
}

/// Begins an attack, which continues until the set is dropped. (Its answers are ignored.)
fn attack(attack: Attack, service: &Served) -> JoinSet<()> {
    let mut attackers = JoinSet::new();
    let (count, takes) = match attack {
        Attack::None => (0, TAKES),
        Attack::Idle | Attack::Trickle => (10_000 / part() as u32, TAKES),
        Attack::Hang => (10_000 / part() as u32, FOR_EVER),
        Attack::Large => (2_000, TAKES),
        Attack::Keys => (50, Duration::ZERO),
    };
    for i in 0..count {
        let mut service = service.clone();
        attackers.spawn(async move {
            if attack == Attack::Large {
                tokio::time::sleep(Duration::from_millis(10) * i).await;
            }
            for n in 0_u64.. {
                let body = match attack {
                    Attack::Idle => Slow::never(),
                    Attack::Trickle => Slow::new(1 << 20, 1, Duration::from_secs(1)),
                    Attack::Large => Slow::new(20, 50 << 10, Duration::from_secs(1)),
                    Attack::Hang | Attack::Keys | Attack::None => Slow::at_once(10),
                };
                let answer = service.call(request("hostile", &format!("{i}-{n}"), body, takes)).await.unwrap();
                let pause = if answer.status() == StatusCode::CREATED { 50 } else { 5_000 };
                tokio::time::sleep(Duration::from_millis(pause)).await;
            }
        });
    }
    attackers
}

/// The figures that ordinary tenants saw.
#[derive(Debug)]
struct Seen {
    p99: Duration,
    refused: u64,
}

/// Runs twenty tenants, who ask four times a second for this long, and ask again when they are
/// refused.
async fn ordinary(service: &Served, lasts: Duration) -> Seen {
    const NAMES: [&str; 20] =
        ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "p", "q", "r", "s", "t"];
    let mut tenants = JoinSet::new();
    let ends = Instant::now() + lasts;
    for tenant in NAMES {
        let service = service.clone();
        tenants.spawn(async move {
            let (mut asked, mut n) = (JoinSet::new(), 0);
            while Instant::now() < ends {
                let mut service = service.clone();
                n += 1;
                asked.spawn(async move {
                    let (began, mut refused) = (Instant::now(), 0);
                    loop {
                        let sent = request(tenant, &n.to_string(), Slow::at_once(1_000), TAKES);
                        let answer = service.call(sent).await.unwrap();
                        if answer.status() == StatusCode::CREATED || began.elapsed() > GIVES_UP {
                            return (began.elapsed(), refused);
                        }
                        refused += 1;
                        tokio::time::sleep(Duration::from_secs(1)).await;
                    }
                });
                tokio::time::sleep(Duration::from_millis(250)).await;
            }
            asked.join_all().await
        });
    }
    let answers: Vec<(Duration, u64)> = tenants.join_all().await.into_iter().flatten().collect();
    let mut latencies: Vec<Duration> = answers.iter().map(|(latency, _)| *latency).collect();
    latencies.sort_unstable();
    assert!(latencies.len() >= 1_000, "{} requests", latencies.len());
    Seen { p99: latencies[latencies.len() * 99 / 100], refused: answers.iter().map(|(_, refused)| refused).sum() }
}

#[tokio::test(start_paused = true)]
async fn one_hostile_tenant_harms_nobody_else() {
    let mut alone = Duration::MAX;
    for kind in [Attack::None, Attack::Idle, Attack::Trickle, Attack::Large, Attack::Hang, Attack::Keys] {
        let world = World::new();
        let limit = 4_096 / part();
        let layer = builder(&world).await.max_in_flight(limit).build().unwrap();
        let service = layer.layer(Handler);
        let attackers = attack(kind, &service);
        // It waits until the attack is at its worst.
        tokio::time::sleep(Duration::from_secs(10)).await;
        let seen = ordinary(&service, Duration::from_secs(20)).await;
        println!("{kind:?}: p99 {:?}, {} refused; {:?}", seen.p99, seen.refused, layer.stats());
        if kind == Attack::None {
            alone = seen.p99;
        }
        if let Attack::Idle | Attack::Trickle | Attack::Hang = kind {
            assert!(layer.stats().over_quota > 0, "its share is full: {:?}", layer.stats());
        }
        assert!(seen.p99 <= 2 * alone, "{kind:?}: p99 {:?}, alone {alone:?}", seen.p99);
        assert_eq!(seen.refused, 0, "{kind:?}: none of the others is refused");
        drop(attackers);
    }
}

/// Checks that hostile tenants, four or eight, who each ask for a quarter of the room and keep what
/// they get, leave enough for tenants who had nothing in it: each of twenty has five requests
/// handled at a time.
#[tokio::test(start_paused = true)]
async fn several_hostile_tenants_leave_room_for_whoever_has_none() {
    const HOSTILE: [&str; 8] = ["h1", "h2", "h3", "h4", "h5", "h6", "h7", "h8"];
    const HONEST: [&str; 20] =
        ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "p", "q", "r", "s", "t"];
    for kind in [Attack::Idle, Attack::Hang] {
        for hostile in [4, 8] {
            let world = World::new();
            let layer = builder(&world).await.max_in_flight(4_096);
            let layer = layer.handler_timeout(FOR_EVER).build().unwrap();
            let service = layer.layer(Handler);
            let send = |tenant, key: String, body, takes| {
                let mut service = service.clone();
                async move { service.call(request(tenant, &key, body, takes)).await.unwrap().status() }
            };
            let mut attackers = JoinSet::new();
            for tenant in &HOSTILE[..hostile] {
                for i in 0..1_024 {
                    let idle = kind == Attack::Idle;
                    let body = if idle { Slow::never() } else { Slow::at_once(10) };
                    attackers.spawn(send(tenant, i.to_string(), body, FOR_EVER));
                }
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
            let held = layer.stats().reading.max(layer.stats().in_flight);
            let mut asked = JoinSet::new();
            for tenant in HONEST {
                for i in 0..5 {
                    asked.spawn(send(tenant, i.to_string(), Slow::at_once(10), TAKES));
                }
            }
            let answers = asked.join_all().await;
            let handled = answers.iter().filter(|status| **status == StatusCode::CREATED).count();
            println!("{kind:?} of {hostile}: they hold {held}; {handled} of {} are handled", answers.len());
            assert_eq!(handled, answers.len(), "{kind:?} of {hostile}, who hold {held}");
            assert!(held > 2_048, "{kind:?} of {hostile}: they do what they can, and hold {held}");
        }
    }
}
