//! The world as a consumer sees it: calls to what is outside of its process, and effects.

use super::plan::{Actor, Fault};
use super::state::{Shared, Standing, State, process_name, thing};
use super::story::seconds;
use hapax::{Clock, Timestamp};
use hapax_store::sync::{MutexGuard, lock};
use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use tokio::time::sleep_until;

/// The error of a [call](World::call).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CallError {
    /// Nothing was done.
    Unavailable {
        /// The name of the call.
        place: &'static str,
    },
    /// It was done, and the answer was lost. (A real caller cannot tell these apart.)
    NoAnswer {
        /// The name of the call.
        place: &'static str,
    },
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CallError::Unavailable { place } => write!(f, "`{place}` could not be reached"),
            CallError::NoAnswer { place } => write!(f, "`{place}` gave no answer"),
        }
    }
}

impl std::error::Error for CallError {}

/// A handle to everything outside of a process. Clones may be kept, and moved to other tasks of the
/// process.
///
/// ```
/// # use hapax_testing::consumer::{CallError, World};
/// # use std::collections::HashSet;
/// # use std::sync::Mutex;
/// async fn insert(table: &Mutex<HashSet<String>>, id: &str, world: &World) -> Result<bool, CallError> {
///     world.call("database: insert", || table.lock().unwrap().insert(id.to_owned())).await
/// }
/// ```
#[derive(Clone)]
pub struct World {
    shared: Shared,
    process: Option<usize>,
    delivery: Option<usize>,
}

impl World {
    pub(super) fn new(shared: &Shared) -> Self {
        World { shared: Arc::clone(shared), process: None, delivery: None }
    }

    pub(super) fn of_process(&self, process: usize) -> Self {
        World { process: Some(process), delivery: None, ..self.clone() }
    }

    pub(super) fn of_delivery(&self, process: usize, delivery: usize) -> Self {
        World { process: Some(process), delivery: Some(delivery), ..self.clone() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.shared)
    }

    /// Calls something outside of the process: a statement or a transaction of a database, a
    /// command of Redis, a request. It takes effect all at once, so what is one transaction is one
    /// call.
    ///
    /// The process may crash or stand still before and after it, others may come between, it may
    /// fail, its answer may be lost or late. If the name has a colon, what stands before it may be
    /// away, with all calls whose names begin alike.
    ///
    /// # Errors
    ///
    /// An injected fault: see [`CallError`].
    pub async fn call<T>(&self, place: &'static str, action: impl FnOnce() -> T) -> Result<T, CallError> {
        self.call_async(place, async { action() }).await
    }

    /// Calls something outside of the process, whose imitation is asynchronous. See
    /// [`call`](World::call).
    ///
    /// # Errors
    ///
    /// An injected fault: see [`CallError`].
    pub async fn call_async<T>(&self, place: &'static str, action: impl Future<Output = T>) -> Result<T, CallError> {
        let _inside = InCall::enter(self);
        let offered = if self.delivery.is_some() { Fault::OF_CALL } else { Fault::OF_BACKGROUND_CALL };
        self.runs().await;
        self.state().visit(place, 1, 0);
        let fault = self.pass(offered, place, "before").await;
        {
            let mut state = self.state();
            let caller = self.caller(&state);
            match fault {
                Some(Fault::Fails) => {
                    state.fault(format!("{caller}: `{place}` fails, and does nothing"));
                    return Err(CallError::Unavailable { place });
                }
                Some(Fault::Away) => {
                    let (what, away) = (state.go_away(place), state.options.away);
                    state.fault(format!("{caller}: `{place}` fails: {what} is away, for {}", seconds(away)));
                    return Err(CallError::Unavailable { place });
                }
                _ if state.is_away(place) => {
                    state.say(format!("{caller}: `{place}` fails: {} is away", thing(place)));
                    return Err(CallError::Unavailable { place });
                }
                _ => state.say(format!("{caller}: `{place}`")),
            }
        }
        let answer = action.await;
        let answered = self.answer(place, fault).await;
        let offered = if self.delivery.is_some() { Fault::OF_AWAIT } else { Fault::OF_BACKGROUND };
        self.pass(offered, place, "after").await;
        answered.map(|()| answer)
    }

    /// Brings the answer of a call to its caller, if it is not lost.
    async fn answer(&self, place: &'static str, fault: Option<Fault>) -> Result<(), CallError> {
        let until = {
            let mut state = self.state();
            let caller = self.caller(&state);
            let late = state.options.freeze;
            match fault {
                Some(Fault::LosesAnswer) => {
                    state.fault(format!("the answer of `{place}` is lost: {caller} gets an error"));
                    return Err(CallError::NoAnswer { place });
                }
                Some(Fault::AnswersLate) => {
                    state.fault(format!("the answer of `{place}` to {caller} takes {}", seconds(late)));
                    state.started + state.now() + late
                }
                _ => return Ok(()),
            }
        };
        sleep_until(until).await;
        self.runs().await;
        let mut state = self.state();
        let caller = self.caller(&state);
        state.say(format!("{caller} gets the answer of `{place}`"));
        Ok(())
    }

