//! Real traces, with the exact answers that an unbounded reference gives.

use testkit::traces as common;

use common::PUBLISHED;
use hapax::{Dedup, Int, Timestamp};
use std::time::Duration;
use testkit::long;

#[test]
fn real_traces_get_the_exact_answers() {
    // (Time that moves on with each record costs most where nothing is optimized.)
    for (file, ms_a_unit, answers) in PUBLISHED.into_iter().skip(long(1, 0)) {
        let Some(path) = common::data(file) else { continue };
        let rows = common::trace(&path, ms_a_unit);
        for &(seconds, fresh, fresh_if_refreshed) in &answers[..long(1, answers.len())] {
            for (refresh, published) in [(false, fresh), (true, fresh_if_refreshed)] {
                let window_ms = seconds * 1_000;
                let exact = common::exact_fresh(&rows, window_ms, refresh);
                assert_eq!(exact, published, "the reference itself");

                let dedup = Dedup::builder()
                    .window(Duration::from_millis(window_ms))
                    .capacity(100_000)
                    .refresh_on_duplicate(refresh)
                    .build()
                    .unwrap();
                let check = |(ms, id): &(u64, String)| dedup.check_at(id, Timestamp::from_millis(*ms)).is_fresh();
                let ours = rows.iter().filter(|row| check(row)).count() as u64;

                let stats = dedup.stats();
                let tick_ms = stats.window.tick.as_millis() as u64;
                assert_eq!((stats.window.evicted_live, stats.fresh), (0, ours));
                println!("{file}, {seconds} s: {ours} fresh, exact {published}, tick {tick_ms} ms");
                if ours != published {
                    let at_least = common::exact_fresh(&rows, window_ms + 2 * tick_ms, refresh);
                    let range = at_least..=published;
                    assert!(range.contains(&ours), "{file}, {seconds} s: {ours} not in {range:?}");
                }
                if rows.iter().all(|(ms, _)| ms % tick_ms == 0) {
                    assert_eq!(ours, published, "nothing is rounded where all times are whole ticks");
                }
            }
        }
    }
}

#[test]
fn batches_answer_as_single_checks_do() {
    let Some(path) = common::data("bitcoin_blocks/trace.tsv.zst") else { return };
    let mut rows = common::trace(&path, 1);
    rows.truncate(long(20_000, usize::MAX));
    let engine = || Dedup::builder().window(Duration::from_secs(60)).seed(1).build().unwrap();
    let (single, batched) = (engine(), engine());
    let mut verdicts = Vec::new();
    // Runs of equal times, since a batch has one time.
    for run in rows.chunk_by(|a, b| a.0 == b.0) {
        let at = Timestamp::from_millis(run[0].0);
        batched.check_batch_at(run.iter().map(|(_, id)| id), at, &mut verdicts);
        let one_by_one: Vec<_> = run.iter().map(|(_, id)| single.check_at(id, at)).collect();
        assert_eq!(verdicts, one_by_one);
    }
}

#[test]
fn block_numbers_without_time() {
    // Small consecutive integers, which weak hashing would pile up.
    const AFTER_EACH_100_000: [u64; 9] = [41_526, 70_783, 90_093, 108_984, 121_783, 134_702, 149_248, 161_198, 183_544];
    let Some(path) = common::data("arc_oltp/OLTP.lis.zst") else { return };
    let dedup = Dedup::builder().capacity(300_000).build().unwrap();
    let (mut fresh, mut running, mut seen) = (0, Vec::new(), 0);
    for line in common::lines(&path) {
        let numbers: Vec<u64> = line.split(' ').map(|field| field.parse().unwrap()).collect();
        for id in numbers[0]..numbers[0] + numbers[1] {
            fresh += u64::from(dedup.check_at(Int::from(id), Timestamp::default()).is_fresh());
            seen += 1;
            if seen % 100_000 == 0 {
                running.push(fresh);
            }
        }
    }
    assert_eq!(fresh, 186_880);
    assert_eq!(running, AFTER_EACH_100_000);
    assert_eq!(dedup.stats().window.evicted_live, 0);
}
