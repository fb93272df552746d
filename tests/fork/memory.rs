//! Engines that live in memory alone.

use super::world::{fork, must_end_well, pipe};
use hapax::seam::Digester;
use hapax::{Dedup, Int};
use std::io::{Read, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use testkit::long;

/// Checks that the child's window grows, and its claims work, whatever the parent's threads were
/// doing.
pub fn a_child_goes_on_in_memory() {
    const IDS: u64 = 50_000;
    for _ in 0..long(5, 20) {
        let dedup = Dedup::builder().capacity(100).max_memory_bytes(64 << 20).build().unwrap();
        let (is_done, next) = (AtomicBool::new(false), AtomicU64::new(0));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_done.load(Ordering::Relaxed) && next.load(Ordering::Relaxed) < 10 * IDS {
                    let id = next.fetch_add(1, Ordering::Relaxed);
                    let _ = dedup.check(Int::from(id));
                    drop(dedup.claim(Int::from(u64::MAX - id)));
                }
            });
            while next.load(Ordering::Relaxed) < 1_000 {
                std::hint::spin_loop();
            }
            let pid = fork(|| {
                let first = 1_u64 << 40;
                for id in first..first + IDS {
                    assert!(dedup.check(Int::from(id)).is_fresh());
                }
                // (A table that a thread makes ready may come late on a busy machine.)
                let is_lost = |id: &u64| dedup.check(Int::from(*id)).is_fresh();
                let (lost, window) = ((first..first + IDS).filter(is_lost).count() as u64, dedup.stats().window);
                assert!(lost <= window.evicted_live && lost < IDS / 10, "{lost} were lost: {window:?}");
                let mut attempts = Vec::new();
                dedup.claim_batch((0..1_000).map(|id| Int::from((2_u64 << 40) + id)), &mut attempts);
                assert!(attempts.into_iter().all(|attempt| attempt.claimed().is_some()));
            });
            is_done.store(true, Ordering::Relaxed);
            must_end_well(pid);
            assert!(dedup.check(Int::from(1_u64 << 40)).is_fresh(), "what a child accepts its parent does not know");
        });
    }
}

pub fn children_draw_different_numbers() {
    // This thread draws what each thread draws once.
    let ours = draw();
    let drawn = [(); 2].map(|()| {
        let (mut from, to) = pipe();
        must_end_well(fork(|| (&to).write_all(draw().as_bytes()).unwrap()));
        drop(to);
        let mut drawn = String::new();
        from.read_to_string(&mut drawn).unwrap();
        drawn
    });
    assert!(drawn[0] != drawn[1] && drawn[0] != ours, "{drawn:?}");
}

fn draw() -> String {
    format!("{:?} {:?}", Digester::random().unwrap().digest("a"), Dedup::builder().build().unwrap().prepare("a"))
}
