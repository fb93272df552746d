//! The advice that Linux is given about memory that is mapped.

use memmap2::{Advice, MmapMut, MmapRaw, UncheckedAdvice};
use std::io;

/// Makes pages present; `None` if the system cannot do that by itself.
pub(super) fn populate(map: &MmapRaw, offset: usize, bytes: usize) -> Option<io::Result<()>> {
    match map.advise_range(Advice::PopulateWrite, offset, bytes) {
        // A kernel older than 5.14 doesn't know the advice.
        Err(e) if e.raw_os_error() == Some(libc::EINVAL) => None,
        done => Some(done),
    }
}

/// Asks for huge pages. Best effort: a system without them refuses, and works all the same.
pub(super) fn huge_pages(map: &MmapMut, offset: usize, bytes: usize) {
    if bytes > 0 {
        let _ = map.advise_range(Advice::HugePage, offset, bytes);
    }
}

/// Gives pages back: whoever looks at them sees zeros.
///
/// # Safety
///
/// Zeros must be a value of what is there, and may take its place at any time.
pub(super) unsafe fn release(map: &MmapRaw, offset: usize, bytes: usize) {
    // SAFETY: the caller's promise. The range is checked to be within the map.
    let _ = unsafe { map.unchecked_advise_range(UncheckedAdvice::DontNeed, offset, bytes) };
}
