//! The one file that imports atomics: the asynchronous engine has no protocol of its own between
//! threads, only locks, counters and flags.

pub use std::sync::atomic::{AtomicBool as StdAtomicBool, AtomicU64 as StdAtomicU64, Ordering, fence};
pub use std::sync::{Condvar, Mutex, MutexGuard};
