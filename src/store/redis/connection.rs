//! One connection to a server, made anew when it breaks.

use super::errors::{error, failed, not_connected};
use super::options::Timing;
use crate::random;
use crate::store::{ErrorKind, StoreError};
use crate::sync::{Ordering, StdAtomicBool};
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, Pipeline, ProtocolVersion, PushInfo, PushKind, RedisResult, Value};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::time::Instant;

/// A connection, or the intention to have one.
///
/// Many may use it at once: what they ask goes out in the order in which they ask, and answers are told apart by theirs. Whoever finds it broken
/// makes a new one, while the others wait. If that fails, nobody tries again for a while, and all are told at once.
pub(super) struct Link {
    client: Client,
    timing: Timing,
    state: Mutex<State>,
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
    pub(super) fn new(client: Client, timing: Timing) -> Self {
        Link { client, timing, state: Mutex::default() }
    }

    /// Sends a pipeline, and gives what was answered to each of its commands. It is sent once.
    pub(super) async fn send(&self, pipeline: &Pipeline) -> Result<Vec<Value>, StoreError> {
        let mut connected = self.connected().await?;
        let sent = connected.connection.send_packed_commands(pipeline, 0, pipeline.len()).await;
        let wrong = match sent {
            Ok(answers) if answers.len() == pipeline.len() => return Ok(answers),
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
            Err(cause) => {
                let address = self.client.get_connection_info().addr();
                let why = not_connected(cause, format!("no connection to {address}"));
                let times = state.failed.as_ref().map_or(0, |failed| failed.times).saturating_add(1);
                let wait = back_off(times, self.timing.reconnect_wait_max, random::any());
                state.failed = Some(Failed { times, not_before: Instant::now() + wait, why: why.clone() });
                Err(why)
            }
        }
    }

    async fn connect(&self, state: &mut State) -> RedisResult<Connected> {
        let info = self.client.get_connection_info().clone();
        let speaks_resp3 = info.redis_settings().protocol() == ProtocolVersion::RESP3;
        if speaks_resp3 && !state.knows_resp2_only {
            let refusal = match self.connect_as(&self.client, true).await {
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
        self.connect_as(&self.client, false).await
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
