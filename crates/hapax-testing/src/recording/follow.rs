//! A thread's calls, as a script has them, and what it does with the claims that it gets.

use super::recorder::Recorder;
use super::workload::Call;
use crate::operation::{Event, Interval, Operation};
use crate::subject::{Attempt, Lease, Subject};
use hapax::Timestamp;
use std::collections::VecDeque;

/// Makes the calls of a script, and ends the claims that it got.
pub(crate) fn follow<S: Subject>(
    subject: &S,
    script: impl Iterator<Item = (Timestamp, Call)>,
    recorder: &mut Recorder<'_>,
) {
    let mut answers = Vec::new();
    let mut hand = Hand::default();
    let mut now = Timestamp::default();
    let mut batch = 0;
    for (at, call) in script {
        now = at;
        match call {
            // It would not be recorded, though it may tell the subject a time.
            Call::Batch(ids) if ids.is_empty() => {}
            Call::Check(id) => recorder.check(id, at, || subject.check(id, at)),
            Call::Batch(ids) => {
                answers.clear();
                let (interval, ()) = recorder.time(|| subject.check_batch(&ids, at, &mut answers));
                assert_eq!(answers.len(), ids.len(), "a batch needs an answer for each id");
                batch += 1;
                for (&id, &answer) in ids.iter().zip(&answers) {
                    let event = Event::of_check(answer);
                    recorder.add(Operation { id, at, interval, event, batch, ..Operation::default() });
                }
            }
            Call::Forget(id) => {
                if let (interval, true) = recorder.time(|| subject.forget(id, at)) {
                    recorder.push(interval, id, at, Event::Forget);
                }
            }
            Call::Claim { id, hold, completes } => {
                let tried = recorder.time(|| subject.claim(id, at));
                hand.take(tried, recorder, Plan { id, at, fingerprint: 0, due: Due::Calls(hold), completes });
            }
            Call::Lease { id, fingerprint, hold, renew_after, completes } => {
                let tried = recorder.time(|| match fingerprint {
                    0 => subject.claim(id, at),
                    _ => subject.claim_with(id, fingerprint, at),
                });
                let due = Due::Time { ends: at + hold, renews: renew_after.map(|after| at + after) };
                hand.take(tried, recorder, Plan { id, at, fingerprint, due, completes });
            }
        }
        hand.end_what_is_due(at, recorder);
    }
    hand.end_all(now, recorder);
}

/// The claims that a thread has.
#[derive(Default)]
struct Hand<'s> {
    held: VecDeque<Held<'s>>,
    /// The number of claims that the thread has got so far.
    claims: u32,
}

/// An attempt to claim an id, and what is to become of it.
struct Plan {
    id: u64,
    at: Timestamp,
    fingerprint: u8,
    due: Due,
    completes: bool,
}

/// The end of a claim.
#[derive(Clone, Copy)]
enum Due {
    /// After a number of calls. A claim that is lost then is not recorded.
    Calls(u8),
    Time {
        ends: Timestamp,
        renews: Option<Timestamp>,
    },
}

/// A claim that a thread has.
struct Held<'s> {
    plan: Plan,
    claim: u32,
    lease: Box<dyn Lease + 's>,
}

impl<'s> Hand<'s> {
    /// Records an attempt, and keeps the claim, if it got one.
    fn take(&mut self, tried: (Interval, Option<Attempt<'s>>), recorder: &mut Recorder<'_>, plan: Plan) {
        let (interval, Some(attempt)) = tried else { return };
        let Plan { id, at, fingerprint, .. } = plan;
        let operation = |event| Operation { id, at, interval, event, fingerprint, ..Operation::default() };
        let lease = match attempt {
            Attempt::InProgress => return recorder.add(operation(Event::InProgress)),
            Attempt::Duplicate => return recorder.add(operation(Event::Duplicate)),
            Attempt::Mismatch => return recorder.add(operation(Event::Mismatch)),
            Attempt::Claimed(lease) => lease,
        };
        self.claims += 1;
        let claim = self.claims;
        recorder.add(Operation { token: lease.token().unwrap_or(0), claim, ..operation(Event::Claimed) });
        self.held.push_back(Held { plan, claim, lease });
    }

    fn end_what_is_due(&mut self, at: Timestamp, recorder: &mut Recorder<'_>) {
        for _ in 0..self.held.len() {
            let Some(mut held) = self.held.pop_front() else { return };
            match &mut held.plan.due {
                Due::Calls(0) => held.end(at, recorder),
                Due::Calls(left) => {
                    *left -= 1;
                    self.held.push_back(held);
                }
                Due::Time { ends, .. } if *ends <= at => held.end(at, recorder),
                Due::Time { renews, .. } => {
                    if renews.take_if(|renews| *renews <= at).is_some() {
                        held.renew(at, recorder);
                    }
                    self.held.push_back(held);
                }
            }
        }
    }

    fn end_all(&mut self, at: Timestamp, recorder: &mut Recorder<'_>) {
        self.held.drain(..).for_each(|held| held.end(at, recorder));
    }
}

impl Held<'_> {
    fn renew(&mut self, at: Timestamp, recorder: &mut Recorder<'_>) {
        if let (interval, Some(held)) = recorder.time(|| self.lease.renew(at)) {
            let event = if held { Event::Renewed } else { Event::Lost };
            recorder.add(self.operation(interval, at, event));
        }
    }

    fn end(self, at: Timestamp, recorder: &mut Recorder<'_>) {
        let Held { plan: Plan { id, due, completes, .. }, claim, lease } = self;
        let (interval, held) = recorder.time(|| lease.end(completes, at));
        let event = match (held, due) {
            (true, _) if completes => Event::Completed,
            (true, _) => Event::Released,
            (false, Due::Calls(_)) => return,
            (false, _) => Event::Lost,
        };
        recorder.add(Operation { id, at, interval, event, claim, ..Operation::default() });
    }

    fn operation(&self, interval: Interval, at: Timestamp, event: Event) -> Operation {
        Operation { id: self.plan.id, at, interval, event, claim: self.claim, ..Operation::default() }
    }
}
