//! The choices of people: which record is kept, where the output goes, which files are meant, and
//! how the command speaks to them.

mod keep;
mod named;
mod null;
#[cfg(unix)]
mod replaced;
mod spoken;
