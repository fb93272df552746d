//! Messages of one key, or one that has none, at the hands of a handler.

use crate::claims::queue::{Claimed, Outcome, Run};
use std::collections::VecDeque;
use tokio::time::Instant;

/// A run of which each batch has the next message.
pub(super) struct Lane {
    pub outcome: Outcome,
    /// The messages that were not tried yet.
    pub left: VecDeque<Claimed>,
    /// The time at which its lease began, or a moment before.
    pub leased_at: Instant,
    /// The time at which it came to its handler.
    pub began: Instant,
    /// True if the others are to be given back.
    pub is_over: bool,
}

impl Lane {
    pub(super) fn of(run: Run) -> Self {
        let (outcome, leased_at) = (run.outcome(), run.claimed_at);
        Lane { outcome, left: run.messages.into(), leased_at, began: Instant::now(), is_over: false }
    }

    /// Returns the next message that is to be handled, if there is one.
    pub(super) fn head(&self) -> Option<&Claimed> {
        self.left.front().filter(|_| !self.is_over)
    }
}

/// Messages and their claims, as they are sent to the server: column by column.
#[derive(Default)]
pub(super) struct Columns {
    /// The claims: of the messages first, then others that have only their leases renewed.
    pub keys: Vec<Option<Vec<u8>>>,
    pub tokens: Vec<i64>,
    pub positions: Vec<i64>,
    /// The attempts that were counted, with those that are counted as they begin.
    pub attempts: Vec<i64>,
}

impl Columns {
    /// Adds the next message of a lane.
    pub(super) fn message(&mut self, lane: &Lane, head: &Claimed) {
        self.lease(lane);
        self.positions.push(head.position);
        self.attempts.push(i64::from(head.message.attempts) + i64::from(head.was_lost));
    }

    /// Adds the claim of a lane.
    pub(super) fn lease(&mut self, lane: &Lane) {
        self.keys.push(lane.outcome.key.clone());
        self.tokens.push(lane.outcome.token);
    }
}
