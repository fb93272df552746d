//! Lines of memory that is mapped: promised first, then populated in parts, and given back.

#[cfg(all(target_os = "linux", not(miri)))]
#[path = "advice.rs"]
mod advice;
#[cfg(not(all(target_os = "linux", not(miri))))]
#[path = "no_advice.rs"]
mod advice;

use super::{PART_BYTES, Zeroed, available_bytes};
use crate::Error;
use crate::sync::{Ordering, StdAtomicU64};
use std::io;

/// A fixed number of `T`s, all zero at first.
pub struct Lines<T> {
    items: *const T,
    len: usize,
    /// The owner of the memory that `items` points to, `offset` bytes in.
    map: memmap2::MmapRaw,
    offset: usize,
}

/// The size of a huge page on x86-64 and on most AArch64 systems; elsewhere only an alignment.
const HUGE_PAGE: usize = 2 << 20;

/// The fewest parts for which it is worthwhile to start threads: 32 MiB, some milliseconds …
const PARTS_ALONE: u64 = 16;
/// … and the most threads, since memory has no more bandwidth.
const THREADS_MAX: usize = 4;

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
        advice::huge_pages(&map, offset, huge);
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
        if let Some(done) = advice::populate(&self.map, self.offset + start, bytes) {
            return done;
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
    pub(super) fn as_slice(&self) -> &[T] {
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
        for start in (0..self.bytes()).step_by(RELEASED_AT_ONCE) {
            let bytes = RELEASED_AT_ONCE.min(self.bytes() - start);
            // SAFETY: the range is within the map. For a thread that reads it, it is as if zeros
            // were stored, which are a value of T (trait Zeroed), into atomics (T is Sync, and has
            // nothing but atomics that could change).
            unsafe { advice::release(&self.map, self.offset + start, bytes) };
        }
    }
}

/// The most memory that one system call frees, since other threads may have to wait for it.
const RELEASED_AT_ONCE: usize = 32 << 20;

// SAFETY: Lines owns its memory, and hands out only shared references to items that are Sync (trait
// Zeroed).
unsafe impl<T: Zeroed> Send for Lines<T> {}
// SAFETY: as for Send.
unsafe impl<T: Zeroed> Sync for Lines<T> {}

/// Returns an error if this much memory is not available.
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
    use crate::memory::{LINE_BYTES, Line};

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
