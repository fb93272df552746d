//! The one file that imports atomics: std's in a build, loom's in a model (`--cfg loom`).

pub(crate) use std::sync::atomic::Ordering;

#[cfg(not(loom))]
pub(crate) use std::{
    hint::spin_loop,
    sync::atomic::{AtomicU64, fence},
};

#[cfg(loom)]
pub(crate) use loom::{
    hint::spin_loop,
    sync::atomic::{AtomicU64, fence},
};

/// For what is no part of a protocol (counters, clocks), so that a model need not explore it.
pub(crate) use std::sync::atomic::{AtomicBool as StdAtomicBool, AtomicU64 as StdAtomicU64};
