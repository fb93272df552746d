//! The source of deliveries: at least once, and again until they are acknowledged. It never fails,
//! and keeps the record of all tries.

use crate::simulation::judge::{Asked, End, Try};
use hapax_store::sync::lock;
use std::sync::Mutex;
use std::time::Duration;
use testkit::random::Random;

pub struct Broker(Mutex<State>);

struct State {
    /// The deliveries that wait, and the time from when on each may be delivered.
    waiting: Vec<(Duration, String)>,
    /// The deliveries that each client has, and has not acknowledged.
    out: Vec<Vec<String>>,
    lives: Vec<u64>,
    tries: Vec<Try>,
    random: Random,
}

/// Returns the time of the simulation.
pub fn now() -> Duration {
    turmoil::sim_elapsed().unwrap_or_default()
}

impl Broker {
    /// Creates a broker. `waiting`: the deliveries, and their times.
    pub fn new(clients: usize, waiting: Vec<(Duration, String)>, random: Random) -> Self {
        let state =
            State { waiting, out: vec![Vec::new(); clients], lives: vec![0; clients], tries: Vec::new(), random };
        Broker(Mutex::new(state))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        lock(&self.0)
    }

    /// Starts a client. Returns the number of its life.
    pub fn starts(&self, client: usize) -> u64 {
        let mut state = self.lock();
        state.lives[client] += 1;
        state.lives[client]
    }

    /// Records that a client has died: its deliveries come again.
    pub fn died(&self, client: usize, at: Duration) {
        let mut state = self.lock();
        let had = std::mem::take(&mut state.out[client]);
        state.waiting.extend(had.into_iter().map(|id| (at, id)));
    }

    /// Returns up to `most` deliveries for a client.
    pub fn take(&self, client: usize, most: usize) -> Vec<String> {
        let (mut state, now) = (self.lock(), now());
        let mut taken = Vec::new();
        for _ in 0..most {
            let ready: Vec<usize> = (0..state.waiting.len()).filter(|&i| state.waiting[i].0 <= now).collect();
            if ready.is_empty() {
                break;
            }
            let place = ready[state.random.below(ready.len() as u64) as usize];
            let (_, id) = state.waiting.swap_remove(place);
            state.out[client].push(id.clone());
            taken.push(id);
        }
        taken
    }

    /// Returns true if all deliveries are acknowledged.
    pub fn is_done(&self) -> bool {
        let state = self.lock();
        state.waiting.is_empty() && state.out.iter().all(Vec::is_empty)
    }

    /// Records that a consumer begins with a delivery. Returns the number of this try.
    pub fn begin(&self, client: usize, life: u64, id: &str, asked: Asked) -> usize {
        let mut state = self.lock();
        let (began, id) = (now(), id.to_owned());
        state.tries.push(Try {
            client,
            life,
            id,
            asked,
            began,
            granted: None,
            ending: None,
            completes: false,
            gave_up: 0,
            failed: 0,
            end: None,
        });
        state.tries.len() - 1
    }

    pub fn granted(&self, number: usize, token: u64) {
        self.lock().tries[number].granted = Some((now(), token));
    }

    /// Records that the caller has waited long enough, and asks again.
    pub fn gave_up(&self, number: usize) {
        self.lock().tries[number].gave_up += 1;
    }

    /// Records that the caller got no answer, and asks again.
    pub fn failed(&self, number: usize) {
        self.lock().tries[number].failed += 1;
    }

    /// Records that the consumer begins to end its claim, by completion or not.
    pub fn ending(&self, number: usize, completes: bool) {
        let mut state = self.lock();
        (state.tries[number].ending, state.tries[number].completes) = (Some(now()), completes);
    }

    /// Records the outcome. A delivery that is not done comes again after a while.
    pub fn end(&self, number: usize, end: End) {
        let (mut state, now) = (self.lock(), now());
        state.tries[number].end = Some((now, end));
        let (client, id) = (state.tries[number].client, state.tries[number].id.clone());
        let place = state.out[client].iter().position(|out| *out == id).expect("it was delivered to this client");
        state.out[client].swap_remove(place);
        if !matches!(end, End::Fresh | End::Duplicate | End::Completed) {
            let pause = Duration::from_millis(10 + state.random.below(60));
            state.waiting.push((now + pause, id));
        }
    }

    pub fn tries(&self) -> Vec<Try> {
        self.lock().tries.clone()
    }
}
