//! Schedules: the faults that are injected, and the decisions that a run has asked for.

use hapax::tier::random::Random;
use std::collections::BTreeMap;
use std::fmt;

/// A fault that the simulation injects. They are ordered: of two stories of one length, that with
/// the earlier faults is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Fault {
    /// The process dies; its memory is lost.
    Crash,
    /// The acknowledgement is lost.
    LosesAcknowledgement,
    /// The message is sent twice, and two processes get it at the same time.
    TwiceAtOnce,
    /// The message is sent twice, and one process gets both.
    TwiceInOneProcess,
    /// The message is sent a second time, long after it was acknowledged.
    TwiceLate,
    /// The message is overtaken by all others.
    OutOfOrder,
    /// The handler is interrupted, and others run until they are done or are interrupted.
    Interrupt,
    /// The process stands still for longer than leases and the broker's time-out, and then goes on.
    Freeze,
    /// The call fails, and nothing was done.
    Fails,
    /// The call was carried out, and its caller gets an error.
    LosesAnswer,
    /// The call was carried out, and is answered after leases and the broker's time-out.
    AnswersLate,
    /// All calls to the same thing fail for a while, and nothing is done.
    Away,
}

impl Fault {
    /// The faults of a message when it is sent.
    pub(super) const OF_MESSAGE: &[Fault] =
        &[Fault::TwiceAtOnce, Fault::TwiceInOneProcess, Fault::TwiceLate, Fault::OutOfOrder];
    /// The faults of a call before it is carried out, and of its answer.
    pub(super) const OF_CALL: &[Fault] = &[
        Fault::Crash,
        Fault::Interrupt,
        Fault::Freeze,
        Fault::Fails,
        Fault::Away,
        Fault::LosesAnswer,
        Fault::AnswersLate,
    ];
    /// The faults of a call of a task that is no handler: it is interrupted all the time.
    pub(super) const OF_BACKGROUND_CALL: &[Fault] =
        &[Fault::Crash, Fault::Freeze, Fault::Fails, Fault::Away, Fault::LosesAnswer, Fault::AnswersLate];
    /// The faults after a call of a task that is no handler.
    pub(super) const OF_BACKGROUND: &[Fault] = &[Fault::Crash, Fault::Freeze];
    /// The faults at an await, and after a call.
    pub(super) const OF_AWAIT: &[Fault] = &[Fault::Crash, Fault::Interrupt, Fault::Freeze];
    /// The faults of an acknowledgement.
    pub(super) const OF_END: &[Fault] = &[Fault::Crash, Fault::LosesAcknowledgement];

    /// Returns true if one message has two deliveries at the same time by this fault.
    pub(super) fn is_at_once(self) -> bool {
        matches!(self, Fault::TwiceAtOnce | Fault::TwiceInOneProcess)
    }

    fn name(self) -> &'static str {
        match self {
            Fault::TwiceAtOnce => "sent twice at once",
            Fault::TwiceInOneProcess => "sent twice to one process",
            Fault::TwiceLate => "sent again late",
            Fault::OutOfOrder => "out of order",
            Fault::Crash => "crash",
            Fault::Freeze => "freeze",
            Fault::Interrupt => "interruption",
            Fault::Fails => "failed call",
            Fault::Away => "store away",
            Fault::LosesAnswer => "lost answer",
            Fault::AnswersLate => "late answer",
            Fault::LosesAcknowledgement => "lost acknowledgement",
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The one whose decision it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Actor {
    Message(usize),
    Delivery(usize),
    Process(usize),
}

/// A moment of a run at which something may go wrong: the nth one of its actor. It is found again
/// when other faults are left out, as long as they do not concern the same actor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Spot {
    pub(super) actor: Actor,
    pub(super) nth: usize,
}

/// The faults of a run, by their spots.
pub(super) type Plan = BTreeMap<Spot, Fault>;

/// A moment at which something might have gone wrong, and what did.
#[derive(Clone, Copy, Debug)]
pub(super) struct Decision {
    pub(super) spot: Spot,
    pub(super) offered: &'static [Fault],
    pub(super) fault: Option<Fault>,
}

/// Returns the faults of a run.
pub(super) fn plan_of(decisions: &[Decision]) -> Plan {
    decisions.iter().filter_map(|decision| Some((decision.spot, decision.fault?))).collect()
}

/// The source of decisions.
pub(super) enum Chooser {
    Planned(Plan),
    Drawn(Drawn),
}

/// Faults by chance.
pub(super) struct Drawn {
    random: Random,
    /// A fault is drawn at one of this many spots.
    one_of: u64,
    left: u32,
}

impl Chooser {
    /// Returns a chooser whose decisions are determined by a seed.
    pub(super) fn of_seed(seed: u64, faults_max: u32) -> Self {
        let mut random = Random::new(seed);
        // Some runs are stormy, and some have few faults far apart.
        let one_of = 4 << random.below(5);
        let left = 1 + u32::try_from(random.below(faults_max.max(1).into())).unwrap_or(0);
        Chooser::Drawn(Drawn { random, one_of, left })
    }

    pub(super) fn choose(&mut self, spot: Spot, offered: &[Fault]) -> Option<Fault> {
        match self {
            Chooser::Planned(plan) => plan.get(&spot).copied().filter(|fault| offered.contains(fault)),
            Chooser::Drawn(drawn) => drawn.draw(offered),
        }
    }
}

impl Drawn {
    fn draw(&mut self, offered: &[Fault]) -> Option<Fault> {
        if self.left == 0 || self.random.below(self.one_of) != 0 {
            return None;
        }
        self.left -= 1;
        let which = self.random.below(offered.len() as u64);
        offered.get(usize::try_from(which).unwrap_or(0)).copied()
    }
}
