//! Bursts of as many new ids as the history is made for: its rate must hold.

use super::belief::Moment;
use super::config::{BURST, Kind};
use super::world::{World, Wrong};

/// The bursts so far.
#[derive(Debug, Default)]
pub(super) struct Bursts {
    /// The number of ids that they have used.
    ids: u64,
    /// The time of the last one.
    last: Option<u64>,
    /// The times at which their ids were appended after their checks, oldest first: once for each
    /// burst. A restart counts the ids from then.
    late: Vec<u64>,
    /// The number of bursts after which the history has forgotten that it had more ids within a
    /// horizon than it is made for.
    overfull: u8,
}

impl World {
    pub(super) fn burst(&mut self) -> Result<(), Wrong> {
        let (Some(horizon), Some(history)) = (self.rules.horizon, self.config.history) else { return Ok(()) };
        let now = self.moment(false);
        if self.bursts.last.is_some_and(|last| now.engine <= last + horizon) || self.config.kind == Kind::Events {
            return Ok(());
        }
        self.bursts.last = Some(now.real);
        let first = self.bursts.ids;
        self.bursts.ids += BURST as u64;
        let ids = first..self.bursts.ids;
        let mut verdicts = Vec::new();
        self.dedup().check_batch(ids.clone().map(u64::to_be_bytes), &mut verdicts);
        let wrong = verdicts.iter().filter(|verdict| !verdict.is_certain()).count();
        self.note(format_args!("burst {wrong}"));
        if self.config.deferred {
            let ids = ids.map(|id| self.dedup().prepare(id.to_be_bytes()));
            let checked: Vec<_> = ids.zip(&verdicts).map(|(id, verdict)| (None, id, *verdict)).collect();
            self.deferred.extend(checked);
        } else {
            self.journal.appended += 1;
        }
        if self.bursts.overfull > 0 {
            // The rate is promised for no more ids than were configured.
            self.bursts.overfull -= 1;
            return Ok(());
        }
        // Eight deviations: exceeded once in more sequences than will ever be run.
        let expected = history.rate() * BURST as f64;
        let most = expected + 8.0 * expected.sqrt() + 8.0;
        if wrong as f64 > most {
            Err(format!("of {BURST} new ids {wrong} were known to the history, at most {most} are its rate"))
        } else {
            Ok(())
        }
    }

    /// Notes that so many ids of bursts were appended after their checks.
    pub(super) fn appended_late(&mut self, ids: usize, now: Moment) {
        self.bursts.late.extend(std::iter::repeat_n(now.real, ids / BURST));
    }

    /// Notes that another engine has filled its history from the journal, where ids have the times
    /// at which they were appended.
    pub(super) fn history_refilled(&mut self) {
        let horizon = self.rules.horizon.unwrap_or(0);
        let Bursts { last, late, overfull, .. } = &mut self.bursts;
        *last = (*last).max(late.last().copied());
        // Those of two bursts within one horizon are in one generation, which is cleared when the
        // second one from now on begins.
        let is_crowded = late.windows(2).any(|pair| pair[1] <= pair[0] + horizon);
        *overfull = if is_crowded { 2 } else { 0 };
    }
}
