//! Judges the answers that differ from those that the stream expects.

use super::Answers;
use super::workload::{Certain, Ids, Stream, Truth};
use std::collections::HashMap;
use std::ops::Range;

/// The rules by which answers are judged.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    /// True if ids that come again after their time have to be fresh. If not, they are not judged.
    pub expires: bool,
    /// The ages at which an id must be known, and forgotten.
    pub certain: Certain,
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
    !matches!(truth, Truth::Duplicate | Truth::Shared)
}

/// The answers of one thread.
pub(super) struct Answered<'a, B> {
    pub stream: &'a Stream<B>,
    /// The places that are judged.
    pub judged: Range<usize>,
    /// The answers that were noted from the stream's beginning up to the end of these places.
    pub unexpected: &'a Unexpected,
}

/// A check of an id of which some answer was unexpected.
struct Check {
    tick: usize,
    truth: Truth,
    is_fresh: bool,
    is_unexpected: bool,
    is_judged: bool,
}

/// Judges the answers of all threads.
///
/// An answer that follows from an earlier wrong one is right. A strategy that refuses an id does
/// not know it afterwards, and one that takes a duplicate for new remembers it from then on. So an
/// id's age counts from when the strategy itself has accepted it, as its answers show, whichever
/// thread asked. Of the checks of a new id within the lead, exactly one has to be fresh.
pub(super) fn judge<B: Ids>(threads: &[Answered<'_, B>], rules: Rules) -> Answers {
    let mut answers = Answers::default();
    for Answered { stream, judged, .. } in threads {
        for &truth in &stream.truth[judged.clone()] {
            match truth {
                Truth::New => answers.fresh += 1,
                Truth::Expired if rules.expires => answers.fresh += 1,
                Truth::Duplicate | Truth::Shared => answers.duplicates += 1,
                Truth::Expired | Truth::Undecided => {}
            }
        }
    }
    for checks in checks_of_unexpected(threads).into_values() {
        judge_id(checks, rules, &mut answers);
    }
    answers
}

/// Returns all checks of the ids of which some answer was unexpected.
fn checks_of_unexpected<'a, B: Ids>(
    threads: &[Answered<'a, B>],
) -> HashMap<&'a B::Id, Vec<Check>, foldhash::fast::RandomState> {
    let noted = |of: &Answered<'a, B>| {
        let (stream, unexpected) = (of.stream, of.unexpected);
        unexpected.0.iter().map(move |&place| (stream.id(place), Vec::new()))
    };
    let mut all: HashMap<_, Vec<Check>, _> = threads.iter().flat_map(noted).collect();
    if all.is_empty() {
        return all;
    }
    for Answered { stream, judged, unexpected } in threads {
        let mut noted = unexpected.0.iter().peekable();
        let mut tick = 0;
        for (place, id) in (0..judged.end).zip(stream.ids.range(0..judged.end)) {
            let is_unexpected = noted.next_if(|&&noted| noted == place).is_some();
            let Some(checks) = all.get_mut(id) else { continue };
            while stream.tick(tick).end <= place {
                tick += 1;
            }
            let truth = stream.truth[place];
            let is_fresh = is_expected_fresh(truth) != is_unexpected;
            checks.push(Check { tick, truth, is_fresh, is_unexpected, is_judged: judged.contains(&place) });
        }
    }
    all
}

