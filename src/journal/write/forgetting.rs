//! Forgetting, while checks accept ids or extend their stay.
//!
//! A check asks the window first, and tells the journal then; whoever forgets an id does the same.
//! Where the two overlap, the journal may hear of them in the other order, and a restart would
//! bring back what was forgotten: a message that is to be handled again is lost. So a check looks
//! how much has been forgotten before it asks the window; and if that is more when the journal
//! hears of it, only ids that are still remembered are recorded. (What was forgotten after it was
//! accepted is as if it had been accepted before that, in whatever order the callers return.)

use super::commit::Shared;
use crate::Timestamp;
use crate::clock::Stamp;
use crate::digest::Digest;
use crate::journal::encoding::payload::Kind;
use crate::mutation::{Rule, obeys};

impl Shared {
    /// Forgets an id and records that, as one for all who tell the journal of checks: whoever
    /// accepts the id again does so behind that record, and nobody else.
    pub(in crate::journal) fn append_forgotten(&self, at: Stamp, id: Digest, forget: impl FnOnce()) {
        self.append_by(at.reading.time, |payload| {
            forget();
            self.forgotten.add();
            payload.push(Kind::Forgotten, at, [id]);
        });
    }

    /// Records that everything is about to be forgotten.
    pub(in crate::journal) fn append_cleared(&self, at: Timestamp) {
        self.append_by(at, |payload| {
            self.forgotten.begin_clearing();
            payload.push_event(Kind::Cleared, at);
        });
    }

    /// Notes that everything has been forgotten.
    pub(in crate::journal) fn end_clearing(&self) {
        if !self.origin.is_here() {
            return;
        }
        let _lock = self.lock();
        self.forgotten.end_clearing();
    }

    /// Appends ids that were accepted, and others (`true`) whose stay was extended, by checks that
    /// began when so much had been forgotten `before`: those that have not been forgotten since.
    /// While everything is being forgotten, no stay is extended: what is extended may be forgotten
    /// in the next moment.
    pub(in crate::journal) fn append_checked(
        &self,
        at: Stamp,
        before: u64,
        ids: impl Iterator<Item = (Digest, bool)>,
        is_remembered: impl Fn(Digest) -> bool,
    ) {
        let mut ids = ids.peekable();
        if ids.peek().is_none() {
            return;
        }
        self.append_by(at.reading.time, |payload| {
            // Under the lock that this is called under, nobody tells the journal what is forgotten.
            let (is_still, may_extend) = (self.forgotten.is_still(before), self.forgotten.may_extend());
            let ids = ids.filter(|&(id, is_extended)| (is_still || is_remembered(id)) && (may_extend || !is_extended));
            payload.push(Kind::Accepted, at, ids.map(|(id, _)| id));
        });
    }

    /// Keeps an id that was found when so much had been forgotten `before`, and appends it if its
    /// stay `is_extended`. Returns false, and does neither, if something was forgotten since.
    pub(in crate::journal) fn append_kept(
        &self,
        at: Stamp,
        before: u64,
        id: Digest,
        is_extended: bool,
        keep: impl FnOnce(),
    ) -> bool {
        if !self.origin.is_here() {
            // A child's memory is its own.
            keep();
            return true;
        }
        let mut is_kept = true;
        self.append_by(at.reading.time, |payload| {
            // (While everything is being forgotten, that is as good as done.)
            is_kept = self.forgotten.is_still(before) || !obeys(Rule::KnownStillStays);
            if is_kept && self.forgotten.may_extend() {
                keep();
                if is_extended {
                    payload.push(Kind::Accepted, at, [id]);
                }
            }
        });
        is_kept
    }

    /// Appends an id whose stay was extended, with its fingerprint, under the lock that whoever
    /// forgets this id takes: it is not being forgotten, unless everything is.
    pub(in crate::journal) fn append_slid(&self, at: Stamp, id: Digest, digest: Digest) {
        self.append_by(at.reading.time, |payload| {
            if self.forgotten.may_extend() {
                payload.push(Kind::Fingerprinted, at, [id, digest]);
            }
        });
    }
}

#[cfg(all(test, not(any(modelled, alone))))]
mod tests {
    use crate::history::history;
    use crate::journal::JournalOptions;
    use crate::journal::files::simulated::Simulated;
    use crate::journal::tests::restarts::{builder, clock};
    use crate::mutation::{Place, Rule, at, leave_out};
    use crate::{ClaimOptions, Dedup, Forgotten, Tier};
    use std::time::Duration;

    type Ask = fn(&Dedup) -> bool;
    type Forget = fn(&Dedup);

    const ASKED: [(&str, Ask); 4] = [
        ("check", |dedup| dedup.check("a").is_duplicate()),
        ("check_batch", |dedup| {
            let mut verdicts = Vec::new();
            dedup.check_batch(["b", "a", "b"], &mut verdicts);
            verdicts[0].is_fresh() && verdicts[1].is_duplicate()
        }),
        ("claim", |dedup| dedup.claim("a").is_duplicate()),
        ("claim_with", |dedup| dedup.claim_with("a", ClaimOptions::new().fingerprint(b"1")).is_duplicate()),
    ];
    const FORGOTTEN: [(&str, Forget); 2] =
        [("forget", |dedup| assert_ne!(dedup.forget("a"), Forgotten::InProgress)), ("clear", |dedup| dedup.clear())];

