//! A pool with a connection for each thread that asks.

use crate::strategy::Failure;
use std::sync::{Mutex, PoisonError};

/// A pool of as many connections as threads have asked at the same time.
pub(super) struct Pool<C> {
    idle: Mutex<Vec<C>>,
    connect: Box<dyn Fn() -> Result<C, Failure> + Send + Sync>,
}

impl<C> Pool<C> {
    /// Makes as many connections as there will be threads, before the clock starts.
    pub fn new(
        threads: usize,
        connect: impl Fn() -> Result<C, Failure> + Send + Sync + 'static,
    ) -> Result<Self, Failure> {
        let idle = (0..threads).map(|_| connect()).collect::<Result<_, _>>()?;
        Ok(Pool { idle: Mutex::new(idle), connect: Box::new(connect) })
    }

    /// Runs a request on a connection. A connection that failed is not used again.
    pub fn with<T>(&self, ask: impl FnOnce(&mut C) -> Result<T, Failure>) -> Result<T, Failure> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut connection = idle.map_or_else(&self.connect, Ok)?;
        let answer = ask(&mut connection)?;
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
        Ok(answer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[test]
    fn connections_are_used_again_unless_they_failed() {
        let made = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&made);
        let pool = Pool::new(1, move || Ok(count.fetch_add(1, Ordering::Relaxed))).unwrap();
        assert_eq!(pool.with(|connection| Ok(*connection)).unwrap(), 0);
        // Within a call, another thread would need another connection.
        assert_eq!(pool.with(|outer| Ok((*outer, pool.with(|inner| Ok(*inner)).unwrap()))).unwrap(), (0, 1));
        assert_eq!(pool.with(|_| Err::<(), _>("broken".into())).unwrap_err().to_string(), "broken");
        pool.with(|outer| pool.with(|_| Ok(*outer))).unwrap();
        assert_eq!(made.load(Ordering::Relaxed), 3);
    }
}
