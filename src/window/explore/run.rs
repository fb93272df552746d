//! Runs of scenarios, and reports of what went wrong.

use super::scenario::Scenario;
use super::search::{Order, Report, Search, Violation};
use super::subject::subject;
use crate::long::long;
use crate::mutation::{Rule, leave_out, read_backward};
use crate::sync::explored::Access;
use crate::window::bits::slot::Slot;
use crate::window::bits::tick::TICK_SHIFT;

/// The most states that a search visits: more than any scenario has that is a test.
pub(super) const STATES_MAX: usize = 4_000_000;

/// The most states of a scenario that has more than can be visited.
fn states_of_large() -> usize {
    long(150_000, 400_000)
}

/// The most states of a search for the shortest way to a violation, which keeps its states.
const STATES_KEPT_MAX: usize = 300_000;

/// Explores a scenario, with one rule left out or with all.
pub(super) fn explore(scenario: &Scenario, without: Option<Rule>, states_max: usize, order: Order) -> Report {
    leave_out(without);
    read_backward(scenario.backward);
    let subject = subject(scenario);
    let report = match Search::new(scenario, &*subject) {
        Ok(mut search) => search.run(states_max, order),
        Err(what) => Report { violation: Some(Violation { what, schedule: Vec::new() }), ..Report::default() },
    };
    leave_out(None);
    read_backward(false);
    report
}

/// Returns the shortest violation that there is, step by step, if it is short enough.
pub(super) fn explain(scenario: &Scenario, without: Option<Rule>) -> String {
    let shortest = explore(scenario, without, STATES_KEPT_MAX, Order::BreadthFirst).violation;
    let any = || explore(scenario, without, STATES_MAX, Order::DepthFirst).violation;
    let Some(violation) = shortest.or_else(any) else { return "it holds".into() };
    leave_out(without);
    read_backward(scenario.backward);
    let subject = subject(scenario);
    let steps = match Search::new(scenario, &*subject) {
        Ok(mut search) => search.tell(&violation.schedule),
        Err(_) => "before the callers came".into(),
    };
    leave_out(None);
    read_backward(false);
    format!("{}\n{scenario:#?}\n{steps}", violation.what)
}

/// Explores a scenario to its end, and checks that every answer is right.
pub(super) fn holds(name: &str, scenario: &Scenario) {
    let Scenario { refresh, short_way, backward, large, .. } = scenario;
    let most = if *large { states_of_large() } else { STATES_MAX };
    let report = explore(scenario, None, most, Order::DepthFirst);
    let ways = [(refresh, "refresh"), (short_way, "short way"), (backward, "backward")];
    let ways: Vec<_> = ways.into_iter().filter(|(way, _)| **way).map(|(_, way)| way).collect();
    println!("{name} {ways:?}: {} states, {} histories", report.states, report.histories);
    if let Some(violation) = report.violation {
        panic!("{name}: {}\n{}", violation.what, explain(scenario, None));
    }
    assert!(!report.capped || *large, "{name}: more than {STATES_MAX} states");
}

impl Search<'_> {
    /// Returns an account of a schedule, step by step.
    pub(crate) fn tell(&mut self, schedule: &[u8]) -> String {
        loop {
            self.mistaken = false;
            let told = self.try_to_tell(schedule);
            if !self.mistaken {
                return told;
            }
        }
    }

    fn try_to_tell(&mut self, schedule: &[u8]) -> String {
        let mut state = self.first.clone();
        let mut buckets: Vec<String> = (0..self.words.len())
            .filter(|word| self.words[*word] != 0)
            .map(|word| format!("   before: {}", self.describe(word, self.words[word])))
            .collect();
        for &caller in schedule {
            let caller = usize::from(caller);
            let place = self.place(&state, caller);
            let (word, access) = self.next(&state, caller).expect("the schedule was possible");
            let value = self.value(&state, word);
            let outcome = self.step(&mut state, caller, false);
            if self.mistaken {
                break;
            }
            let after = self.value(&state, word);
            if self.automaton.node(place.node).observed.is_empty() {
                buckets.push(format!("caller {caller} begins {:?}", self.automaton.op(place.node)));
            }
            let to = match access {
                Access::Load => String::new(),
                Access::CompareExchange(..) if after == value => ", not replaced".into(),
                _ => format!(" becomes {}", self.describe(word, after)),
            };
            buckets.push(format!("   {caller}: {}{to}", self.describe(word, value)));
            if self.place(&state, caller).op != place.op {
                let (to, _) = self.follow(&state, place.node, value);
                buckets.push(format!("caller {caller} ends: {:?}", self.automaton.node(to).next));
            }
            buckets.extend(outcome.err());
        }
        buckets.join("\n")
    }

    fn describe(&self, word: usize, content: u64) -> String {
        let Some((table, bucket, slot)) = self.subject.position(word) else {
            return format!("word {word} = {content}");
        };
        let entry = Slot(content);
        let tag = match (entry.is_vacant(), entry.is_taken()) {
            (false, _) => format!("tag {}", content >> 18 & 0x1ff),
            _ if entry.is_reserved_for_any() => "reserved".into(),
            (_, is_taken) => if is_taken { "forgotten" } else { "vacant" }.into(),
        };
        let (tick, version) = (content >> TICK_SHIFT & 1023, content & 63);
        let flags =
            [if entry.is_away() { ", away" } else { "" }, if entry.spilled() { ", spilled" } else { "" }].concat();
        format!("table {table}, bucket {bucket}, slot {slot} = {tag}, tick {tick}, version {version}{flags}")
    }
}
