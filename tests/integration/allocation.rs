//! No check allocates: counted by the allocator itself, thread by thread. It serves all of this
//! program, and does nothing else but what the system's does.

use hapax::{Dedup, Int, Timestamp, Unconfirmed};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::time::Duration;

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

fn count() {
    let _ = ALLOCATIONS.try_with(|n| n.set(n.get() + 1));
}

// SAFETY: every call goes to the system's allocator as it is.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    // (Else zeros would be written, and memory that nobody has touched would be in use.)
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: as the caller promises.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        count();
        // SAFETY: as the caller promises.
        unsafe { System.realloc(ptr, layout, new_size) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(ptr, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn allocations(work: impl FnOnce()) -> usize {
    let before = ALLOCATIONS.get();
    work();
    ALLOCATIONS.get() - before
}

#[test]
fn checks_do_not_allocate() {
    let hour = Duration::from_secs(3600);
    // No growth: starting the thread for that allocates.
    let builder = || Dedup::builder().capacity(1_000).max_memory_bytes(64 << 10).window(Duration::from_secs(60));
    let engines = [
        builder().build().unwrap(),
        builder().history(testkit::history(hour, 1e-3, 1_000)).build().unwrap(),
        builder()
            .history(hapax::History { unconfirmed: Unconfirmed::Fresh, ..testkit::history(hour, 0.5, 10) })
            .refresh_on_duplicate(true)
            .build()
            .unwrap(),
    ];
    for dedup in engines {
        let mut verdicts = Vec::with_capacity(10_000);
        let _ = dedup.check("the first call of a thread may set up its counters");
        // Enough to displace, relocate, evict, expire and sweep.
        let n = allocations(|| {
            for id in 0..30_000_u64 {
                let _ = dedup.check(Int::from(id % 20_000));
                let prepared = dedup.prepare(Int::from(id));
                let _ = dedup.check(prepared);
                dedup.contains(Int::from(id));
                dedup.forget(Int::from(id / 2));
            }
            for second in 0..2_000_u64 {
                let ids = (0..10_u64).map(|i| Int::from(second * 5 + i));
                dedup.check_batch_at(ids, Timestamp::from_secs(1_000_000 + second), &mut verdicts);
                let _ = dedup.check_at("x", Timestamp::from_secs(second));
            }
            dedup.clear();
        });
        assert_eq!(n, 0);
    }
    assert!(allocations(|| drop(std::hint::black_box(Box::new(1)))) > 0, "the counter counts");
}
