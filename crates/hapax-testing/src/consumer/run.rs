//! One schedule, from its first message until everything is acknowledged, or something is found.

use super::finding::Problem;
use super::interface::{Consumer, Failed, Message};
use super::options::Options;
use super::plan::{Actor, Chooser, Decision, Fault};
use super::state::{Shared, Standing, State, Visits, message_id, process_name};
use super::story::{Line, seconds};
use super::world::{World, yield_now};
use hapax_store::sync::{Mutex, MutexGuard, lock};
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;
use tokio::sync::OnceCell;
use tokio::time::sleep_until;

/// The outcome of a run.
pub(super) struct Outcome {
    pub(super) problem: Option<Problem>,
    pub(super) decisions: Vec<Decision>,
    pub(super) lines: Vec<Line>,
    pub(super) places: BTreeMap<&'static str, Visits>,
}

/// Runs one schedule.
pub(super) fn run<C: Consumer>(consumer: &C, options: &Arc<Options>, chooser: Chooser) -> io::Result<Outcome> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build()?;
    Ok(runtime.block_on(async {
        let shared = Arc::new(Mutex::new(State::new(Arc::clone(options), chooser)));
        let mut run = Run::new(consumer, shared);
        run.publish();
        run.go().await;
        let mut state = lock(&run.shared);
        Outcome {
            problem: state.problem.take(),
            decisions: std::mem::take(&mut state.decisions),
            lines: std::mem::take(&mut state.lines),
            places: std::mem::take(&mut state.places),
        }
    }))
}

type Handling<'c> = Pin<Box<dyn Future<Output = Result<(), Failed>> + 'c>>;

/// A handler at work.
struct Task<'c> {
    /// None if it has returned.
    handling: Option<Handling<'c>>,
    process: usize,
    wakeup: Arc<Wakeup>,
    /// True if it waits for something that is no call.
    is_at_await: bool,
}

/// The waker of a handler.
struct Wakeup {
    is_ready: Mutex<bool>,
    scheduler: Arc<Mutex<Option<Waker>>>,
}

impl Wake for Wakeup {
    fn wake(self: Arc<Self>) {
        *lock(&self.is_ready) = true;
        let scheduler = lock(&self.scheduler).clone();
        scheduler.into_iter().for_each(Waker::wake);
    }
}

/// The next action of the scheduler.
enum Next {
    Poll(usize),
    Deliver(usize),
    WaitUntil(Duration),
    End,
}

/// A process of the group: its number, and its memory.
type Seat<P> = (usize, Arc<OnceCell<P>>);

struct Run<'c, C: Consumer> {
    consumer: &'c C,
    durable: Arc<C::Durable>,
    world: World,
    shared: Shared,
    /// The processes that run now, or none yet.
    seats: Vec<Option<Seat<C::Process>>>,
    tasks: Vec<Task<'c>>,
    current: Option<usize>,
    scheduler: Arc<Mutex<Option<Waker>>>,
    /// The time at which all messages were found to be acknowledged.
    done_at: Option<Duration>,
    polls: usize,
}

impl<'c, C: Consumer> Run<'c, C> {
    fn new(consumer: &'c C, shared: Shared) -> Self {
        let world = World::new(&shared);
        let processes = lock(&shared).options.processes;
        Run {
            consumer,
            durable: Arc::new(consumer.durable(&world)),
            world,
            shared,
            seats: (0..processes).map(|_| None).collect(),
            tasks: Vec::new(),
            current: None,
            scheduler: Arc::default(),
            done_at: None,
            polls: 0,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.shared)
    }

    /// Sends all messages.
    fn publish(&self) {
        let mut state = self.state();
        for message in 0..state.options.messages {
            let (id, late) = (message_id(message), state.options.late);
            let fault = state.decide(Actor::Message(message), Fault::OF_MESSAGE);
            match fault {
                Some(Fault::OutOfOrder) => {
                    state.fault(format!("all other messages overtake {id}"));
                    state.broker.send_overtaken(message, message);
                    continue;
                }
                Some(Fault::TwiceAtOnce) => state.fault(format!("{id} is sent twice, to two processes at once")),
                Some(Fault::TwiceInOneProcess) => state.fault(format!("{id} is sent twice, to one process at once")),
                Some(Fault::TwiceLate) => {
                    state.fault(format!("{id} is sent twice, the second time {} later", seconds(late)))
                }
                _ => {}
            }
            state.broker.send(message, message);
            match fault {
                Some(Fault::TwiceAtOnce) => state.broker.send(message, message + 1),
                Some(Fault::TwiceInOneProcess) => state.broker.send(message, message),
                Some(Fault::TwiceLate) => state.broker.send_at(message, message + 1, late),
                _ => {}
            }
        }
    }

