//! The parts that stores are made of: what becomes of a record, its bytes, a thread that owns an
//! embedded database, and the checks of options and times. For crates that implement
//! [`Store`](crate::Store).
//!
//! A store whose server decides by itself needs [`times::Sound`] and [`option`] only. One that
//! reads a record, decides, and writes it calls [`record`], and one that keeps records in bytes
//! [`codec`]. An embedded database is a [`committer::Database`], and its store is
//! [`Committed`](committer::Committed): that is all it takes.

pub mod codec;
pub mod committer;
pub(crate) mod decided;
pub mod option;
pub mod record;
pub mod times;
