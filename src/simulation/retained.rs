//! The reference's knowledge of what a long memory knows.

use super::belief::{Answer, Done, Moment, Rules, State};

impl Rules {
    /// The time by which a long memory may know an id for longer than its retention: it counts in
    /// ticks of its own, and gets its times from the window.
    fn slack(&self) -> u64 {
        2 * self.tick + self.retention.unwrap_or(0) / 1_024 + self.window / 256
    }
}

impl State {
    /// Returns whether segments may know it, and whether they may not.
    fn beyond(self, now: Moment, rules: &Rules) -> (bool, bool) {
        let (Some(done), Some(retention)) = (self.done, rules.retention) else { return (false, true) };
        let must = done.is_retained && now.real.saturating_sub(done.earliest) < retention;
        let may = now.asked.saturating_sub(done.latest) < retention + rules.slack();
        (must || may, !must)
    }

    /// Returns the state if it is not known whether a long memory has it.
    pub(super) fn not_retained(self) -> Self {
        State { done: self.done.map(|done| Done { is_retained: false, ..done }), ..self }
    }

    /// Returns the state if window and segments may each have it or not: what the journal has lost
    /// may have been sealed before. If that also knew how far the clock was, what is sealed may be
    /// ahead of it by any step of the wall clock.
    pub(super) fn scattered(self, is_clock_lost: bool) -> Self {
        let latest = |done: Done| if is_clock_lost { u64::MAX / 2 } else { done.latest };
        let scattered = |done: Done| Done { keep: 0, latest: latest(done), ..done };
        State { done: self.done.map(scattered), ..self }.not_retained()
    }

    /// Returns the state after it was appended, some time after its check. If the window forgets it
    /// before it is sealed, which may take a quarter of the window, it is fresh for as long (a
    /// known limit).
    pub(super) fn retained(self, now: Moment, rules: &Rules) -> Self {
        let latest = |done: Done| done.latest.max(now.latest);
        let is_in_time = |done: Done| now.real.saturating_sub(done.earliest) + 2 * rules.tick < done.keep / 4 * 3;
        let retained = |done: Done| Done { is_retained: is_in_time(done), latest: latest(done), ..done };
        State { done: self.done.map(retained), ..self }
    }

    /// Returns the state after segments have known it: the window has it again.
    fn found(self, now: Moment, rules: &Rules) -> Self {
        if rules.refresh {
            self.expired().accepted(now, rules, self.done.and_then(|done| done.fingerprint))
        } else {
            State { done: self.done.map(|done| Done { inserted: now.latest, ..done }), ..self }
        }
    }

    /// Returns the answers that a check may give if the window does not know it.
    pub(super) fn checks_beyond(self, now: Moment, rules: &Rules) -> Vec<(Answer, State)> {
        let (known, unknown) = self.beyond(now, rules);
        let accepted = self.expired().accepted(now, rules, None);
        let all = [
            (known, Answer::Duplicate, self.found(now, rules)),
            (known, Answer::Duplicate, self.found(now, rules).without_fingerprint()),
            (unknown, Answer::Fresh, accepted),
            (rules.may_doubt, Answer::FreshGuess, accepted),
        ];
        possible(&all)
    }

    /// Returns the answers that a claim may get if the window does not know it.
    pub(super) fn claims_beyond(self, now: Moment, rules: &Rules) -> Vec<(Answer, State)> {
        let (known, unknown) = self.beyond(now, rules);
        let all = [
            (known, Answer::Duplicate, self.found(now, rules)),
            (known, Answer::Duplicate, self.found(now, rules).without_fingerprint()),
            // What was appended late may be sealed after this.
            (
                unknown,
                Answer::Claimed,
                if self.done.is_some_and(|done| done.is_retained) { self.expired() } else { self },
            ),
            // It does not say that it is in doubt.
            (rules.may_doubt, Answer::Claimed, self),
        ];
        possible(&all)
    }

    /// Returns whether a lookup may find it beyond the window, and whether it may not.
    pub(super) fn lookup_beyond(self, now: Moment, rules: &Rules) -> (bool, bool) {
        let (known, unknown) = self.beyond(now, rules);
        (known, unknown || rules.may_doubt)
    }
}

fn possible(all: &[(bool, Answer, State)]) -> Vec<(Answer, State)> {
    all.iter().filter(|(possible, ..)| *possible).map(|(_, answer, state)| (*answer, *state)).collect()
}
