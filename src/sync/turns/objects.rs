//! Locks and atomics each access to which is a step.

use super::search::Kind;
use super::{Stage, new_object, part, step};
use crate::sync::{Ordering, unpoisoned};
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, LockResult, PoisonError, RwLockReadGuard, RwLockWriteGuard, WaitTimeoutResult, atomic};
use std::time::Duration;

/// A lock whose taking is a step.
#[derive(Debug)]
pub(crate) struct Mutex<T> {
    object: u64,
    inner: std::sync::Mutex<T>,
}

pub(crate) struct MutexGuard<'m, T> {
    object: u64,
    /// The stage on which it was taken, if it was on one, and by whom.
    stage: Option<(Arc<Stage>, usize)>,
    inner: Option<std::sync::MutexGuard<'m, T>>,
}

impl<T: Default> Default for Mutex<T> {
    fn default() -> Self {
        Mutex::new(T::default())
    }
}

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Mutex { object: new_object(), inner: std::sync::Mutex::new(value) }
    }

    pub(crate) fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
        step(self.object, Kind::Lock);
        let stage = part();
        let guard = |inner| MutexGuard { object: self.object, stage, inner: Some(inner) };
        match self.inner.lock() {
            Ok(inner) => Ok(guard(inner)),
            Err(poisoned) => Err(PoisonError::new(guard(poisoned.into_inner()))),
        }
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.inner.as_ref().expect("it is held")
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.inner.as_mut().expect("it is held")
    }
}

impl<T> Drop for MutexGuard<'_, T> {
    fn drop(&mut self) {
        self.inner = None;
        if let Some((stage, me)) = &self.stage {
            stage.unlock(*me, self.object);
        }
    }
}

/// A condition for which nobody waits in a scenario.
#[derive(Debug, Default)]
pub(crate) struct Condvar(std::sync::Condvar);

impl Condvar {
    pub(crate) fn new() -> Self {
        Condvar::default()
    }

    pub(crate) fn wait<'m, T>(&self, mut guard: MutexGuard<'m, T>) -> LockResult<MutexGuard<'m, T>> {
        assert!(guard.stage.is_none(), "nobody would wake it");
        let inner = guard.inner.take().expect("it is held");
        guard.inner = Some(unpoisoned(self.0.wait(inner)));
        Ok(guard)
    }

    #[allow(clippy::type_complexity, reason = "it is that of the standard library")]
    pub(crate) fn wait_timeout<'m, T>(
        &self,
        mut guard: MutexGuard<'m, T>,
        longest: Duration,
    ) -> LockResult<(MutexGuard<'m, T>, WaitTimeoutResult)> {
        assert!(guard.stage.is_none(), "nobody would wake it");
        let inner = guard.inner.take().expect("it is held");
        let (inner, result) = unpoisoned(self.0.wait_timeout(inner, longest));
        guard.inner = Some(inner);
        Ok((guard, result))
    }

    pub(crate) fn notify_one(&self) {
        self.0.notify_one();
    }

    pub(crate) fn notify_all(&self) {
        self.0.notify_all();
    }
}

/// A lock under which there is no step.
#[derive(Debug)]
pub(crate) struct RwLock<T> {
    object: u64,
    inner: std::sync::RwLock<T>,
}

impl<T> RwLock<T> {
    pub(crate) fn new(value: T) -> Self {
        RwLock { object: new_object(), inner: std::sync::RwLock::new(value) }
    }

    pub(crate) fn read(&self) -> LockResult<RwLockReadGuard<'_, T>> {
        step(self.object, Kind::Read);
        self.inner.read()
    }

    pub(crate) fn write(&self) -> LockResult<RwLockWriteGuard<'_, T>> {
        step(self.object, Kind::Write);
        self.inner.write()
    }
}

/// An atomic each access to which is a step.
#[derive(Debug)]
pub(crate) struct AtomicU64 {
    object: u64,
    inner: atomic::AtomicU64,
}

impl Default for AtomicU64 {
    fn default() -> Self {
        AtomicU64::new(0)
    }
}

impl AtomicU64 {
    pub(crate) fn new(value: u64) -> Self {
        AtomicU64 { object: new_object(), inner: atomic::AtomicU64::new(value) }
    }

    pub(crate) fn load(&self, order: Ordering) -> u64 {
        step(self.object, Kind::Read);
        self.inner.load(order)
    }

    pub(crate) fn store(&self, value: u64, order: Ordering) {
        step(self.object, Kind::Write);
        self.inner.store(value, order);
    }

    pub(crate) fn fetch_add(&self, more: u64, order: Ordering) -> u64 {
        step(self.object, Kind::Write);
        self.inner.fetch_add(more, order)
    }

    pub(crate) fn fetch_sub(&self, less: u64, order: Ordering) -> u64 {
        step(self.object, Kind::Write);
        self.inner.fetch_sub(less, order)
    }

    pub(crate) fn fetch_max(&self, least: u64, order: Ordering) -> u64 {
        step(self.object, Kind::Write);
        self.inner.fetch_max(least, order)
    }

    pub(crate) fn fetch_min(&self, most: u64, order: Ordering) -> u64 {
        step(self.object, Kind::Write);
        self.inner.fetch_min(most, order)
    }
}

/// The same for a truth.
#[derive(Debug)]
pub(crate) struct AtomicBool(AtomicU64);

impl AtomicBool {
    pub(crate) fn new(value: bool) -> Self {
        AtomicBool(AtomicU64::new(u64::from(value)))
    }

    pub(crate) fn load(&self, order: Ordering) -> bool {
        self.0.load(order) != 0
    }

    pub(crate) fn store(&self, value: bool, order: Ordering) {
        self.0.store(u64::from(value), order);
    }
}
