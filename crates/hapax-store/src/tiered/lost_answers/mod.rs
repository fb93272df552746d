//! Lost answers: the store may have carried out a request, and nobody was told.
//!
//! Each attempt has a number, under which the store gives the same answer again. So an attempt with
//! an unknown outcome is remembered (`attempts`, `unresolved`), and the next caller that asks about
//! its id repeats it. A mark is also taken back if no caller comes (`marks`, `doubt`).

mod attempts;
mod doubt;
mod marks;
mod unresolved;

pub(super) use attempts::LostAttempts;
pub(super) use doubt::Pace;
pub(super) use marks::LostMarks;
