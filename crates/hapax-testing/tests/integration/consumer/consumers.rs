//! A consumer of two closures, for tests that need no more.

use hapax_testing::consumer::{Consumer, Failed, Message, World};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

/// A database, a cache, a file: what survives crashes.
#[derive(Default)]
pub struct Database(Mutex<Tables>);

/// Its content.
#[derive(Default)]
pub struct Tables {
    /// Ids that are marked; or claimed, until a time in seconds.
    pub ids: BTreeMap<String, u64>,
    /// Ids that are done, and the tokens under which they were.
    pub done: BTreeMap<String, u64>,
    /// The last token that was given for each id.
    pub tokens: BTreeMap<String, u64>,
    /// The largest number of a message.
    pub most: u64,
}

impl Database {
    pub fn lock(&self) -> MutexGuard<'_, Tables> {
        self.0.lock().unwrap()
    }

    pub fn insert(&self, id: &str) -> bool {
        self.lock().ids.insert(id.to_owned(), 0).is_none()
    }

    pub fn contains(&self, id: &str) -> bool {
        self.lock().ids.contains_key(id)
    }
}

/// A consumer that has nothing in memory, and one handler.
pub struct Stateless<H>(pub H);

impl<H> Consumer for Stateless<H>
where
    H: AsyncFn(&Database, &Message, &World) -> Result<(), Failed> + Sync,
{
    type Durable = Database;
    type Process = Arc<Database>;

    fn durable(&self, _: &World) -> Database {
        Database::default()
    }

    async fn start(&self, database: &Arc<Database>, _: &World) -> Result<Arc<Database>, Failed> {
        Ok(Arc::clone(database))
    }

    async fn handle(&self, database: &Arc<Database>, message: &Message, world: &World) -> Result<(), Failed> {
        self.0(database, message, world).await
    }
}

/// The protection of the transaction that charges, against whoever has lost its lease.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Fence {
    /// None.
    Nothing,
    /// A token that is smaller than one under which it was done is refused.
    SmallerTokens,
    /// Each token is refused but that of the last claim.
    AllTokensButTheLast,
}

/// Claims an id for a minute, and charges and marks it in one transaction.
pub async fn leased(database: &Database, message: &Message, world: &World, fence: Fence) -> Result<(), Failed> {
    let claim = || {
        let (now, mut tables) = (world.now().as_secs(), database.lock());
        if tables.done.contains_key(&message.id) {
            return Ok(None);
        }
        if tables.ids.get(&message.id).is_some_and(|&until| now < until) {
            return Err("somebody has it");
        }
        let token = tables.tokens.entry(message.id.clone()).or_default();
        *token += 1;
        let token = *token;
        tables.ids.insert(message.id.clone(), now + 60);
        Ok(Some(token))
    };
    let Some(token) = world.call("redis: claim", claim).await?? else { return Ok(()) };
    let charge = || {
        let mut tables = database.lock();
        let is_refused = match fence {
            Fence::Nothing => false,
            Fence::SmallerTokens => tables.done.get(&message.id).is_some_and(|&last| token < last),
            Fence::AllTokensButTheLast => tables.tokens[&message.id] != token,
        };
        if is_refused {
            return Err("a later claim has been here");
        }
        tables.done.insert(message.id.clone(), token);
        world.effect(&message.id);
        Ok(())
    };
    Ok(world.call("bank: charge", charge).await??)
}
