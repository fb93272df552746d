//! One connection to a server, made anew when it breaks.

use super::commands::Commands;
use super::dial::Dialer;
use super::errors::{error, not_introduced};
use super::introduction::{Introduction, questions};
use super::met::Met;
use super::node::Connector;
use super::options::Timing;
use super::sentinel::Sentinels;
use super::wire::{Answered, Wire};
use ::redis::ConnectionInfo;
use hapax::tier::random;
use hapax_store::back_off::BackOff;
use hapax_store::sync::Mutex;
use hapax_store::{ErrorKind, StoreError};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// A connection, or the intention to have one.
///
/// Many may use it at once: what they ask goes out in the order in which they ask. Whoever finds it
/// broken makes a new one, while the others wait; it goes on being made if whoever began gives up.
/// If that fails, nobody tries again for a while, and all are told at once.
#[derive(Clone)]
pub(super) struct Link(Arc<Shared>);

struct Shared {
    reach: Reach,
    timing: Timing,
    /// What a server must be like.
    terms: Terms,
    met: Arc<Met>,
    wire: Mutex<Option<Wire>>,
    connecting: Arc<tokio::sync::Mutex<Option<Failed>>>,
}

/// What a server must be like to be used.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terms {
    pub(super) in_cluster: bool,
    /// It may have no [risk](super::RedisRisk).
    pub(super) is_durable: bool,
}

/// The way a server is found.
pub(super) enum Reach {
    /// It is at an address, which is resolved anew for each connection.
    At(Box<Dialer>),
    /// Sentinels know where it is; what else it takes to connect is as here.
    By(Arc<Connector>, Box<Sentinels>, Box<ConnectionInfo>),
}

struct Failed {
    times: u32,
    not_before: Instant,
    why: StoreError,
}

impl Link {
    /// A link that connects when it is first used.
    pub(super) fn new(reach: Reach, timing: Timing, terms: Terms, met: Arc<Met>) -> Self {
        let (wire, connecting) = (Mutex::new(None), Arc::default());
        Link(Arc::new(Shared { reach, timing, terms, met, wire, connecting }))
    }

    /// Sends commands, and gives what was answered. They are sent once.
    pub(super) async fn send(&self, commands: Arc<Commands>) -> Result<Answered, StoreError> {
        self.connected().await?.ask(commands).await
    }

    /// The connection, made if there is none.
    pub(super) async fn connected(&self) -> Result<Wire, StoreError> {
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
        let wire = self.wire.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        wire.as_ref().filter(|wire| wire.is_open()).cloned()
    }

    /// Keeps a new connection, or why there is none and until when nobody tries again.
    fn note(&self, connected: &Result<Wire, StoreError>, failed: &mut Option<Failed>) {
        *failed = match connected {
            Ok(_) => None,
            Err(why) => {
                let times = failed.as_ref().map_or(0, |failed| failed.times).saturating_add(1);
                let wait = back_off(times, self.timing.reconnect_wait_max, random::any());
                Some(Failed { times, not_before: Instant::now() + wait, why: why.clone() })
            }
        };
        *self.wire.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = connected.as_ref().ok().cloned();
    }

    async fn connect(&self) -> Result<Wire, StoreError> {
        let (connector, sentinels, like) = match &self.reach {
            Reach::At(dialer) => return self.connect_to(dialer).await,
            Reach::By(connector, sentinels, like) => (connector, sentinels, like),
        };
        let (mut asked, mut tried, mut is_unknown, mut why) = (sentinels.ask(), vec![], false, None);
        while let Some(found) = asked.join_next().await {
            let failure = match found {
                Ok(Ok(Some(place))) if !tried.contains(&place) => {
                    let dialer = connector.dialer(super::dial::moved(like, &place.0, place.1));
                    tried.push(place);
                    match self.connect_to(&dialer).await {
                        Ok(connected) => return Ok(connected),
                        // What the server says matters more than why a Sentinel does not answer.
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

    /// Connects, and looks who is there.
    async fn connect_to(&self, dialer: &Dialer) -> Result<Wire, StoreError> {
        let (wire, address) = (dialer.dial().await?, dialer.address());
        let answered = wire.ask(Arc::new(questions())).await.map_err(|why| not_introduced(why, &address))?;
        let server = Introduction::read(answered.replies(), &address)?;
        server.role.refuse(&address, self.terms.in_cluster)?;
        self.met.meet(&address, &server);
        match server.risks.first().filter(|_| self.terms.is_durable) {
            Some(risk) => Err(error(
                ErrorKind::Misconfigured,
                format!("{address} is not durable, which RedisOptions::require_durable asks for: {risk}"),
            )),
            None => Ok(wire),
        }
    }
}

/// How long not to connect after so many failures in a row: 10 ms, doubled by each, shortened at random by up to a half so that those who lost
/// the same server do not all come back at once.
fn back_off(failures: u32, wait_max: Duration, random: u64) -> Duration {
    BackOff { first: Duration::from_millis(10), max: wait_max }.after(failures, random)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_longest_and_are_shortened_by_at_most_a_half() {
        let wait_max = Duration::from_secs(2);
        for (failures, longest) in [(1, 10), (2, 20), (5, 160), (8, 1_280), (9, 2_000), (u32::MAX, 2_000)] {
            let longest = Duration::from_millis(longest);
            assert_eq!(back_off(failures, wait_max, 0), longest);
            for random in [1 << 63, u64::MAX, 0x9e37_79b9_7f4a_7c15] {
                let wait = back_off(failures, wait_max, random);
                assert!(longest / 2 <= wait && wait < longest, "{failures}: {wait:?}");
            }
        }
    }
}
