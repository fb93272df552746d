//! Functions that run once: a claim, the function under it, and its result for whoever comes later.
//!
//! Who meets whom, and what becomes of it:
//!
//! | who | at the worst moment | what happens |
//! |---|---|---|
//! | two callers, of one process or of two | at once | one runs the function; the other one waits, up to [`wait`](RunOptions::wait), and gets the same result, or [`InProgress`](IdempotencyError::InProgress) |
//! | a caller | is dropped while the function runs (a time-out, a `select!`) | the function is dropped where it stands, and the claim released: who waits runs it again |
//! | | is dropped while the result is being stored | that goes on without it: nobody runs it again |
//! | | brings another fingerprint | [`Mismatch`](IdempotencyError::Mismatch), at once; nothing runs |
//! | | comes after the retention | the function runs again |
//! | the function | takes longer than the lease | the claim is renewed every third of it |
//! | | fails | its error is returned, and the claim released: the next caller runs it; or the error is kept for a while ([`keep_errors`](RunOptions::keep_errors)), and told to all |
//! | | panics | the panic goes on, and the claim is released |
//! | | returns what is too large, or cannot be JSON | the caller has the output, in an error; later ones are told that it ran, and why its result is not there |
//! | the store | is away when the key is claimed | [`Claim`](IdempotencyError::Claim); nothing runs |
//! | | is away while the function runs, for less than the lease | nothing: renewals are tried again |
//! | | is away for longer than the lease, and another caller runs it meanwhile | [`LostLease`](IdempotencyError::LostLease), with the output: the function has run here, and may have run there |
//! | | is away when the result is to be stored | it is tried for as long as a lease; then [`Complete`](IdempotencyError::Complete), with the output; when the lease ends, the next caller runs it again |
//! | the process | is killed between effect and result | when the lease ends, the next caller runs the function again: only an effect in the store's own transaction, or one that is fenced or idempotent itself, does without that |
//! | another version of the program | finds a result of another type | [`Unreadable`](IdempotencyError::Unreadable); nothing runs |
//!
//! `api` is what users call; `options` and `error` are theirs; `outcome` is what the store has of
//! it, pure; `rules` names what a test may leave out, to show that it would be noticed.

mod api;
mod error;
mod options;
mod outcome;
mod rules;
#[cfg(test)]
mod tests;

pub use error::{IdempotencyError, RunError};
pub use options::RunOptions;
