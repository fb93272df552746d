//! A table that is only memory, and the cost of writing to its lines.

use std::sync::atomic::{AtomicU64, Ordering};

const LINE_BYTES: usize = 64;
const HUGE_PAGE: usize = 2 << 20;

#[repr(align(64))]
pub struct Line([AtomicU64; LINE_BYTES / 8]);

/// A table of lines on huge pages, where the system has them.
pub struct Table {
    map: memmap2::MmapMut,
    offset: usize,
    len: usize,
}

impl Table {
    pub fn new(bytes: usize) -> Self {
        let mut map = memmap2::MmapMut::map_anon(bytes + HUGE_PAGE).expect("there is memory");
        let offset = map.as_ptr().align_offset(HUGE_PAGE);
        #[cfg(target_os = "linux")]
        let _ = map.advise_range(memmap2::Advice::HugePage, offset, bytes);
        map[offset..offset + bytes].fill(0);
        Table { map, offset, len: bytes / LINE_BYTES }
    }

    pub fn lines(&self) -> &[Line] {
        let start = self.map[self.offset..].as_ptr().cast();
        // SAFETY: `len` lines lie within the map, from an aligned offset on; they are initialized,
        // and as `map` is private and never used otherwise, all that happens to them happens
        // through atomics.
        unsafe { std::slice::from_raw_parts(start, self.len) }
    }
}

/// Fetches a line for each number, `IN_FLIGHT` of them together, and writes to it.
#[inline(never)]
pub fn add_to_lines<const IN_FLIGHT: usize>(lines: &[Line], numbers: &[u64]) {
    for chunk in numbers.chunks(IN_FLIGHT) {
        let mut places = [0; IN_FLIGHT];
        for (place, &number) in places.iter_mut().zip(chunk) {
            *place = ((u128::from(number) * lines.len() as u128) >> 64) as usize;
            prefetch(&lines[*place]);
        }
        for (&place, &number) in places.iter().zip(chunk) {
            lines[place].0[number as usize % (LINE_BYTES / 8)].fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[inline(always)]
fn prefetch(line: &Line) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch reads nothing as far as the program can tell, and the address is that of a
    // live reference.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_ET0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_ET0>(std::ptr::from_ref(line).cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = line;
}