    /// Acknowledges the message now, before its handler has returned: for consumers that do. It
    /// does nothing outside of a handler.
    pub async fn acknowledge(&self) {
        let (Some(process), Some(delivery)) = (self.process, self.delivery) else { return };
        let _inside = InCall::enter(self);
        self.runs().await;
        {
            let mut state = self.state();
            match state.decide(Actor::Delivery(delivery), Fault::OF_END) {
                Some(Fault::Crash) => {
                    let moment = format!("before {} acknowledges", state.deliveries[delivery].name);
                    state.crash(process, &moment);
                }
                Some(_) => {
                    let text = format!("the acknowledgement of {} is lost", state.deliveries[delivery].name);
                    state.fault(text);
                }
                None if !state.is_over => state.acknowledge(delivery),
                None => {}
            }
        }
        self.runs().await;
    }

    /// Notes that the effect of a message happens, by its [id](super::Message::id): call it where
    /// the money is moved, within the call that does it.
    pub fn effect(&self, id: &str) {
        let mut state = self.state();
        if state.standing(self.process) != Standing::Dead {
            state.effect(id);
        }
    }

    /// Returns the virtual time since the beginning of the schedule: for leases, for example.
    pub fn now(&self) -> Duration {
        self.state().now()
    }

    /// Returns the virtual time as a clock of hapax, for its stores and engines.
    pub fn clock(&self) -> impl Clock + use<> {
        WorldClock(self.clone())
    }

    /// Returns the name of the handler or of the process in the story.
    fn caller(&self, state: &State) -> String {
        match (self.delivery, self.process) {
            (Some(delivery), _) => state.deliveries[delivery].name.clone(),
            (None, Some(process)) => process_name(process),
            (None, None) => "outside".to_owned(),
        }
    }

    /// Asks for a fault at a moment, and lets happen what concerns the whole process.
    async fn pass(&self, offered: &'static [Fault], place: &'static str, moment: &str) -> Option<Fault> {
        let process = self.process?;
        let fault = {
            let mut state = self.state();
            let actor = self.delivery.map_or(Actor::Process(process), Actor::Delivery);
            let fault = state.decide(actor, offered);
            let moment = match self.delivery {
                Some(delivery) => format!("{moment} `{place}` of {}", state.deliveries[delivery].name),
                None => format!("{moment} its `{place}`"),
            };
            state.visit(place, 0, fault.is_some().into());
            match fault {
                Some(Fault::Crash) => state.crash(process, &moment),
                Some(Fault::Freeze) => state.freeze(process, &moment),
                Some(Fault::Interrupt) => {
                    state.fault(format!("process {}: others run {moment}", process_name(process)));
                    state.interrupted = self.delivery;
                }
                _ => {}
            }
            fault
        };
        if fault == Some(Fault::Interrupt) {
            yield_now().await;
        }
        self.runs().await;
        fault
    }

    /// Waits while the process stands still; for ever, if it is dead.
    async fn runs(&self) {
        loop {
            let (standing, started) = {
                let mut state = self.state();
                // (Whoever finds first that the time is over says so.)
                state.thaw();
                (state.standing(self.process), state.started)
            };
            match standing {
                Standing::Runs => return,
                Standing::Frozen(until) => sleep_until(started + until).await,
                Standing::Dead => std::future::pending().await,
            }
        }
    }
}

impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("World").field("process", &self.process).finish_non_exhaustive()
    }
}

/// Lets other tasks run once.
pub(super) async fn yield_now() {
    let mut was_polled = false;
    poll_fn(|context| {
        if was_polled {
            return Poll::Ready(());
        }
        was_polled = true;
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// The time inside of a call, in which a handler that waits is asked for no other faults.
struct InCall<'w>(&'w World);

impl<'w> InCall<'w> {
    fn enter(world: &'w World) -> Self {
        let guard = InCall(world);
        guard.set(true);
        guard
    }

    fn set(&self, is_inside: bool) {
        if let Some(delivery) = self.0.delivery {
            self.0.state().deliveries[delivery].in_call = is_inside;
        }
    }
}

impl Drop for InCall<'_> {
    fn drop(&mut self) {
        self.set(false);
    }
}

struct WorldClock(World);

impl Clock for WorldClock {
    fn now(&self) -> Timestamp {
        // Tokens are times, and none of them is zero.
        Timestamp::from_secs(1_000_000) + self.0.now()
    }
}
