//! The parameters that parent and children must agree on.

use std::net::SocketAddr;
use std::time::Duration;
use testkit::random::Random;

/// A backend's campaign.
#[derive(Clone, Debug)]
pub struct Plan {
    pub backend: String,
    pub seed: u64,
    /// True for a short one, which has shorter leases and faults.
    pub is_short: bool,
}

/// A worker's part.
#[derive(Clone, Debug)]
pub struct Part {
    pub plan: Plan,
    pub worker: usize,
    pub life: u64,
    pub broker: SocketAddr,
    /// The store's address: a path, a URL.
    pub store: String,
}

impl Plan {
    pub fn lease(&self) -> Duration {
        if self.is_short { Duration::from_secs(3) } else { Duration::from_secs(12) }
    }

    /// Returns a time longer than any store is away.
    pub fn in_doubt(&self) -> Duration {
        self.lease() / 2
    }

    /// Returns a time much shorter than a lease and than the time between faults, or a store that
    /// is back is not asked before it is away again.
    pub fn breaker_rest(&self) -> Duration {
        if self.is_short { Duration::from_millis(100) } else { Duration::from_secs(1) }
    }

    /// Returns a visibility shorter than some handlers take.
    pub fn visibility(&self) -> Duration {
        if self.is_short { Duration::from_millis(300) } else { Duration::from_secs(2) }
    }

    /// Returns how long the few slow handlers take.
    pub fn slow(&self, random: &mut Random) -> Duration {
        if self.is_short { random.millis(300, 500) } else { random.millis(1_500, 4_000) }
    }

    /// Returns a time-out longer than any handler takes that ends.
    pub fn handler_timeout(&self) -> Duration {
        if self.is_short { Duration::from_millis(1_500) } else { Duration::from_secs(6) }
    }

    /// Returns how many of a thousand messages have a first handler that never ends.
    pub fn hangs_per_thousand(&self) -> u64 {
        5
    }

    pub fn max_attempts(&self) -> u32 {
        5
    }

    /// Returns a fault's length: much shorter than a lease, so that a lease is renewed in time.
    pub fn fault(&self, random: &mut Random) -> Duration {
        match random.below(3) {
            0 => Duration::from_millis(300),
            1 if !self.is_short => Duration::from_secs(1),
            _ => random.millis(20, if self.is_short { 300 } else { 1_500 }),
        }
    }

    /// Returns the time between faults, in which leases are renewed.
    pub fn pause(&self, random: &mut Random) -> Duration {
        if self.is_short { random.millis(200, 600) } else { random.millis(1_000, 5_000) }
    }

    /// Returns the longest time without any effect. A killed process keeps its ids for a lease;
    /// more than that is too long.
    pub fn standstill_max(&self) -> Duration {
        self.lease() + Duration::from_secs(if self.is_short { 120 } else { 15 })
    }
}

impl Part {
    pub fn to_text(&self) -> String {
        let Part { plan: Plan { backend, seed, is_short }, worker, life, broker, store } = self;
        format!("{backend} {seed} {} {worker} {life} {broker} {store}", u64::from(*is_short))
    }

    pub fn parse(text: &str) -> Option<Part> {
        let mut words = text.splitn(7, ' ');
        let backend = words.next()?.to_owned();
        let mut number = || words.next()?.parse::<u64>().ok();
        let (seed, is_short, worker, life) = (number()?, number()? == 1, number()? as usize, number()?);
        let broker = words.next()?.parse().ok()?;
        Some(Part { plan: Plan { backend, seed, is_short }, worker, life, broker, store: words.next()?.to_owned() })
    }
}
