//! Judges the answers that differ from those that the stream expects.

use super::Answers;
use super::workload::{Ids, LEAD_TICKS_MAX, Stream, Truth, WINDOW_TICKS};
use std::collections::HashMap;
use std::ops::Range;

/// The rules by which answers are judged.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    /// True if ids that come again after their time have to be fresh. If not, they are not judged.
    pub expires: bool,
    /// True if there are several threads, which disagree a little about the time.
    pub threads: bool,
}

impl Rules {
    /// Returns true if an id must still be known that was accepted this many ticks ago.
    fn is_known(self, age_ticks: usize) -> bool {
        age_ticks < WINDOW_TICKS - self.lead()
    }

    /// Returns true if an id must be forgotten that was accepted this many ticks ago.
    fn is_forgotten(self, age_ticks: usize) -> bool {
        age_ticks >= WINDOW_TICKS + 2 + self.lead()
    }

    fn lead(self) -> usize {
        if self.threads { LEAD_TICKS_MAX } else { 0 }
    }
}

/// The unexpected answers of one thread, by the places of their ids, ascending. There are rarely
/// any, so noting them does not slow the timed loop.
#[derive(Default)]
pub(super) struct Unexpected(Vec<usize>);

impl Unexpected {
    #[inline(always)]
    pub fn compare(&mut self, place: usize, truth: Truth, answer: bool) {
        if is_expected_fresh(truth) != answer {
            self.note(place);
        }
    }

    #[cold]
    fn note(&mut self, place: usize) {
        self.0.push(place);
    }

    /// Appends the unexpected answers of a later part of the stream.
    pub fn then(mut self, later: Unexpected) -> Self {
        self.0.extend(later.0);
        self
    }

    /// Returns the memory that noting them takes, which is none of the strategy's.
    pub fn bytes(&self) -> u64 {
        (self.0.len() * size_of::<usize>()) as u64
    }

    pub fn contains(&self, place: usize) -> bool {
        self.0.binary_search(&place).is_ok()
    }
}

/// Returns true if the expected answer is "fresh". Where both answers are right, it is the likelier
/// one.
#[inline(always)]
fn is_expected_fresh(truth: Truth) -> bool {
    truth != Truth::Duplicate
}

/// Judges the answers to the ids of some places. `unexpected` holds those that were noted from the
/// stream's beginning up to the end of the places.
///
/// An answer that follows from an earlier wrong one is right. A strategy that refuses an id does
/// not know it afterwards, and one that takes a duplicate for new remembers it from then on. So an
/// id's age counts from when the strategy itself has accepted it, as its answers show.
pub(super) fn judge<B: Ids>(
    stream: &Stream<B>,
    judged: Range<usize>,
    unexpected: &Unexpected,
    rules: Rules,
) -> Answers {
    let mut answers = Answers::default();
    for &truth in &stream.truth[judged.clone()] {
        match truth {
            Truth::New => answers.fresh += 1,
            Truth::Expired if rules.expires => answers.fresh += 1,
            Truth::Duplicate => answers.duplicates += 1,
            Truth::Expired | Truth::Undecided => {}
        }
    }
    if unexpected.0.is_empty() {
        return answers;
    }
    let mut accepted: HashMap<&B::Id, Option<usize>, foldhash::fast::RandomState> =
        unexpected.0.iter().map(|&place| (stream.id(place), None)).collect();
    let mut noted = unexpected.0.iter().peekable();
    let mut tick = 0;
    for (place, id) in (0..judged.end).zip(stream.ids.range(0..judged.end)) {
        let is_unexpected = noted.next_if(|&&noted| noted == place).is_some();
        let Some(accepted) = accepted.get_mut(id) else { continue };
        while stream.tick(tick).end <= place {
            tick += 1;
        }
        let truth = stream.truth[place];
        let fresh = is_expected_fresh(truth) != is_unexpected;
        let age_ticks = accepted.map(|accepted| tick - accepted);
        if fresh {
            *accepted = Some(tick);
        }
        if !judged.contains(&place) || !is_unexpected {
            continue;
        }
        match truth {
            Truth::New => answers.invented += 1,
            Truth::Expired if rules.expires => {
                answers.invented += u64::from(age_ticks.is_none_or(|age| rules.is_forgotten(age)))
            }
            Truth::Duplicate => answers.missed += u64::from(age_ticks.is_some_and(|age| rules.is_known(age))),
            Truth::Expired | Truth::Undecided => {}
        }
    }
    answers
}

