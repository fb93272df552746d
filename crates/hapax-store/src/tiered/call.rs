//! Calls of the store: time-outs, the circuit breaker, tries, and the numbers of attempts.

use super::breaker::back_off;
use super::driver::Answer;
use super::inner::Inner;
use super::nodes::Node;
use super::observe::Asked;
use super::operation::{Operation, Unmarks};
use crate::sync::Ordering;
use crate::{ErrorKind, StoreError, Unmark};
use hapax::Digest;

/// Requests under numbers of their own, for as long as their outcome is unknown. If this is dropped
/// then (by the caller of a store that answers at once, or by the runtime), they are remembered.
struct Attempts<'a, O: Operation> {
    inner: &'a Inner,
    requests: &'a mut [O::Request],
    ids: &'a [Digest],
    /// Flags of the requests whose number was remembered; empty if there are none.
    remembered: Vec<bool>,
    /// True if the store may have carried out a request.
    asked: bool,
    ended: bool,
}

impl<'a, O: Operation> Attempts<'a, O> {
    /// Gives each request the number of an earlier attempt at its id with an unknown outcome, or a
    /// new number.
    fn new(inner: &'a Inner, requests: &'a mut [O::Request], ids: &'a [Digest]) -> Self {
        let mut attempts = Attempts { inner, requests, ids, remembered: Vec::new(), asked: false, ended: false };
        let mut unresolved = inner.unresolved();
        for (place, id) in ids.iter().enumerate() {
            let Some(attempt) = O::attempt(&mut attempts.requests[place]) else { break };
            match unresolved.as_mut().and_then(|unresolved| unresolved.take(*id)) {
                Some(number) if O::goes_by(inner, number) => {
                    *attempt = number;
                    attempts.remembers(place);
                }
                _ => *attempt = inner.number(),
            }
        }
        if let Some(unresolved) = unresolved {
            inner.count(&unresolved);
        }
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
        let Some(mut unresolved) = self.inner.unresolved() else { return Vec::new() };
        let mut others = Vec::new();
        for (place, answer) in answers.iter().enumerate() {
            let Some(attempt) = O::attempt(&mut self.requests[place]) else { break };
            if answer.as_ref().is_ok_and(|answer| !O::is_granted(answer))
                && let Some(number) = unresolved.take(self.ids[place])
                && O::goes_by(self.inner, number)
            {
                *attempt = number;
                others.push(place);
            }
        }
        self.inner.count(&unresolved);
        drop(unresolved);
        others.iter().for_each(|place| self.remembers(*place));
        others
    }

    /// Ends the attempts whose outcomes are known, and remembers the numbers of the others.
    fn end(mut self, answers: &[Answer<O>]) {
        self.ended = true;
        self.remember(|place| match &answers[place] {
            Ok(_) => None,
            // The store may have done it, and its answer was not understood.
            Err(error) => Some(error.kind().is_transient() || error.kind() == ErrorKind::Corrupt),
        });
    }

    /// Remembers the requests with an unknown outcome, for which `unknown` returns `Some`; it
    /// contains true if the request may have been done. A number that was remembered before stays
    /// so, whatever went wrong this time.
    fn remember(&mut self, unknown: impl Fn(usize) -> Option<bool>) {
        let (asked, remembered) = (self.asked, &self.remembered);
        let stays = |place: usize| remembered.get(place).is_some_and(|remembered| *remembered);
        let is_kept = |place: usize| unknown(place).is_some_and(|may_be_done| asked && may_be_done || stays(place));
        let kept: Vec<usize> = (0..self.requests.len()).filter(|place| is_kept(*place)).collect();
        kept.iter().for_each(|place| O::lost(self.inner, &self.requests[*place], false));
        let attempts =
            kept.iter().filter_map(|&place| Some((self.ids[place], *O::attempt(&mut self.requests[place])?)));
        self.inner.remember(attempts.collect::<Vec<_>>());
    }
}

impl<O: Operation> Drop for Attempts<'_, O> {
    fn drop(&mut self) {
        if !self.ended {
            self.remember(|_| Some(true));
        }
    }
}

impl Inner {
    /// Calls a node of the store, repeatedly if that may help: every request can be made twice,
    /// since its attempt or token identifies it.
    pub(super) async fn call<O: Operation>(
        &self,
        node: &Node,
        requests: &mut [O::Request],
        ids: &[Digest],
    ) -> Vec<Answer<O>> {
        let mut attempts = Attempts::<O>::new(self, requests, ids);
        let mut answers = self.insist::<O>(node, attempts.requests, &mut attempts.asked).await;
        loop {
            let others = attempts.others(&answers);
            if others.is_empty() {
                break;
            }
            let again: Vec<O::Request> = others.iter().map(|&place| attempts.requests[place].clone()).collect();
            let answered = self.insist::<O>(node, &again, &mut attempts.asked).await;
            others.into_iter().zip(answered).for_each(|(place, answer)| answers[place] = answer);
        }
        self.take_back_met::<O>(node, attempts.requests, &mut answers, &mut attempts.asked).await;
        attempts.end(&answers);
        let judged = |((answer, request), id): ((Answer<O>, &O::Request), &Digest)| {
            let answer = O::judged(self, request, answer?);
            self.believes::<O>(*id, &answer).map(|()| answer)
        };
        answers.into_iter().zip(&*requests).zip(ids).map(judged).collect()
    }

