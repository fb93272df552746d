//! hapax in frameworks that have no crate of ours: a file for each, to copy from.
//!
//! | framework | file | a repetition |
//! |---|---|---|
//! | tonic, and other services of tower | `tonic_layer.rs` | is answered `ALREADY_EXISTS` |
//! | apalis | `apalis_layer.rs` | is done, and its job not run |
//! | actix-web | `actix_middleware.rs` | is answered 409 |
//!
//! All three claim the id, work, and complete: a crash in between has the work done again when the
//! lease is over. (axum has `hapax-http`, which also replays responses.)

pub mod actix_middleware;
pub mod apalis_layer;
pub mod tonic_layer;
