//! Rust's batches of the ids of `bench.py`: ns of processor time an id, best and worst of five.

use hapax::{Dedup, Int, Verdict};
use std::time::Duration;

fn main() -> Result<(), hapax::Error> {
    let ids: u64 = std::env::args().nth(1).map_or(200_000, |ids| ids.parse().expect("a number of ids"));
    let half = (0..ids / 2).map(|n| n * 2_654_435_761 % (1 << 32));
    let numbers: Vec<u64> = half.clone().chain(half).collect();
    let texts: Vec<String> = numbers.iter().map(|n| format!("order-{n:010}")).collect();
    measure("int64", &numbers, |dedup, ids, to| dedup.check_batch(ids.iter().map(|&n| Int::from(n)), to))?;
    measure("text", &texts, |dedup, ids, to| dedup.check_batch(ids, to))
}

fn measure<T>(what: &str, ids: &[T], check: impl Fn(&Dedup, &[T], &mut Vec<Verdict>)) -> Result<(), hapax::Error> {
    let (mut best, mut worst) = (f64::MAX, 0_f64);
    for _ in 0..5 {
        let dedup = Dedup::builder().window(Duration::from_secs(600)).capacity(ids.len()).build()?;
        let mut verdicts = Vec::with_capacity(ids.len());
        let began = processor_time();
        check(&dedup, ids, &mut verdicts);
        let took = (processor_time() - began).as_nanos() as f64 / ids.len() as f64;
        assert_eq!(verdicts.iter().filter(|verdict| verdict.is_fresh()).count(), ids.len() / 2);
        (best, worst) = (best.min(took), worst.max(took));
    }
    println!("| Rust `check_batch`, {what} | {best:.1} | {worst:.1} |");
    Ok(())
}

fn processor_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: it writes the time there.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
