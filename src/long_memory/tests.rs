//! Engines with a long memory on a simulated disk, in virtual time, without a thread.

use crate::journal::restarts::{builder, clock};
use crate::journal::simulated::Simulated;
use crate::{Certainty, Dedup, JournalOptions, LongMemory, ManualClock, Tier};
use std::path::PathBuf;
use std::time::Duration;

pub(super) const WINDOW: Duration = Duration::from_secs(100);
pub(super) const RETENTION: Duration = Duration::from_secs(1_000);

fn directory() -> PathBuf {
    PathBuf::from("/long")
}

pub(super) struct World {
    pub(super) disk: Simulated,
    pub(super) clock: ManualClock,
    pub(super) checkpoints: bool,
    pub(super) refreshes: bool,
}

impl World {
    pub(super) fn new() -> Self {
        World { disk: Simulated::new(), clock: clock(), checkpoints: false, refreshes: false }
    }

    pub(super) fn open(&self) -> Dedup {
        let builder = builder(&self.disk, &self.clock, JournalOptions::new().checkpoints(self.checkpoints));
        let builder = builder.window(WINDOW).refresh_on_duplicate(self.refreshes);
        builder.long_memory(directory(), LongMemory::new(RETENTION)).build().unwrap()
    }

    pub(super) fn pass(&self, seconds: u64) {
        self.clock.advance(Duration::from_secs(seconds));
    }
}

#[test]
fn an_id_is_known_for_the_retention_by_the_window_and_then_by_segments() {
    let world = World::new();
    let dedup = world.open();
    let verdict = dedup.check("a");
    assert_eq!((verdict.is_fresh(), verdict.tier()), (true, Tier::Segments));
    world.pass(99);
    assert_eq!(dedup.check("a").tier(), Tier::Window);
    // Nobody asks meanwhile: the window has forgotten it when the next one does.
    world.pass(300);
    assert!(dedup.check("b").is_fresh());
    let verdict = dedup.check("a");
    assert_eq!((verdict.is_duplicate(), verdict.tier(), verdict.certainty()), (true, Tier::Segments, Certainty::Exact));
    assert_eq!(dedup.contains("b"), Some(Tier::Window));
    world.pass(599);
    assert_eq!(dedup.contains("a"), Some(Tier::Segments), "for the retention, a nanosecond less");
    world.pass(3);
    assert_eq!(dedup.contains("a"), None);
    assert!(dedup.check("a").is_fresh());
    let stats = dedup.stats();
    assert_eq!((stats.checks(), stats.fresh, stats.duplicates_by_window, stats.duplicates_by_segments), (5, 3, 1, 1));
}
