//! The state of one schedule: what has happened, and who lives.

use super::broker::Broker;
use super::finding::Problem;
use super::options::{Expect, Options};
use super::plan::{Actor, Chooser, Decision, Fault, Spot};
use super::story::{Line, seconds};
use hapax_store::sync::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

pub(super) type Shared = Arc<Mutex<State>>;

/// The number of times that a place was reached, and of faults there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Visits {
    pub(super) reached: u64,
    pub(super) faults: u64,
}

/// The ability of a process to do something.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    Runs,
    Frozen(Duration),
    Dead,
}

pub(super) struct Process {
    is_dead: bool,
    frozen_until: Option<Duration>,
    deliveries: usize,
}

/// A delivery of a message to a process.
pub(super) struct Delivery {
    pub(super) process: usize,
    pub(super) entry: usize,
    /// The handler's name in the story.
    pub(super) name: String,
    /// True while the handler waits inside of a call, which has asked for its faults.
    pub(super) in_call: bool,
}

pub(super) struct State {
    pub(super) options: Arc<Options>,
    pub(super) started: Instant,
    pub(super) broker: Broker,
    pub(super) processes: Vec<Process>,
    pub(super) deliveries: Vec<Delivery>,
    /// The number of effects of each message.
    effects: Vec<u64>,
    /// The things that are away, and the time until which they are.
    away: Vec<(&'static str, Duration)>,
    chooser: Chooser,
    counts: BTreeMap<Actor, usize>,
    pub(super) decisions: Vec<Decision>,
    pub(super) places: BTreeMap<&'static str, Visits>,
    pub(super) lines: Vec<Line>,
    /// The delivery whose handler was interrupted just now.
    pub(super) interrupted: Option<usize>,
    pub(super) problem: Option<Problem>,
    /// True when nothing may happen any more.
    pub(super) is_over: bool,
}

impl State {
    pub(super) fn new(options: Arc<Options>, chooser: Chooser) -> Self {
        State {
            started: Instant::now(),
            broker: Broker::default(),
            processes: Vec::new(),
            deliveries: Vec::new(),
            effects: vec![0; options.messages],
            away: Vec::new(),
            chooser,
            counts: BTreeMap::new(),
            decisions: Vec::new(),
            places: BTreeMap::new(),
            lines: Vec::new(),
            interrupted: None,
            problem: None,
            is_over: false,
            options,
        }
    }

    /// Returns the virtual time since the beginning of the schedule.
    pub(super) fn now(&self) -> Duration {
        self.started.elapsed()
    }

    pub(super) fn say(&mut self, text: String) {
        self.tell(text, false);
    }

    fn tell(&mut self, text: String, is_fault: bool) {
        if !self.is_over {
            self.lines.push(Line { at: self.now(), is_fault, text });
        }
    }

    /// Returns the fault at the next spot of an actor, if there is one.
    pub(super) fn decide(&mut self, actor: Actor, offered: &'static [Fault]) -> Option<Fault> {
        if self.is_over {
            return None;
        }
        let count = self.counts.entry(actor).or_default();
        let spot = Spot { actor, nth: *count };
        *count += 1;
        let fault = self.chooser.choose(spot, offered).filter(|fault| !self.options.without.contains(fault));
        self.decisions.push(Decision { spot, offered, fault });
        if self.decisions.len() > self.options.steps_max {
            self.give_up();
        }
        fault
    }

    /// Ends a schedule that takes too long.
    pub(super) fn give_up(&mut self) {
        match self.broker.open() {
            Some(message) => self.found(Problem::NeverDone { message: message_id(message) }),
            // What goes on is nobody's message.
            None => self.end(),
        }
    }

    /// Ends the schedule with a finding.
    pub(super) fn found(&mut self, problem: Problem) {
        if !self.is_over {
            self.problem = Some(problem);
            self.is_over = true;
        }
    }

    pub(super) fn fault(&mut self, text: String) {
        self.tell(text, true);
    }

    /// Notes that a place was reached, or that a fault happened there.
    pub(super) fn visit(&mut self, place: &'static str, reached: u64, faults: u64) {
        let visits = self.places.entry(place).or_default();
        visits.reached += reached;
        visits.faults += faults;
    }

    // Processes.

    pub(super) fn start_process(&mut self) -> usize {
        self.processes.push(Process { is_dead: false, frozen_until: None, deliveries: 0 });
        self.processes.len() - 1
    }

    pub(super) fn standing(&self, process: Option<usize>) -> Standing {
        let Some(process) = process else { return if self.is_over { Standing::Dead } else { Standing::Runs } };
        match &self.processes[process] {
            process if self.is_over || process.is_dead => Standing::Dead,
            Process { frozen_until: Some(until), .. } => Standing::Frozen(*until),
            _ => Standing::Runs,
        }
    }

