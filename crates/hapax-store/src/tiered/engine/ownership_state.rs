//! The state of an engine towards its store: whether it owns the store, knows all that the store
//! knows, and may go on.

use super::owner_lease::OwnerLease;
use crate::sync::{Mutex, Ordering, StdAtomicBool, lock};
use crate::{ErrorKind, StoreError};
use std::sync::OnceLock;

/// The ownership of the ids in a store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Ownership {
    /// Other instances use the same store: it is asked about every id that the window does not
    /// know.
    #[default]
    Shared,
    /// This instance alone uses the store: an id that its history does not know is new, and
    /// completed ids are written behind. If this process dies, a successor waits for up to 15
    /// seconds.
    Exclusive,
    /// The same, under a name: another engine of the same name is taken for this one after a
    /// restart, and takes over at once. Give it that only if the first process is surely dead.
    ExclusiveAs(String),
}

/// The state of the ownership, which all handles of an engine share.
pub(crate) struct OwnershipState {
    /// True if this engine alone uses the store.
    pub(crate) is_exclusive: bool,
    backend: &'static str,
    /// The claim of the ownership in the store, where there is one.
    owner_lease: OnceLock<OwnerLease>,
    /// True if the histories know all ids that the store knows.
    is_warm: StdAtomicBool,
    /// The reason for which this engine may not go on, if there is one.
    refused: Mutex<Option<StoreError>>,
    is_refused: StdAtomicBool,
}

impl OwnershipState {
    pub(crate) fn new(is_exclusive: bool, backend: &'static str) -> Self {
        OwnershipState {
            is_exclusive,
            backend,
            owner_lease: OnceLock::new(),
            is_warm: StdAtomicBool::new(false),
            refused: Mutex::new(None),
            is_refused: StdAtomicBool::new(false),
        }
    }

    /// Notes that the engine owns the store, once.
    pub(crate) fn own(&self, lease: OwnerLease) {
        let is_first = self.owner_lease.set(lease).is_ok();
        debug_assert!(is_first, "an engine claims its store once");
    }

    pub(crate) fn owner_lease(&self) -> Option<&OwnerLease> {
        self.owner_lease.get()
    }

    /// Returns true if the histories know all ids that the store knows.
    pub(crate) fn is_warm(&self) -> bool {
        // Acquire: pairs with the Release of `warm`, whose insertions into the histories are then
        // seen.
        self.is_warm.load(Ordering::Acquire)
    }

    /// Notes that the histories know all ids that the store knows.
    pub(crate) fn warm(&self) {
        // Release: pairs with the Acquire of `is_warm`: a thread that sees it finds the histories
        // complete.
        self.is_warm.store(true, Ordering::Release);
    }

    /// Stops this engine with this error.
    pub(crate) fn refuse(&self, why: StoreError) {
        *lock(&self.refused) = Some(why);
        // Release: pairs with the Acquire of `admit`, which then finds the reason.
        self.is_refused.store(true, Ordering::Release);
    }

    /// Returns an error if this engine may not go on.
    pub(crate) fn admit(&self) -> Result<(), StoreError> {
        // Acquire: pairs with the Release of `refuse`.
        if !self.is_refused.load(Ordering::Acquire) {
            return match self.owner_lease.get() {
                // The task that renews it may not have run: the runtime was busy, or the machine
                // asleep.
                Some(lease) if lease.is_over() => {
                    let what = "this engine may no longer be the owner of the store: its lease has ended";
                    Err(StoreError::new(ErrorKind::Conflict, self.backend, what))
                }
                _ => Ok(()),
            };
        }
        let refused = lock(&self.refused);
        debug_assert!(refused.is_some(), "a refusal has a reason");
        refused.clone().map_or(Ok(()), Err)
    }
}
