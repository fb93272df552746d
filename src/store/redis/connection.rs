//! One connection to a server, made anew when it breaks.

use super::errors::{error, failed, not_connected};
use super::options::Timing;
use super::role;
use super::sentinel::Sentinels;
use super::servers::Connector;
use crate::random;
use crate::store::{ErrorKind, StoreError};
use crate::sync::{Ordering, StdAtomicBool, StdAtomicU64};
use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, Client, ConnectionInfo, Pipeline, ProtocolVersion, PushInfo, PushKind, RedisResult, Value,
};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::time::Instant;

/// A connection, or the intention to have one.
///
/// Many may use it at once: what they ask goes out in the order in which they ask, and answers are told apart by theirs. Whoever finds it broken
/// makes a new one, while the others wait. If that fails, nobody tries again for a while, and all are told at once.
pub(super) struct Link {
    reach: Reach,
    timing: Timing,
    in_cluster: bool,
    met: Arc<Met>,
    state: Mutex<State>,
}

/// The way a server is found.
pub(super) enum Reach {
    /// It is at an address, which is resolved anew for each connection.
    At(Box<Client>),
    /// Sentinels know where it is; what else it takes to connect is as here.
    By(Arc<Connector>, Box<Sentinels>, Box<ConnectionInfo>),
}

/// The server that it was, as far as all connections to one know.
#[derive(Default)]
pub(super) struct Met {
    run_id: crate::sync::Mutex<Option<String>>,
    /// The number of times that another one was met there, or the same after a restart, and it had
    /// no key.
    emptied: StdAtomicU64,
}

impl Met {
    pub(super) fn emptied(&self) -> u64 {
        // Relaxed: a count.
        self.emptied.load(Ordering::Relaxed)
    }

    /// Returns true if this server, which has no key, is another one than before.
    fn finds_emptied(&self, server: &role::Introduction) -> bool {
        let Some(run_id) = &server.run_id else { return false };
        let mut known = self.run_id.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let before = known.replace(run_id.clone());
        let emptied = server.is_empty && before.is_some_and(|before| before != *run_id);
        self.emptied.fetch_add(emptied.into(), Ordering::Relaxed);
        emptied
    }
}

#[derive(Default)]
struct State {
    connected: Option<Connected>,
    failed: Option<Failed>,
    /// The server has said that it does not know RESP3.
    knows_resp2_only: bool,
}

#[derive(Clone)]
struct Connected {
    connection: MultiplexedConnection,
    /// Its other end is gone, or owes an answer.
    is_broken: Arc<StdAtomicBool>,
}

struct Failed {
    times: u32,
    not_before: Instant,
    why: StoreError,
}

impl Link {
    /// A link that connects when it is first used.
    pub(super) fn new(reach: Reach, timing: Timing, in_cluster: bool, met: Arc<Met>) -> Self {
        Link { reach, timing, in_cluster, met, state: Mutex::default() }
    }

    /// Sends a pipeline, and gives what was answered to each of its commands. It is sent once.
    pub(super) async fn send(&self, pipeline: &Pipeline) -> Result<Vec<Value>, StoreError> {
        let mut connected = self.connected().await?;
        let sent = connected.connection.send_packed_commands(pipeline, 0, pipeline.len()).await;
        let wrong = match sent {
            Ok(answers) if answers.len() == pipeline.len() => {
                if !self.in_cluster && answers.iter().any(role::is_demotion) {
                    // It was demoted: the master is elsewhere, be it behind the same address.
                    connected.is_broken.store(true, Ordering::Relaxed);
                }
                return Ok(answers);
            }
            Ok(answers) => {
                let wrong = format!("{} commands got {} answers", pipeline.len(), answers.len());
                error(ErrorKind::Corrupt, wrong)
            }
            Err(cause) => failed(cause, "the connection failed"),
        };
        // Also after a timeout: if the other end is half open, no answer will ever come.
        connected.is_broken.store(true, Ordering::Relaxed);
        Err(wrong)
    }

    async fn connected(&self) -> Result<Connected, StoreError> {
        let mut state = self.state.lock().await;
        // Relaxed: whoever sees it late finds the connection broken.
        if let Some(connected) = state.connected.as_ref().filter(|c| !c.is_broken.load(Ordering::Relaxed)) {
            return Ok(connected.clone());
        }
        state.connected = None;
        if let Some(failed) = state.failed.as_ref().filter(|failed| Instant::now() < failed.not_before) {
            return Err(failed.why.clone());
        }
        match self.connect(&mut state).await {
            Ok(connected) => {
                state.failed = None;
                state.connected = Some(connected.clone());
                Ok(connected)
            }
            Err(why) => {
                let times = state.failed.as_ref().map_or(0, |failed| failed.times).saturating_add(1);
                let wait = back_off(times, self.timing.reconnect_wait_max, random::any());
                state.failed = Some(Failed { times, not_before: Instant::now() + wait, why: why.clone() });
                Err(why)
            }
        }
    }

