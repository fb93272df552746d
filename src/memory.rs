//! Memory of cache lines: allocated at once, zeroed, on huge pages where the system has them.
//!
//! Everything about raw memory is here and in `lines`; the tiers see slices of atomics.

mod available;
mod cgroups;
#[cfg(not(modelled))]
mod lines;
#[cfg(modelled)]
#[path = "memory/modelled.rs"]
mod lines;

pub use self::available::available_bytes;
pub use self::lines::Lines;

/// A type that may live in [`Lines`].
///
/// # Safety
///
/// All-zero bytes are a value of the type, it needs no drop, and sharing it between threads is
/// sound (it holds atomics, of 64 bits).
pub unsafe trait Zeroed: Default + Sync {}

/// The size of a cache line.
pub const LINE_BYTES: usize = 64;

/// A line of counters.
#[repr(align(64))]
#[derive(Default)]
pub struct Line(pub [crate::sync::AtomicU64; LINE_BYTES / 8]);

// SAFETY: an array of atomics and nothing else: all-zero bytes are a value, there is nothing to
// drop, and it is Sync.
unsafe impl Zeroed for Line {}

/// The number of bytes that are populated at once.
pub(crate) const PART_BYTES: usize = 2 << 20;

impl<T: Zeroed> std::ops::Deref for Lines<T> {
    type Target = [T];

    #[inline(always)]
    fn deref(&self) -> &[T] {
        self.as_slice()
    }
}

impl<T: Zeroed> Lines<T> {
    /// Asks for an item to be brought into the cache, without waiting for it.
    #[inline(always)]
    pub(crate) fn prefetch(&self, index: usize) {
        self.prefetcher()(index);
    }

    /// Returns a function that asks for items; see [`prefetcher`].
    #[inline(always)]
    pub(crate) fn prefetcher(&self) -> impl Fn(usize) + Copy + use<'_, T> {
        prefetcher(self)
    }
}

/// Returns a function that asks for items. It has the items' address in a register, whatever is
/// written between two calls.
#[inline(always)]
pub(crate) fn prefetcher<T>(items: &[T]) -> impl Fn(usize) + Copy {
    let (first, len) = (items.as_ptr(), items.len());
    move |index| {
        debug_assert!(index < len);
        prefetch_at(first.wrapping_add(index));
    }
}

/// Asks for a line to be brought into the cache, without waiting for it.
#[inline(always)]
pub fn prefetch<T>(line: &T) {
    prefetch_at(line);
}

#[inline(always)]
fn prefetch_at<T>(line: *const T) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a prefetch reads nothing as far as the program can tell, whatever the address is.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(line.cast());
    }
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    // SAFETY: as above. (Assembly, since the standard library's function is not stable.)
    unsafe {
        std::arch::asm!(
            "prfm pldl1keep, [{line}]",
            line = in(reg) line.addr(),
            options(nomem, nostack, preserves_flags),
        );
    }
    #[cfg(not(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(miri))))]
    let _ = line;
}
