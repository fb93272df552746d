//! Tries a consumer of your own: is it idempotent? This one is not. A claim with a lease makes it
//! so, if the place where the effect happens refuses claims that are over.
//!
//! `cargo run -p hapax-testing --example idempotent_consumer`

use hapax_testing::consumer::{Consumer, Failed, Message, Simulation, World};
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};

/// The time for which a claim is held, in seconds.
const LEASE: u64 = 60;

/// The database: the only thing that survives a crash.
#[derive(Default)]
struct Tables {
    /// The token of the last claim of an id, and the time at which it is over.
    claims: HashMap<String, (u64, u64)>,
    charged: HashSet<String>,
}

/// A consumer that claims an id, charges, and notes that it has charged.
struct Payments {
    /// True if the transaction that charges looks for a later claim.
    checks_token: bool,
}

impl Consumer for Payments {
    type Durable = Mutex<Tables>;
    type Process = Arc<Mutex<Tables>>;

    fn durable(&self, _: &World) -> Self::Durable {
        Mutex::default()
    }

    async fn start(&self, tables: &Arc<Self::Durable>, _: &World) -> Result<Self::Process, Failed> {
        Ok(Arc::clone(tables))
    }

    async fn handle(&self, tables: &Self::Process, message: &Message, world: &World) -> Result<(), Failed> {
        let claim = || tables.lock().unwrap().claim(&message.id, world.now().as_secs());
        let Some(token) = world.call("database: claim", claim).await?? else { return Ok(()) };
        let charge = || {
            let tables = &mut tables.lock().unwrap();
            if self.checks_token && tables.claims[&message.id].0 != token {
                return Err("it was claimed again");
            }
            tables.charged.insert(message.id.clone());
            world.effect(&message.id);
            Ok(())
        };
        Ok(world.call("database: charge", charge).await??)
    }
}

impl Tables {
    /// Claims an id, and returns the token; none if the id is done.
    fn claim(&mut self, id: &str, now: u64) -> Result<Option<u64>, &'static str> {
        if self.charged.contains(id) {
            return Ok(None);
        }
        let (token, until) = self.claims.get(id).copied().unwrap_or_default();
        if now < until {
            return Err("somebody else is at it");
        }
        self.claims.insert(id.to_owned(), (token + 1, now + LEASE));
        Ok(Some(token + 1))
    }
}

fn main() {
    let finding = Simulation::new(Payments { checks_token: false }).run().expect_err("leases end");
    println!("A claim with a lease: {finding}\n");

    let report = Simulation::new(Payments { checks_token: true }).run().expect("who is late is refused");
    println!("A claim with a lease, whose token is checked: {report}");
}
