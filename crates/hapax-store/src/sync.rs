//! The one file that imports atomics: the asynchronous engine has no protocol of its own between
//! threads, only locks, counters and flags.

use std::sync::PoisonError;
pub use std::sync::atomic::{AtomicBool as StdAtomicBool, AtomicU64 as StdAtomicU64, Ordering, fence};
pub use std::sync::{Condvar, Mutex, MutexGuard};

/// Locks a mutex, and ignores that a thread has panicked while it held it: the callers keep what it
/// guards consistent at each step, or do nothing under it that can panic.
pub fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
