//! Inbox and outbox next to what their best users write by hand, on one server with fsync, in one
//! run: rounds in turns, medians with the least and the most of them, ratios by round. Counts are
//! checked on both sides.
//!
//! `-- inbox-versus [quick] [marks] [enqueue] [relay] [worker] [claims] [bytes]`: without a part,
//! all of them. `quick` takes about two minutes, and its medians are of few and short rounds.
//! `-- inbox-versus critic [PART…]`: what a critic would write, a few seconds a row.

mod bytes;
mod claims;
mod critic;
mod enqueue;
mod marks;
mod ours;
mod place;
mod relay;
mod rivals;
mod rows;
mod worker;

use crate::postgres_server::Server;
use place::Place;
use rows::Rows;
use std::time::Duration;

/// The amounts of everything.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    /// The rounds of measurements that take a second or two.
    rounds: usize,
    /// The rounds of relays and workers, which begin with a backlog.
    long_rounds: usize,
    /// Transactions of one message.
    singles: u64,
    /// Transactions of a hundred.
    hundreds: u64,
    /// Messages that a relay finds.
    backlog: u64,
    keyed_backlog: u64,
    /// Messages that workers find.
    work: u64,
    /// The time after which relays and workers are stopped.
    window: Duration,
    /// Keys that have messages while claims are timed.
    claimed_keys: u64,
    /// Messages that go in and out while bytes are counted; a tenth as many through the inbox.
    through: u64,
}

const WHOLE: Scale = Scale {
    rounds: 7,
    long_rounds: 3,
    singles: 4_000,
    hundreds: 400,
    backlog: 300_000,
    keyed_backlog: 100_000,
    work: 20_000,
    window: Duration::from_secs(8),
    claimed_keys: 1_000_000,
    through: 1_000_000,
};

const QUICK: Scale = Scale {
    rounds: 3,
    long_rounds: 1,
    singles: 1_600,
    hundreds: 80,
    backlog: 60_000,
    keyed_backlog: 30_000,
    work: 3_000,
    window: Duration::from_secs(2),
    claimed_keys: 100_000,
    through: 50_000,
};

/// Relays and workers connect in this time, too, which takes a part of a second.
const CRITIC: Scale = Scale { backlog: 150_000, work: 8_000, window: Duration::from_secs(6), ..QUICK };

pub async fn run(arguments: &[String]) {
    let says = |word: &str| arguments.iter().any(|argument| argument == word);
    let is_critical = says("critic");
    let scale = match (is_critical, says("quick")) {
        (true, _) => CRITIC,
        (_, true) => QUICK,
        _ => WHOLE,
    };
    let parts = ["marks", "enqueue", "relay", "worker", "claims", "bytes"];
    let wants = |part: &str| says(part) || !parts.iter().any(|part| says(part));
    let Some(server) = Server::start(&["max_wal_size=4GB", "shared_buffers=512MB"]) else { return };
    println!(
        "\n== inbox and outbox beside what is written by hand; fsync on, PostgreSQL's other defaults but \
        shared_buffers = 512 MB and max_wal_size = 4 GB\n{scale:?}"
    );
    let place = Place::connect(server, scale).await;
    let mut rows = Rows::default();
    if is_critical {
        for round in 0..scale.rounds {
            critic::round(&place, &mut rows, round, &wants).await;
        }
        return rows.show();
    }
    for round in 0..scale.rounds {
        if wants("marks") {
            marks::round(&place.fresh().await, &mut rows, round).await;
        }
        if wants("enqueue") {
            enqueue::round(&place, &mut rows, round).await;
        }
    }
    for round in 0..scale.long_rounds {
        if wants("relay") {
            relay::round(&place, &mut rows, round).await;
        }
        if wants("worker") {
            worker::round(&place, &mut rows, round).await;
        }
    }
    rows.show();
    if wants("claims") {
        claims::run(&place.fresh().await).await;
    }
    if wants("bytes") {
        bytes::run(&place.fresh().await).await;
    }
}
