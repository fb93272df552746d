//! Subjects of other shapes: a closure, an asynchronous call, ids as text.
//!
//! ```
//! use hapax_testing::adapters::subject_fn;
//! use hapax_testing::{Semantics, Time, Workload, verify};
//! use hapax::Timestamp;
//! use std::collections::HashMap;
//! use std::sync::Mutex;
//! use std::time::Duration;
//!
//! let window = Duration::from_secs(60);
//! let seen: Mutex<HashMap<String, Timestamp>> = Mutex::default();
//! // True if the id is fresh. `entry` is the one call that looks and inserts.
//! let subject = subject_fn(|id: String, at: Timestamp| {
//!     let mut is_fresh = false;
//!     let mut seen = seen.lock().unwrap();
//!     let then = seen.entry(id).or_insert_with(|| { is_fresh = true; at });
//!     if !is_fresh && at >= *then + window {
//!         (*then, is_fresh) = (at, true);
//!     }
//!     is_fresh
//! });
//!
//! let workload = Workload { operations: 20_000, skew: Duration::ZERO, ..Workload::of_window(window) };
//! let semantics = Semantics { time: Time::AsGiven, ..Semantics::of_window(window) };
//! println!("{}", verify(&subject, &workload, &semantics)?);
//! # Ok::<(), Box<hapax_testing::Violation>>(())
//! ```
//!
//! An asynchronous subject is a closure that returns a future: [`subject_async`].

mod asynchronous;
mod closure;
mod values;

pub use asynchronous::{SubjectAsync, subject_async};
pub use closure::{SubjectFn, subject_fn};
pub use values::{Answer, SubjectId};

#[cfg(test)]
mod tests;