    /// Takes back marks of this engine that it meets while they are in doubt, and asks again: no
    /// caller was told of them, and this caller must get a true answer.
    async fn take_back_met<O: Operation>(
        &self,
        node: &Node,
        requests: &[O::Request],
        answers: &mut [Answer<O>],
        asked: &mut bool,
    ) {
        let met = answers.iter().enumerate().filter_map(|(place, answer)| {
            let attempt = O::met(self, answer.as_ref().ok()?)?;
            Some((place, Unmark { key: O::key(&requests[place]).clone(), attempt }))
        });
        let (met, unmarks): (Vec<usize>, Vec<Unmark>) = met.unzip();
        if met.is_empty() {
            return;
        }
        let mut again = Vec::new();
        for (place, gone) in met.into_iter().zip(self.take_back(node, &unmarks).await) {
            match gone {
                Ok(()) => again.push(place),
                Err(error) => answers[place] = Err(error),
            }
        }
        let requests: Vec<O::Request> = again.iter().map(|&place| requests[place].clone()).collect();
        let answered = self.insist::<O>(node, &requests, asked).await;
        again.into_iter().zip(answered).for_each(|(place, answer)| answers[place] = answer);
    }

    /// Takes back marks of this engine, now.
    async fn take_back(&self, node: &Node, unmarks: &[Unmark]) -> Vec<Result<(), StoreError>> {
        let asked_at = tokio::time::Instant::now();
        let answers = self.insist::<Unmarks>(node, unmarks, &mut false).await;
        let settled = self.patience();
        let mut doubts = self.doubts();
        let gone = unmarks
            .iter()
            .zip(answers)
            .map(|(unmark, answer)| answer.map(|_| doubts.answered(unmark.attempt, asked_at, settled)));
        gone.collect()
    }

    /// Calls the store, and repeats failed requests as often as configured.
    async fn insist<O: Operation>(&self, node: &Node, requests: &[O::Request], asked: &mut bool) -> Vec<Answer<O>> {
        if requests.is_empty() {
            return Vec::new();
        }
        let mut answers = self.try_call::<O>(node, requests, asked).await;
        for tries in 0..self.calls.retries {
            let is_open = |answer: &Answer<O>| matches!(answer, Err(error) if error.kind().is_transient());
            let open: Vec<usize> = (0..answers.len()).filter(|&i| is_open(&answers[i])).collect();
            if open.is_empty() {
                break;
            }
            tokio::time::sleep(back_off(tries, self.random())).await;
            self.observer.retried(O::ASKED);
            let again: Vec<O::Request> = open.iter().map(|&i| requests[i].clone()).collect();
            for (i, answer) in open.into_iter().zip(self.try_call::<O>(node, &again, asked).await) {
                answers[i] = answer.map(O::when_asked_again);
            }
        }
        answers
    }

    async fn try_call<O: Operation>(&self, node: &Node, requests: &[O::Request], asked: &mut bool) -> Vec<Answer<O>> {
        let backend = self.store.backend();
        let everywhere = |error: StoreError| requests.iter().map(|_| Err(error.clone())).collect();
        // Acquire: pairs with the Release of the task that has found the owner.
        if self.awaits_owner.load(Ordering::Acquire) {
            self.observer.not_asked(O::ASKED);
            let unknown = "not asked, since it is not known yet if another engine has claimed the store for itself";
            return everywhere(StoreError::new(ErrorKind::Unavailable, backend, unknown));
        }
        // Marks are taken back at a pace of their own, whose failures say nothing to callers.
        let is_unasked = O::ASKED == Asked::Unmark;
        if !is_unasked && !node.breaker().admits(now()) {
            self.observer.not_asked(O::ASKED);
            let open = "not asked, since it has failed again and again: the circuit breaker is open";
            return everywhere(StoreError::new(ErrorKind::Unavailable, backend, open));
        }
        *asked = true;
        let call = async {
            let answers = O::call(&*self.store, requests).await?;
            if answers.len() != requests.len() {
                let wrong = format!("{} answers to {} requests to {}", answers.len(), requests.len(), O::ASKED.name());
                return Err(StoreError::new(ErrorKind::Corrupt, backend, wrong));
            }
            Ok(answers)
        };
        match self.in_time(O::ASKED, requests.len(), call).await {
            Ok(answers) => {
                if node.breaker().succeeded() {
                    self.observer.closed();
                }
                let failed = answers.iter().filter_map(|answer| answer.as_ref().err());
                failed.for_each(|error| self.observer.meters.request_failed(error.kind()));
                answers
            }
            Err(error) => {
                match error.kind().is_transient() {
                    true if !is_unasked && node.breaker().failed(now()) => self.observer.opened(),
                    // The store has answered, if only with a refusal.
                    false if node.breaker().succeeded() => self.observer.closed(),
                    _ => {}
                }
                everywhere(error)
            }
        }
    }
}

/// Returns the time of the runtime's clock, which a test may stop.
fn now() -> std::time::Instant {
    tokio::time::Instant::now().into_std()
}
