//! The reference's knowledge of one id: the states that it may be in, given all answers so far.
//!
//! Answers near an edge (an id may be remembered for two ticks longer, a crash may have lost ids
//! that were not flushed) leave more than one state; each answer that follows rules some of them
//! out. An answer that rules out all of them is wrong.

/// The time of a call: the time to which ages refer, and the time that is noted of ids that are
/// accepted now.
///
/// It has two clocks, since no single one decides: an id must be a duplicate while less than a
/// window has *really* passed, and may be one for as long as the *engine's* time, which may stand
/// still (a machine that sleeps), has not passed it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Moment {
    /// The upper bound of the real time.
    pub(super) real: u64,
    /// The lower bound of the time that the engine knows.
    pub(super) engine: u64,
    /// That of the time for which it asks a long memory: an event's own, if it is late.
    pub(super) asked: u64,
    /// The time of the first clock, at the earliest, of an acceptance now …
    pub(super) earliest: u64,
    /// … and that of the second, at the latest.
    pub(super) latest: u64,
}

impl Moment {
    pub(super) fn of(time: u64) -> Self {
        Moment { real: time, engine: time, asked: time, earliest: time, latest: time }
    }
}

/// The lengths of time for which ids are remembered.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Rules {
    pub(super) window: u64,
    pub(super) tick: u64,
    pub(super) refresh: bool,
    pub(super) horizon: Option<u64>,
    pub(super) unconfirmed_fresh: bool,
    /// The retention of a long memory.
    pub(super) retention: Option<u64>,
    /// True if what a long memory says may be in doubt.
    pub(super) may_doubt: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Done {
    pub(super) earliest: u64,
    pub(super) latest: u64,
    /// The time for which it is remembered for certain: the shortest window since.
    pub(super) keep: u64,
    pub(super) fingerprint: Option<u8>,
    /// The latest time at which the window may have inserted it: a long memory's ids come back.
    pub(super) inserted: u64,
    /// True if a long memory has it, or will have it in time.
    pub(super) is_retained: bool,
}

/// A state that an id may be in. (Claims are known for certain, and apart from this.)
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct State {
    pub(super) done: Option<Done>,
    /// The time until which the history knows it for certain; if there is none, a "maybe" of the
    /// history is a coincidence.
    pub(super) history: Option<u64>,
}

/// An answer, as far as it can be predicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Fresh,
    FreshGuess,
    Duplicate,
    DuplicateGuess,
    Claimed,
    Mismatch,
}

impl State {
    /// Returns the state after it was accepted, by a check or the end of a claim.
    pub(super) fn accepted(self, now: Moment, rules: &Rules, fingerprint: Option<u8>) -> Self {
        let Moment { earliest, latest, .. } = now;
        let history = rules.horizon.map(|horizon| earliest + horizon).max(self.history);
        let done = Done { earliest, latest, keep: rules.window, fingerprint, inserted: latest, is_retained: true };
        State { done: Some(done), history }
    }

    /// Returns the state after a duplicate that lets the window slide.
    fn refreshed(self, now: Moment, rules: &Rules) -> Self {
        let fingerprint = self.done.and_then(|done| done.fingerprint);
        State { history: self.history, ..self.accepted(now, &Rules { horizon: None, ..*rules }, fingerprint) }
    }

    pub(super) fn forgotten(self) -> Self {
        State { done: None, ..self }
    }

    pub(super) fn expired(self) -> Self {
        State { done: None, ..self }
    }

    /// Returns the state after another engine goes on with this one's memory. Of ids that came
    /// within one of its ticks the journal has the latest time.
    pub(super) fn restarted(self, rules: &Rules, before: &Rules) -> Self {
        let merged = if rules.tick < before.tick { before.tick } else { 0 };
        let restarted = |done: Done| Done {
            keep: done.keep.min(rules.window),
            latest: done.latest + merged,
            inserted: done.latest + merged,
            ..done
        };
        let done = self.done.map(restarted);
        let history = rules.horizon.and(done.map(|done| done.earliest + rules.horizon.unwrap_or(0)));
        // (The history may be lost if the horizon is another one.)
        State { done, history: history.filter(|_| done.is_some()) }
    }

    /// Returns the state after time was found to be uncertain by this much.
    pub(super) fn blurred(self, by: u64) -> Self {
        let blur = |done: Done| Done {
            earliest: done.earliest.saturating_sub(by),
            latest: done.latest + by,
            inserted: done.inserted + by,
            ..done
        };
        State { done: self.done.map(blur), ..self }
    }

    /// Returns the state after the beginning of its time, which was unknown, is known: at least and
    /// at most this much later.
    pub(super) fn moved(self, (least, most): (u64, u64)) -> Self {
        let moved = |done: Done| Done {
            earliest: done.earliest + least,
            latest: done.latest + most,
            inserted: done.inserted + most,
            ..done
        };
        State { done: self.done.map(moved), history: self.history.map(|until| until + least) }
    }

    /// Returns the state if its fingerprint is not known any more.
    pub(super) fn without_fingerprint(self) -> Self {
        State { done: self.done.map(|done| Done { fingerprint: None, ..done }), ..self }
    }

