//! Claims with and without fingerprints, checks and forgettings against a plain model: one caller,
//! virtual time, operations drawn at random.
//!
//! It checks that a mismatch is reported only of an id that is in flight or done with another
//! payload; and always if that was less than a window ago and nothing had to be forgotten early.

use super::*;
use proptest::prelude::*;

type Id = u16;
type Payload = u8;

#[derive(Clone, Copy, Debug)]
enum End {
    Complete,
    Release,
    Hold,
}

#[derive(Clone, Debug)]
enum Op {
    Claim(Id, Option<Payload>, End),
    /// Claims without payloads; claimed ids are completed.
    ClaimBatch(Vec<Id>),
    /// Completes the claims that are held.
    CompleteAll,
    ReleaseAll,
    Check(Id),
    CheckBatch(Vec<Id>),
    Forget(Id),
    Clear,
    Advance(u64),
    /// Checks this many other ids: if memory is short, some ids have to be evicted.
    Others(u32),
    /// Builds the engine again: held claims are lost; completed ones are in the journal.
    Restart,
}

#[derive(Clone, Copy, Debug)]
struct Config {
    slides: bool,
    history: Option<Unconfirmed>,
    crowded: bool,
}

/// The knowledge of an observer that remembers everything about an id that is done.
#[derive(Clone, Copy, Debug)]
struct Known {
    payload: Option<Payload>,
    /// True if the engine must still know the payload.
    is_certain: bool,
    since: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Age {
    Must,
    May,
    Gone,
}

struct Model {
    config: Config,
    now: u64,
    tick: u64,
    done: HashMap<Id, Known>,
    held: HashMap<Id, Option<Payload>>,
    /// Ids that the engine has forgotten although it must know them.
    missed: u64,
}

impl Model {
    fn age(&self, id: Id) -> Age {
        let window = WINDOW.as_nanos() as u64;
        match self.done.get(&id).map(|known| self.now - known.since) {
            Some(age) if age < window => Age::Must,
            Some(age) if age < window + 2 * self.tick => Age::May,
            _ => Age::Gone,
        }
    }

    /// Records that the id was accepted, or at least claimed, and is not held.
    fn accepted(&mut self, id: Id) {
        assert!(!self.held.contains_key(&id), "{id} is held");
        if self.age(id) == Age::Must {
            assert!(self.config.crowded, "{id} was forgotten");
            self.missed += 1;
        }
        self.done.remove(&id);
    }

    fn done(&mut self, id: Id, payload: Option<Payload>) {
        self.done.insert(id, Known { payload, is_certain: true, since: self.now });
    }

    /// Returns true if the history answers for an id that the window had to forget early; its
    /// payload is then not known.
    fn may_be_guessed(&self) -> bool {
        self.config.crowded && self.config.history == Some(Unconfirmed::Duplicate)
    }

    /// Records that the id was found to be done.
    fn duplicate(&mut self, id: Id, payload: Option<Payload>) {
        assert!(!self.held.contains_key(&id), "{id} is held");
        let age = self.age(id);
        if age == Age::Gone {
            assert_eq!(self.config.history, Some(Unconfirmed::Duplicate), "{id} is not known");
        }
        let known = self.done.get(&id).copied();
        if let (Age::Must, Some(Known { payload: Some(known), is_certain: true, .. }), Some(asked)) =
            (age, known, payload)
            && !self.may_be_guessed()
        {
            assert_eq!(known, asked, "{id} was done with another payload");
        }
        if !self.config.slides {
            return;
        }
        match (age, known) {
            // A guess puts it into the window, and says nothing of the payload.
            (Age::Gone, _) | (_, None) => self.done(id, None),
            (_, Some(known)) => {
                let is_certain = known.is_certain && age == Age::Must && !self.may_be_guessed();
                self.done.insert(id, Known { is_certain, since: self.now, ..known });
            }
        }
    }

    fn mismatch(&self, id: Id, asked: Option<Payload>) {
        let asked = asked.expect("without a payload there is no mismatch");
        let known = match self.held.get(&id) {
            Some(held) => *held,
            None if self.age(id) == Age::Gone => None,
            None => self.done.get(&id).and_then(|known| known.payload),
        };
        assert!(known.is_some_and(|known| known != asked), "{id}, {asked}: a mismatch with {known:?}");
    }

