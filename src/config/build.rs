//! The building of an engine from its options.

use super::Builder;
use super::on_disk::OnDisk;
use crate::claims::Claims;
use crate::clock::{EngineClock, HUNDRED_YEARS};
use crate::digest::{DigestKey, Digester};
use crate::engine::Engine;
use crate::error::check;
use crate::history::HistoryTier;
use crate::stats::Counters;
use crate::stream_time::{Policy, StreamTime};
use crate::window::Ticks;
use crate::window::Window;
use crate::{Dedup, Error, History, Unconfirmed};
use std::sync::Arc;
use std::time::Duration;

/// The window, unless it is set or what is behind it remembers for less.
const WINDOW: Duration = Duration::from_secs(600);

impl Builder {
    /// Builds the engine, with all the memory that it starts with.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidOption`] names the option, its value and what would be valid;
    /// [`Error::OutOfMemory`] says how much memory was not available.
    pub fn build(mut self) -> Result<Dedup, Error> {
        let window = self.resolved_window();
        let (ticks, policy) = self.validate(window)?;
        let clock = self.engine_clock(ticks);
        let on_disk = OnDisk::open(&mut self, &clock)?;
        let key = on_disk.key(self.key)?;
        let (mut engine, digester) = self.assemble(window, policy, clock, key)?;
        on_disk.bring_back(&mut engine, key, &self)?;
        Ok(Dedup::new(Arc::new(engine), digester))
    }

    /// Returns the window that is set, or one that is no longer than what is behind it remembers.
    fn resolved_window(&self) -> Duration {
        let horizon = self.history.map(|history| history.horizon);
        let retention = self.long_memory.as_ref().map(|(_, long)| long.retention / 2);
        let shortest = horizon.into_iter().chain(retention).fold(WINDOW, Duration::min);
        self.window.unwrap_or(shortest.max(Ticks::WINDOW_MIN))
    }

    /// Checks the options that no part of the engine checks by itself.
    fn validate(&self, window: Duration) -> Result<(Ticks, Policy), Error> {
        let ticks = Ticks::of_window(window)?;
        if let Some(History { horizon, .. }) = self.history {
            check(horizon >= window, "history.horizon", horizon, format!("at least the window, {window:?}"))?;
        }
        self.validate_long_memory(window)?;
        let has_end = !self.lease.is_zero() && self.lease <= HUNDRED_YEARS;
        check(has_end, "lease", self.lease, "a duration of up to 100 years, not none")?;
        let policy = self.event_time.clone().unwrap_or_default().policy(window)?;
        Ok((ticks, policy))
    }

    fn validate_long_memory(&self, window: Duration) -> Result<(), Error> {
        use crate::segments::READ_THREADS_MAX;
        let Some((_, crate::LongMemory { retention, read_threads, sort_memory_bytes })) = self.long_memory else {
            let expected = "none without option `long_memory`, whose segments it has";
            return Ok(check(self.segment_source.is_none(), "segment_source", "one", expected)?);
        };
        let expected = format!("longer than the window, {window:?}, and at most 100 years");
        check(retention > window && retention <= HUNDRED_YEARS, "long_memory.retention", retention, expected)?;
        let expected = format!("1 to {READ_THREADS_MAX}");
        check((1..=READ_THREADS_MAX).contains(&read_threads), "long_memory.read_threads", read_threads, expected)?;
        let expected = "at least 1 MiB";
        check(sort_memory_bytes >= 1 << 20, "long_memory.sort_memory_bytes", sort_memory_bytes, expected)?;
        let expected = "none with option `long_memory`, which knows what a history guesses";
        if let Some(History { horizon, .. }) = self.history {
            check(false, "history", horizon, expected)?;
        }
        Ok(())
    }

    /// Takes the clock that was given, or the default one; in a simulation, the simulated one.
    fn engine_clock(&mut self, ticks: Ticks) -> EngineClock {
        let clock = EngineClock::new(self.clock.take(), ticks.tick());
        #[cfg(test)]
        let clock = match self.surroundings.as_ref().and_then(|on| on.clock.clone()) {
            Some(simulated) => EngineClock::simulated(simulated),
            None => clock,
        };
        clock
    }

    /// Puts an engine together, which remembers nothing yet, with the digester of its ids.
    fn assemble(
        &self,
        window: Duration,
        policy: Policy,
        clock: EngineClock,
        key: DigestKey,
    ) -> Result<(Engine, Digester), Error> {
        let window = Window::with_growth(window, self.capacity, self.max_memory_bytes, self.growth_thread)?
            .refresh_on_duplicate(self.refresh_on_duplicate);
        let history =
            self.history.map(|of| HistoryTier::new(of.horizon, of.false_positive_rate, of.ids)).transpose()?;
        let unscoped = Digester::from(key);
        let digester = self.scope.as_ref().map_or_else(|| unscoped.clone(), |scope| unscoped.scoped(scope));
        let engine = Engine {
            check_one: Engine::compiled_check(window.kernel(), history.is_some(), false),
            window,
            history,
            // Without a history nothing asks for it.
            unconfirmed: self.history.map_or(Unconfirmed::Duplicate, |history| history.unconfirmed),
            refresh_on_duplicate: self.refresh_on_duplicate,
            claims: Claims::new(),
            lease: self.lease,
            clock,
            stream_time: StreamTime::new(policy, self.event_time.is_some()),
            counters: Counters::new(),
            long: None,
            journal: None,
            unscoped,
        };
        Ok((engine, digester))
    }
}
