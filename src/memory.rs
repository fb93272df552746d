//! Memory of cache lines: allocated at once, zeroed, on huge pages where the system has them.
//!
//! Everything about raw memory is in this file; the tiers see slices of atomics.

#[cfg(not(modelled))]
mod available;
#[cfg(not(modelled))]
mod cgroups;

#[cfg(not(modelled))]
pub use self::available::available_bytes;
use crate::Error;
#[cfg(not(modelled))]
use crate::sync::{Ordering, StdAtomicU64};
#[cfg(not(modelled))]
use std::io;

/// A fixed number of `T`s, all zero at first.
pub struct Lines<T> {
    #[cfg(not(modelled))]
    items: *const T,
    #[cfg(not(modelled))]
    len: usize,
    /// The owner of the memory that `items` points to, `offset` bytes in.
    #[cfg(not(modelled))]
    #[cfg_attr(miri, expect(dead_code, reason = "it is there to be unmapped when this is dropped"))]
    map: memmap2::MmapRaw,
    #[cfg(not(modelled))]
    #[cfg_attr(miri, expect(dead_code, reason = "only advice asks for it"))]
    offset: usize,
    #[cfg(modelled)]
    items: Vec<T>,
}

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

/// The size of a huge page on x86-64 and on most AArch64 systems; elsewhere only an alignment.
#[cfg(not(modelled))]
const HUGE_PAGE: usize = 2 << 20;

/// The number of bytes that are populated at once.
pub(crate) const PART_BYTES: usize = 2 << 20;

/// The fewest parts for which it is worthwhile to start threads: 32 MiB, some milliseconds …
#[cfg(not(modelled))]
const PARTS_ALONE: u64 = 16;
/// … and the most threads, since memory has no more bandwidth.
#[cfg(not(modelled))]
const THREADS_MAX: usize = 4;

#[cfg(not(modelled))]
impl<T: Zeroed> Lines<T> {
    /// Allocates memory for `len` items, present (not merely promised) when this returns.
    pub fn new(len: usize, tier: &'static str) -> Result<Self, Error> {
        let lines = Self::reserve(len, tier)?;
        lines.populate_all(tier)?;
        Ok(lines)
    }

