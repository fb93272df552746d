//! Random schedules: the order in which threads get at locks and atomics is drawn, not left to the
//! system, so that an interruption between any two of them is as likely as any other.
//!
//! [`verify`](crate::verify) runs real threads, which are interrupted seldom: a race of three
//! instructions may take an hour to show. Here threads are
//! [shuttle](https://docs.rs/shuttle)'s, of which one runs at a time, and thousands of short
//! histories a second are recorded and judged by the same specification. For that the subject must
//! take its locks, atomics and channels from shuttle while it is tested:
//!
//! ```
//! mod sync {
//!     #[cfg(not(feature = "shuttle"))]
//!     pub use std::sync::Mutex;
//!     #[cfg(feature = "shuttle")]
//!     pub use hapax_testing::schedules::shuttle::sync::Mutex;
//! }
//!
//! use hapax::{Outcome, Timestamp};
//! use hapax_testing::schedules::{Schedules, verify_schedules};
//! use hapax_testing::{Semantics, Subject, Time};
//! use std::collections::HashMap;
//! use std::time::Duration;
//!
//! const WINDOW: Duration = Duration::from_secs(60);
//!
//! /// Looks under one lock, writes under the next.
//! #[derive(Default)]
//! struct Map(sync::Mutex<HashMap<u64, Timestamp>>);
//!
//! impl Subject for Map {
//!     fn check(&self, id: u64, at: Timestamp) -> Option<Outcome> {
//!         let accepted = self.0.lock().unwrap().get(&id).copied();
//!         if accepted.is_some_and(|then| at < then + WINDOW) {
//!             return Some(Outcome::Duplicate);
//!         }
//!         self.0.lock().unwrap().insert(id, at);
//!         Some(Outcome::Fresh)
//!     }
//! }
//!
//! let semantics = Semantics { time: Time::AsGiven, ..Semantics::of_window(WINDOW) };
//! let found = verify_schedules(Map::default, &Schedules::of_window(WINDOW), &semantics);
//! # #[cfg(feature = "shuttle")]
//! println!("{}", found.unwrap_err()); // schedule 2 of seed 0, …: in no order are these answers right
//! ```
//!
//! # What is guaranteed
//!
//! - A rejected history is wrong, as for [`verify`](crate::verify), and so is a deadlock.
//! - The same seed gives the same schedules, calls and answers, if the subject draws no random
//!   numbers but shuttle's, and reads no clock.
//! - An accepted subject was right in these schedules. All of them are sequentially consistent:
//!   that an ordering is too weak is not seen here, but by loom, or by real processors.
//! - Locks, atomics or channels of std in the subject are not interrupted. A thread that waits for
//!   one which another thread holds across a point of shuttle's stops the test for ever.
//!
//! # Cost
//!
//! Some 20 µs a switch between threads, mostly; memory for one short history.
//!
//! # Where the ideas come from
//!
//! Half of the schedules are drawn evenly, half by priorities that change a few times: Burckhardt
//! et al., *A Randomized Scheduler with Probabilistic Guarantees of Finding Bugs* (2010).

mod calls;
mod found;
mod run;
#[cfg(test)]
mod tests;

pub use self::calls::Schedules;
pub use self::found::{Explored, FailedSchedule, Failure};
pub use self::run::verify_schedules;
/// The crate whose locks and atomics the subject has to use.
pub use shuttle;
