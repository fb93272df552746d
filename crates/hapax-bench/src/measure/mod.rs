//! Measures, in numbers, what a [strategy](crate::strategy) does, costs and gets wrong on a stream
//! of ids: the figures that `hapax bench` prints.
//!
//! A [`Setting`] says what a strategy has to do, one run of it is a [`Measurement`], and a
//! [`Report`] is the result of a comparison: all of them can be written as JSON. [`measure`] does
//! one run.
//!
//! # A strategy of your own
//!
//! Implement [`Strategy`](crate::strategy::Strategy), and hand it to [`measure_with_others`], which
//! measures it next to those of this crate: see `crates/hapax-bench/examples/your_strategy.rs`,
//! which is one file. To have it in `hapax bench`, put it into a file of
//! `crates/hapax-bench/src/strategy/`, and name it in `strategies!` at the end of
//! `crates/hapax-bench/src/strategy/mod.rs`; tests find it there, too.
//!
//! # What to rely on
//!
//! - All strategies get the same ids in the same order, from one seed. The true answer to each is
//!   known before ([`workload`]), and each answer is compared with it, while the clock runs. An
//!   answer that follows from an earlier wrong one is not wrong: a strategy that has refused an id
//!   need not know it afterwards.
//! - Answers are not judged where both are right: between the end of the window and two hundredths
//!   of it later, and by strategies with a clock of their own when an id comes again after its
//!   window.
//! - Time is wall time, of all threads together. Expiry and upkeep are part of it; building the
//!   strategy, making the stream and judging the answers are not.

mod answers;
mod case;
mod drive;
mod figures;
mod gauge;
mod own_clock;
mod pace;
mod phases;
pub mod render;
mod report;
mod run;
mod schedule;
pub mod servers;
mod setting;
#[cfg(test)]
mod tests;
mod with_others;
mod work;
pub mod workload;

pub use crate::strategy::{Absent, Sort};
pub use case::{Case, listed_for};
pub use phases::Effort;
pub use report::{Answers, Latency, Machine, Measurement, Report, Row};
pub use run::measure;
pub use setting::{HUGE_PAGES, IdKind, Setting, Shape, Workload};
pub use with_others::measure_with_others;