    /// Populates all parts. The system clears every page, which takes longer than anything else
    /// about a large table, so several threads ask for them.
    fn populate_all(&self, tier: &'static str) -> Result<(), Error> {
        let (parts, next) = (self.parts() as u64, StdAtomicU64::new(0));
        // Relaxed: it hands out numbers; the end of the threads publishes the memory.
        let take = || Some(next.fetch_add(1, Ordering::Relaxed)).filter(|part| *part < parts);
        #[expect(clippy::cast_possible_truncation, reason = "parts of memory that was reserved")]
        let populate = || std::iter::from_fn(take).try_for_each(|part| self.populate(part as usize, tier));
        let threads = if parts < PARTS_ALONE {
            1
        } else {
            std::thread::available_parallelism().map_or(1, |threads| threads.get().min(THREADS_MAX))
        };
        std::thread::scope(|scope| {
            let spawn = |_| std::thread::Builder::new().name("hapax-memory".into()).spawn_scoped(scope, populate).ok();
            // (Where there are no more threads, the caller does it all.)
            let helpers: Vec<_> = (1..threads).map_while(spawn).collect();
            let join = |helper: std::thread::ScopedJoinHandle<'_, _>| {
                helper.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            };
            helpers.into_iter().map(join).fold(populate(), Result::and)
        })
    }

    /// Allocates memory that is only promised: no page of it is there before it is
    /// [populated](Lines::populate) or touched.
    pub(crate) fn reserve(len: usize, tier: &'static str) -> Result<Self, Error> {
        assert!(align_of::<T>() <= HUGE_PAGE);
        let oom = |bytes, source| Error::OutOfMemory { tier, bytes, source };
        // As many bytes more as make an aligned start possible: address space only, never touched.
        let bytes = len.saturating_mul(size_of::<T>());
        let reserve = bytes.saturating_add(HUGE_PAGE);
        refuse_too_much(bytes).map_err(|e| oom(bytes, e))?;
        let map = memmap2::MmapMut::map_anon(reserve).map_err(|e| oom(bytes, e))?;
        let offset = map.as_ptr().align_offset(HUGE_PAGE);
        // Only whole huge pages: a tail on one would take memory that nobody asked for.
        let huge = bytes - bytes % HUGE_PAGE;
        advise_huge_pages(&map, offset, huge);
        let map = memmap2::MmapRaw::from(map);
        // SAFETY: the map is `reserve` bytes long, and the first multiple of HUGE_PAGE in it is at
        // most HUGE_PAGE in.
        let items = unsafe { map.as_mut_ptr().add(offset) }.cast::<T>().cast_const();
        Ok(Lines { items, len, map, offset })
    }

    /// Returns the number of parts in which the memory is populated: other threads that map memory
    /// have to wait for such a system call.
    pub(crate) fn parts(&self) -> usize {
        self.bytes().div_ceil(HUGE_PAGE)
    }

    /// Returns the items of a part.
    pub(crate) fn part(&self, part: usize) -> std::ops::Range<usize> {
        let each = HUGE_PAGE / size_of::<T>();
        (part * each).min(self.len)..((part + 1) * each).min(self.len)
    }

    /// Makes the pages of a part present now, so that no check pays for one and lack of memory
    /// shows here. The contents do not change.
    pub(crate) fn populate(&self, part: usize, tier: &'static str) -> Result<(), Error> {
        let start = part * HUGE_PAGE;
        let bytes = HUGE_PAGE.min(self.bytes().saturating_sub(start));
        self.populate_bytes(start, bytes).map_err(|source| Error::OutOfMemory { tier, bytes: self.bytes(), source })
    }

    fn populate_bytes(&self, start: usize, bytes: usize) -> io::Result<()> {
        // (Miri has its own memory, and takes no advice.)
        #[cfg(all(target_os = "linux", not(miri)))]
        match self.map.advise_range(memmap2::Advice::PopulateWrite, self.offset + start, bytes) {
            // A kernel older than 5.14 doesn't know the advice.
            Err(e) if e.raw_os_error() == Some(libc::EINVAL) => {}
            done => return done,
        }
        const PAGE: usize = 4096;
        for at in (start..start + bytes).step_by(PAGE) {
            let word = self.items.cast_mut().cast::<u8>().wrapping_add(at).cast::<u64>();
            // SAFETY: the word is within the map, and aligned; all other accesses to it are atomic
            // (trait Zeroed).
            let word = unsafe { StdAtomicU64::from_ptr(word) };
            // A write that changes nothing. Relaxed: it publishes nothing.
            word.fetch_or(0, Ordering::Relaxed);
        }
        Ok(())
    }

    #[inline(always)]
    fn as_slice(&self) -> &[T] {
        // SAFETY: `reserve` made `items` point to `len` aligned items inside the map, which lives
        // as long as `self` and which nothing else refers to; it was zero at first, which is a
        // value of T, and T is Sync (trait Zeroed), so shared references to it may be used from any
        // thread.
        unsafe { std::slice::from_raw_parts(self.items, self.len) }
    }

    /// Returns the number of bytes that the items take.
    pub(crate) fn bytes(&self) -> usize {
        self.len * size_of::<T>()
    }

    /// Checks that memory that was given back is available again: it is as soon as it is touched.
    pub(crate) fn is_available(&self, tier: &'static str) -> Result<(), Error> {
        let bytes = self.bytes();
        refuse_too_much(bytes).map_err(|source| Error::OutOfMemory { tier, bytes, source })
    }

    /// Gives the memory back to the system, but not its addresses: a thread that still reads sees
    /// zeros, one that writes gets a page again. Only Linux does that; elsewhere the memory stays,
    /// with its contents.
    pub(crate) fn release(&self) {
        #[cfg(all(target_os = "linux", not(miri)))]
        for start in (0..self.bytes()).step_by(RELEASED_AT_ONCE) {
            let bytes = RELEASED_AT_ONCE.min(self.bytes() - start);
            // SAFETY: the range is within the map. For a thread that reads it, it is as if zeros
            // were stored, which are a value of T (trait Zeroed), into atomics (T is Sync, and has
            // nothing but atomics that could change).
            let _ = unsafe {
                self.map.unchecked_advise_range(memmap2::UncheckedAdvice::DontNeed, self.offset + start, bytes)
            };
        }
    }
}

/// The most memory that one system call frees, since other threads may have to wait for it.
#[cfg(all(target_os = "linux", not(any(miri, modelled))))]
const RELEASED_AT_ONCE: usize = 32 << 20;

// SAFETY: Lines owns its memory, and hands out only shared references to items that are Sync (trait
// Zeroed).
#[cfg(not(modelled))]
unsafe impl<T: Zeroed> Send for Lines<T> {}
// SAFETY: as for Send.
#[cfg(not(modelled))]
unsafe impl<T: Zeroed> Sync for Lines<T> {}

