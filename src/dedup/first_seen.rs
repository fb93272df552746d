//! Checks that say when a duplicate was first seen.

use super::{Dedup, Prepared};
use crate::first_seen::FirstSeen;
use crate::{Id, Tier, Timestamp, Verdict};

impl Dedup {
    /// Returns when an id was first seen, to within a [tick](Dedup::tick), if the window has it.
    /// Changes nothing, not even the time.
    ///
    /// ```
    /// let dedup = hapax::Dedup::builder().build()?;
    /// assert_eq!(dedup.first_seen("order-17"), None);
    /// dedup.check("order-17");
    /// let first = dedup.first_seen("order-17").expect("it is in the window");
    /// assert!(first.latest() - first.earliest() <= 2 * dedup.tick());
    /// # Ok::<(), hapax::Error>(())
    /// ```
    ///
    /// - It is the time of the check that was told fresh, or of the completion of a claim.
    /// - With [`refresh_on_duplicate`](crate::Builder::refresh_on_duplicate) it is the last time
    ///   that its stay was extended: when it was last seen.
    /// - The history remembers no times, nor does a long memory tell them: of an id that only these
    ///   know there is none. An id that a long memory has recognized is in the window again, as of
    ///   that moment.
    /// - Of an id that was restored from a journal of a window with longer ticks, the
    ///   earliest time may be too late by two of those.
    pub fn first_seen(&self, id: impl Id) -> Option<FirstSeen> {
        let seen = self.engine.accepted(id.digest_by(&self.digester))?;
        Some(self.engine.first_seen(seen, None))
    }

    /// Checks an id now, as [`check`](Dedup::check) does; and if the window has it, returns when it
    /// was [first seen](Dedup::first_seen).
    ///
    /// ```
    /// let dedup = hapax::Dedup::builder().build()?;
    /// assert!(dedup.check_first_seen("order-17").0.is_fresh());
    /// let (verdict, first) = dedup.check_first_seen("order-17");
    /// if let Some(first) = first {
    ///     println!("a duplicate, {:?} old at most", first.age_at_most());
    /// }
    /// assert!(verdict.is_duplicate());
    /// # Ok::<(), hapax::Error>(())
    /// ```
    ///
    /// The time is looked up after the check. If the id expires or is forgotten in between, there
    /// is none; if another check then accepts it anew, it is the time of that. With
    /// [`refresh_on_duplicate`](crate::Builder::refresh_on_duplicate) it is looked up before: when
    /// the id was last seen before this check.
    ///
    /// It costs a second look at the id's bucket, for duplicates only (with refresh, for all);
    /// `check` itself takes no instruction more for it.
    pub fn check_first_seen(&self, id: impl Id) -> (Verdict, Option<FirstSeen>) {
        self.with_first_seen(self.prepare(id), None, |id| self.check(id))
    }

    /// Checks an id at a time that the caller gives, as [`check_at`](Dedup::check_at) does; and if
    /// the window has it, returns when it was [first seen](Dedup::first_seen).
    pub fn check_first_seen_at(&self, id: impl Id, at: Timestamp) -> (Verdict, Option<FirstSeen>) {
        self.with_first_seen(self.prepare(id), Some(at), |id| self.check_at(id, at))
    }

    fn with_first_seen(
        &self,
        id: Prepared,
        event: Option<Timestamp>,
        check: impl FnOnce(Prepared) -> Verdict,
    ) -> (Verdict, Option<FirstSeen>) {
        let look = || self.engine.accepted(id.digest);
        // Where a duplicate extends the stay of its id, the window knows the time before that only
        // until then.
        let before = self.engine.refresh_on_duplicate.then(look).flatten();
        let verdict = check(id);
        let is_in_window = verdict.is_duplicate() && verdict.tier() == Tier::Window;
        let seen = before.filter(|_| is_in_window).or_else(|| is_in_window.then(look).flatten());
        // Only now: the check has told the window of its time, and if it is the first with a time,
        // has decided what times mean.
        (verdict, seen.map(|seen| self.engine.first_seen(seen, event)))
    }
}
