//! Claims: an id that is the caller's to handle, for a while.
//!
//! `api` is what users call, `handle` what they get; `attempts` decides between memory, store and
//! policy, `holder` ends and renews a claim, of any store, `completing` and `keeping` do so with
//! many at a time.

mod api;
mod attempts;
mod completing;
mod error;
mod handle;
mod holder;
mod keeping;
mod options;
mod patience;
mod releasing;

pub use api::{TieredOnce, TieredOnceError};
pub use error::ClaimError;
pub use handle::{NotCompleted, TieredAttempt, TieredClaim};
#[cfg(test)]
pub(super) use holder::Attempt;
pub use options::{Done, TieredClaimOptions};