    async fn go(&mut self) {
        loop {
            let next = self.next();
            match next {
                Next::End => break,
                Next::Deliver(entry) => self.deliver(entry),
                Next::Poll(task) => self.poll(task),
                Next::WaitUntil(until) => self.wait(until).await,
            }
            // Tasks that handlers and processes have spawned.
            yield_now().await;
        }
        self.state().end();
    }

    fn can_run(&self, state: &State, task: usize) -> bool {
        let task = &self.tasks[task];
        let runs = state.standing(Some(task.process)) == Standing::Runs;
        task.handling.is_some() && runs && *lock(&task.wakeup.is_ready)
    }

    /// Returns the place in the group for a delivery: that of the entry, or the next one that does
    /// not stand still.
    fn seat(&self, state: &State, entry: usize) -> Option<usize> {
        let first = state.broker.entries[entry].slot;
        let stands_still = |seat: &Option<Seat<C::Process>>| {
            let process = seat.as_ref().map(|(process, _)| *process);
            process.is_some() && matches!(state.standing(process), Standing::Frozen(_))
        };
        let mut seats = (0..self.seats.len()).map(|more| (first + more) % self.seats.len());
        seats.find(|&seat| !stands_still(&self.seats[seat]))
    }

    fn next(&mut self) -> Next {
        self.polls += 1;
        let shared = Arc::clone(&self.shared);
        let mut state = lock(&shared);
        if self.polls > state.options.steps_max || state.now() > state.options.patience {
            state.give_up();
        }
        if state.is_over {
            return Next::End;
        }
        state.thaw();
        state.time_out();
        let interrupted = state.interrupted.take();
        let now = state.now();
        if let Some(current) = self.current
            && interrupted != Some(current)
            && self.can_run(&state, current)
        {
            return Next::Poll(current);
        }
        let count = self.tasks.len();
        let from = self.current.map_or(0, |current| current + 1);
        let mut others = (0..count).map(|more| (from + more) % count).filter(|&task| interrupted != Some(task));
        let other = others.find(|&task| self.can_run(&state, task));
        let due = state.broker.due(now).find(|&entry| self.seat(&state, entry).is_some());
        match (other, due) {
            // Whoever is interrupted makes room for a message, if there is one.
            (Some(other), None) => return Next::Poll(other),
            (Some(other), Some(_)) if interrupted.is_none() => return Next::Poll(other),
            (_, Some(entry)) => return Next::Deliver(entry),
            (None, None) => {}
        }
        match interrupted {
            Some(interrupted) if self.can_run(&state, interrupted) => Next::Poll(interrupted),
            _ => self.nothing_to_do(&state),
        }
    }

    /// Returns the time until which to wait, or the end.
    fn nothing_to_do(&mut self, state: &State) -> Next {
        let now = state.now();
        let events = [state.broker.next_event(now), state.next_thaw()].into_iter().flatten();
        if state.broker.open().is_some() {
            self.done_at = None;
            // (With nothing to wait for, it waits for a handler, and the virtual hour ends it.)
            let last = state.options.patience + Duration::from_nanos(1);
            return Next::WaitUntil(events.min().unwrap_or(last).min(last));
        }
        // All is acknowledged. Some are still at it: those who stand still, and tasks that nobody
        // waits for.
        let done_at = *self.done_at.get_or_insert(now);
        let is_at_work =
            |task: &Task<'_>| task.handling.is_some() && state.standing(Some(task.process)) != Standing::Dead;
        let has_spawned = tokio::runtime::Handle::current().metrics().num_alive_tasks() > 0;
        let end = done_at + 2 * state.options.freeze;
        if now >= end || !(has_spawned || self.tasks.iter().any(is_at_work)) {
            return Next::End;
        }
        Next::WaitUntil(events.min().unwrap_or(end).min(end))
    }

