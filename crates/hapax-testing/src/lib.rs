#![doc = include_str!("../README.md")]
//!
//! [`Workload::of_everything`] turns on all that a subject may have: leases that end, fencing
//! tokens, fingerprints, restarts. What a subject does not have it leaves out.
//!
//! [`adapters`] make a [`Subject`] of a closure. The report of a wrong strategy has the name of the
//! [`Problem`], and the shortest history that shows it, as a diagram of threads over time (two
//! threads looked before either of them wrote):
//!
//! ```text
//! id 10: fresh to two overlapping calls
//! (remembered for 60s; shown: 2 of 13 answers)
//! before: not remembered
//! thread 0  [batch: fresh                 ]
//! thread 2                 [batch: fresh]
//! time      0ns to 93.6ms  62.4ms
//! ```
//!
//! # What is guaranteed
//!
//! - A rejected history is wrong: there is no order of the operations, and no choice of the times
//!   that are not exactly known, in which all answers are right. [`Problem::TooManyOrders`] is the
//!   exception, and says so.
//! - An accepted history was right this time. A race that takes an interruption between two
//!   instructions shows rarely, or not at all; models that try all interleavings find it. This
//!   harness tests what models leave out: real processors, compilers, and code that was not written
//!   to be modelled. [`Report::overlapping`] counts the operations that were really concurrent,
//!   [`Report::live_max`] the ids that had to be known at once, and [`Report::never_exercised`]
//!   names the rules of which nothing is known.
//! - *Edges.* Where the subject takes the times that it is given, [`verify`] asks at the window's
//!   end, a nanosecond before it and a nanosecond after it, after the workload.
//! - *Order.* Ids are independent of each other, so a history is linearizable if that of each id is
//!   (Herlihy and Wing, 1990). A call takes effect at one moment between its invocation and its
//!   return; calls of one thread follow each other; of a batch, ids in their order.
//! - *Time.* With [`Time::LargestSoFar`] the time that counts for an operation is at least the
//!   largest that was given by a check that had returned, and at most the largest that was given by
//!   one that was invoked before this one returned.
//!   With [`Time::Own`] the subject reads a clock of its own, at any moment of the call: the
//!   recorder measures the time before and after it. However long a thread is interrupted, a right
//!   subject is not rejected. [`Workload::of_own_clock`] runs in real time for that.
//! - *Leases.* With [`Semantics::lease`] a claim whose lease has ended may be taken over by one
//!   other. From then on its late holder must be refused, whatever it wants to do with the claim.
//! - *Tokens.* A claim's fencing token, if it has one, is larger than those of all claims of the id
//!   that had returned before, also where the id was forgotten or the subject restarted meanwhile.
//!   No two claims of an id have the same one.
//! - *Fingerprints.* A mismatch is certain: the id is known with another fingerprint. It need not
//!   be said.
//! - *Restarts.* What a subject has answered before [`Subject::restart`] it must know afterwards,
//!   for as long as without it.
//! - *Forgetting.* An id that is accepted while it is being forgotten may be forgotten again, if
//!   [`Semantics::forgets_meanwhile`] says so, as it does for hapax: then the id is fresh once more
//!   for each time. With [`Semantics::accepts_meanwhile`] a check that is still under way may
//!   accept the id once more.
//! - *No answer.* A call that gave none may take effect at any moment after it was invoked, or
//!   never.
//! - *Evictions.* Each may explain one fresh answer that nothing else explains. [`Event::Evict`] in
//!   a history names the id. If evictions are only counted ([`Subject::evicted`]), then the least
//!   number that explains all answers must not exceed the count.
//!
//! # Cost
//!
//! 64 bytes an operation, for a million at a time. Recording costs two fences a call, and with
//! [`Time::Own`] two readings of the clock. An operation
//! that overlaps no other on its id takes one step of the checker, others a few; the worst case is
//! exponential in the number of operations that overlap on one id, but operations with the same
//! effect are tried once.
//!
//! # Where the ideas come from
//!
//! The search for an order: Wing and Gong, *Testing and Verifying Concurrent Objects* (1993).
//! Remembering the tried configurations, and deferring choices to returns: Lowe, *Testing for
//! Linearizability* (2017). Parts that can be checked alone: Horn and Kroening, *Faster
//! Linearizability Checking via P-compositionality* (2015). Knossos and Porcupine do the same for
//! histories of distributed systems. The states with ranges of time, and the counted evictions, are
//! this crate's own.

#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod adapters;
mod checker;
mod operation;
mod recording;
pub mod store;
mod subject;
#[cfg(test)]
mod tests;

#[doc(hidden)]
pub use hapax;

pub use self::operation::{Event, Interval, Operation};
pub use self::subject::{Attempt, Lease, Semantics, Subject, Time};
pub use crate::checker::check::{Checker, check_history};
pub use crate::checker::problem::Problem;
pub use crate::checker::report::Report;
pub use crate::checker::rules::Rule;
pub use crate::checker::violation::Violation;
pub use crate::recording::record::{record, verify};
pub use crate::recording::recorder::{Recorder, Stamps};
pub use crate::recording::workload::{Call, Clocks, Workload};
