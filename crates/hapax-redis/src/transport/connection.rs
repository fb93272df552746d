//! One connection to a server, made anew when it breaks.

use super::endpoint::{Endpoint, Timing};
use super::sentinel::Sentinels;
use super::wire::{Answered, Wire};
use crate::resp::commands::Commands;
use crate::resp::errors::{error, handshake_failed};
#[cfg(feature = "tracing")]
use crate::resp::reply::Reply;
use crate::server::info::{ServerInfo, info_commands};
use crate::server::watch::Watch;
use hapax::seam::random;
use hapax_store::back_off::BackOff;
use hapax_store::sync::{Mutex, lock};
use hapax_store::{ErrorKind, StoreError};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// A connection that is made when it is first used, and anew when it has broken.
///
/// Many callers may use it at once: their commands are sent in the order in which they ask. A
/// caller that finds it broken makes a new one, while the others wait; the attempt goes on if the
/// caller that began it gives up. If the attempt fails, there is no further one for a while, and
/// all callers get the error at once.
#[derive(Clone)]
pub(crate) struct Connection(Arc<Shared>);

struct Shared {
    target: Target,
    timing: Timing,
    requirements: Requirements,
    watch: Arc<Watch>,
    wire: Mutex<Option<Wire>>,
    /// The last connection that was used, by the server's names.
    last: Mutex<Option<Known>>,
    connecting: Arc<tokio::sync::Mutex<Option<Failed>>>,
}

/// The requirements on a server before it is used.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Requirements {
    pub(crate) in_cluster: bool,
    /// True if the server may have no [risk](crate::RedisRisk).
    pub(crate) is_durable: bool,
}

/// The server that a connection leads to.
pub(crate) enum Target {
    /// The server at an address, which is resolved anew for each connection.
    At(Box<Endpoint>),
    /// The server that Sentinels name; all but its address is as here.
    Master(Box<Endpoint>, Box<Sentinels>),
}

/// A connection, as its server knows it.
#[derive(Clone)]
struct Known {
    run_id: String,
    client_id: u64,
}

struct Failed {
    times: u32,
    not_before: Instant,
    why: StoreError,
}

impl Connection {
    /// Creates a connection that is made when it is first used.
    pub(crate) fn new(target: Target, timing: Timing, requirements: Requirements, watch: Arc<Watch>) -> Self {
        let (wire, last, connecting) = (Mutex::new(None), Mutex::new(None), Arc::default());
        Connection(Arc::new(Shared { target, timing, requirements, watch, wire, last, connecting }))
    }

    /// Makes the connection anew, in the background, if the last one has ended: so that what was
    /// given up with it ends at the server, too.
    pub(crate) fn mend(&self) {
        let is_open = lock(&self.0.wire).as_ref().is_some_and(Wire::is_open);
        if !is_open && lock(&self.0.last).is_some() && self.0.connecting.try_lock().is_ok() {
            let connection = self.clone();
            tokio::spawn(async move { connection.connected().await });
        }
    }

    /// Sends commands once, and returns the answers.
    pub(crate) async fn send(&self, commands: Arc<Commands>) -> Result<Answered, StoreError> {
        self.connected().await?.ask(commands).await
    }

    /// Returns the connection, made if there is none.
    pub(crate) async fn connected(&self) -> Result<Wire, StoreError> {
        if let Some(wire) = self.0.open() {
            return Ok(wire);
        }
        let mut failed = Arc::clone(&self.0.connecting).lock_owned().await;
        if let Some(wire) = self.0.open() {
            return Ok(wire);
        }
        if let Some(failed) = failed.as_ref().filter(|failed| Instant::now() < failed.not_before) {
            return Err(failed.why.clone());
        }
        let shared = Arc::clone(&self.0);
        let connecting = tokio::spawn(async move {
            let connected = shared.connect().await;
            shared.note(&connected, &mut failed);
            connected
        });
        let ended = |_| Err(error(ErrorKind::Unavailable, "the runtime that connects has ended"));
        connecting.await.unwrap_or_else(ended)
    }
}

impl Shared {
    fn open(&self) -> Option<Wire> {
        let wire = lock(&self.wire);
        wire.as_ref().filter(|wire| wire.is_open()).cloned()
    }

