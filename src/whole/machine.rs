//! What an engine runs on: a disk, clocks.

use super::config::{Config, Kind};
use super::op::Damage;
use super::world::HISTORY_IDS;
use crate::{Clock, Dedup, Error, EventTime, JournalError, JournalOptions, ManualClock, Timestamp, Unconfirmed};
use std::path::PathBuf;
use std::time::Duration;

#[derive(Debug)]
pub(super) enum Opened {
    Engine(Dedup),
    Damaged(Error),
    Failed(Error),
}

pub(super) struct Machine {
    manual: ManualClock,
    directory: PathBuf,
}

impl Drop for Machine { fn drop(&mut self) { let _ = std::fs::remove_dir_all(&self.directory); } }

impl Machine {
    /// 2020-06-01.
    pub(super) const FIRST_EVENT: u64 = 1_590_969_600_000_000_000;
    /// 2026-11-22.
    const NOW: u64 = 1_795_305_600_000_000_000;

    pub(super) fn new(_config: &Config) -> Self {
        static N: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
        let n = N.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let manual = ManualClock::new();
        manual.set(Timestamp::from_nanos(Self::NOW));
        Machine { manual, directory: format!("/dev/shm/whole-{}-{n}", std::process::id()).into() }
    }

    pub(super) fn open(&mut self, config: &Config, window: Duration, _keep: bool) -> Opened {
        let mut builder = Dedup::builder().window(window).capacity(1).refresh_on_duplicate(config.refresh).growth_thread(false).seed(7).lease(config.window() / 5)
            .clock(self.manual.clone())
            .journal(&self.directory, JournalOptions::new().deferred(config.deferred));
        if config.kind == Kind::Events && let Some(lateness) = config.lateness {
            let lateness = config.window() / 1_000 * lateness;
            builder = builder.event_time(EventTime::wall().allowed_lateness(lateness));
        }
        if let Some(history) = config.history {
            builder = builder.history(history.horizon(config.window()), history.rate(), HISTORY_IDS).unconfirmed(match history.unconfirmed_fresh { true => Unconfirmed::Fresh, false => Unconfirmed::Duplicate });
        }
        match builder.build() { Ok(d) => Opened::Engine(d), Err(e) => Opened::Failed(e) }
    }
    pub(super) fn advance(&mut self, by: Duration) { self.manual.advance(by) }
    pub(super) fn suspend(&mut self, by: Duration) { let _ = by; }
    pub(super) fn wall_step(&mut self, _by: i64) {}
    pub(super) fn clock_nanos(&self) -> u64 { self.manual.now().as_nanos() }
    pub(super) fn lag_nanos(&self) -> u64 { 0 }
    pub(super) fn system_nanos(&self) -> (u64, u64) { (self.clock_nanos(), self.clock_nanos()) }
    pub(super) fn full(&mut self, _full: bool) {}
    pub(super) fn sync_fails(&mut self, _after: u8) {}
    pub(super) fn sync_is_to_fail(&self) -> bool { false }
    pub(super) fn remove_directory(&mut self) {}
    pub(super) fn crash(&mut self, _seed: u64) {}
    pub(super) fn kill(&mut self) {}
    pub(super) fn stop(&mut self) {}
    pub(super) fn damage(&mut self, _how: Damage, _which: u8) {}
    pub(super) fn reopen(&mut self, _dedup: &Dedup) -> Result<(), JournalError> { Ok(()) }
    pub(super) fn reports_loss(&self, _dedup: &Dedup) -> bool { false }
}
