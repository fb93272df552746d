//! Servers and roles that give no more connections: what there is has to do.
//!
//! A pool that gets no more connections goes on with those that it has, and whoever listens gives
//! its connection up, since polling finds the same. Both ask for more after a while.

use deadpool_postgres::{Pool, PoolError};
use hapax_store::sync::{Mutex, lock};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_postgres::error::SqlState;

/// The time after which one connection more is asked for, and a listener asks for its own again.
pub(super) const AGAIN: Duration = Duration::from_secs(30);

/// The knowledge that connections are scarce, as the pool of a [`Database`](super::Database) has
/// found out.
#[derive(Debug, Default)]
pub(super) struct Scarce {
    /// Notified when whoever listens is to give its connection up.
    pub(super) listener: Notify,
    shrunk: Mutex<Option<Shrunk>>,
}

/// A pool that was made smaller.
#[derive(Clone, Copy, Debug)]
struct Shrunk {
    /// The size that was configured.
    wanted: usize,
    grow_at: Instant,
}

impl Scarce {
    /// Records an error of the pool. Returns true if the pool has connections that the caller may
    /// wait for instead.
    pub(super) fn found(&self, pool: &Pool, error: &PoolError, now: Instant) -> bool {
        let PoolError::Backend(error) = error else { return false };
        if error.code() != Some(&SqlState::TOO_MANY_CONNECTIONS) {
            return false;
        }
        self.listener.notify_waiters();
        let status = pool.status();
        if status.size == 0 {
            return false;
        }
        let mut shrunk = lock(&self.shrunk);
        let wanted = shrunk.map_or(status.max_size, |shrunk| shrunk.wanted);
        *shrunk = Some(Shrunk { wanted, grow_at: now + AGAIN });
        pool.resize(status.size.min(status.max_size));
        true
    }

    /// Lets a pool that was made smaller have one connection more, if it is time.
    pub(super) fn grow(&self, pool: &Pool, now: Instant) {
        let mut shrunk = lock(&self.shrunk);
        let Some(Shrunk { wanted, grow_at }) = *shrunk else { return };
        if now < grow_at {
            return;
        }
        let size = pool.status().max_size;
        *shrunk = (size + 1 < wanted).then_some(Shrunk { wanted, grow_at: now + AGAIN });
        pool.resize((size + 1).min(wanted));
    }
}