    pub(super) fn crash(&mut self, process: usize, moment: &str) {
        self.fault(format!("process {} crashes {moment}", process_name(process)));
        self.processes[process].is_dead = true;
        let now = self.now();
        for number in 0..self.deliveries.len() {
            let Delivery { process: other, entry, .. } = self.deliveries[number];
            if other == process {
                self.broker.give_back(entry, number, now);
            }
        }
    }

    pub(super) fn freeze(&mut self, process: usize, moment: &str) {
        let (name, freeze) = (process_name(process), self.options.freeze);
        self.fault(format!("process {name} stands still {moment}, for {}", seconds(freeze)));
        self.processes[process].frozen_until = Some(self.now() + freeze);
    }

    /// Lets processes go on that have stood still for long enough.
    pub(super) fn thaw(&mut self) {
        let now = self.now();
        for process in 0..self.processes.len() {
            let frozen = &mut self.processes[process];
            if frozen.frozen_until.is_some_and(|until| until <= now) {
                frozen.frozen_until = None;
                if !frozen.is_dead {
                    self.say(format!("process {} goes on", process_name(process)));
                }
            }
        }
    }

    /// Returns the next time at which a process goes on.
    pub(super) fn next_thaw(&self) -> Option<Duration> {
        self.processes.iter().filter(|process| !process.is_dead).filter_map(|process| process.frozen_until).min()
    }

    // Deliveries.

    pub(super) fn deliver(&mut self, entry: usize, process: usize) -> usize {
        let (number, now) = (self.deliveries.len(), self.now());
        self.broker.deliver(entry, number, now + self.options.redelivery);
        let of_process = &mut self.processes[process].deliveries;
        *of_process += 1;
        let name = format!("{}{of_process}", process_name(process));
        let id = message_id(self.broker.entries[entry].message);
        let again = if self.broker.entries[entry].deliveries > 1 { " again" } else { "" };
        self.say(format!("{id} is delivered{again} to process {}: handler {name}", process_name(process)));
        self.deliveries.push(Delivery { process, entry, name, in_call: false });
        number
    }

    /// Makes messages due whose handlers took too long.
    pub(super) fn time_out(&mut self) {
        let now = self.now();
        for delivery in self.broker.time_out(now) {
            let Delivery { entry, name, .. } = &self.deliveries[delivery];
            let id = message_id(self.broker.entries[*entry].message);
            let waited = seconds(self.options.redelivery);
            let text = format!("the broker has waited for {name} for {waited}: {id} is due again");
            self.say(text);
        }
    }

    pub(super) fn acknowledge(&mut self, delivery: usize) {
        let Delivery { entry, name, .. } = &self.deliveries[delivery];
        let entry = *entry;
        let text = format!("{name} acknowledges {}", message_id(self.broker.entries[entry].message));
        self.say(text);
        self.broker.acknowledge(entry);
    }

    // Effects and calls.

    pub(super) fn effect(&mut self, key: &str) {
        let Some(message) = (0..self.effects.len()).find(|&message| message_id(message) == key) else {
            self.found(Problem::UnknownEffect { key: key.to_owned() });
            return;
        };
        self.effects[message] += 1;
        match self.effects[message] {
            1 => self.say(format!("the effect of {key} happens")),
            2 => self.say(format!("the effect of {key} happens a second time")),
            count => self.say(format!("the effect of {key} happens, for the {count}th time")),
        }
        if self.effects[message] > 1 && self.options.expect == Expect::Once {
            self.found(Problem::Doubled { message: key.to_owned() });
        }
    }

    /// Ends a schedule in which everything was acknowledged.
    pub(super) fn end(&mut self) {
        if let Some(missing) = self.effects.iter().position(|&count| count == 0) {
            let message = message_id(missing);
            self.say(format!("everything is acknowledged, and {message} has had no effect"));
            self.found(Problem::Missing { message });
        }
        self.is_over = true;
    }

    /// Makes whatever a place belongs to unreachable for a while: the part before the colon.
    pub(super) fn go_away(&mut self, place: &'static str) -> &'static str {
        let what = thing(place);
        self.away.push((what, self.now() + self.options.away));
        what
    }

    pub(super) fn is_away(&self, place: &'static str) -> bool {
        let now = self.now();
        self.away.iter().any(|&(what, until)| what == thing(place) && now < until)
    }
}

/// Returns what a place belongs to: "database" for "database: insert".
pub(super) fn thing(place: &'static str) -> &'static str {
    place.split_once(':').map_or(place, |(thing, _)| thing)
}

pub(super) fn message_id(message: usize) -> String {
    format!("message-{}", message + 1)
}

/// Returns the name of a process: A to Z, and then AA, AB and so on.
pub(super) fn process_name(process: usize) -> String {
    let letter = char::from(b'A' + u8::try_from(process % 26).unwrap_or(0));
    match process / 26 {
        0 => letter.to_string(),
        more => format!("{}{letter}", process_name(more - 1)),
    }
}
