//! Single flight: ids that are being requested, so that concurrent callers with the same request
//! need not ask.
//!
//! ```text
//!            join                answered, nothing granted
//! nobody ─────────► open ───────────────────────────────────► nobody   the others are told
//!                    │ │ granted: the others are told          ▲
//!                    │ └─────────► granted ───── taken ────────┤
//!                    │ leave          │ leave                  │
//!                    └────────► left ◄┘                        │
//!                                └── answered, or given back ──┘        the others ask themselves
//! ```
//!
//! The leading caller may be dropped at any time, and ask again at once. So it announces that it
//! goes before it is gone. An id that it was granted stays in flight until the caller has taken the
//! answer, or the id is given back: callers that ask meanwhile wait for that, and never meet the
//! remains of the caller before.

use crate::sync::{Mutex, MutexGuard};
use hapax::Digest;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasherDefault, Hasher};
use tokio::sync::oneshot;

/// An id that is being requested by its leader.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flight {
    pub(super) id: Digest,
    /// The number of the flight; [`ASIDE`](Flight::ASIDE): none.
    number: u64,
}

impl Flight {
    const ASIDE: u64 = 0;

    /// Creates a flight for an id that is requested beside its flight, or has none.
    pub(super) fn aside(id: Digest) -> Self {
        Flight { id, number: Self::ASIDE }
    }

    pub(super) fn is_aside(self) -> bool {
        self.number == Self::ASIDE
    }
}

/// The channel to a follower: `None` means that there is no answer, and that it must ask itself.
pub(super) type Tell<A> = oneshot::Sender<Option<A>>;

/// The turn of a caller that asks about an id.
pub(super) enum Turn<A> {
    /// It must ask, and must end the flight.
    Leads(Flight),
    /// It must wait.
    Follows(oneshot::Receiver<Option<A>>),
}

/// The progress of an id's request, and its followers.
struct Led<A> {
    number: u64,
    stage: Stage,
    others: Vec<Tell<A>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// It is not answered yet.
    Open,
    /// It was granted to the caller, which has not taken it yet.
    Granted,
    /// The caller is gone. If the id was granted, or will be, it is given back.
    Left,
}

/// The requests under way, by id.
pub(super) struct Flights<A> {
    shards: Box<[Mutex<Shard<A>>]>,
}

struct Shard<A> {
    led: HashMap<Digest, Led<A>, BuildHasherDefault<Uniform>>,
    /// The number of flights so far.
    numbers: u64,
}

/// The number of locks.
const SHARDS: usize = 32;

impl<A> Default for Flights<A> {
    fn default() -> Self {
        let shard = || Mutex::new(Shard { led: HashMap::default(), numbers: Flight::ASIDE });
        Flights { shards: (0..SHARDS).map(|_| shard()).collect() }
    }
}

impl<A> Flights<A> {
    /// Returns the shard of an id. (Its map uses other bits of it.)
    fn shard(&self, id: Digest) -> MutexGuard<'_, Shard<A>> {
        let shard = &self.shards[(u128::from(id) as u64 >> 32) as usize % SHARDS];
        // Nothing that can panic is done while it is held.
        shard.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Joins the request for an id: the first caller leads, the others follow. A caller that comes
    /// when the leader was granted the id and has not taken it yet asks beside the flight: the
    /// store knows, and must not wait for a caller that may take its time.
    pub(super) fn join(&self, id: Digest) -> Turn<A> {
        let mut shard = self.shard(id);
        let number = shard.numbers + 1;
        match shard.led.entry(id) {
            Entry::Vacant(first) => {
                first.insert(Led { number, stage: Stage::Open, others: Vec::new() });
                shard.numbers = number;
                Turn::Leads(Flight { id, number })
            }
            Entry::Occupied(led) if led.get().stage == Stage::Granted => Turn::Leads(Flight::aside(id)),
            Entry::Occupied(mut led) => {
                let (tell, told) = oneshot::channel();
                led.get_mut().others.push(tell);
                Turn::Follows(told)
            }
        }
    }

    /// Notes that the id was granted. Returns the followers, or `None` if the leader is gone: then
    /// the id is given back, and they wait for that.
    pub(super) fn granted(&self, flight: Flight) -> Option<Vec<Tell<A>>> {
        match self.shard(flight.id).led.get_mut(&flight.id).filter(|led| led.number == flight.number) {
            Some(led) if led.stage == Stage::Left => None,
            Some(led) => {
                led.stage = Stage::Granted;
                Some(std::mem::take(&mut led.others))
            }
            None => Some(Vec::new()),
        }
    }

