//! The surroundings of an engine: a disk in memory, and clocks.

use super::config::{Config, Kind};
use super::op;
use super::world::HISTORY_IDS;
use crate::clock::SimulatedClock;
use crate::clock::{Clocks, Machine as Host};
use crate::journal::Surroundings;
use crate::journal::files::simulated::{Call, Fault, Simulated};
use crate::{Clock, Damage, Dedup, Error, EventTime, History, JournalOptions, ManualClock, Timestamp, Unconfirmed};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

pub(super) struct Machine {
    disk: Simulated,
    kind: Kind,
    /// The clock that a builder is given, or the system's monotonic one.
    manual: ManualClock,
    /// The wall clock, and (in `boot`) the time since boot.
    wall: ManualClock,
    boot: ManualClock,
    /// The default clock of the running engine.
    clock: SimulatedClock,
    removals: u32,
}

const DIRECTORY: &str = "/journal";
const SEGMENTS: &str = "/segments";
/// The error number of EIO.
const INPUT_OUTPUT: i32 = 5;
const HEADER_BYTES: u64 = 96;

impl Machine {
    /// The time of the first event, 2020-06-01.
    pub(super) const FIRST_EVENT: u64 = 1_590_969_600_000_000_000;
    /// The present in these tests, 2026-11-22.
    const NOW: u64 = 1_795_305_600_000_000_000;

    pub(super) fn new(config: &Config) -> Self {
        let [manual, wall, boot] = [Self::NOW, Self::NOW, 1_000_000_000_000].map(|nanos| {
            let clock = ManualClock::new();
            clock.set(Timestamp::from_nanos(nanos));
            clock
        });
        if config.kind == Kind::System {
            manual.set(Timestamp::from_secs(1_000));
        }
        let clock = SimulatedClock { monotonic: manual.clone(), ahead_nanos: Arc::default() };
        Machine { disk: Simulated::new(), kind: config.kind, manual, wall, boot, clock, removals: 0 }
    }

    pub(super) fn open(&mut self, config: &Config, window: Duration, keep: bool) -> Result<Dedup, Error> {
        let damage = if keep { Damage::Keep } else { Damage::Refuse };
        let options = JournalOptions::new().deferred(config.deferred).checkpoints(config.checkpoints).damage(damage);
        let mut builder = Dedup::builder()
            .window(window)
            .capacity(1)
            .growth_thread(false)
            .seed(7)
            .lease(config.window() / 5)
            .refresh_on_duplicate(config.refresh)
            .journal(DIRECTORY, options);
        if config.kind != Kind::System {
            builder = builder.clock(self.manual.clone());
        }
        if config.kind == Kind::Events
            && let Some(lateness) = config.lateness
        {
            builder = builder.event_time(EventTime::wall().allowed_lateness(config.window() / 1_000 * lateness));
        }
        if let Some(history) = config.history {
            let unconfirmed = if history.unconfirmed_fresh { Unconfirmed::Fresh } else { Unconfirmed::Duplicate };
            let horizon = history.horizon(config.window());
            let (ids, false_positive_rate) = (HISTORY_IDS, history.rate());
            builder = builder.history(History { horizon, ids, false_positive_rate, unconfirmed });
        }
        if let Some(retention) = config.retention() {
            builder = builder.long_memory(SEGMENTS, crate::LongMemory::new(retention));
        }
        builder.surroundings(self.surroundings()).build()
    }

    fn surroundings(&self) -> Surroundings {
        let is_system = self.kind == Kind::System;
        // A process begins with the time of the wall clock.
        self.clock.set(self.wall.now());
        let (manual, wall, boot, clock) =
            (self.manual.clone(), self.wall.clone(), self.boot.clone(), self.clock.clone());
        let clocks = move || Clocks {
            engine: if is_system { clock.now() } else { manual.now() },
            wall_nanos: wall.now().as_nanos(),
            boot_nanos: boot.now().as_nanos(),
        };
        let machine = Host { clocks: Arc::new(clocks), boot: 1 };
        let clock = is_system.then(|| self.clock.clone());
        Surroundings { disk: Arc::new(self.disk.of_this_boot()), machine, is_inline: true, clock }
    }

