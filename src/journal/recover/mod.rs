//! The way back: finds and reads what a journal has, judges what is missing, and keeps what is
//! whole.

pub(super) mod inspect;
pub(super) mod listing;
pub(super) mod recovery;
mod replay;
mod salvage;
pub(super) mod scan;
pub(super) mod survey;
mod verdict;
