//! Synchronization: the one file that imports atomics, and the locks that are part of a protocol.
//! They are std's in a build, and those of a model under `--cfg modelled` and `--cfg loom` or
//! `--cfg explore`.

pub(crate) use std::sync::atomic::Ordering;
use std::sync::{LockResult, PoisonError};

#[cfg(not(modelled))]
pub(crate) use std::{
    hint::spin_loop,
    sync::atomic::{AtomicU64, fence},
};

// (The explorer of the window has no locks: it does not explore claims.)
#[cfg(not(any(loom, all(test, not(modelled)))))]
pub(crate) use std::sync::{Condvar, Mutex, MutexGuard};
#[cfg(all(test, not(modelled)))]
pub(crate) use turns::{Condvar, Mutex, MutexGuard};

#[cfg(loom)]
pub(crate) use {
    loom::{
        hint::spin_loop,
        sync::{Condvar, Mutex, MutexGuard, atomic::fence},
    },
    loomed::AtomicU64,
};

#[cfg(explore)]
pub(crate) use self::explored::{AtomicU64, fence, spin_loop};

/// Locks and atomics of the protocol between a window, its journal and its segments: std's, but in
/// tests, whose threads may take turns before each access ([`turns`]).
#[cfg(not(all(test, not(modelled))))]
pub(crate) use std::sync::{
    Condvar as DiskCondvar, Mutex as DiskMutex, MutexGuard as DiskMutexGuard, RwLock as DiskRwLock,
    atomic::AtomicBool as DiskAtomicBool, atomic::AtomicU64 as DiskAtomicU64,
};
#[cfg(all(test, not(modelled)))]
pub(crate) use turns::{
    AtomicBool as DiskAtomicBool, AtomicU64 as DiskAtomicU64, Condvar as DiskCondvar, Mutex as DiskMutex,
    MutexGuard as DiskMutexGuard, RwLock as DiskRwLock,
};

/// Atomics that are no part of a protocol (counters, clocks), so that a model need not explore
/// them.
pub(crate) use std::sync::atomic::{AtomicBool as StdAtomicBool, AtomicU64 as StdAtomicU64};

/// Returns a guard even if a thread has panicked under its lock: nothing that may panic here leaves
/// data half changed.
#[inline(always)]
pub(crate) fn unpoisoned<G>(locked: LockResult<G>) -> G {
    locked.unwrap_or_else(PoisonError::into_inner)
}

/// Reads words one after another, Relaxed, in an unspecified order: vectors may read in any, models
/// read in both.
#[inline(always)]
pub(crate) fn load_each<const N: usize>(words: &[AtomicU64; N]) -> [u64; N] {
    #[cfg(modelled)]
    if crate::mutation::reads_backward() {
        let mut seen = [0; N];
        for i in (0..N).rev() {
            seen[i] = words[i].load(Ordering::Relaxed);
        }
        return seen;
    }
    words.each_ref().map(|word| word.load(Ordering::Relaxed))
}

/// Completes a sequentially consistent access in a model that does not support such accesses: loom
/// supports only such fences.
#[inline(always)]
pub(crate) fn complete_seq_cst() {
    if cfg!(loom) {
        fence(Ordering::SeqCst);
    }
}

#[cfg(explore)]
pub(crate) mod explored;
#[cfg(not(explore))]
#[path = "sync/unexplored.rs"]
pub(crate) mod explored;
#[cfg(loom)]
mod loomed;
#[cfg(all(test, loom))]
pub(crate) mod model;
#[cfg(all(test, not(modelled)))]
pub(crate) mod turns;
