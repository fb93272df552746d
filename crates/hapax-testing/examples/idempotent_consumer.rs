//! Tries a consumer of your own: is it idempotent? The first one is not; the second one is.
//!
//! `cargo run -p hapax-testing --example idempotent_consumer`

use hapax_testing::consumer::{Consumer, Failed, Message, Simulation, World};
use std::collections::HashSet;
use std::sync::{Arc, Mutex};

/// The table of the payments that were made. It survives crashes.
type Table = Mutex<HashSet<String>>;

/// A consumer that inserts the id of a payment, and pays if it was not there.
pub struct Payments {
    /// True if both are one call.
    pub in_one_transaction: bool,
}

impl Consumer for Payments {
    type Durable = Table;
    type Process = Arc<Table>; // its connection; what else is in its memory goes here as well

    fn durable(&self, _: &World) -> Table {
        Table::default()
    }

    async fn start(&self, table: &Arc<Table>, _: &World) -> Result<Arc<Table>, Failed> {
        Ok(Arc::clone(table))
    }

    async fn handle(&self, table: &Arc<Table>, message: &Message, world: &World) -> Result<(), Failed> {
        let insert = || table.lock().unwrap().insert(message.id.clone());
        if self.in_one_transaction {
            let insert_and_pay = || insert().then(|| world.effect(&message.id));
            world.call("database: insert and pay", insert_and_pay).await?;
        } else if world.call("database: insert", insert).await? {
            world.call("bank: pay", || world.effect(&message.id)).await?;
        }
        Ok(())
    }
}

fn main() {
    let finding = Simulation::new(Payments { in_one_transaction: false }).run().unwrap_err();
    println!("{finding}\n");

    let report = Simulation::new(Payments { in_one_transaction: true }).run().unwrap();
    println!("{report}");
}
