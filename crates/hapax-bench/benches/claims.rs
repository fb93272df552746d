//! Measures the cost of claims: an id that is claimed and completed against one that is checked,
//! and checks in an engine with claims.
//!
//! `cargo bench -p hapax-bench --bench claims [-- LIVE [ROUNDS]]`. Two engines with as many live
//! ids (by default 10 million), one of which has seen claims, take turns; each turn is a million
//! ids, a tenth of them duplicates. Medians of the rounds, nanoseconds an id, and ratios. All
//! answers are checked.

use hapax::{Attempt, Dedup, Int, ManualClock, Timestamp};
use std::process::ExitCode;
use std::time::{Duration, Instant};

const TURN: u64 = 1_000_000;
const BATCH: u64 = 1_024;
/// The number of ids of which one is a duplicate.
const DUPLICATE: u64 = 10;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    let numbers: Option<Vec<u64>> = args.iter().map(|arg| arg.replace('_', "").parse().ok()).collect();
    let (live, rounds) = match numbers.as_deref() {
        Some([]) => (10_000_000, 5),
        Some([live]) => (*live, 5),
        Some([live, rounds]) => (*live, *rounds),
        _ => {
            eprintln!("claims [LIVE [ROUNDS]]: numbers");
            return ExitCode::from(2);
        }
    };
    let (mut never, mut used) = (Stream::new(live), Stream::new(live));
    drop(used.dedup.clone().claim("something"));
    type Turn<'t> = (&'static str, Box<dyn FnMut() -> f64 + 't>);
    let streams = (std::cell::RefCell::new(&mut never), std::cell::RefCell::new(&mut used));
    let (never, used) = (&streams.0, &streams.1);
    let mut turns: Vec<Turn<'_>> = vec![
        ("check", Box::new(|| never.borrow_mut().turn(Stream::check))),
        ("check, batched", Box::new(|| never.borrow_mut().turn(Stream::check_batch))),
        ("claim and complete", Box::new(|| used.borrow_mut().turn(Stream::claim))),
        ("claim and complete, batched", Box::new(|| used.borrow_mut().turn(Stream::claim_batch))),
        ("check, after claims", Box::new(|| used.borrow_mut().turn(Stream::check))),
        ("check, batched, after claims", Box::new(|| used.borrow_mut().turn(Stream::check_batch))),
        ("check, batched, 1000 in flight", Box::new(|| used.borrow_mut().beside_claims())),
    ];
    let mut times = vec![Vec::new(); turns.len()];
    for _ in 0..rounds {
        turns.iter_mut().zip(&mut times).for_each(|((_, turn), times)| times.push(turn()));
    }
    println!("{live} live ids, {rounds} rounds");
    let medians: Vec<f64> = times.iter_mut().map(|times| median(times)).collect();
    for (i, ((name, _), median)) in turns.iter().zip(&medians).enumerate() {
        let base = medians[if name.contains("batched") { 1 } else { 0 }];
        let ratio = if i > 1 { format!("{:.2}", median / base) } else { String::new() };
        println!("{name:<32} {median:>7.1} ns {ratio:>6}");
    }
    ExitCode::SUCCESS
}

fn median(times: &mut [f64]) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// Ids that come at a steady rate, a microsecond each.
struct Stream {
    dedup: Dedup,
    clock: ManualClock,
    next: u64,
}

impl Stream {
    fn new(live: u64) -> Self {
        let clock = ManualClock::new();
        let builder = Dedup::builder().window(Duration::from_micros(live)).capacity(live as usize).clock(clock.clone());
        let lease = Duration::from_secs(3600);
        let mut stream = Stream { dedup: builder.lease(lease).build().expect("there is memory"), clock, next: 0 };
        let mut verdicts = Vec::new();
        while stream.next < live + live / 10 {
            stream.advance();
            stream.dedup.check_batch((stream.next..stream.next + BATCH).map(Int::from), &mut verdicts);
            stream.next += BATCH;
        }
        stream
    }

    fn advance(&self) {
        self.clock.set(Timestamp::from_micros(self.next));
    }

    /// Returns the next ids, and how many of them are duplicates.
    fn ids(&mut self) -> (Vec<Int<8>>, u64) {
        self.advance();
        let ids =
            (self.next..self.next + BATCH).map(|n| Int::from(if n % DUPLICATE == 0 { n - 5_001 - n % 7 } else { n }));
        let duplicates = (self.next..self.next + BATCH).filter(|n| n % DUPLICATE == 0).count() as u64;
        self.next += BATCH;
        (ids.collect(), duplicates)
    }

    /// Returns nanoseconds an id; `each` processes a batch, and returns how many of it were
    /// duplicates.
    fn turn(&mut self, each: fn(&Dedup, &[Int<8>]) -> u64) -> f64 {
        let mut passed = Duration::ZERO;
        for _ in 0..TURN / BATCH {
            let (ids, duplicates) = self.ids();
            let began = Instant::now();
            let counted = each(&self.dedup, &ids);
            passed += began.elapsed();
            assert_eq!(counted, duplicates);
        }
        passed.as_nanos() as f64 / (TURN / BATCH * BATCH) as f64
    }

    fn beside_claims(&mut self) -> f64 {
        let dedup = self.dedup.clone();
        let _held: Vec<_> = (0..1_000_u64).map(|n| dedup.claim(Int::from(n | 1 << 63))).collect();
        self.turn(Stream::check_batch)
    }

    fn check(dedup: &Dedup, ids: &[Int<8>]) -> u64 {
        ids.iter().filter(|id| dedup.check(id).is_duplicate()).count() as u64
    }

    fn check_batch(dedup: &Dedup, ids: &[Int<8>]) -> u64 {
        let mut verdicts = Vec::with_capacity(ids.len());
        dedup.check_batch(ids, &mut verdicts);
        verdicts.iter().filter(|verdict| verdict.is_duplicate()).count() as u64
    }

    fn claim(dedup: &Dedup, ids: &[Int<8>]) -> u64 {
        let mut duplicates = 0;
        for id in ids {
            match dedup.claim(id) {
                Attempt::Claimed(claim) => claim.complete().expect("the lease lasts"),
                _ => duplicates += 1,
            }
        }
        duplicates
    }

    fn claim_batch(dedup: &Dedup, ids: &[Int<8>]) -> u64 {
        let (mut attempts, mut ended) = (Vec::with_capacity(ids.len()), Vec::with_capacity(ids.len()));
        dedup.claim_batch(ids, &mut attempts);
        let duplicates = attempts.iter().filter(|attempt| attempt.is_duplicate()).count() as u64;
        dedup.complete_batch(attempts.into_iter().filter_map(Attempt::claimed), &mut ended);
        assert!(ended.iter().all(Result::is_ok));
        duplicates
    }
}
