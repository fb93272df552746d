//! The way of data to the disk: it is gathered, held until a checkpoint, written and synced in
//! groups.

mod checkpoint;
pub(super) mod commit;
pub(super) mod flush;
mod forgetting;
mod forgotten;
pub(super) mod mark;
mod pending_checkpoint;
pub(super) mod reopen;
pub mod sizing;
pub(super) mod state;
pub(super) mod writer;
