//! A simulation that tests whether a consumer is idempotent, with or without hapax.
//!
//! A [`Consumer`] gets each message twice, late, at once and out of order. Its process crashes or
//! stands still before and after each call and at each await; calls fail, are done without an
//! answer, or are answered late; acknowledgements are lost. A [`Simulation`] tries each of these
//! faults, pairs of them, and many by chance. The first [`Finding`] is told as a short story:
//!
//! ```
//! use hapax_testing::consumer::{Consumer, Failed, Message, Simulation, World};
//! use std::collections::HashSet;
//! use std::sync::{Arc, Mutex};
//!
//! /// Notes an id in Redis, and works then.
//! struct SetNx;
//!
//! impl Consumer for SetNx {
//!     type Durable = Mutex<HashSet<String>>;
//!     type Process = Arc<Self::Durable>;
//!
//!     fn durable(&self, _: &World) -> Self::Durable {
//!         Mutex::default()
//!     }
//!
//!     async fn start(&self, redis: &Arc<Self::Durable>, _: &World) -> Result<Self::Process, Failed> {
//!         Ok(Arc::clone(redis))
//!     }
//!
//!     async fn handle(&self, redis: &Self::Process, message: &Message, world: &World) -> Result<(), Failed> {
//!         if world.call("redis: SET NX", || redis.lock().unwrap().insert(message.id.clone())).await? {
//!             world.call("bank: charge", || world.effect(&message.id)).await?;
//!         }
//!         Ok(())
//!     }
//! }
//!
//! let finding = Simulation::new(SetNx).run().unwrap_err();
//! assert_eq!(finding.to_string(), "\
//! the effect of message-1 is missing
//! (the shortest schedule found, one fault):
//!
//!   1.       0 s   message-1 is delivered to process A: handler A1
//!   2.       0 s   A1: `redis: SET NX`
//!   3.       0 s ! process A crashes after `redis: SET NX` of A1
//!   4.       1 s   message-1 is delivered again to process B: handler B1
//!   5.       1 s   B1: `redis: SET NX`
//!   6.       1 s   B1 acknowledges message-1
//!   7.       1 s   everything is acknowledged, and message-1 has had no effect");
//! ```
//!
//! # What is guaranteed
//!
//! - A finding is real for the consumer as it was plugged in: each schedule is one that an
//!   at-least-once broker, crashes and networks can cause.
//! - A seed stands for one schedule, and a schedule for one story, if the consumer draws no random
//!   numbers of its own. (`tokio::select!` does, unless it is `biased`.)
//! - "Nothing found" is no proof: of three faults and more, most are tried by chance.
//!
//! docs/idempotent-consumers.md says how to plug in a consumer, and what cannot be seen.

mod broker;
mod finding;
mod interface;
mod options;
mod plan;
mod report;
mod run;
mod search;
mod shrink;
mod simulation;
mod state;
mod store;
mod story;
mod world;

pub use finding::{Finding, Problem};
pub use interface::{Consumer, Failed, Message};
pub use options::Expect;
pub use plan::Fault;
pub use report::Report;
pub use simulation::Simulation;
pub use store::SimulatedStore;
pub use world::{CallError, World};
