//! Threads that check events, next to calls without a time.

use super::*;

/// Runs threads that replay 2020, each id twice within a window and then after one, while other
/// threads call without a time.
#[test]
fn threads_replay_2020_beside_calls_without_a_time() {
    const THREADS: u64 = 4;
    for round in 0..40_u64 {
        let dedup = engine();
        let barrier = std::sync::Barrier::new(THREADS as usize + 2);
        let done = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            let (dedup, barrier, done) = (&dedup, &barrier, &done);
            for reader in 0..2 {
                scope.spawn(move || {
                    barrier.wait();
                    while !done.load(std::sync::atomic::Ordering::Relaxed) {
                        if reader == 0 {
                            dedup.contains("x");
                            dedup.forget("x");
                        } else {
                            let _ = dedup.check("y");
                            drop(dedup.claim("z"));
                        }
                    }
                });
            }
            let replays: Vec<_> = (0..THREADS)
                .map(|thread| {
                    scope.spawn(move || {
                        barrier.wait();
                        // All go through the same hour, so nobody is far ahead of the others.
                        for n in 0..300_u64 {
                            let (id, at) = (Key3(round, thread, n), IN_2020 + n);
                            assert!(dedup.check_at(id.bytes(), secs(at)).is_fresh(), "{id:?}");
                            assert!(dedup.check_at(id.bytes(), secs(at)).is_duplicate(), "{id:?}");
                        }
                    })
                })
                .collect();
            let failed = replays.into_iter().filter_map(|replay| replay.join().err()).count();
            done.store(true, std::sync::atomic::Ordering::Relaxed);
            assert_eq!(failed, 0, "round {round}");
        });
        // Time went on by what the events say, not by years.
        let at = dedup.stats().at;
        assert!(at >= secs(IN_2020 + 299) && at < secs(IN_2020 + 320), "round {round}: {at:?}");
        for thread in 0..THREADS {
            assert!(dedup.check_at(Key3(round, thread, 299).bytes(), secs(IN_2020 + 890)).is_duplicate());
        }
        for thread in 0..THREADS {
            // It may have been as late as the others' last.
            assert!(dedup.check_at(Key3(round, thread, 0).bytes(), secs(IN_2020 + 920)).is_fresh());
        }
    }
}

#[derive(Debug)]
struct Key3(u64, u64, u64);

impl Key3 {
    fn bytes(&self) -> [u8; 24] {
        let mut bytes = [0; 24];
        let words = [self.0, self.1, self.2];
        bytes.chunks_exact_mut(8).zip(words).for_each(|(bytes, word)| bytes.copy_from_slice(&word.to_le_bytes()));
        bytes
    }
}