/// Judges the checks of one id, of all threads. Ticks tell their order, except for those of a new
/// id, which are judged together.
fn judge_id(mut checks: Vec<Check>, rules: Rules, answers: &mut Answers) {
    let is_new = |check: &&Check| matches!(check.truth, Truth::New | Truth::Shared);
    let times_fresh = checks.iter().filter(is_new).filter(|check| check.is_fresh).count() as u64;
    checks.sort_by_key(|check| check.tick);
    let mut accepted: Option<usize> = None;
    for check in &checks {
        let age_ticks = accepted.map(|accepted| check.tick - accepted);
        if check.is_fresh || (is_new(&check) && times_fresh > 0) {
            accepted = Some(check.tick);
        }
        if !check.is_judged {
            continue;
        }
        match check.truth {
            Truth::New => {
                answers.invented += u64::from(times_fresh == 0);
                answers.twice += times_fresh.saturating_sub(1);
                answers.missed += times_fresh.saturating_sub(1);
            }
            _ if !check.is_unexpected => {}
            Truth::Expired if rules.expires => {
                answers.invented += u64::from(age_ticks.is_none_or(|age| rules.certain.after(age) == Truth::Expired))
            }
            Truth::Duplicate => {
                answers.missed += u64::from(age_ticks.is_some_and(|age| rules.certain.after(age) == Truth::Duplicate))
            }
            Truth::Expired | Truth::Undecided | Truth::Shared => {}
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::workload::{WINDOW_TICKS, streams};
    use crate::measure::{Setting, Workload};

    fn rules(threads: usize) -> Rules {
        Rules { expires: true, certain: Certain::with_threads(threads) }
    }

    /// Makes a stream of two windows, in which every second id is a duplicate.
    fn stream() -> Stream<Vec<u64>> {
        let workload = Workload { duplicates: 0.5, distance_windows: 0.5, ..Setting::default().workload };
        let setting = Setting { workload, live: 1_000, ..Setting::default() };
        streams(&setting, 17, 2 * WINDOW_TICKS).unwrap().remove(0)
    }

    fn judge(stream: &Stream<Vec<u64>>, judged: Range<usize>, unexpected: &Unexpected) -> Answers {
        super::judge(&[Answered { stream, judged, unexpected }], rules(1))
    }

    /// Makes the streams of two threads, with the places of an id that one of them has new and the
    /// other one checks once within the lead.
    fn shared() -> ([Stream<Vec<u64>>; 2], usize, usize) {
        let workload = Workload { duplicates: 0.2, distance_windows: 0.1, ..Setting::default().workload };
        let setting = Setting { workload, live: 1_000, threads: 2, ..Setting::default() };
        let made: [_; 2] = streams(&setting, 17, 2 * WINDOW_TICKS).unwrap().try_into().ok().expect("two threads");
        let places = |stream: &Stream<Vec<u64>>, id: u64| -> Vec<usize> {
            (0..stream.truth.len()).filter(|&place| *stream.id(place) == id).collect()
        };
        let new = (1_000..made[0].truth.len()).find(|&place| {
            let id = *made[0].id(place);
            let (of_first, of_second) = (places(&made[0], id), places(&made[1], id));
            made[0].truth[place] == Truth::New
                && of_first.len() == 1
                && of_second.len() == 1
                && made[1].truth[of_second[0]] == Truth::Shared
        });
        let new = new.expect("redeliveries are random");
        let again = places(&made[1], *made[0].id(new))[0];
        (made, new, again)
    }

    #[test]
    fn of_a_shared_id_exactly_one_check_is_fresh() {
        let (made, new, again) = shared();
        let answers = |of_first: &[usize], of_second: &[usize]| {
            let unexpected = [Unexpected(of_first.to_vec()), Unexpected(of_second.to_vec())];
            let all = made.iter().zip(&unexpected);
            let all: Vec<_> = all
                .map(|(stream, unexpected)| Answered { stream, judged: 0..stream.truth.len(), unexpected })
                .collect();
            let Answers { invented, missed, twice, .. } = super::judge(&all, rules(2));
            (invented, missed, twice)
        };
        assert_eq!(answers(&[], &[]), (0, 0, 0), "its own thread was first");
        assert_eq!(answers(&[new], &[again]), (0, 0, 0), "the other one was first");
        assert_eq!(answers(&[], &[again]), (0, 1, 1), "both were told that it is fresh");
        assert_eq!(answers(&[new], &[]), (1, 0, 0), "none was");
    }

    fn first(stream: &Stream<Vec<u64>>, truth: Truth, from: usize) -> usize {
        (from..stream.truth.len()).find(|&place| stream.truth[place] == truth).expect("there is one")
    }

    #[test]
    fn only_what_is_judged_counts() {
        let stream = stream();
        let all = 0..stream.truth.len();
        let right = judge(&stream, all.clone(), &Unexpected::default());
        assert_eq!((right.fresh, right.missed, right.invented), (2_000, 0, 0));
        assert_eq!(right.fresh + right.duplicates, all.len() as u64);
        let new = first(&stream, Truth::New, 1_000);
        let unexpected = Unexpected(vec![new]);
        assert_eq!(judge(&stream, all, &unexpected).invented, 1);
        assert_eq!(judge(&stream, new + 1..stream.truth.len(), &unexpected).invented, 0);
        assert_eq!(judge(&stream, 0..new, &Unexpected::default()).invented, 0);
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
            let answers = judge(&stream, all.clone(), &Unexpected(unexpected.to_vec()));
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