    async fn connect(&self, state: &mut State) -> Result<Connected, StoreError> {
        let (connector, sentinels, like) = match &self.reach {
            Reach::At(client) => return self.connect_to(client, state).await,
            Reach::By(connector, sentinels, like) => (connector, sentinels, like),
        };
        let (mut asked, mut tried, mut is_unknown, mut why) = (sentinels.ask(self.timing), vec![], false, None);
        while let Some(found) = asked.join_next().await {
            let failure = match found {
                Ok(Ok(Some(place))) if !tried.contains(&place) => {
                    let client = connector.client(super::servers::moved(like, &place.0, place.1))?;
                    tried.push(place);
                    match self.connect_to(&client, state).await {
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
    async fn connect_to(&self, client: &Client, state: &mut State) -> Result<Connected, StoreError> {
        let address = client.get_connection_info().addr().to_string();
        let no_connection = |cause| not_connected(cause, format!("no connection to {address}"));
        let mut connected = self.connect_by_protocol(client, state).await.map_err(no_connection)?;
        let question = role::question();
        let answers = connected.connection.send_packed_commands(&question, 0, question.len()).await;
        let answers = answers.map_err(|cause| failed(cause, "the connection failed at once"))?;
        let server = role::introduction(&answers);
        server.role.refuse(&address, self.in_cluster)?;
        if self.met.finds_emptied(&server) {
            #[cfg(feature = "tracing")]
            tracing::warn!(backend = "redis", address, "the server has restarted or been replaced, and has no key");
        }
        Ok(connected)
    }

    async fn connect_by_protocol(&self, client: &Client, state: &mut State) -> RedisResult<Connected> {
        let info = client.get_connection_info().clone();
        let speaks_resp3 = info.redis_settings().protocol() == ProtocolVersion::RESP3;
        if speaks_resp3 && !state.knows_resp2_only {
            let refusal = match self.connect_as(client, true).await {
                Err(refusal) if lacks_resp3(&refusal) => refusal,
                connected => return connected,
            };
            let resp2 = info.redis_settings().clone().set_protocol(ProtocolVersion::RESP2);
            let connected = self.connect_as(&Client::open(info.set_redis_settings(resp2))?, false).await;
            state.knows_resp2_only = connected.is_ok();
            return connected.map_err(|_| refusal);
        }
        if speaks_resp3 {
            let resp2 = info.redis_settings().clone().set_protocol(ProtocolVersion::RESP2);
            return self.connect_as(&Client::open(info.set_redis_settings(resp2))?, false).await;
        }
        self.connect_as(client, false).await
    }

    async fn connect_as(&self, client: &Client, in_resp3: bool) -> RedisResult<Connected> {
        let is_broken = Arc::new(StdAtomicBool::new(false));
        let mut config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(self.timing.connect_timeout))
            .set_response_timeout(Some(self.timing.response_timeout));
        if in_resp3 {
            // So a server that restarts while nobody asks fails nobody's request.
            let broken = Arc::clone(&is_broken);
            config = config.set_push_sender(move |pushed: PushInfo| -> Result<(), redis::aio::SendError> {
                if pushed.kind == PushKind::Disconnection {
                    broken.store(true, Ordering::Relaxed);
                }
                Ok(())
            });
        }
        let connection = client.get_multiplexed_async_connection_with_config(&config).await?;
        Ok(Connected { connection, is_broken })
    }
}

fn lacks_resp3(refusal: &redis::RedisError) -> bool {
    refusal.kind() == redis::ErrorKind::RESP3NotSupported || refusal.code() == Some("NOPROTO")
}

/// How long not to connect after so many failures in a row: 10 ms, doubled by each, shortened at random by up to a half so that those who lost
/// the same server do not all come back at once.
fn back_off(failures: u32, wait_max: Duration, random: u64) -> Duration {
    let doubled = Duration::from_millis(10).saturating_mul(1 << failures.saturating_sub(1).min(20));
    let wait = doubled.min(wait_max);
    wait - wait.mul_f64((random >> 11) as f64 / (1_u64 << 53) as f64 / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_comes_back_without_a_key_is_noticed_once() {
        let met = Met::default();
        let server = |run_id: Option<&str>, is_empty| {
            let run_id = run_id.map(Into::into);
            met.finds_emptied(&role::Introduction { role: role::Role::Master, run_id, is_empty })
        };
        assert!(!server(Some("a"), true), "it is new");
        assert!(!server(Some("a"), true), "another connection");
        assert!(!server(Some("b"), false), "it has kept its keys");
        assert!(!server(None, true), "it does not say who it is");
        assert!(server(Some("c"), true));
        assert!(!server(Some("c"), true));
        assert_eq!(met.emptied(), 1);
    }

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
