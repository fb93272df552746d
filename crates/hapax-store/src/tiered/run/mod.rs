//! Functions that run once: a claim, the function under it, and its result for whoever comes later.
//!
//! Who meets whom, and what becomes of it:
//!
//! | who | at the worst moment | what happens |
//! |---|---|---|
//! | two callers, of one process or two | at once | one runs it; the other one [waits](RunOptions::wait), and gets the same result, or [`InProgress`](IdempotencyError::InProgress) |
//! | a caller | is dropped while the function runs (a time-out) | so is the function, where it stands, and the claim is released: who waits runs it again |
//! | | is dropped while the result is being stored | that goes on without it: nobody runs it again |
//! | | brings another fingerprint | [`Mismatch`](IdempotencyError::Mismatch), at once; nothing runs |
//! | | comes after the retention | the function runs again |
//! | the function | takes longer than the lease | the claim is renewed every third of it |
//! | | fails | its error is returned, and the claim released: the next caller runs it; or the error is [kept](RunOptions::keep_errors), and told to all |
//! | | panics | the panic goes on, and the claim is released |
//! | | returns what is too large, or cannot be written as JSON and read back | the caller has the output, in an error; later ones are told that it ran, and why there is no result |
//! | the store | is away when the key is claimed, or while a caller waits | [`Claim`](IdempotencyError::Claim), at once; nothing runs here |
//! | | is away while the function runs, for less than the lease | nothing: renewals are tried again |
//! | | is away for longer than the lease, or for this process only | who waits elsewhere runs it, and its result stays; here it is [`LostLease`](IdempotencyError::LostLease), with the output |
//! | | is away when the result is to be stored | it is tried for a lease; then [`Complete`](IdempotencyError::Complete), with the output; the next caller runs it after the lease |
//! | the process | is killed between effect and result | the next caller runs it after the lease: unless the effect is in the store's own transaction, fenced or idempotent |
//! | another version of the program | finds a result of another type | [`Unreadable`](IdempotencyError::Unreadable); nothing runs; a field with a default may come and go |
//! | the policy | admits calls while the store is away, or is a shadow | the function runs each time, and its output is returned |
//!
//! `api` is what users call; `options` and `error` are theirs; `outcome` is what the store has of
//! it, pure.

mod api;
mod error;
mod options;
mod outcome;

pub use error::{IdempotencyError, RunError};
pub use options::RunOptions;