#[cfg(modelled)]
impl<T: Zeroed> Lines<T> {
    pub fn new(len: usize, _tier: &'static str) -> Result<Self, Error> {
        Ok(Lines { items: (0..len).map(|_| T::default()).collect() })
    }

    pub(crate) fn reserve(len: usize, tier: &'static str) -> Result<Self, Error> {
        Self::new(len, tier)
    }

    pub(crate) fn parts(&self) -> usize {
        1
    }

    pub(crate) fn part(&self, _part: usize) -> std::ops::Range<usize> {
        0..self.items.len()
    }

    pub(crate) fn populate(&self, _part: usize, _tier: &'static str) -> Result<(), Error> {
        Ok(())
    }

    fn as_slice(&self) -> &[T] {
        &self.items
    }

    pub(crate) fn bytes(&self) -> usize {
        self.items.len() * size_of::<T>()
    }

    pub(crate) fn is_available(&self, _tier: &'static str) -> Result<(), Error> {
        Ok(())
    }

    /// Does nothing: models overwrite the contents by themselves.
    pub(crate) fn release(&self) {}
}

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

    /// Returns a function that asks for items. It has the items' address in a register, whatever is
    /// written between two calls.
    #[inline(always)]
    pub(crate) fn prefetcher(&self) -> impl Fn(usize) + Copy + use<T> {
        let (items, len) = (self.as_ptr(), self.len());
        move |index| {
            debug_assert!(index < len);
            prefetch_at(items.wrapping_add(index));
        }
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

/// Asks for huge pages. Best effort: a system without them refuses, and works all the same.
#[cfg(not(modelled))]
fn advise_huge_pages(map: &memmap2::MmapMut, offset: usize, bytes: usize) {
    #[cfg(all(target_os = "linux", not(miri)))]
    if bytes > 0 {
        let _ = map.advise_range(memmap2::Advice::HugePage, offset, bytes);
    }
    #[cfg(not(all(target_os = "linux", not(miri))))]
    let _ = (map, offset, bytes);
}

/// Returns an error if this much memory is not available.
#[cfg(not(modelled))]
fn refuse_too_much(bytes: usize) -> io::Result<()> {
    // To ask takes fifty of the system's files: most of the time of tests with small tables, of
    // which they make a hundred thousand.
    if cfg!(test) && bytes <= PART_BYTES {
        return Ok(());
    }
    match available_bytes() {
        Some(available) if bytes > available => {
            Err(io::Error::new(io::ErrorKind::OutOfMemory, format!("{available} bytes are available")))
        }
        _ => Ok(()),
    }
}

#[cfg(all(test, not(modelled)))]
mod tests {
    use super::*;
    use crate::sync::Ordering;

    #[test]
    fn memory_is_zero_aligned_and_writable_to_its_end() {
        // (The last is populated by several threads.)
        let lens: &[usize] = if cfg!(miri) { &[1, 2, 63, 70] } else { &[1, 63, 1024, 40_000, 600_000] };
        for &len in lens {
            let lines = Lines::<Line>::new(len, "window").unwrap();
            assert_eq!(lines.len(), len);
            assert_eq!(lines.bytes(), len * LINE_BYTES);
            assert_eq!(lines.as_ptr() as usize % HUGE_PAGE, 0);
            for (i, line) in lines.iter().enumerate() {
                lines.prefetch(i);
                for word in &line.0 {
                    assert_eq!(word.swap(u64::MAX, Ordering::Relaxed), 0);
                }
            }
        }
    }

    #[cfg(all(target_os = "linux", not(miri)))]
    #[test]
    fn released_memory_is_zero_and_can_be_used_again() {
        let lines = Lines::<Line>::new(100_000, "window").unwrap();
        let words = || lines.iter().flat_map(|line| &line.0);
        words().for_each(|word| word.store(7, Ordering::Relaxed));
        lines.release();
        assert!(words().all(|word| word.swap(7, Ordering::Relaxed) == 0));
        assert!(words().all(|word| word.load(Ordering::Relaxed) == 7));
    }

    #[cfg(not(miri))] // Miri does not ask the system, and takes the memory from its own process
    #[test]
    fn too_much_memory_is_an_error() {
        for len in [1 << 36, usize::MAX / 64, usize::MAX] {
            let error = Lines::<Line>::new(len, "window").err().expect("no such memory");
            assert!(matches!(error, Error::OutOfMemory { tier: "window", .. }), "{error}");
        }
    }
}
