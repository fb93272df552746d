//! The parameters that parent and children must agree on: times, sizes, and the behaviour of
//! messages.

use crate::{Random, ms};
use std::net::SocketAddr;
use std::time::Duration;

/// The plan of a campaign. One of seconds has shorter leases and faults than one of an hour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    pub seed: u64,
    pub is_short: bool,
}

impl Plan {
    fn of<T>(self, short: T, long: T) -> T {
        if self.is_short { short } else { long }
    }

    /// Returns a worker's lease.
    pub fn lease(self) -> Duration {
        self.of(ms(900), ms(5_000))
    }

    /// Returns a relay's time for one publication; its lease is three times as long.
    pub fn publish_timeout(self) -> Duration {
        self.of(ms(300), ms(1_700))
    }

    /// Returns the longest time that an innocent due message waits, unless the server or the broker
    /// is away. In a short campaign the machine itself may take seconds.
    pub fn age_max(self) -> Duration {
        let longest = self.lease().max(3 * self.publish_timeout());
        2 * longest + self.of(ms(4_000), ms(0))
    }

    /// Returns the number of relays, and of workers.
    pub fn processes(self) -> usize {
        self.of(2, 4)
    }

    pub fn producers(self) -> u64 {
        self.of(4, 16)
    }

    pub fn keys(self) -> u64 {
        self.of(3_000, 1_000_000)
    }

    /// Returns the most messages of a queue that wait: with more, their age would show how slow the
    /// machine is.
    pub fn waiting_max(self) -> usize {
        self.of(60, 300)
    }

    /// Returns the number of messages that are not due before the campaign is over, each with a key
    /// of its own.
    pub fn put_off(self) -> u64 {
        self.of(2_000, 1_000_000)
    }

    /// Returns the time for which a partition of the marks is written into.
    pub fn partition(self) -> Duration {
        self.of(ms(1_000), ms(20_000))
    }

    pub fn attempts_max(self) -> u32 {
        4
    }

    /// Returns how many transactions of a thousand stay open for a while, and keep others from
    /// their keys.
    pub fn held_per_thousand(self) -> u64 {
        self.of(80, 3)
    }

    /// Returns the time between faults.
    pub fn pause(self, random: &mut Random) -> Duration {
        ms(self.of(random.within(50, 250), random.within(500, 4_000)))
    }

    /// Returns the time for which a broker is away, or a transaction stays open.
    pub fn while_it_lasts(self, random: &mut Random) -> Duration {
        ms(self.of(random.within(100, 600), random.within(500, 8_000)))
    }
}

/// The behaviour of a handler or a publisher for a message, a number of times; then the message is
/// like any other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deed {
    Fine,
    Fails,
    Hangs,
    /// Hangs in a statement of its transaction.
    HangsInside,
    Panics,
    /// Panics before there is a future.
    PanicsAtOnce,
    /// Reports that no other attempt can help.
    GivesUp,
}

const DEEDS: [(Deed, &str); 7] = [
    (Deed::Fine, "fine"),
    (Deed::Fails, "fails"),
    (Deed::Hangs, "hangs"),
    (Deed::HangsInside, "hangs-inside"),
    (Deed::Panics, "panics"),
    (Deed::PanicsAtOnce, "panics-at-once"),
    (Deed::GivesUp, "gives-up"),
];

/// A behaviour, and how many times it happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deeds {
    pub deed: Deed,
    pub times: u64,
}

impl Deeds {
    pub const NONE: Deeds = Deeds { deed: Deed::Fine, times: 0 };

    /// Draws the deeds of a message. Some in a hundred misbehave, and of many fewer the handler
    /// hangs: each that hangs takes a worker's time for a lease.
    pub fn any(random: &mut Random, plan: Plan) -> Self {
        let often = |random: &mut Random| random.within(1, u64::from(plan.attempts_max()) + 2);
        match random.below(plan.of(1_000, 4_000)) {
            0..4 => Deeds { deed: Deed::Hangs, times: 1 },
            4..8 => Deeds { deed: Deed::HangsInside, times: 1 },
            8..25 => Deeds { deed: Deed::Panics, times: 1 + random.below(2) },
            25..40 => Deeds { deed: Deed::PanicsAtOnce, times: 1 + random.below(2) },
            40..48 => Deeds { deed: Deed::GivesUp, times: 1 },
            48..78 => Deeds { deed: Deed::Fails, times: often(random) },
            // Poison: it is a dead letter, and requeued, again and again.
            78..82 => Deeds { deed: Deed::Fails, times: random.within(2, 8) * u64::from(plan.attempts_max()) },
            _ => Deeds::NONE,
        }
    }

    pub fn is_innocent(self) -> bool {
        self.deed == Deed::Fine
    }

    pub fn to_text(self) -> String {
        let named = DEEDS.iter().find(|(deed, _)| *deed == self.deed).expect("each has a name");
        format!("{} {}", named.1, self.times)
    }

    pub fn parse(payload: &[u8]) -> Option<Self> {
        let (name, times) = std::str::from_utf8(payload).ok()?.split_once(' ')?;
        let deed = DEEDS.iter().find(|(_, known)| *known == name)?.0;
        Some(Deeds { deed, times: times.parse().ok()? })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Relay,
    Worker,
}

/// A child's part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    pub plan: Plan,
    pub role: Role,
    /// The address at which the parent listens: broker and ledger.
    pub parent: SocketAddr,
    pub prefix: String,
    /// The server's address.
    pub address: String,
}

impl Part {
    pub fn to_text(&self) -> String {
        let Part { plan: Plan { seed, is_short }, role, parent, prefix, address } = self;
        format!("{seed} {} {} {parent} {prefix} {address}", u64::from(*is_short), u64::from(*role == Role::Worker))
    }

    pub fn parse(text: &str) -> Option<Part> {
        let mut words = text.splitn(6, ' ');
        let (seed, is_short) = (words.next()?.parse().ok()?, words.next()? == "1");
        let role = if words.next()? == "1" { Role::Worker } else { Role::Relay };
        let (parent, prefix) = (words.next()?.parse().ok()?, words.next()?.to_owned());
        Some(Part { plan: Plan { seed, is_short }, role, parent, prefix, address: words.next()?.to_owned() })
    }
}

#[test]
fn parts_and_deeds_are_told_as_they_are() {
    let plan = Plan { seed: 7, is_short: true };
    let (parent, address) = ("127.0.0.1:1".parse().unwrap(), "host=/a b port=1".to_owned());
    let part = Part { plan, role: Role::Worker, parent, prefix: "p".into(), address };
    assert_eq!(Part::parse(&part.to_text()), Some(part));
    for (deed, _) in DEEDS {
        let deeds = Deeds { deed, times: 3 };
        assert_eq!(Deeds::parse(deeds.to_text().as_bytes()), Some(deeds));
    }
}