    fn in_progress(&self, id: Id, asked: Option<Payload>) {
        let held = self.held.get(&id).unwrap_or_else(|| panic!("nobody has {id}"));
        assert!(held.is_none() || asked.is_none() || *held == asked, "{id} is held with {held:?}, not {asked:?}");
    }

    fn checked(&mut self, id: Id, verdict: Verdict) {
        if verdict.is_in_progress() {
            self.in_progress(id, None);
        } else if verdict.is_duplicate() {
            self.duplicate(id, None);
        } else {
            self.accepted(id);
            self.done(id, None);
        }
    }
}

/// The place of the files that outlive an engine in a run.
struct Place(std::path::PathBuf);

impl Place {
    fn new() -> Self {
        static RUNS: AtomicU32 = AtomicU32::new(0);
        let run = RUNS.fetch_add(1, Ordering::Relaxed);
        Place(std::env::temp_dir().join(format!("hapax-claims-{}-{run}", std::process::id())))
    }

    fn build(&self, config: Config, clock: &ManualClock) -> Dedup {
        let builder = Dedup::builder().window(WINDOW).growth_thread(false).lease(10_000 * WINDOW).seed(23);
        let builder = builder.clock(clock.clone()).refresh_on_duplicate(config.slides);
        let builder = match config.crowded {
            true => builder.capacity(100).max_memory_bytes(64 << 10),
            false => builder.capacity(10_000),
        };
        let builder = match config.history {
            // A rate so low that there is no coincidence.
            Some(unconfirmed) => builder.history(4 * WINDOW, 1e-12, 20_000).unconfirmed(unconfirmed),
            None => builder,
        };
        builder.journal(self.0.join("journal"), hapax::JournalOptions::new()).build().unwrap()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

struct Run {
    config: Config,
    clock: ManualClock,
    held: Vec<(Id, hapax::Claim<'static>)>,
    dedup: Dedup,
    // Removed after the engine, which writes into it until its end.
    place: Place,
    model: Model,
    others: u32,
}

impl Run {
    fn new(config: Config) -> Self {
        let (place, clock) = (Place::new(), ManualClock::new());
        clock.advance(Duration::from_secs(1_000_000));
        let dedup = place.build(config, &clock);
        let (now, tick) = (1_000_000_000_000_000, dedup.tick().as_nanos() as u64);
        let model = Model { config, now, tick, done: HashMap::new(), held: HashMap::new(), missed: 0 };
        Run { config, place, clock, dedup, held: Vec::new(), model, others: 0 }
    }

    fn step(&mut self, op: &Op) {
        match op {
            Op::Claim(id, payload, end) => self.claim(*id, *payload, *end),
            Op::ClaimBatch(ids) => self.claim_batch(ids),
            Op::CompleteAll => {
                let (ids, claims): (Vec<_>, Vec<_>) = std::mem::take(&mut self.held).into_iter().unzip();
                let mut ended = Vec::new();
                self.dedup.complete_batch(claims, &mut ended);
                assert!(ended.iter().all(Result::is_ok));
                for id in ids {
                    let payload = self.model.held.remove(&id).unwrap();
                    self.model.done(id, payload);
                }
            }
            Op::ReleaseAll => {
                self.held.clear();
                self.model.held.clear();
            }
            Op::Check(id) => self.model.checked(*id, self.dedup.check(id.to_be_bytes())),
            Op::CheckBatch(ids) => {
                let mut verdicts = Vec::new();
                self.dedup.check_batch(ids.iter().map(|id| id.to_be_bytes()), &mut verdicts);
                ids.iter().zip(verdicts).for_each(|(id, verdict)| self.model.checked(*id, verdict));
            }
            Op::Forget(id) => {
                let is_held = self.dedup.forget(id.to_be_bytes()) == Forgotten::InProgress;
                assert_eq!(is_held, self.model.held.contains_key(id));
                if !is_held {
                    self.model.done.remove(id);
                }
            }
            Op::Clear => {
                self.dedup.clear();
                self.model.done.clear();
            }
            Op::Advance(nanos) => {
                self.clock.advance(Duration::from_nanos(*nanos));
                self.model.now += nanos;
            }
            Op::Others(count) => {
                let others = self.others..self.others + count;
                others.for_each(|other| assert!(!self.dedup.check(other.to_le_bytes()).is_in_progress()));
                self.others += count;
            }
            Op::Restart if !self.config.crowded => self.restart(),
            Op::Restart => {}
        }
    }

    fn claim(&mut self, id: Id, payload: Option<Payload>, end: End) {
        let name = payload.map(|payload| [payload]);
        let options = name.as_ref().map_or(ClaimOptions::new(), |name| ClaimOptions::new().fingerprint(name));
        match self.dedup.claim_with(id.to_be_bytes(), options) {
            Attempt::Claimed(claim) => {
                self.model.accepted(id);
                match end {
                    End::Complete => {
                        claim.complete().unwrap();
                        self.model.done(id, payload);
                    }
                    End::Release => claim.release().unwrap(),
                    End::Hold => {
                        self.held.push((id, claim.into_owned()));
                        self.model.held.insert(id, payload);
                    }
                }
            }
            Attempt::InProgress { .. } => self.model.in_progress(id, payload),
            Attempt::Duplicate(_) => self.model.duplicate(id, payload),
            Attempt::Mismatch => self.model.mismatch(id, payload),
            other => panic!("{other:?}"),
        }
    }

    fn claim_batch(&mut self, ids: &[Id]) {
        let mut attempts = Vec::new();
        self.dedup.claim_batch(ids.iter().map(|id| id.to_be_bytes()), &mut attempts);
        let mut claims = Vec::new();
        for (id, attempt) in ids.iter().zip(attempts) {
            match attempt {
                Attempt::Claimed(claim) => {
                    self.model.accepted(*id);
                    self.model.held.insert(*id, None);
                    claims.push((*id, claim));
                }
                Attempt::InProgress { .. } => self.model.in_progress(*id, None),
                Attempt::Duplicate(_) => self.model.duplicate(*id, None),
                other => panic!("{other:?}"),
            }
        }
        let (ids, claims): (Vec<_>, Vec<_>) = claims.into_iter().unzip();
        self.dedup.complete_batch(claims, &mut Vec::new());
        for id in ids {
            self.model.held.remove(&id);
            self.model.done(id, None);
        }
    }

    fn restart(&mut self) {
        // The held claims are not ended, as if the process had died.
        std::mem::take(&mut self.held).into_iter().for_each(|(_, claim)| drop(claim));
        self.model.held.clear();
        let without = Dedup::builder().capacity(1).build().unwrap();
        drop(std::mem::replace(&mut self.dedup, without));
        self.dedup = self.place.build(self.config, &self.clock);
    }
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let id = || 0..12_u16;
    let payload = prop_oneof![1 => Just(None), 4 => (0..3_u8).prop_map(Some)];
    let end = prop_oneof![6 => Just(End::Complete), 1 => Just(End::Release), 2 => Just(End::Hold)];
    let secs = prop_oneof![6 => 0..60_u64, 4 => 200..400_u64, 2 => 590..620_u64, 1 => 1_000..5_000_u64];
    let op = prop_oneof![
        20 => (id(), payload, end).prop_map(|(id, payload, end)| Op::Claim(id, payload, end)),
        2 => proptest::collection::vec(id(), 0..6).prop_map(Op::ClaimBatch),
        3 => Just(Op::CompleteAll),
        1 => Just(Op::ReleaseAll),
        5 => id().prop_map(Op::Check),
        2 => proptest::collection::vec(id(), 0..80).prop_map(Op::CheckBatch),
        3 => id().prop_map(Op::Forget),
        1 => Just(Op::Clear),
        10 => secs.prop_map(|secs| Op::Advance(secs * 1_000_000_000)),
        1 => Just(Op::Others(7_000)),
        2 => Just(Op::Restart),
    ];
    proptest::collection::vec(op, 1..120)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(testkit::long(30, 400)))]

    #[test]
    fn a_mismatch_is_certain_or_is_not_said(ops in ops(), slides: bool, history in 0..3_u8, crowded: bool) {
        let history = [None, Some(Unconfirmed::Duplicate), Some(Unconfirmed::Fresh)][usize::from(history)];
        let mut run = Run::new(Config { slides, history, crowded });
        ops.iter().for_each(|op| run.step(op));
        assert!(run.model.missed <= run.dedup.evicted_live(), "{} ids were missed", run.model.missed);
    }
}
