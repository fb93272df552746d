//! Requests under the numbers of attempts: a lost answer is asked for again under the same number.

use super::answers::Answer;
use super::caller::{Sent, may_be_done};
use super::client::Client;
use super::nodes::Node;
use super::operation::Operation;
use super::operations::Unmarks;
use crate::{ErrorKind, StoreError, Unmark};
use hapax::seam::Digest;

/// Requests under numbers of their own, for as long as their outcome is unknown. If this is dropped
/// then (by the caller of a store that answers at once, or by the runtime), they are remembered.
struct Attempts<'a, O: Operation> {
    client: &'a Client,
    requests: &'a mut [O::Request],
    ids: &'a [Digest],
    /// Flags of the requests whose number was remembered; empty if there are none.
    remembered: Vec<bool>,
    sent: Sent,
    ended: bool,
}

impl<'a, O: Operation> Attempts<'a, O> {
    /// Gives each request the number of an earlier attempt at its id with an unknown outcome, or a
    /// new number.
    fn new(client: &'a Client, requests: &'a mut [O::Request], ids: &'a [Digest]) -> Self {
        let mut attempts =
            Attempts { client, requests, ids, remembered: Vec::new(), sent: Sent::default(), ended: false };
        let mut unresolved = client.lost_attempts.lock();
        for (place, id) in ids.iter().enumerate() {
            let Some(attempt) = O::attempt(&mut attempts.requests[place]) else { break };
            match unresolved.as_mut().and_then(|unresolved| unresolved.take(*id)) {
                Some(number) if O::goes_by(&client.lost_marks, number) => {
                    *attempt = number;
                    attempts.remembers(place);
                }
                _ => *attempt = client.lost_marks.number(),
            }
        }
        drop(unresolved);
        attempts
    }

    fn remembers(&mut self, place: usize) {
        self.remembered.resize(self.requests.len(), false);
        self.remembered[place] = true;
    }

    /// Returns the requests that were not granted, and whose id has another remembered number: that
    /// attempt may be the one that was granted. (Only where several callers asked about an id at a
    /// time.)
    fn others(&mut self, answers: &[Answer<O>]) -> Vec<usize> {
        let Some(mut unresolved) = self.client.lost_attempts.lock() else { return Vec::new() };
        let mut others = Vec::new();
        for (place, answer) in answers.iter().enumerate() {
            if O::attempt(&mut self.requests[place]).is_none() {
                break;
            }
            if answer.as_ref().is_ok_and(|answer| !O::is_granted(answer))
                && let Some(number) = unresolved.take(self.ids[place])
                && O::goes_by(&self.client.lost_marks, number)
            {
                if self.may_be_late(place) {
                    O::lost(&self.client.lost_marks, &self.requests[place], true);
                }
                if let Some(attempt) = O::attempt(&mut self.requests[place]) {
                    *attempt = number;
                }
                others.push(place);
            }
        }
        drop(unresolved);
        others.iter().for_each(|place| self.remembers(*place));
        others
    }

    /// Ends the attempts whose outcomes are known, and remembers the numbers of the others.
    fn end(mut self, answers: &[Answer<O>]) {
        self.ended = true;
        self.remember(|place| answers[place].as_ref().err().map(may_be_done));
        if !self.sent.gave_up && self.remembered.is_empty() {
            return;
        }
        for (place, answer) in answers.iter().enumerate() {
            // It was not granted; but an earlier request under its number may be carried out yet,
            // when what refused this one is gone.
            if answer.as_ref().is_ok_and(|answer| !O::is_granted(answer)) && self.may_be_late(place) {
                O::lost(&self.client.lost_marks, &self.requests[place], true);
            }
        }
    }

    /// Returns true if a request was given up under this one's number.
    fn may_be_late(&self, place: usize) -> bool {
        self.sent.gave_up || self.was_remembered(place)
    }

    fn was_remembered(&self, place: usize) -> bool {
        self.remembered.get(place).is_some_and(|remembered| *remembered)
    }

