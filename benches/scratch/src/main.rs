use hapax::{Dedup, Int, Timestamp, Verdict};
use std::sync::Barrier;
use std::time::{Duration, Instant};
fn mix(n: u64) -> u64 {
    hapax::tier::random::mix(n)
}
fn main() {
    let a: Vec<String> = std::env::args().skip(1).filter(|a| a != "--bench").collect();
    let live: u64 = a[0].parse().unwrap();
    let new: u64 = a[1].parse().unwrap(); // percent
    let hot: u64 = a[2].parse().unwrap(); // >0: all ids among this many, both threads
    let threads: u64 = a[3].parse().unwrap();
    let n = 2_000_000u64;
    let dedup =
        Dedup::builder().window(Duration::from_secs(100)).capacity((live as usize) * 5 / 4).seed(1).build().unwrap();
    let per_tick = (live / 100).max(1);
    let mut times = vec![];
    for round in 0..9u64 {
        let barrier = Barrier::new(threads as usize);
        let ns: Vec<f64> = std::thread::scope(|s| {
            let hs: Vec<_> = (0..threads)
                .map(|t| {
                    let (dedup, barrier) = (&dedup, &barrier);
                    s.spawn(move || {
                        let mut made = (round * n) * new / 100;
                        let base = t << 50;
                        let ids: Vec<Int<8>> = (0..n)
                            .map(|i| {
                                if hot > 0 {
                                    Int::from(mix(mix(i ^ t << 40) % hot))
                                } else if i % 100 < new {
                                    made += 1;
                                    Int::from(mix(base + made))
                                } else {
                                    Int::from(mix(base + made.saturating_sub(mix(i) % (live / 2 / threads))))
                                }
                            })
                            .collect();
                        let mut v: Vec<Verdict> = vec![];
                        barrier.wait();
                        let s = Instant::now();
                        let mut done = 0u64;
                        for c in ids.chunks(1024) {
                            let at = Timestamp::from_secs((round * n + done) * new / 100 * threads / per_tick);
                            dedup.check_batch_at(c.iter(), at, &mut v);
                            done += c.len() as u64;
                        }
                        s.elapsed().as_nanos() as f64 / n as f64 / threads as f64
                    })
                })
                .collect();
            hs.into_iter().map(|h| h.join().unwrap()).collect()
        });
        times.push(ns.iter().cloned().fold(0.0, f64::max));
    }
    times.sort_by(f64::total_cmp);
    println!("{:?} {:.1} [{:.1} {:.1}]", a, times[4], times[0], times[8]);
}
