//! The declarations of a window to its explorer, in a build that is not explored: they do nothing.

/// Declares that the operation remembers nothing but this of its last loads.
#[inline(always)]
pub(crate) fn remember(_accesses: usize, _what: &[u64]) {}

/// Declares that the operation remembers nothing of a call but what it returned.
#[inline(always)]
pub(crate) fn sum_up<R>(call: impl FnOnce() -> R, _what: impl FnOnce(&R) -> u64) -> R {
    call()
}

/// Notes that the operation goes on at this tick.
#[inline(always)]
pub(crate) fn agreed(_tick: u64) {}