    /// Returns true if a follower waits for it.
    pub(super) fn is_awaited(&self, flight: Flight) -> bool {
        let shard = self.shard(flight.id);
        let led = shard.led.get(&flight.id).filter(|led| led.number == flight.number);
        led.is_some_and(|led| led.others.iter().any(|tell| !tell.is_closed()))
    }

    /// Notes that the leader goes.
    pub(super) fn leave(&self, flight: Flight) {
        let mut shard = self.shard(flight.id);
        if let Some(led) = shard.led.get_mut(&flight.id).filter(|led| led.number == flight.number) {
            led.stage = Stage::Left;
        }
    }

    /// Ends the flight. Returns the followers.
    pub(super) fn land(&self, flight: Flight) -> Vec<Tell<A>> {
        match self.shard(flight.id).led.entry(flight.id) {
            Entry::Occupied(led) if led.get().number == flight.number => led.remove().others,
            _ => Vec::new(),
        }
    }

    /// Ends the flight without an answer.
    pub(super) fn land_untold(&self, flight: Flight) {
        // A follower that is gone gets nothing.
        self.land(flight).into_iter().for_each(|tell| drop(tell.send(None)));
    }
}

/// A hasher for digests: a digest is as good a hash as any.
#[derive(Default)]
pub(super) struct Uniform(u64);

impl Hasher for Uniform {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.0 = self.0.rotate_left(8) ^ u64::from(*byte));
    }

    fn write_u64(&mut self, half: u64) {
        self.0 ^= half;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: u128 = 7;

    fn lead(flights: &Flights<u32>) -> Flight {
        match flights.join(Digest::from(ID)) {
            Turn::Leads(flight) => flight,
            Turn::Follows(_) => panic!("somebody else leads"),
        }
    }

    fn follow(flights: &Flights<u32>) -> oneshot::Receiver<Option<u32>> {
        match flights.join(Digest::from(ID)) {
            Turn::Leads(flight) => panic!("it leads: {flight:?}"),
            Turn::Follows(told) => told,
        }
    }

    #[test]
    fn who_comes_before_the_answer_follows_and_who_comes_after_it_does_not() {
        let flights = Flights::default();
        let first = lead(&flights);
        let mut told = follow(&flights);
        flights.land(first).into_iter().for_each(|tell| tell.send(Some(17)).unwrap());
        assert_eq!(told.try_recv(), Ok(Some(17)));
        assert!(!lead(&flights).is_aside());
    }

    #[test]
    fn what_was_granted_is_in_flight_until_it_is_taken() {
        let flights = Flights::default();
        let first = lead(&flights);
        let _told = follow(&flights);
        assert_eq!(flights.granted(first).unwrap().len(), 1);
        // It is unknown whether it will be taken.
        let aside = lead(&flights);
        assert!(aside.is_aside());
        // Nothing that concerns it changes the flight.
        assert!(flights.granted(aside).unwrap().is_empty() && flights.land(aside).is_empty());
        flights.leave(aside);
        assert!(lead(&flights).is_aside());
        flights.land_untold(first);
        assert!(!lead(&flights).is_aside());
    }

    #[test]
    fn who_comes_when_the_caller_is_gone_waits_until_it_is_given_back() {
        for answered_before in [false, true] {
            let flights = Flights::default();
            let first = lead(&flights);
            if answered_before {
                assert!(flights.granted(first).is_some());
            }
            flights.leave(first);
            let mut told = follow(&flights);
            if !answered_before {
                assert!(flights.granted(first).is_none(), "it is to be given back");
            }
            assert!(told.try_recv().is_err() && flights.is_awaited(first));
            flights.land_untold(first);
            assert_eq!(told.try_recv(), Ok(None));
        }
    }

    #[test]
    fn a_flight_that_is_over_does_not_touch_the_next_one() {
        let flights = Flights::default();
        let first = lead(&flights);
        flights.land_untold(first);
        let second = lead(&flights);
        let mut told = follow(&flights);
        flights.leave(first);
        flights.land_untold(first);
        assert!(told.try_recv().is_err());
        assert_eq!(flights.granted(second).map(|others| others.len()), Some(1));
    }
}