    /// Keeps a new connection, or the error and the time of the next attempt.
    fn note(&self, connected: &Result<Wire, StoreError>, failed: &mut Option<Failed>) {
        *failed = match connected {
            Ok(_) => None,
            Err(why) => {
                let times = failed.as_ref().map_or(0, |failed| failed.times).saturating_add(1);
                // 10 ms, doubled by each failure, and jittered, so that clients that lost the same
                // server do not all come back at once.
                let back_off = BackOff { first: Duration::from_millis(10), max: self.timing.reconnect_wait_max };
                let wait = back_off.after(times, random::any());
                Some(Failed { times, not_before: Instant::now() + wait, why: why.clone() })
            }
        };
        *lock(&self.wire) = connected.as_ref().ok().cloned();
    }

    async fn connect(&self) -> Result<Wire, StoreError> {
        let (master, sentinels) = match &self.target {
            Target::At(endpoint) => return self.connect_to(endpoint).await,
            Target::Master(endpoint, sentinels) => (endpoint, sentinels),
        };
        let (mut asked, mut tried, mut is_unknown, mut why) = (sentinels.ask(), vec![], false, None);
        while let Some(found) = asked.join_next().await {
            let failure = match found {
                Ok(Ok(Some(place))) if !tried.contains(&place) => {
                    let endpoint = master.moved(&place.0, place.1);
                    tried.push(place);
                    match self.connect_to(&endpoint).await {
                        Ok(connected) => return Ok(connected),
                        // The server's error matters more than the reason for which a Sentinel does
                        // not answer.
                        Err(failure) => {
                            why = Some(failure);
                            continue;
                        }
                    }
                }
                Ok(Ok(Some(_))) => continue,
                Ok(Ok(None)) => {
                    is_unknown = true;
                    continue;
                }
                Ok(Err(failure)) => failure,
                Err(_ended) => error(ErrorKind::Unavailable, "the runtime that asks Sentinels has ended"),
            };
            why.get_or_insert(failure);
        }
        match why {
            Some(why) if !is_unknown || !tried.is_empty() => Err(why),
            _ => Err(sentinels.unknown()),
        }
    }

    /// Connects, and checks what server is there.
    async fn connect_to(&self, endpoint: &Endpoint) -> Result<Wire, StoreError> {
        let (wire, address) = (endpoint.connect().await?, endpoint.address());
        let answered = wire.ask(Arc::new(info_commands())).await.map_err(|why| handshake_failed(why, &address))?;
        let server = ServerInfo::read(answered.replies(), &address)?;
        server.role.refuse(&address, self.requirements.in_cluster)?;
        self.watch.observe(&address, &server);
        self.end_last(&wire, &server).await.map_err(|why| handshake_failed(why, &address))?;
        match server.risks.first().filter(|_| self.requirements.is_durable) {
            Some(risk) => Err(error(
                ErrorKind::Misconfigured,
                format!("{address} is not durable, which RedisOptions::require_durable asks for: {risk}"),
            )),
            None => Ok(wire),
        }
    }

    /// Ends the last connection at its server, if that is this one: whatever was sent over it and
    /// has not arrived, is never carried out, wherever it is kept.
    async fn end_last(&self, wire: &Wire, server: &ServerInfo) -> Result<(), StoreError> {
        // One that was left, since its server was demoted, still answers those who wait.
        let has_ended = lock(&self.wire).as_ref().is_none_or(Wire::has_ended);
        let is_here = |last: &Known| has_ended && server.run_id.as_ref() == Some(&last.run_id);
        let last = lock(&self.last).clone().filter(is_here);
        if let Some(last) = last {
            let end = Commands::of(&["CLIENT", "KILL", "ID", &last.client_id.to_string()]);
            let _ended = wire.ask(Arc::new(end)).await?;
            #[cfg(feature = "tracing")]
            if let Some(Reply::Refusal(refusal)) = _ended.replies().next() {
                tracing::warn!(backend = "redis", "what was given up may be carried out late: {refusal}");
            }
        }
        let known = server.run_id.clone().zip(server.client_id);
        *lock(&self.last) = known.map(|(run_id, client_id)| Known { run_id, client_id });
        Ok(())
    }
}