    /// Returns the state if an earlier fingerprint is taken for its own.
    pub(super) fn with_fingerprint(self, fingerprint: u8) -> Self {
        State { done: self.done.map(|done| Done { fingerprint: Some(fingerprint), ..done }), ..self }
    }

    /// Returns the state if it is unknown how much time has passed.
    pub(super) fn adrift(self, now: Moment) -> Self {
        let latest = |time: u64| time.max(now.latest);
        let adrift =
            |done: Done| Done { keep: 0, latest: latest(done.latest), inserted: latest(done.inserted), ..done };
        State { done: self.done.map(adrift), history: None }.not_retained()
    }

    /// Returns whether the window may know it, and whether it may not.
    fn window(self, now: Moment, rules: &Rules) -> (bool, bool) {
        let Some(done) = self.done else { return (false, true) };
        let must = now.real.saturating_sub(done.earliest) < done.keep;
        let may = now.engine.saturating_sub(done.inserted) < rules.window + 2 * rules.tick;
        (must || may, !must)
    }

    /// Returns whether the history may say "maybe", and whether it may not.
    fn history(self, now: Moment, rules: &Rules) -> (bool, bool) {
        match rules.horizon {
            None => (false, true),
            Some(_) => (true, self.history.is_none_or(|until| now.real > until)),
        }
    }

    /// Returns the answers that a check may give, each with the state after it.
    pub(super) fn checks(self, now: Moment, rules: &Rules) -> Vec<(Answer, State)> {
        let (in_window, not_in_window) = self.window(now, rules);
        let (seen, not_seen) = self.history(now, rules);
        let mut all = Vec::new();
        if in_window {
            all.push((Answer::Duplicate, if rules.refresh { self.refreshed(now, rules) } else { self }));
        }
        if not_in_window && rules.retention.is_some() {
            all.extend(self.checks_beyond(now, rules));
        } else if not_in_window {
            let gone = self.expired();
            if not_seen {
                all.push((Answer::Fresh, gone.accepted(now, rules, None)));
            }
            if seen && rules.unconfirmed_fresh {
                all.push((Answer::FreshGuess, gone.accepted(now, rules, None)));
            } else if seen {
                let after = if rules.refresh { gone.accepted(now, rules, None) } else { gone };
                all.push((Answer::DuplicateGuess, after));
            }
        }
        all
    }

    /// Returns the answers that a claim may get if no other claim is in the way.
    pub(super) fn claims(self, now: Moment, rules: &Rules, fingerprint: Option<u8>) -> Vec<(Answer, State)> {
        let (in_window, not_in_window) = self.window(now, rules);
        let (seen, not_seen) = self.history(now, rules);
        let mut all = Vec::new();
        if in_window {
            let known = self.done.and_then(|done| done.fingerprint);
            match known.zip(fingerprint) {
                Some((one, other)) if one != other => all.push((Answer::Mismatch, self)),
                _ => all.push((Answer::Duplicate, if rules.refresh { self.refreshed(now, rules) } else { self })),
            }
        }
        if not_in_window && rules.retention.is_some() {
            all.extend(self.claims_beyond(now, rules));
        } else if not_in_window {
            let gone = self.expired();
            if not_seen || rules.unconfirmed_fresh {
                all.push((Answer::Claimed, gone));
            }
            if seen && !rules.unconfirmed_fresh {
                let after = if rules.refresh { gone.accepted(now, rules, None) } else { gone };
                all.push((Answer::DuplicateGuess, after));
            }
        }
        all
    }

    /// Returns the possible answers of a lookup: by the window (`Some(true)`), by what is beyond,
    /// or not at all.
    pub(super) fn contains(self, now: Moment, rules: &Rules) -> Vec<Option<bool>> {
        let (in_window, not_in_window) = self.window(now, rules);
        let (seen, not_seen) = match rules.retention {
            None => self.history(now, rules),
            Some(_) => self.lookup_beyond(now, rules),
        };
        let all = [(in_window, Some(true)), (not_in_window && seen, Some(false)), (not_in_window && not_seen, None)];
        all.into_iter().filter_map(|(possible, answer)| possible.then_some(answer)).collect()
    }
}

/// All states that an id may be in.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Belief(Vec<State>);

impl Default for Belief {
    fn default() -> Self {
        Belief(vec![State::default()])
    }
}

impl Belief {
    pub(super) fn states(&self) -> &[State] {
        &self.0
    }

    pub(super) fn of(states: impl IntoIterator<Item = State>) -> Self {
        let mut belief = Belief(Vec::new());
        states.into_iter().for_each(|state| {
            if !belief.0.contains(&state) {
                belief.0.push(state);
            }
        });
        belief
    }

    pub(super) fn map(&self, change: impl Fn(State) -> State) -> Self {
        Belief::of(self.0.iter().map(|state| change(*state)))
    }

    /// Returns the states that are left after an answer; nothing, if it is wrong.
    pub(super) fn after<A: PartialEq>(&self, answer: &A, answers: impl Fn(State) -> Vec<(A, State)>) -> Option<Belief> {
        let all = self.0.iter().flat_map(|state| answers(*state));
        let left = Belief::of(all.filter(|(possible, _)| possible == answer).map(|(_, state)| state));
        (!left.0.is_empty()).then_some(left)
    }
}
