//! Handlers that run before a fork, and after it in both processes.

use super::{FORKS, Held, RANKS, Rest, SALT};
use crate::sync::{Ordering, unpoisoned};
use std::cell::RefCell;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak};

/// Everything that concerns forks of this process.
struct Registry {
    rests: Vec<Weak<dyn Rest>>,
    /// The files that a child closes.
    files: Vec<RawFd>,
}

/// The registry. Locked during each fork: nothing is registered then, and no file in it is closed.
static REGISTRY: Mutex<Registry> = Mutex::new(Registry { rests: Vec::new(), files: Vec::new() });

fn registry() -> MutexGuard<'static, Registry> {
    // Nothing that panics is done under this lock.
    unpoisoned(REGISTRY.lock())
}

/// Everything that is locked while this thread forks. Guards are dropped before what they guard.
struct AtRest {
    guards: Vec<Box<dyn Held>>,
    _rests: Vec<Arc<dyn Rest>>,
    /// The registry, which is unlocked last.
    registry: MutexGuard<'static, Registry>,
}

thread_local! {
    static AT_REST: RefCell<Option<AtRest>> = const { RefCell::new(None) };
}

/// Installs the handlers.
pub(super) fn install() -> std::io::Result<()> {
    static INSTALLED: OnceLock<i32> = OnceLock::new();
    let install = || {
        if cfg!(miri) {
            // Miri knows neither forks nor this call.
            return 0;
        }
        // SAFETY: the handlers have the signature that is asked for, do not unwind (a panic aborts
        // there), and are there as long as the program is.
        unsafe { libc::pthread_atfork(Some(before), Some(in_parent), Some(in_child)) }
    };
    match *INSTALLED.get_or_init(install) {
        0 => Ok(()),
        number => Err(std::io::Error::from_raw_os_error(number)),
    }
}

/// Registers state that is at rest while the process forks, for as long as it lives.
pub(crate) fn at_rest_in_forks<R: Rest>(rest: &Arc<R>) {
    // Without memory for the handlers a child may find a lock that nobody releases; that is no
    // reason not to build an engine.
    let _ = install();
    let weak: Weak<R> = Arc::downgrade(rest);
    let mut registry = registry();
    if registry.rests.len() == registry.rests.capacity() {
        registry.rests.retain(|rest| rest.strong_count() > 0);
    }
    registry.rests.push(weak);
}

pub(super) fn close_in_child(file: &std::fs::File) {
    registry().files.push(file.as_raw_fd());
}

pub(super) fn do_not_close_in_child(file: &std::fs::File) {
    let file = file.as_raw_fd();
    registry().files.retain(|other| *other != file);
}

extern "C" fn before() {
    let registry = registry();
    let rests: Vec<_> = registry.rests.iter().filter_map(Weak::upgrade).collect();
    let mut guards: Vec<Box<dyn Held + '_>> = Vec::new();
    for rank in RANKS {
        rests.iter().filter(|rest| rest.rank() == rank).for_each(|rest| rest.hold(&mut guards));
    }
    // SAFETY: only the lifetime changes. The guards borrow from what `rests` keep alive, which is
    // dropped after them (in the order of the fields), and no other code has access to them.
    let guards = unsafe { std::mem::transmute::<Vec<Box<dyn Held + '_>>, Vec<Box<dyn Held>>>(guards) };
    // (In a thread that is ending there is no place to store them: it forks as if there were none.)
    let _ = AT_REST.try_with(|at_rest| at_rest.replace(Some(AtRest { guards, _rests: rests, registry })));
}

fn take() -> Option<AtRest> {
    AT_REST.try_with(RefCell::take).ok().flatten()
}

extern "C" fn in_parent() {
    drop(take());
}

extern "C" fn in_child() {
    // Relaxed: this process has no other thread yet.
    FORKS.fetch_add(1, Ordering::Relaxed);
    SALT.store(crate::random::any(), Ordering::Relaxed);
    let Some(mut at_rest) = take() else { return };
    at_rest.guards.iter_mut().for_each(|guard| guard.in_child());
    for file in at_rest.registry.files.drain(..) {
        // SAFETY: its owner, a `LockFile`, does not use or close it in this process any more.
        unsafe { libc::close(file) };
    }
}
