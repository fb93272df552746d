//! Systems that take no advice about memory, and Miri, which has its own memory.

use memmap2::{MmapMut, MmapRaw};
use std::io;

pub(super) fn populate(_: &MmapRaw, _: usize, _: usize) -> Option<io::Result<()>> {
    None
}

pub(super) fn huge_pages(_: &MmapMut, _: usize, _: usize) {}

/// # Safety
///
/// None is needed: nothing is given back.
pub(super) unsafe fn release(_: &MmapRaw, _: usize, _: usize) {}