    /// Remembers the requests with an unknown outcome, for which `unknown` returns `Some`; it
    /// contains true if the request may have been done. A number that was remembered before stays
    /// so, whatever went wrong this time.
    fn remember(&mut self, unknown: impl Fn(usize) -> Option<bool>) {
        let is_kept = |place: usize| {
            unknown(place).is_some_and(|may_be_done| self.sent.asked && may_be_done || self.was_remembered(place))
        };
        let kept: Vec<usize> = (0..self.requests.len()).filter(|place| is_kept(*place)).collect();
        kept.iter().for_each(|place| O::lost(&self.client.lost_marks, &self.requests[*place], false));
        let attempts =
            kept.iter().filter_map(|&place| Some((self.ids[place], *O::attempt(&mut self.requests[place])?)));
        self.client.lost_attempts.remember(attempts.collect::<Vec<_>>());
    }
}

impl<O: Operation> Drop for Attempts<'_, O> {
    fn drop(&mut self) {
        if !self.ended {
            self.remember(|_| Some(true));
        }
    }
}

/// Calls a node of the store, repeatedly if that may help: every request can be made twice, since
/// its attempt or token identifies it.
pub(super) async fn call<O: Operation>(
    client: &Client,
    node: &Node,
    requests: &mut [O::Request],
    ids: &[Digest],
) -> Vec<Answer<O>> {
    debug_assert_eq!(requests.len(), ids.len(), "each request has its id");
    let mut attempts = Attempts::<O>::new(client, requests, ids);
    let mut answers = client.caller.call::<O>(&node.breaker, attempts.requests, &mut attempts.sent).await;
    loop {
        let others = attempts.others(&answers);
        if others.is_empty() {
            break;
        }
        let again: Vec<O::Request> = others.iter().map(|&place| attempts.requests[place].clone()).collect();
        let answered = client.caller.call::<O>(&node.breaker, &again, &mut attempts.sent).await;
        others.into_iter().zip(answered).for_each(|(place, answer)| answers[place] = answer);
    }
    take_back_met::<O>(client, node, attempts.requests, &mut answers, &mut attempts.sent).await;
    attempts.end(&answers);
    let judged = |((answer, request), id): ((Answer<O>, &O::Request), &Digest)| {
        let answer = O::judged(&client.lost_marks, request, answer?);
        let wrong = |what| StoreError::new(ErrorKind::Corrupt, client.caller.store.backend(), what);
        client.overdue.check(*id, O::in_progress(&answer)).map(|()| answer).map_err(wrong)
    };
    answers.into_iter().zip(&*requests).zip(ids).map(judged).collect()
}

/// Takes back marks of this engine that it meets while they are in doubt, and asks again: no caller
/// was told of them, and this caller must get a true answer.
async fn take_back_met<O: Operation>(
    client: &Client,
    node: &Node,
    requests: &[O::Request],
    answers: &mut [Answer<O>],
    sent: &mut Sent,
) {
    let met = answers.iter().enumerate().filter_map(|(place, answer)| {
        let attempt = O::met(&client.lost_marks, answer.as_ref().ok()?)?;
        Some((place, Unmark { key: O::key(&requests[place]).clone(), attempt }))
    });
    let (met, unmarks): (Vec<usize>, Vec<Unmark>) = met.unzip();
    if met.is_empty() {
        return;
    }
    let mut again = Vec::new();
    for (place, gone) in met.into_iter().zip(take_back(client, node, &unmarks).await) {
        match gone {
            Ok(()) => again.push(place),
            Err(error) => answers[place] = Err(error),
        }
    }
    let requests: Vec<O::Request> = again.iter().map(|&place| requests[place].clone()).collect();
    let answered = client.caller.call::<O>(&node.breaker, &requests, sent).await;
    again.into_iter().zip(answered).for_each(|(place, answer)| answers[place] = answer);
}

/// Takes back marks of this engine, now.
async fn take_back(client: &Client, node: &Node, unmarks: &[Unmark]) -> Vec<Result<(), StoreError>> {
    let asked_at = tokio::time::Instant::now();
    let answers = client.caller.call::<Unmarks>(&node.breaker, unmarks, &mut Sent::default()).await;
    let mut doubts = client.lost_marks.lock();
    let gone = unmarks
        .iter()
        .zip(answers)
        .map(|(unmark, answer)| answer.map(|_| doubts.answered(unmark.attempt, asked_at, client.lost_marks.pace)));
    gone.collect()
}