    fn deliver(&mut self, entry: usize) {
        let mut state = lock(&self.shared);
        let Some(place) = self.seat(&state, entry) else { return };
        let lives = |seat: &Seat<C::Process>| state.standing(Some(seat.0)) == Standing::Runs;
        let (process, cell) = match self.seats[place].clone().filter(lives) {
            Some(seat) => seat,
            None => (state.start_process(), Arc::default()),
        };
        self.seats[place] = Some((process, Arc::clone(&cell)));
        state.broker.entries[entry].slot = place;
        let delivery = state.deliver(entry, process);
        let Entry { message, deliveries } = Entry::of(&state, entry);
        let message = Message { id: message_id(message), number: message as u64 + 1, deliveries };
        drop(state);

        let (consumer, durable) = (self.consumer, Arc::clone(&self.durable));
        let (of_process, world) = (self.world.of_process(process), self.world.of_delivery(process, delivery));
        let handling = async move {
            let process = cell.get_or_try_init(|| consumer.start(&durable, &of_process)).await?;
            consumer.handle(process, &message, &world).await
        };
        let wakeup = Wakeup { is_ready: Mutex::new(true), scheduler: Arc::clone(&self.scheduler) };
        self.tasks.push(Task {
            handling: Some(Box::pin(handling)),
            process,
            wakeup: Arc::new(wakeup),
            is_at_await: false,
        });
        self.current = Some(delivery);
    }

    fn poll(&mut self, number: usize) {
        if self.tasks[number].is_at_await && self.await_goes_wrong(number) {
            return;
        }
        self.current = Some(number);
        let task = &mut self.tasks[number];
        *lock(&task.wakeup.is_ready) = false;
        let waker = Waker::from(Arc::clone(&task.wakeup));
        let Some(handling) = &mut task.handling else { return };
        let polled = catch_unwind(AssertUnwindSafe(|| handling.as_mut().poll(&mut Context::from_waker(&waker))));
        let mut state = lock(&self.shared);
        match polled {
            Ok(Poll::Pending) => task.is_at_await = !state.deliveries[number].in_call,
            Ok(Poll::Ready(result)) => {
                task.handling = None;
                ends(&mut state, number, result);
            }
            Err(panic) => {
                task.handling = None;
                let message = message_id(Entry::of(&state, state.deliveries[number].entry).message);
                state.found(Problem::Panicked { message, what: text_of(&*panic) });
            }
        }
    }

    /// Asks for a fault at an await. Returns true if the handler does not go on.
    fn await_goes_wrong(&mut self, number: usize) -> bool {
        let task = &mut self.tasks[number];
        task.is_at_await = false;
        let mut state = lock(&self.shared);
        let moment = format!("while {} waits", state.deliveries[number].name);
        match state.decide(Actor::Delivery(number), Fault::OF_AWAIT) {
            Some(Fault::Crash) => state.crash(task.process, &moment),
            Some(Fault::Freeze) => state.freeze(task.process, &moment),
            Some(Fault::Interrupt) => {
                state.fault(format!("process {}: others run {moment}", process_name(task.process)));
                state.interrupted = Some(number);
            }
            _ => return false,
        }
        true
    }

    /// Waits for a time, or for a handler that can go on.
    async fn wait(&self, until: Duration) {
        let mut sleep = pin!(sleep_until(self.state().started + until));
        poll_fn(|context| {
            *lock(&self.scheduler) = Some(context.waker().clone());
            let state = self.state();
            if (0..self.tasks.len()).any(|task| self.can_run(&state, task)) {
                return Poll::Ready(());
            }
            drop(state);
            sleep.as_mut().poll(context)
        })
        .await;
    }
}

/// A part of an entry of the queue.
struct Entry {
    message: usize,
    deliveries: u32,
}

impl Entry {
    fn of(state: &State, entry: usize) -> Self {
        let entry = &state.broker.entries[entry];
        Entry { message: entry.message, deliveries: entry.deliveries }
    }
}

/// Acknowledges the message of a handler that has returned, or gives it back.
fn ends(state: &mut State, delivery: usize, result: Result<(), Failed>) {
    let (process, entry) = (state.deliveries[delivery].process, state.deliveries[delivery].entry);
    let name = state.deliveries[delivery].name.clone();
    if let Err(error) = result {
        let now = state.now();
        let again = match state.broker.give_back(entry, delivery, now) {
            Some(pause) => format!(": its message is due again in {}", seconds(pause)),
            None => String::new(),
        };
        state.say(format!("{name} fails with \"{error}\"{again}"));
        return;
    }
    if state.broker.is_acknowledged(entry) {
        return state.say(format!("{name} is done"));
    }
    match state.decide(Actor::Delivery(delivery), Fault::OF_END) {
        Some(Fault::Crash) => state.crash(process, &format!("before {name} acknowledges")),
        Some(_) => state.fault(format!("the acknowledgement of {name} is lost")),
        None => state.acknowledge(delivery),
    }
}

fn text_of(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no text").to_owned()
}
