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

use crate::sync::{Mutex, MutexGuard, lock};
use hapax::seam::Digest;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasherDefault, Hasher};
use tokio::sync::oneshot;

/// An id that is being requested by its leader.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flight {
    pub(crate) id: Digest,
    /// The number of the flight; [`ASIDE`](Flight::ASIDE): none.
    number: u64,
}

impl Flight {
    const ASIDE: u64 = 0;

    /// Creates a flight for an id that is requested beside its flight, or has none.
    pub(crate) fn aside(id: Digest) -> Self {
        Flight { id, number: Self::ASIDE }
    }

    pub(crate) fn is_aside(self) -> bool {
        self.number == Self::ASIDE
    }
}

/// The channel to a follower: `None` means that there is no answer, and that it must ask itself.
pub(crate) type Follower<A> = oneshot::Sender<Option<A>>;

/// The turn of a caller that asks about an id.
pub(crate) enum Turn<A> {
    /// It must ask, and must end the flight.
    Leads(Flight),
    /// It must wait.
    Follows(oneshot::Receiver<Option<A>>),
}

/// The progress of an id's request, and its followers.
struct Request<A> {
    number: u64,
    stage: Stage,
    followers: Vec<Follower<A>>,
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
pub(crate) struct SingleFlight<A> {
    shards: Box<[Mutex<Shard<A>>]>,
}

struct Shard<A> {
    by_id: HashMap<Digest, Request<A>, BuildHasherDefault<Uniform>>,
    /// The number of flights so far.
    numbers: u64,
}

impl<A> Shard<A> {
    /// Returns the request of this flight, unless it is over.
    fn request(&mut self, flight: Flight) -> Option<&mut Request<A>> {
        self.by_id.get_mut(&flight.id).filter(|request| request.number == flight.number)
    }
}

/// The number of locks.
const SHARDS: usize = 32;

impl<A> Default for SingleFlight<A> {
    fn default() -> Self {
        let shard = || Mutex::new(Shard { by_id: HashMap::default(), numbers: Flight::ASIDE });
        SingleFlight { shards: (0..SHARDS).map(|_| shard()).collect() }
    }
}

impl<A> SingleFlight<A> {
    /// Returns the shard of an id. (Its map uses other bits of it.)
    fn shard(&self, id: Digest) -> MutexGuard<'_, Shard<A>> {
        let shard = &self.shards[(u128::from(id) as u64 >> 32) as usize % SHARDS];
        // Nothing that can panic is done while it is held.
        lock(shard)
    }

    /// Joins the request for an id: the first caller leads, the others follow. A caller that comes
    /// when the leader was granted the id and has not taken it yet asks beside the flight: the
    /// store knows, and must not wait for a caller that may take its time.
    pub(crate) fn join(&self, id: Digest) -> Turn<A> {
        let mut shard = self.shard(id);
        let number = shard.numbers + 1;
        match shard.by_id.entry(id) {
            Entry::Vacant(first) => {
                first.insert(Request { number, stage: Stage::Open, followers: Vec::new() });
                shard.numbers = number;
                Turn::Leads(Flight { id, number })
            }
            Entry::Occupied(request) if request.get().stage == Stage::Granted => Turn::Leads(Flight::aside(id)),
            Entry::Occupied(mut request) => {
                let (tell, told) = oneshot::channel();
                request.get_mut().followers.push(tell);
                Turn::Follows(told)
            }
        }
    }

    /// Notes that the id was granted. Returns the followers, or `None` if the leader is gone: then
    /// the id is given back, and they wait for that.
    pub(crate) fn granted(&self, flight: Flight) -> Option<Vec<Follower<A>>> {
        match self.shard(flight.id).request(flight) {
            Some(request) if request.stage == Stage::Left => None,
            Some(request) => {
                request.stage = Stage::Granted;
                Some(std::mem::take(&mut request.followers))
            }
            None => Some(Vec::new()),
        }
    }

    /// Returns true if a follower waits for it.
    pub(crate) fn is_awaited(&self, flight: Flight) -> bool {
        self.shard(flight.id)
            .request(flight)
            .is_some_and(|request| request.followers.iter().any(|tell| !tell.is_closed()))
    }

    /// Notes that the leader goes.
    pub(crate) fn leave(&self, flight: Flight) {
        let mut shard = self.shard(flight.id);
        if let Some(request) = shard.request(flight) {
            request.stage = Stage::Left;
        }
    }

    /// Ends the flight. Returns the followers.
    pub(crate) fn land(&self, flight: Flight) -> Vec<Follower<A>> {
        match self.shard(flight.id).by_id.entry(flight.id) {
            Entry::Occupied(request) if request.get().number == flight.number => request.remove().followers,
            _ => Vec::new(),
        }
    }

    /// Ends the flight without an answer.
    pub(crate) fn land_untold(&self, flight: Flight) {
        // A follower that is gone gets nothing.
        self.land(flight).into_iter().for_each(|tell| drop(tell.send(None)));
    }
}

/// A hasher for digests: a digest is as good a hash as any.
#[derive(Default)]
pub(crate) struct Uniform(u64);

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

    fn lead(flights: &SingleFlight<u32>) -> Flight {
        match flights.join(Digest::from(ID)) {
            Turn::Leads(flight) => flight,
            Turn::Follows(_) => panic!("somebody else leads"),
        }
    }

    fn follow(flights: &SingleFlight<u32>) -> oneshot::Receiver<Option<u32>> {
        match flights.join(Digest::from(ID)) {
            Turn::Leads(flight) => panic!("it leads: {flight:?}"),
            Turn::Follows(told) => told,
        }
    }

    #[test]
    fn who_comes_before_the_answer_follows_and_who_comes_after_it_does_not() {
        let flights = SingleFlight::default();
        let first = lead(&flights);
        let mut told = follow(&flights);
        flights.land(first).into_iter().for_each(|tell| tell.send(Some(17)).unwrap());
        assert_eq!(told.try_recv(), Ok(Some(17)));
        assert!(!lead(&flights).is_aside());
    }

    #[test]
    fn what_was_granted_is_in_flight_until_it_is_taken() {
        let flights = SingleFlight::default();
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
            let flights = SingleFlight::default();
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
        let flights = SingleFlight::default();
        let first = lead(&flights);
        flights.land_untold(first);
        let second = lead(&flights);
        let mut told = follow(&flights);
        flights.leave(first);
        flights.land_untold(first);
        assert!(told.try_recv().is_err());
        assert_eq!(flights.granted(second).map(|followers| followers.len()), Some(1));
    }
}
