//! The long memory of an engine: segments behind the window, made of what the journal has written.
//!
//! ```text
//! check ──► window ──► segments     each id that the window does not have is asked for there
//!              │           ▲
//!           journal ───► sealing    complete files become a segment while the window has them still
//! ```
//!
//! [`sealing`] turns the journal's files into segments; [`worker`] is the thread that does it in
//! time, and merges; [`forgotten`] are ids that were forgotten and whose segments do not know yet.
//! [`tier`] is what the engine asks. [`bringer`] is the thread that brings segments which are not
//! on this disk yet.

mod bringer;
mod forgotten;
mod options;
mod sealing;
mod span;
mod stats;
mod tier;
mod worker;

#[cfg(all(test, not(any(modelled, alone))))]
mod directories;
#[cfg(all(test, not(any(modelled, alone))))]
mod events;
#[cfg(all(test, not(any(modelled, alone))))]
mod explored;
#[cfg(all(test, not(any(modelled, alone))))]
mod model;
#[cfg(all(test, not(any(modelled, alone))))]
mod planned;
#[cfg(all(test, not(any(modelled, alone))))]
mod tests;

pub use options::LongMemory;
pub use stats::LongMemoryStats;

pub(crate) use tier::{Knowledge, LongTier, QuestionTimes, StateBefore};
