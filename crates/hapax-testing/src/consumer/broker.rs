//! The broker: messages that come again until they are acknowledged.

use std::time::Duration;

/// The longest pause before a message is delivered again that was given back.
const PAUSE_MAX: Duration = Duration::from_secs(60);
/// The pause before a message that others have overtaken.
const OVERTAKEN: Duration = Duration::from_secs(5);

/// A message of the queue. One that is sent twice has two.
pub(super) struct Entry {
    pub(super) message: usize,
    pub(super) deliveries: u32,
    /// The place in the group of processes where it is delivered next.
    pub(super) slot: usize,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Due(Duration),
    InFlight { delivery: usize, until: Duration },
    Acknowledged,
}

/// The queue.
#[derive(Default)]
pub(super) struct Broker {
    pub(super) entries: Vec<Entry>,
}

impl Broker {
    /// Adds a message, to be delivered at once.
    pub(super) fn send(&mut self, message: usize, slot: usize) {
        self.send_at(message, slot, Duration::ZERO);
    }

    /// Adds a message that all others overtake.
    pub(super) fn send_overtaken(&mut self, message: usize, slot: usize) {
        self.send_at(message, slot, OVERTAKEN);
    }

    pub(super) fn send_at(&mut self, message: usize, slot: usize, at: Duration) {
        self.entries.push(Entry { message, slot, deliveries: 0, state: State::Due(at) });
    }

    /// Returns the entries that can be delivered now.
    pub(super) fn due(&self, now: Duration) -> impl Iterator<Item = usize> {
        let is_due = move |entry: &Entry| matches!(entry.state, State::Due(at) if at <= now);
        self.entries.iter().enumerate().filter(move |(_, entry)| is_due(entry)).map(|(index, _)| index)
    }

    /// Returns the next time after this at which something is due or given up.
    pub(super) fn next_event(&self, now: Duration) -> Option<Duration> {
        let time = |entry: &Entry| match entry.state {
            State::Due(at) => Some(at),
            State::InFlight { until, .. } => Some(until),
            State::Acknowledged => None,
        };
        self.entries.iter().filter_map(time).filter(|&at| now < at).min()
    }

    /// Notes that an entry was delivered. Without an acknowledgement it comes again.
    pub(super) fn deliver(&mut self, entry: usize, delivery: usize, until: Duration) {
        let entry = &mut self.entries[entry];
        entry.deliveries += 1;
        entry.state = State::InFlight { delivery, until };
    }

    pub(super) fn acknowledge(&mut self, entry: usize) {
        self.entries[entry].state = State::Acknowledged;
    }

    pub(super) fn is_acknowledged(&self, entry: usize) -> bool {
        self.entries[entry].state == State::Acknowledged
    }

    /// Gives an entry back, if this delivery is the last one of it. Returns the pause.
    pub(super) fn give_back(&mut self, entry: usize, delivery: usize, now: Duration) -> Option<Duration> {
        let entry = &mut self.entries[entry];
        if !matches!(entry.state, State::InFlight { delivery: last, .. } if last == delivery) {
            return None;
        }
        // 1 s, 4 s, 16 s, and then the longest.
        let longer = 1 << (2 * entry.deliveries.saturating_sub(1).min(8));
        let pause = PAUSE_MAX.min(Duration::from_secs(longer));
        entry.state = State::Due(now + pause);
        entry.slot += 1;
        Some(pause)
    }

    /// Makes entries due that were not acknowledged in time. Returns them, and their deliveries.
    pub(super) fn time_out(&mut self, now: Duration) -> Vec<usize> {
        let mut given_up = Vec::new();
        for entry in &mut self.entries {
            if let State::InFlight { delivery, until } = entry.state
                && until <= now
            {
                entry.state = State::Due(now);
                entry.slot += 1;
                given_up.push(delivery);
            }
        }
        given_up
    }

    /// Returns the message of an entry that is not yet acknowledged.
    pub(super) fn open(&self) -> Option<usize> {
        self.entries.iter().find(|entry| entry.state != State::Acknowledged).map(|entry| entry.message)
    }
}