/// Returns the ids of some places that were accepted there for certain: by the truth and by the
/// strategy's answers.
pub(super) fn accepted<'a, B: Ids>(
    stream: &'a Stream<B>,
    places: Range<usize>,
    unexpected: &'a Unexpected,
) -> impl Iterator<Item = &'a B::Id> {
    places.clone().zip(stream.ids.range(places)).filter_map(move |(place, id)| {
        let is_fresh = stream.truth[place].is_fresh();
        (is_fresh && !unexpected.contains(place)).then_some(id)
    })
}

impl std::ops::AddAssign for Answers {
    fn add_assign(&mut self, other: Self) {
        self.fresh += other.fresh;
        self.invented += other.invented;
        self.duplicates += other.duplicates;
        self.missed += other.missed;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::workload::streams;
    use crate::measure::{Setting, Workload};

    const RULES: Rules = Rules { expires: true, threads: false };

    /// Makes a stream of two windows, in which every second id is a duplicate.
    fn stream() -> Stream<Vec<u64>> {
        let workload = Workload { duplicates: 0.5, distance_windows: 0.5, ..Setting::default().workload };
        let setting = Setting { workload, live: 1_000, ..Setting::default() };
        streams(&setting, 17, 2 * WINDOW_TICKS).unwrap().remove(0)
    }

    fn first(stream: &Stream<Vec<u64>>, truth: Truth, from: usize) -> usize {
        (from..stream.truth.len()).find(|&place| stream.truth[place] == truth).expect("there is one")
    }

    #[test]
    fn only_what_is_judged_counts() {
        let stream = stream();
        let all = 0..stream.truth.len();
        let right = judge(&stream, all.clone(), &Unexpected::default(), RULES);
        assert_eq!((right.fresh, right.missed, right.invented), (2_000, 0, 0));
        assert_eq!(right.fresh + right.duplicates, all.len() as u64);
        let new = first(&stream, Truth::New, 1_000);
        let unexpected = Unexpected(vec![new]);
        assert_eq!(judge(&stream, all, &unexpected, RULES).invented, 1);
        assert_eq!(judge(&stream, new + 1..stream.truth.len(), &unexpected, RULES).invented, 0);
        assert_eq!(judge(&stream, 0..new, &Unexpected::default(), RULES).invented, 0);
    }

    #[test]
    fn an_id_that_was_refused_is_not_missed_and_one_that_was_missed_is_known_from_then_on() {
        let stream = stream();
        let all = 0..stream.truth.len();
        // This id comes at least three times.
        let duplicates: Vec<usize> = all.clone().filter(|&place| stream.truth[place] == Truth::Duplicate).collect();
        let places = duplicates.iter().map(|&place| {
            let same: Vec<usize> = all.clone().filter(|&other| stream.id(other) == stream.id(place)).collect();
            same
        });
        let places = places.into_iter().find(|places| places.len() >= 3).expect("redeliveries are random");
        let judged = |unexpected: &[usize]| {
            let answers = judge(&stream, all.clone(), &Unexpected(unexpected.to_vec()), RULES);
            (answers.invented, answers.missed)
        };
        assert_eq!(judged(&places[..1]), (1, 0), "refused: and called a duplicate from then on");
        assert_eq!(judged(&places[..2]), (1, 0), "refused, and then accepted: that follows from it");
        assert_eq!(judged(&places[..3]), (1, 1), "and then forgotten");
        assert_eq!(judged(&places[1..3]), (0, 2), "missed twice");
    }

    #[test]
    fn what_was_accepted_is_what_is_fresh_and_was_answered_so() {
        let stream = stream();
        let new = first(&stream, Truth::New, 0);
        let unexpected = Unexpected(vec![new]);
        let places = 0..stream.ticks(0..100).end;
        let ids: Vec<u64> = accepted(&stream, places, &unexpected).copied().collect();
        assert_eq!(ids.len(), 999);
        assert!(!ids.contains(stream.id(new)));
        assert!(unexpected.contains(new) && !unexpected.contains(new + 1));
    }
}