    // Clocks

    pub(super) fn advance(&mut self, by: Duration) {
        self.clocks()(by);
    }

    /// Suspends the machine: the monotonic clock stands still.
    pub(super) fn suspend(&mut self, by: Duration) {
        [&self.wall, &self.boot].into_iter().for_each(|clock| clock.advance(by));
    }

    pub(super) fn wall_step(&mut self, by: i64) {
        let wall = self.wall.now().as_nanos().saturating_add_signed(by);
        self.wall.set(Timestamp::from_nanos(wall));
    }

    /// Returns the time that the engine's clock shows.
    pub(super) fn clock_nanos(&self) -> u64 {
        self.manual.now().as_nanos()
    }

    /// Returns what advances all clocks.
    pub(super) fn clocks(&self) -> impl Fn(Duration) + use<> {
        let clocks = [self.manual.clone(), self.wall.clone(), self.boot.clone()];
        move |by| clocks.iter().for_each(|clock| clock.advance(by))
    }

    /// Returns the time that has really passed, and that of a clock that stands still while the
    /// machine sleeps.
    pub(super) fn system_nanos(&self) -> (u64, u64) {
        (self.boot.now().as_nanos(), self.manual.now().as_nanos())
    }

    // The disk

    pub(super) fn full(&mut self, full: bool) {
        self.disk.set_capacity(full.then(|| self.disk.used()));
    }

    pub(super) fn sync_fails(&mut self, after: u8) {
        self.disk.plan(Some(Call::Sync), after.into(), Fault::Error(INPUT_OUTPUT));
    }

    pub(super) fn call_fails(&mut self, after: u8) {
        self.disk.plan(None, after.into(), Fault::Error(INPUT_OUTPUT));
    }

    /// Deletes the directory of segments, since they are not those of this journal.
    pub(super) fn remove_segments(&mut self) {
        self.disk.delete_directory(Path::new(SEGMENTS));
    }

    /// Cancels all faults, except for lack of room.
    pub(super) fn heal(&mut self) {
        self.disk.heal();
    }

    /// Deletes the directory, as somebody else would, and every other time creates it again.
    pub(super) fn remove_directory(&mut self) {
        self.removals += 1;
        match self.removals % 2 {
            0 => self.disk.replace_directory(Path::new(DIRECTORY)),
            _ => self.disk.delete_directory(Path::new(DIRECTORY)),
        }
    }

    /// Kills the process: its calls have no effect from now on.
    pub(super) fn kill(&mut self) {
        self.disk.heal();
        self.disk.plan(None, 0, Fault::Dead);
    }

    /// Ends the process; some of the data that was not synced is left.
    pub(super) fn crash(&mut self, seed: u64) {
        self.disk.heal();
        self.disk.crash(seed);
    }

    /// Ends the process cleanly.
    pub(super) fn stop(&mut self) {
        self.disk.heal();
        self.disk.kill();
    }

    pub(super) fn damage(&mut self, how: op::Harm, which: u8) {
        let is_segment = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "hapax");
        let files: Vec<_> = self.disk.paths().into_iter().filter(is_segment).collect();
        if files.is_empty() {
            return;
        }
        let file = &files[usize::from(which) % files.len()];
        let bytes = self.disk.read(file).map_or(0, |bytes| bytes.len() as u64);
        match how {
            op::Harm::DeleteFile => self.disk.delete(file),
            op::Harm::ZeroHeader => self.disk.zero(file, 0, HEADER_BYTES.min(bytes)),
            op::Harm::FlipBit if bytes > 0 => self.disk.flip(file, u64::from(which) * 7_919 % (8 * bytes)),
            op::Harm::FlipBit => {}
            op::Harm::Truncate => self.disk.cut(file, bytes * u64::from(which) / 256),
        }
    }

    /// Returns true if the engine reports that something may be lost.
    pub(super) fn reports_loss(&self, dedup: &Dedup) -> bool {
        let recovery = dedup.stats().journal.map(|journal| journal.recovery).unwrap_or_default();
        !(recovery.torn.is_empty() && recovery.damage.is_empty() && recovery.ids_lost.is_nothing())
    }
}
