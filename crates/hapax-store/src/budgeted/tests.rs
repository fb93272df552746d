//! The budget. (`tests/integration/budgeted.rs` has the suite.)

use super::*;
use crate::{Scope, Store};
use hapax::ManualClock;

const HOUR: Duration = Duration::from_secs(3_600);
const BUDGET: u64 = 256 << 10;

struct World {
    clock: ManualClock,
    store: BudgetStore,
    runtime: tokio::runtime::Runtime,
}

impl World {
    fn new() -> Self {
        let clock = ManualClock::new();
        clock.advance(HOUR);
        let store = BudgetStore::with_clock(BUDGET, clock.clone()).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        World { clock, store, runtime }
    }

    fn claim(&self, id: &str) -> Result<Claimed, StoreError> {
        let claim = ClaimRequest {
            key: key(id),
            attempt: 1,
            lease: HOUR,
            fingerprint: None,
            held_by: None,
            doubt: Duration::ZERO,
        };
        self.runtime.block_on(self.store.claim(&[claim])).unwrap().remove(0)
    }

    fn token(&self, id: &str) -> u64 {
        match self.claim(id).unwrap() {
            Claimed::Claimed { token, .. } => token,
            other => panic!("{id}: {other:?}"),
        }
    }

    fn complete(&self, id: &str, token: u64, bytes: usize) -> Result<Held, StoreError> {
        let hold = Hold { key: key(id), token };
        let completion = Completion { hold, retention: HOUR, result: Some(vec![7; bytes]) };
        self.runtime.block_on(self.store.complete(&[completion])).unwrap().remove(0)
    }

    fn known(&self, id: &str) -> Known {
        self.runtime.block_on(self.store.look_up(&[key(id)])).unwrap().remove(0).unwrap()
    }
}

fn key(id: &str) -> RecordKey {
    RecordKey::new(&Scope::new("budget").unwrap(), id)
}

#[test]
fn what_is_given_back_leaves_nothing() {
    let world = World::new();
    let hold = Hold { key: key("id"), token: world.token("id") };
    assert_eq!(world.runtime.block_on(world.store.release(&[hold])).unwrap().remove(0).unwrap(), Held::Done);
    assert_eq!(world.store.lock().active.len(), 0);
    assert_eq!(world.known("id"), Known::Unknown);
}

#[test]
fn what_is_completed_makes_room_and_what_is_in_progress_never_does() {
    let world = World::new();
    let held = world.token("held");
    for i in 0..1_000 {
        let id = format!("done {i}");
        let token = world.token(&id);
        assert_eq!(world.complete(&id, token, 4_096).unwrap(), Held::Done);
        let used: u64 = world.store.lock().done.iter().map(|(key, stored)| done::weight(key, stored)).sum();
        assert!(used <= BUDGET * 3 / 4, "{used} bytes after {i}");
        assert!(world.store.used_bytes() <= BUDGET);
        assert!(matches!(world.known(&id), Known::Completed(_)), "the newest one, {i}, is kept");
    }
    assert!(matches!(world.known("held"), Known::InProgress { .. }));
    assert_eq!(world.known("done 0"), Known::Unknown);
    assert!(world.store.evicted() >= 900, "{} of 1,000 were evicted", world.store.evicted());
    assert_eq!(world.complete("held", held, 10).unwrap(), Held::Done);
}

#[test]
fn claims_beyond_the_budget_are_refused_and_those_that_are_held_go_on() {
    let world = World::new();
    let room = BUDGET / 4 / CLAIM_BYTES;
    let tokens: Vec<u64> = (0..room).map(|i| world.token(&i.to_string())).collect();
    let refused = world.claim("one more").unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unavailable);
    assert!(refused.to_string().contains(&room.to_string()), "{refused}");
    assert_eq!(world.complete("0", tokens[0], 1).unwrap(), Held::Done);
    world.token("one more");
    assert!(world.claim("and another").is_err());
    // After their leases have expired there is room again, without any call to `expire`.
    world.clock.advance(2 * HOUR);
    world.token("and another");
}

#[test]
fn a_result_that_no_budget_holds_is_an_error_and_the_claim_stays() {
    let world = World::new();
    let token = world.token("a");
    let error = world.complete("a", token, BUDGET as usize).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misconfigured);
    assert!(matches!(world.known("a"), Known::InProgress { .. }));
    assert_eq!(world.complete("a", token, 100).unwrap(), Held::Done);
}

#[test]
fn a_late_holder_of_an_evicted_id_changes_nothing_although_the_clock_stands_still() {
    let world = World::new();
    let first = world.token("a");
    assert_eq!(world.complete("a", first, 100).unwrap(), Held::Done);
    for i in 0..100 {
        let id = format!("later {i}");
        let token = world.token(&id);
        assert_eq!(world.complete(&id, token, 16_384).unwrap(), Held::Done);
    }
    assert_eq!(world.known("a"), Known::Unknown);
    let second = world.token("a");
    assert!(second > first);
    assert_eq!(world.complete("a", first, 100).unwrap(), Held::Lost);
}

#[test]
fn a_budget_without_room_is_refused() {
    let error = BudgetStore::new(1_000).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misconfigured);
    assert!(error.to_string().contains("budget_bytes") && error.to_string().contains("1000"), "{error}");
}
