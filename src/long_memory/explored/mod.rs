//! Every order of the steps of some threads over an engine with a long memory, as it is shipped:
//! those that ask, the one that seals, the one that merges and expires, those that forget, a
//! process that dies. Each execution is judged (S1 of docs/design/long-memory.md): its answers must
//! be those of some order of its calls, one after another, on a set of ids.
//!
//! Who takes turns where is in `src/sync/turns.rs`. What the orders consist of, in the terms of the
//! code:
//!
//! | call | steps |
//! |---|---|
//! | a check | [`Engine::check`]: the count of what was forgotten; [`LongTier::before`]: the table of forgotten ids; the window; [`LongTier::look`]: how far it is sealed, the table again, whether all is void, the list of segments; `Engine::verdict_of`: the count again, the lock of who forgets, the window again; the journal |
//! | sealing | [`Sealing::seal`]: its lock, the journal (flushed, its file closed), the segment's file, the manifest, the list, the journal's number, the table of forgotten ids, how far it is sealed |
//! | merging | [`Sealing::tidy`]: what has expired, then `begin_merge`, and `publish_merged`: manifest, list, files |
//! | forgetting | [`LongTier::forget`]: the table; journal and window as one; the table |
//! | clearing | [`Dedup::clear`]: the journal; [`Sealing::clear`]: void at once; manifest and list; the window |
//!
//! The window is asked in one step (`src/window/explore` has the steps within it), and the orders
//! are those of a machine whose memory is sequentially consistent. Of claims, attempts are among
//! the calls; their own atomics are no steps.
//!
//! [`Dedup::clear`]: crate::Dedup::clear
//! [`Engine::check`]: crate::engine::Engine::check
//! [`LongTier::before`]: super::LongTier::before
//! [`LongTier::look`]: super::LongTier::look
//! [`LongTier::forget`]: super::LongTier::forget
//! [`Sealing::seal`]: super::sealing::Sealing::seal
//! [`Sealing::tidy`]: super::sealing::Sealing::tidy
//! [`Sealing::clear`]: super::sealing::Sealing::clear

mod judge;
mod mutants;
mod scenario;
mod scenarios;
