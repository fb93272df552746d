//! The point from which an engine's clock goes on after a restart. Pure.
//!
//! The wall clock says how late it is, and may be set: by people, by NTP, or because it was wrong
//! when the machine was started. The time since the machine was started counts on whatever happens,
//! also while it is suspended, but means nothing to another boot. An engine's own clock goes on
//! from what its journal knows, by the better of the two.

use crate::Timestamp;
use std::time::Duration;

/// The times at which the last engine stopped writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Left {
    /// The engine's clock at its last write …
    pub(crate) engine: Timestamp,
    /// … and the machine's then.
    pub(crate) machine: MachineTime,
    /// True if the machine has not been started again since.
    pub(crate) same_boot: bool,
}

/// A machine's clocks at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MachineTime {
    /// The time since the Unix epoch.
    pub(crate) wall_nanos: u64,
    /// The time since the machine was started, suspended or not; 0 if unknown.
    pub(crate) boot_nanos: u64,
}

impl From<super::Clocks> for MachineTime {
    fn from(clocks: super::Clocks) -> Self {
        MachineTime { wall_nanos: clocks.wall_nanos, boot_nanos: clocks.boot_nanos }
    }
}

/// A difference between what the wall clock says has passed since the last engine wrote, and what
/// is known to have passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ClockStep {
    /// The amount by which the wall clock was set.
    pub(crate) by: Duration,
    /// True if it was set back, false if forward.
    pub(crate) is_backward: bool,
}

/// The smallest step that is reported.
const MIN_STEP: Duration = Duration::from_secs(1);

/// Returns the time at which an engine's clock starts, and the step of the wall clock meanwhile, if
/// it was more than a tick or a second, whichever is more.
///
/// `latest` is the largest time that the journal has: the clock starts no earlier.
pub(crate) fn go_on(
    left: Option<Left>,
    latest: Timestamp,
    now: MachineTime,
    tick: Duration,
) -> (Timestamp, Option<ClockStep>) {
    let Some(Left { engine, machine, same_boot }) = left else {
        return (Timestamp::from_nanos(now.wall_nanos).max(latest), None);
    };
    let by_wall = i128::from(now.wall_nanos) - i128::from(machine.wall_nanos);
    let is_known = same_boot && machine.boot_nanos != 0 && now.boot_nanos >= machine.boot_nanos;
    // The least that can have passed, if it is unknown: nothing.
    let elapsed = if is_known { i128::from(now.boot_nanos - machine.boot_nanos) } else { by_wall.max(0) };
    let start = engine + Duration::from_nanos(elapsed.try_into().unwrap_or(u64::MAX));
    let step = by_wall - elapsed;
    let by = Duration::from_nanos(step.unsigned_abs().try_into().unwrap_or(u64::MAX));
    let step = (by > tick.max(MIN_STEP)).then_some(ClockStep { by, is_backward: step < 0 });
    (start.max(latest), step)
}

#[cfg(all(test, not(modelled)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SECOND: Duration = Duration::from_secs(1);
    const TICK: Duration = Duration::from_secs(5);

    fn machine(wall_secs: u64, boot_secs: u64) -> MachineTime {
        MachineTime { wall_nanos: wall_secs * 1_000_000_000, boot_nanos: boot_secs * 1_000_000_000 }
    }

    fn left(engine_secs: u64, machine: MachineTime, same_boot: bool) -> Option<Left> {
        Some(Left { engine: Timestamp::from_secs(engine_secs), machine, same_boot })
    }

    fn secs(secs: u64) -> Timestamp {
        Timestamp::from_secs(secs)
    }

    #[test]
    fn without_a_journal_it_is_what_the_wall_clock_says() {
        assert_eq!(go_on(None, secs(0), machine(1_000, 5), TICK), (secs(1_000), None));
        assert_eq!(go_on(None, secs(2_000), machine(1_000, 5), TICK), (secs(2_000), None));
    }

    #[test]
    fn in_one_boot_a_wall_clock_that_is_set_changes_nothing_and_is_said() {
        let was = left(1_000, machine(1_000, 50), true);
        // It was suspended for 700 s before it wrote, or NTP has set the clock: 10 s have passed.
        let (start, step) = go_on(was, secs(1_000), machine(1_710, 60), TICK);
        assert_eq!(start, secs(1_010));
        assert_eq!(step, Some(ClockStep { by: 700 * SECOND, is_backward: false }));
        // The clock was an hour ahead at first, and right later.
        let (start, step) = go_on(was, secs(1_000), machine(0, 60), TICK);
        assert_eq!(start, secs(1_010));
        assert_eq!(step, Some(ClockStep { by: 1_010 * SECOND, is_backward: true }));
        // The machine was suspended in between: that time counts.
        assert_eq!(go_on(was, secs(1_000), machine(1_700, 750), TICK), (secs(1_700), None));
    }

    #[test]
    fn after_another_boot_the_wall_clock_counts_but_never_back() {
        let was = left(5_000, machine(1_000, 50), false);
        assert_eq!(go_on(was, secs(5_000), machine(1_600, 3), TICK), (secs(5_600), None));
        let (start, step) = go_on(was, secs(5_000), machine(400, 3), TICK);
        assert_eq!(start, secs(5_000));
        assert_eq!(step, Some(ClockStep { by: 600 * SECOND, is_backward: true }));
        // The time since then is unknown, or it has gone back: as if it were another boot.
        for (before, after) in [(0, 7), (50, 7)] {
            let was = left(5_000, machine(1_000, before), true);
            assert_eq!(go_on(was, secs(5_000), machine(1_600, after), TICK), (secs(5_600), None));
        }
    }

    #[test]
    fn small_steps_are_not_worth_a_word() {
        let was = left(1_000, machine(1_000, 50), true);
        let step = |wall, tick| go_on(was, secs(0), machine(wall, 50), tick).1.is_some();
        assert_eq!([step(1_001, SECOND), step(1_002, SECOND), step(998, SECOND)], [false, true, true]);
        assert_eq!([step(1_005, TICK), step(1_006, TICK)], [false, true]);
        assert!(!step(1_001, Duration::from_nanos(1)));
    }

    proptest! {
        #[test]
        fn time_never_goes_back_nor_on_by_more_than_somebody_says(
            engine in 0..1_u64 << 61, latest in 0..1_u64 << 61, was in any::<(u64, u64)>(), now in any::<(u64, u64)>(),
            same_boot: bool,
        ) {
            let machine = |(wall_nanos, boot_nanos)| MachineTime { wall_nanos, boot_nanos };
            let left = Left { engine: Timestamp::from_nanos(engine), machine: machine(was), same_boot };
            let (start, _) = go_on(Some(left), Timestamp::from_nanos(latest), machine(now), TICK);
            prop_assert!(start.as_nanos() >= engine.max(latest));
            let longest = now.0.saturating_sub(was.0).max(now.1.saturating_sub(was.1));
            let end = engine.max(latest).saturating_add(longest).min(i64::MAX as u64);
            prop_assert!(start.as_nanos() <= end);
        }
    }
}
