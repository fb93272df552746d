//! A producer: it stores messages in transactions of some of them, which are committed, rolled
//! back, left open for a while, or dropped with their connection.

use super::ledger::Side;
use super::ours;
use super::parent::Parent;
use super::plan::Deeds;
use crate::{Random, ms};
use hapax_postgres::Tables;
use hapax_store::{ErrorKind, StoreError};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use tokio::time::sleep;
use tokio_postgres::{Client, NoTls};

/// The keys that many messages have at a time.
const HOT: u64 = 4;
/// The number of messages that may be delivered once more.
const REMEMBERED: usize = 500;

#[derive(Clone, Copy, Debug)]
struct New {
    id: u64,
    key: Option<u64>,
    deeds: Deeds,
}

pub struct Producer {
    pub parent: Arc<Parent>,
    pub tables: Tables,
    pub prefix: String,
    pub address: String,
    pub random: Random,
    pub stopped: Arc<AtomicBool>,
    /// The inbox's messages that are delivered again now and then, whether they were committed or
    /// not.
    delivered: VecDeque<New>,
}

static NEXT: AtomicU64 = AtomicU64::new(1);

impl Producer {
    pub fn new(
        parent: &Arc<Parent>,
        place: &crate::Place,
        address: String,
        random: Random,
        stopped: &Arc<AtomicBool>,
    ) -> Self {
        Producer {
            parent: Arc::clone(parent),
            tables: place.tables.clone(),
            prefix: place.prefix.clone(),
            address,
            random,
            stopped: Arc::clone(stopped),
            delivered: VecDeque::new(),
        }
    }

    pub async fn run(mut self) {
        let mut client = None;
        while !self.stopped.load(Ordering::Relaxed) {
            let side = if self.random.percent(50) { Side::Inbox } else { Side::Outbox };
            if self.parent.ledger().waiting(side) >= self.parent.plan.waiting_max() {
                sleep(ms(5)).await;
                continue;
            }
            let connected = match client.take() {
                Some(connected) => connected,
                None => match connect(&self.address).await {
                    Some(connected) => connected,
                    None => {
                        sleep(ms(20)).await;
                        continue;
                    }
                },
            };
            // An error: the server has undone it, or is gone. The connection is not used again.
            client = match self.transaction(connected, side).await {
                Ok(connected) => Some(connected),
                Err(error) => {
                    if let Some(error) = error.downcast_ref::<StoreError>().filter(|error| !may_be(error)) {
                        self.parent.ledger().violated(format!("a producer has got {error:?}"));
                    }
                    None
                }
            };
        }
    }

    /// Makes the messages of a transaction, in an order in which two transactions do not wait in a
    /// circle.
    fn messages(&mut self, side: Side) -> Vec<New> {
        let (random, plan) = (&mut self.random, self.parent.plan);
        let mut messages = Vec::new();
        for _ in 0..random.within(1, 4) {
            let key = match random.below(10) {
                0 => None,
                1..5 => Some(random.below(HOT)),
                _ => Some(random.below(plan.keys())),
            };
            let id = NEXT.fetch_add(1, Ordering::Relaxed);
            messages.push(New { id, key, deeds: Deeds::any(random, plan) });
        }
        if side == Side::Inbox {
            if random.percent(20) && !self.delivered.is_empty() {
                messages.push(self.delivered[random.below(self.delivered.len() as u64) as usize]);
            }
            self.delivered.extend(&messages);
            let old = self.delivered.len().saturating_sub(REMEMBERED);
            self.delivered.drain(..old);
        }
        messages.sort_unstable_by_key(|message| (message.key, message.id));
        messages
    }

    async fn transaction(&mut self, mut client: Client, side: Side) -> Result<Client, hapax_postgres::BoxError> {
        let transaction = NEXT.fetch_add(1, Ordering::Relaxed);
        let messages = self.messages(side);
        let ending = self.random.below(100);
        let tx = client.transaction().await?;
        let mut tx = tx;
        let committed = format!("INSERT INTO {}_committed VALUES ($1)", self.prefix);
        tx.execute(&committed, &[&(transaction as i64)]).await?;
        for New { id, key, deeds } in messages {
            if ours::store(&mut tx, &self.tables, side, id, key, &deeds.to_text()).await? {
                // The transaction holds the key: no other gets a place of it until it ends.
                self.parent.ledger().stored(transaction, side, id, key, deeds);
            }
        }
        if self.random.below(1_000) < self.parent.plan.held_per_thousand() {
            sleep(self.parent.plan.while_it_lasts(&mut self.random) / 2).await;
        }
        match ending {
            70..85 => tx.rollback().await?,
            85..88 => return Err("its process has died".into()),
            _ => {
                if let Err(error) = tx.commit().await {
                    self.parent.ledger().unheard(transaction);
                    return Err(error.into());
                }
                let now = self.parent.now();
                self.parent.ledger().committed(transaction, now);
            }
        }
        Ok(client)
    }
}

/// Returns true for errors that are expected: servers that are away, deadlocks, and waits that took
/// too long.
fn may_be(error: &StoreError) -> bool {
    error.kind().is_transient() || error.kind() == ErrorKind::Conflict
}

pub async fn connect(address: &str) -> Option<Client> {
    let (client, connection) = tokio_postgres::connect(address, NoTls).await.ok()?;
    tokio::spawn(connection);
    Some(client)
}
