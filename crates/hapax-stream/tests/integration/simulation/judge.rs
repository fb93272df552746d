//! Judges what happened to consumers. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// One handling of one delivery by one process, as far as it came.
#[derive(Clone, Debug)]
pub struct Try {
    pub client: usize,
    /// The number of that client's start, for the reader of a violation.
    #[allow(dead_code)]
    pub life: u64,
    pub id: String,
    pub asked: Asked,
    pub began: Duration,
    /// The time at which a claim was granted, and its token, as the consumer was told.
    pub granted: Option<(Duration, u64)>,
    /// The time at which the consumer began to end its claim, by completion or not.
    pub ending: Option<Duration>,
    pub completes: bool,
    /// The number of times that the caller did not wait for an answer, and asked again.
    pub gave_up: u32,
    /// The number of times that it got no answer, and asked again.
    pub failed: u32,
    /// The time and the kind of its end. None: the process died.
    pub end: Option<(Duration, End)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    Check,
    Claim,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Fresh,
    Duplicate,
    InProgress,
    Completed,
    LostLease,
    /// Given up on purpose: released, failed, or dropped.
    GivenUp,
    /// Unknown: the store could not be asked, or the caller did not wait for its answer.
    Unknown,
}

pub type Violations = Vec<String>;

/// Judges what happened with all ids; `done` are those that the store knows as completed at the
/// end.
pub fn judge(tries: &[Try], lease: Duration, done: &BTreeSet<String>) -> Violations {
    let mut by_id: BTreeMap<&str, Vec<&Try>> = BTreeMap::new();
    tries.iter().for_each(|each| by_id.entry(&each.id).or_default().push(each));
    let mut violations = Violations::new();
    for (id, tries) in by_id {
        let may_be_lost = match tries[0].asked {
            Asked::Check => checks(id, &tries, &mut violations),
            Asked::Claim => {
                claims(id, &tries, lease, &mut violations);
                false
            }
        };
        if !done.contains(id) && !may_be_lost {
            violations.push(format!("{id}: all deliveries were acknowledged, and the store does not know it"));
        }
    }
    violations
}

fn ended(each: &Try, how: End) -> bool {
    matches!(each.end, Some((_, end)) if end == how)
}

fn ended_at(each: &Try) -> Duration {
    each.end.map_or(Duration::MAX, |(at, _)| at)
}

/// Judges the checks of an id. Returns true if it may be lost: nobody was told that it is fresh,
/// since a process died or a caller gave up when it was.
fn checks(id: &str, tries: &[&Try], violations: &mut Violations) -> bool {
    let fresh = tries.iter().filter(|each| ended(each, End::Fresh)).count();
    if fresh > 1 {
        violations.push(format!("{id}: fresh {fresh} times"));
    }
    // A process that died may have marked it. A caller that got no answer and gave up may be about
    // to take its mark back when others take it for a duplicate, if that takes longer than a mark
    // is in doubt.
    let excused = tries.iter().any(|each| each.end.is_none() || ended(each, End::Unknown));
    if fresh == 0 && !excused {
        let given_up = tries.iter().map(|each| each.gave_up).sum::<u32>();
        violations
            .push(format!("{id}: never fresh, and nobody can have been told so (callers gave up {given_up} times)"));
    }
    for each in tries.iter().filter(|each| ended(each, End::Duplicate)) {
        let before = |other: &&&Try| !std::ptr::eq(**other, *each) && other.began <= ended_at(each);
        if !tries.iter().any(|other| before(&other)) {
            violations.push(format!("{id}: a duplicate of nothing"));
        }
    }
    fresh == 0 && excused
}

fn claims(id: &str, tries: &[&Try], lease: Duration, violations: &mut Violations) {
    let completed: Vec<_> = tries.iter().filter(|each| ended(each, End::Completed)).collect();
    if completed.len() > 1 {
        violations.push(format!("{id}: completed {} times", completed.len()));
    }
    let mut granted: Vec<(u64, &Try)> = tries.iter().filter_map(|each| Some((each.granted?.1, *each))).collect();
    granted.sort_by_key(|(token, _)| *token);
    for pair in granted.windows(2) {
        let [(token, one), (other_token, other)] = [pair[0], pair[1]];
        if token == other_token {
            violations.push(format!("{id}: granted twice under token {token}"));
        }
        if ended(one, End::Completed) {
            violations.push(format!("{id}: completed under token {token}, and granted under {other_token}"));
        }
        if surely_held(one, lease).is_some_and(|(from, to)| {
            surely_held(other, lease).is_some_and(|(other_from, other_to)| from < other_to && other_from < to)
        }) {
            violations.push(format!("{id}: held under {token} and {other_token} at a time"));
        }
    }
    // (A caller that gave up may have to wait until a claim that was granted meanwhile is given
    // back.)
    for each in tries.iter().filter(|each| ended(each, End::InProgress) && each.gave_up == 0) {
        if !tries.iter().any(|other| !std::ptr::eq(*other, *each) && may_hold(other, each, lease)) {
            violations.push(format!("{id}: in progress, and nobody else can have claimed it"));
        }
    }
    for each in tries.iter().filter(|each| ended(each, End::Duplicate)) {
        let at = ended_at(each);
        if !tries.iter().any(|other| other.completes && other.ending.is_some_and(|ending| ending <= at)) {
            violations.push(format!("{id}: a duplicate that nobody has begun to complete"));
        }
    }
}

