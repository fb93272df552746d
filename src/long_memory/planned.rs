//! Long memories, beside what `hapax-plan` says that they take.

use super::LongMemory;
use crate::JournalOptions;
use crate::journal::files::simulated::Simulated;
use crate::journal::tests::restarts::{builder, clock};
use crate::long::long;
use crate::segments::LIVE_MAX;
use hapax_plan::Demand;
use std::time::Duration;

#[test]
fn segments_take_what_was_planned_and_never_more_than_was_said() {
    let rate: u64 = long(250, 4_000);
    let (window, retention) = (Duration::from_secs(40), Duration::from_secs(240));
    let plan = Demand::new(rate as f64, window).long_memory(retention).plan().unwrap();
    let planned = plan.long_memory.unwrap();
    // (Without a thread, whoever checks seals and merges.)
    let (disk, clock) = (Simulated::new(), clock());
    let builder = builder(&disk, &clock, JournalOptions::new()).window(window).capacity(plan.window.capacity);
    let dedup = builder.long_memory("/long", LongMemory::new(retention)).build().unwrap();
    let (mut memory, mut disk, mut verdicts) = (Vec::new(), Vec::new(), Vec::new());
    for second in 0..3 * retention.as_secs() {
        let ids: Vec<_> = (second * rate..(second + 1) * rate).map(u64::to_be_bytes).collect();
        clock.advance(Duration::from_secs(1));
        dedup.check_batch(&ids, &mut verdicts);
        assert!(verdicts.iter().all(|verdict| verdict.is_fresh()));
        if second >= retention.as_secs() {
            let segments = dedup.stats().long_memory.unwrap().segments;
            memory.push(segments.memory_bytes as f64);
            disk.push(segments.disk_bytes as f64);
        }
    }
    for (taken, mean, most) in [
        (memory, planned.bytes as f64, planned.bytes_max as f64),
        (disk, planned.disk_bytes as f64, planned.disk_bytes_max as f64),
    ] {
        let taken_most = taken.iter().copied().fold(0.0, f64::max);
        let ratio = taken.iter().sum::<f64>() / taken.len() as f64 / mean;
        println!("{ratio:.3} of the mean planned; most {:.3} of the most planned", taken_most / most);
        assert!((0.9..1.1).contains(&ratio), "{ratio} x {mean}");
        assert!(taken_most <= most, "{taken_most}, {most} planned");
    }
}

#[test]
fn with_the_window_that_is_advised_an_id_is_written_three_times_and_ten_segments_are_live() {
    const RATE: u64 = 40;
    let retention = Duration::from_secs(360);
    for (deferred, part) in [(false, 18), (true, 9)] {
        let (disk, clock) = (Simulated::new(), clock());
        let builder = builder(&disk, &clock, JournalOptions::new().deferred(deferred)).window(retention / part);
        let dedup = builder.capacity(4_000).long_memory("/long", LongMemory::new(retention)).build().unwrap();
        let mut most = 0;
        for second in 0..4 * retention.as_secs() {
            clock.advance(Duration::from_secs(1));
            let ids: Vec<_> = (second * RATE..(second + 1) * RATE).map(|id| dedup.prepare(id.to_be_bytes())).collect();
            let verdicts: Vec<_> = ids.iter().map(|id| dedup.check(*id)).collect();
            assert!(verdicts.iter().all(|verdict| verdict.is_fresh()));
            if deferred {
                dedup.journal().unwrap().append_batch(ids.into_iter().zip(verdicts)).unwrap();
            }
            most = most.max(dedup.stats().long_memory.unwrap().segments.segments);
        }
        let stats = dedup.stats().long_memory.unwrap().segments;
        let written = stats.written_records as f64 / stats.sealed_events as f64;
        println!("deferred {deferred}: {most} live, written {written:.2} times");
        assert!(most <= LIVE_MAX as u64 && (2.0..=3.0).contains(&written), "{most}, {written}");
    }
}