    /// Returns true if an id is remembered after a restart that was forgotten before it.
    fn is_back(checkpoints: bool, has_history: bool, meet: impl FnOnce(&Dedup)) -> bool {
        let (disk, clock) = (Simulated::new(), clock());
        let open = || {
            let builder = builder(&disk, &clock, JournalOptions::new().checkpoints(checkpoints));
            let builder = builder.refresh_on_duplicate(true);
            if has_history {
                builder.history(history(Duration::from_secs(1_000), 1e-4, 1_000)).build().unwrap()
            } else {
                builder.build().unwrap()
            }
        };
        let dedup = open();
        let claim = dedup.claim_with("a", ClaimOptions::new().fingerprint(b"1")).claimed().expect("it is fresh");
        claim.complete().unwrap();
        meet(&dedup);
        assert_ne!(dedup.contains("a"), Some(Tier::Window), "it was forgotten");
        if checkpoints {
            dedup.journal().unwrap().checkpoint([] as [(&str, &str); 0]).unwrap();
        }
        dedup.journal().unwrap().flush().unwrap();
        drop(dedup);
        open().contains("a") == Some(Tier::Window)
    }

    /// Asks for an id, which is forgotten before the journal learns that its stay was extended.
    fn forget_meanwhile(dedup: &Dedup, ask: Ask, forget: Forget) {
        let another = dedup.clone();
        at(Place::Checked, move || forget(&another));
        assert!(ask(dedup), "it was a duplicate when it was asked for");
    }

    /// Forgets everything; meanwhile an id is asked for.
    fn ask_meanwhile(dedup: &Dedup, ask: Ask) {
        let another = dedup.clone();
        at(Place::ToBeCleared, move || assert!(ask(&another), "it is not forgotten yet"));
        dedup.clear();
    }

    /// Accepts an id, of which a duplicate comes before the journal learns of it, and which is then
    /// forgotten.
    fn accept_slowly(refreshes: bool, accept: Ask, others: &[&str]) -> bool {
        let (disk, clock) = (Simulated::new(), clock());
        let open = || builder(&disk, &clock, JournalOptions::new()).refresh_on_duplicate(refreshes).build().unwrap();
        let dedup = open();
        let another = dedup.clone();
        at(Place::Checked, move || {
            assert!(another.check("a").is_duplicate());
            assert_eq!(another.forget("a"), Forgotten::Entirely);
        });
        assert!(accept(&dedup));
        assert_eq!(dedup.contains("a"), None);
        drop(dedup);
        let dedup = open();
        assert!(others.iter().all(|id| dedup.contains(id).is_some()), "they are in the same batch");
        dedup.contains("a").is_some()
    }

    /// Asks for an id that is being forgotten.
    fn ask_while_it_is_forgotten(ask: Ask) -> bool {
        let (disk, clock) = (Simulated::new(), clock());
        let open = || builder(&disk, &clock, JournalOptions::new()).refresh_on_duplicate(true).build().unwrap();
        let dedup = open();
        assert!(dedup.check("a").is_fresh());
        let another = dedup.clone();
        at(Place::ToBeForgotten, move || assert!(ask(&another), "it is not forgotten yet"));
        assert_eq!(dedup.forget("a"), Forgotten::Entirely);
        assert_eq!(dedup.contains("a"), None);
        drop(dedup);
        open().contains("a").is_some()
    }

    /// Returns the cases in which what was forgotten is back after a restart.
    fn back_again() -> Vec<String> {
        let mut back = Vec::new();
        for (checkpoints, has_history) in [(false, false), (true, false), (false, true)] {
            for (asked, ask) in ASKED {
                let with = format!("{asked}, checkpoints {checkpoints}, history {has_history}");
                for (forgotten, forget) in FORGOTTEN {
                    // (A claim of an id that the history does not know is decided under a lock.)
                    if asked.starts_with("claim") && !has_history {
                        continue;
                    }
                    if is_back(checkpoints, has_history, |dedup| forget_meanwhile(dedup, ask, forget)) {
                        back.push(format!("{forgotten} within {with}"));
                    }
                }
                if is_back(checkpoints, has_history, |dedup| ask_meanwhile(dedup, ask)) {
                    back.push(format!("within clear: {with}"));
                }
            }
        }
        for (asked, ask) in &ASKED[..2] {
            if ask_while_it_is_forgotten(*ask) {
                back.push(format!("{asked} within forget"));
            }
        }
        let accepted: [(&str, Ask, &[&str]); 2] = [
            ("check", |dedup| dedup.check("a").is_fresh(), &[]),
            (
                "check_batch",
                |dedup| {
                    let mut verdicts = Vec::new();
                    dedup.check_batch(["b", "a", "c"], &mut verdicts);
                    verdicts.iter().all(|verdict| verdict.is_fresh())
                },
                &["b", "c"],
            ),
        ];
        for (name, accept, others) in accepted {
            for refreshes in [false, true] {
                if accept_slowly(refreshes, accept, others) {
                    back.push(format!("accepted slowly by {name}, refreshes {refreshes}"));
                }
            }
        }
        back
    }

    #[test]
    fn what_was_forgotten_meanwhile_is_forgotten_after_a_restart() {
        assert_eq!(back_again(), [""; 0]);
        leave_out(Some(Rule::ForgottenIsNotRecorded));
        let without = back_again();
        leave_out(Some(Rule::ForgottenAsOne));
        // (A claim would wait for whoever forgets.)
        let not_as_one: Vec<_> = ASKED[..2].iter().map(|(_, ask)| ask_while_it_is_forgotten(*ask)).collect();
        leave_out(None);
        assert_eq!(not_as_one, [true; 2]);
        assert_eq!(without.len(), 32, "{without:#?}");
    }
}
