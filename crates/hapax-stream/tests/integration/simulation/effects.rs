//! The effects of handlers, and whether they are allowed. Pure.

use crate::simulation::judge::Violations;
use std::collections::BTreeMap;
use std::time::Duration;

/// A handler's run, as far as it came.
#[derive(Clone, Debug)]
pub struct Run {
    pub client: usize,
    pub id: String,
    pub began: Duration,
    /// The time at which its effect was there. None: it failed, hung, was stopped, or its process
    /// died.
    pub done: Option<Duration>,
    pub has_failed: bool,
}

/// A dead letter.
#[derive(Clone, Debug)]
pub struct PutAside {
    pub id: String,
    pub why: String,
    pub at: Duration,
}

/// Judges messages none of which has ever failed so often that it may be put aside, while no store
/// was away for as long as a lease. `deaths`: which client died, and when.
pub fn judge_effects(ids: &[String], runs: &[Run], put_aside: &[PutAside], deaths: &[(usize, Duration)]) -> Violations {
    let mut by_id: BTreeMap<&str, Vec<&Run>> = ids.iter().map(|id| (id.as_str(), Vec::new())).collect();
    runs.iter().for_each(|run| by_id.entry(&run.id).or_default().push(run));
    let mut violations = Violations::new();
    for (id, runs) in by_id {
        let mut done: Vec<(Duration, &Run)> = runs.iter().filter_map(|run| Some((run.done?, *run))).collect();
        done.sort_by_key(|(at, _)| *at);
        if done.is_empty() && !put_aside.iter().any(|dead| dead.id == id) {
            violations.push(format!("{id}: lost: acknowledged, and nobody has handled it"));
        }
        for pair in done.windows(2) {
            let [(at, one), (again, other)] = [pair[0], pair[1]];
            let died = |(client, when): &(usize, Duration)| *client == one.client && (one.began..=again).contains(when);
            if !deaths.iter().any(died) {
                violations.push(format!(
                    "{id}: its effect is there twice, by client {} at {at:?} and by client {} at {again:?}, while the first one's lease held",
                    one.client, other.client
                ));
            }
        }
        for dead in put_aside.iter().filter(|dead| dead.id == id) {
            let failed = runs.iter().filter(|run| run.has_failed).count();
            violations.push(format!(
                "{id}: put aside at {:?} after {} attempts, {failed} of which failed: {}",
                dead.at,
                runs.len(),
                dead.why
            ));
        }
    }
    violations
}

/// Judges the order of messages of a key, as they were sent, with their keys: none begins before
/// all earlier ones are done.
pub fn judge_order(sent: &[(String, Option<u64>)], runs: &[Run]) -> Violations {
    let mut done: BTreeMap<&str, Duration> = BTreeMap::new();
    for run in runs {
        if let Some(at) = run.done {
            done.entry(&run.id).and_modify(|first| *first = at.min(*first)).or_insert(at);
        }
    }
    let mut violations = Violations::new();
    for run in runs {
        let Some(place) = sent.iter().position(|(id, _)| *id == run.id) else { continue };
        let key = sent[place].1;
        let before = sent[..place].iter().filter(|(_, other)| key.is_some() && *other == key);
        for (other, _) in before.filter(|(id, _)| done.get(id.as_str()).is_none_or(|&at| at > run.began)) {
            violations.push(format!("{}: begins at {:?}, before {other} is done, of key {key:?}", run.id, run.began));
        }
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(client: usize, began: u64, done: Option<u64>) -> Run {
        let (began, done) = (Duration::from_millis(began), done.map(Duration::from_millis));
        Run { client, id: "a".to_owned(), began, done, has_failed: false }
    }

    #[test]
    fn what_is_judged() {
        let ids = ["a".to_owned()];
        let died = [(0, Duration::from_millis(25))];
        let aside = PutAside { id: "a".to_owned(), why: "delivered often".to_owned(), at: Duration::ZERO };
        let verdict = |runs: &[Run], put_aside: &[PutAside], deaths: &[_]| {
            judge_effects(&ids, runs, put_aside, deaths).join("; ")
        };
        assert_eq!(verdict(&[run(0, 10, Some(20))], &[], &[]), "");
        assert_eq!(verdict(&[run(0, 10, None), run(1, 30, Some(40))], &[], &[]), "");
        assert_eq!(verdict(&[run(0, 10, Some(20)), run(1, 30, Some(40))], &[], &died), "");
        assert!(verdict(&[run(0, 10, Some(20)), run(1, 30, Some(40))], &[], &[]).contains("twice"));
        assert!(verdict(&[run(1, 10, Some(20)), run(0, 30, Some(40))], &[], &died).contains("twice"));
        assert!(verdict(&[run(0, 10, None)], &[], &[]).contains("lost"));
        assert!(verdict(&[], &[aside], &[]).contains("after 0 attempts"));
    }

    #[test]
    fn order_is_judged() {
        let sent = [("a", Some(1)), ("b", Some(2)), ("c", Some(1)), ("d", None), ("e", None)];
        let sent = sent.map(|(id, key)| (id.to_owned(), key));
        let run = |id: &str, began: u64, done: Option<u64>| Run { id: id.to_owned(), ..run(0, began, done) };
        let a = || [run("a", 0, None), run("a", 10, Some(20))];
        let verdict = |others: &[Run]| judge_order(&sent, &[&a(), others].concat()).len();
        assert_eq!(verdict(&[run("c", 20, Some(30)), run("b", 0, None), run("e", 0, None), run("d", 1, None)]), 0);
        assert_eq!(verdict(&[run("c", 19, Some(30))]), 1);
        assert_eq!(judge_order(&sent, &[run("c", 20, None)]).len(), 1);
    }
}