/// Returns true if a claim of one may have been in the other's way. Its request may have arrived
/// late.
fn may_hold(one: &Try, other: &Try, lease: Duration) -> bool {
    const LATE: Duration = Duration::from_secs(1);
    // Another try of its process may have been granted the claim of its lost answer.
    let has_asked_again = one.gave_up + one.failed > 0;
    let was_refused = ended(one, End::Duplicate) || ended(one, End::InProgress);
    let until = ended_at(one).saturating_add(2 * lease + LATE);
    (!was_refused || has_asked_again) && one.began <= ended_at(other) && until >= other.began
}

/// Checks that while one node does nothing, the ids of others are answered, and soon.
pub fn kept_waiting(
    tries: &[Try],
    is_healthy: impl Fn(&str) -> bool,
    (from, to): (Duration, Duration),
    soon: Duration,
) -> Violations {
    let meanwhile = tries.iter().filter(|each| each.began >= from && each.began + soon <= to && is_healthy(&each.id));
    let late = meanwhile.filter_map(|each| {
        let answered = each.granted.map(|(at, _)| at).or(each.end.map(|(at, _)| at));
        if each.granted.is_none() && ended(each, End::Unknown) {
            return Some(format!("{}: not answered at {:?}, while another node hangs", each.id, ended_at(each)));
        }
        let late = answered.is_none_or(|at| at > each.began + soon);
        late.then(|| {
            format!("{}: asked at {:?}, answered at {answered:?}, while another node hangs", each.id, each.began)
        })
    });
    late.collect()
}

/// Returns the time in which the consumer surely had the claim: from when it knew, until it began
/// to end it or until the earliest time at which its lease can have expired.
fn surely_held(each: &Try, lease: Duration) -> Option<(Duration, Duration)> {
    let (from, _) = each.granted?;
    let died_or_ended = each.ending.or(each.end.map(|(at, _)| at));
    let to = died_or_ended.unwrap_or(Duration::MAX).min(each.began + lease);
    (from < to).then_some((from, to))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_millis(100);

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn claim(began: u64, token: Option<u64>, end: Option<(u64, End)>) -> Try {
        let end = end.map(|(at, end)| (ms(at), end));
        let ending = end.map(|(at, _)| at - ms(1));
        let granted = token.map(|token| (ms(began + 1), token));
        let completes = matches!(end, Some((_, End::Completed)));
        let (client, life, id, began) = (0, 0, "a".to_owned(), ms(began));
        let (asked, gave_up, failed) = (Asked::Claim, 0, 0);
        Try { client, life, id, asked, began, granted, ending, completes, gave_up, failed, end }
    }

    fn check(began: u64, end: Option<End>) -> Try {
        let end = end.map(|end| (began + 1, end));
        Try { asked: Asked::Check, granted: None, ..claim(began, None, end) }
    }

    fn verdict(tries: &[Try]) -> String {
        judge(tries, LEASE, &["a".to_owned()].into()).join("; ")
    }

    #[test]
    fn what_may_be() {
        for right in [
            &[claim(0, Some(1), Some((50, End::Completed))), claim(60, None, Some((61, End::Duplicate)))][..],
            &[claim(0, Some(1), None), claim(100, Some(2), Some((150, End::Completed)))],
            &[claim(0, Some(1), Some((120, End::LostLease))), claim(100, Some(2), Some((150, End::Completed)))],
            &[check(0, Some(End::Fresh)), check(5, Some(End::Duplicate))],
            &[check(0, None), check(5, Some(End::Duplicate))],
            &[
                claim(0, Some(1), Some((10, End::GivenUp))),
                claim(20, None, Some((21, End::InProgress))),
                claim(100, Some(2), Some((150, End::Completed))),
            ],
        ] {
            assert_eq!(verdict(right), "", "{right:?}");
        }
    }

    #[test]
    fn what_may_not() {
        let completed = |at, token| claim(at, Some(token), Some((at + 10, End::Completed)));
        for (wrong, says) in [
            (&[completed(0, 1), completed(50, 2)][..], "completed 2 times"),
            (&[claim(0, Some(1), None), completed(50, 2)], "at a time"),
            (&[claim(0, Some(1), None), completed(150, 1)], "granted twice"),
            (&[claim(0, Some(2), None), completed(150, 1)], "and granted under"),
            (&[claim(0, None, Some((1, End::Duplicate)))], "nobody has begun to complete"),
            (&[check(0, Some(End::Fresh)), check(5, Some(End::Fresh))], "fresh 2 times"),
            (&[check(0, Some(End::Duplicate)), check(5, Some(End::Duplicate))], "never fresh"),
            (&[check(0, Some(End::Duplicate))], "a duplicate of nothing"),
            (&[claim(0, None, Some((1, End::InProgress))), completed(5_000, 1)], "nobody else can have claimed it"),
        ] {
            assert!(verdict(wrong).contains(says), "{wrong:?}: {:?} does not say {says:?}", verdict(wrong));
        }
        assert_eq!(judge(&[completed(0, 1)], LEASE, &BTreeSet::new()).len(), 1);
    }
}
