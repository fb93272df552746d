//! Other mixes of ids, each a report of its own, and the mean of them.

use super::kept::{self, At, Kept, nanos};
use super::tables::{BATCH, name};
use super::words::{figure, paragraph, table};
use hapax_bench::measure::Sort;

/// The reports, and what is in them.
const MIXES: [(&str, &str); 8] = [
    ("0", "no redeliveries"),
    ("10", "10 % redeliveries"),
    ("50", "50 %"),
    ("90", "90 %"),
    ("99", "99 %"),
    ("zipf", "Zipf 0.99"),
    ("uuid-text", "10 %, UUIDs as text"),
    ("key200", "10 %, ids of 200 bytes"),
];
const LIVE: usize = 300_000;
/// Ours, in batches and one by one.
const OURS: [(&str, usize); 4] =
    [("hapax window", BATCH), ("hapax window+history", BATCH), ("hapax window", 1), ("hapax window+history", 1)];

/// Returns the factors by which ours are faster than the fastest rival, in each mix and on average.
pub fn mixes(machine: impl Fn(&Kept) -> String) -> String {
    let (mut rows, mut of_all) = (Vec::new(), [const { Vec::new() }; OURS.len()]);
    for (mix, words) in MIXES {
        let report = Kept::read(&format!("mixes/{mix}.json"));
        let ids = report.0.rows[0].setting.ids;
        let at = |batch| At { ids, ..At::new(LIVE, 1, batch) };
        let rival = |batch| match batch {
            1 => report.rival(Sort::Window, &[at(1)]),
            // A caller with a batch may hand it over one by one.
            _ => report.rival(Sort::Window, &[at(batch), at(1)]),
        };
        let mut row =
            vec![words.to_string(), format!("{}: {}", name(&rival(BATCH).strategy), figure(nanos(rival(BATCH))))];
        for ((strategy, batch), of_all) in OURS.into_iter().zip(&mut of_all) {
            let (times, least, most) = kept::times(report.of(strategy, at(batch))[0], rival(batch));
            of_all.push(times);
            row.push(format!("{times:.2} x ({least:.2} to {most:.2})"));
        }
        rows.push(row);
    }
    let means = of_all.iter().map(|times| format!("{:.2} x", geometric_mean(times)));
    rows.push(["*geometric mean*".to_string(), String::new()].into_iter().chain(means).collect());
    let head = ["", "fastest rival: ns", "window", "with history", "one by one", "with history"];
    let first = Kept::read(&format!("mixes/{}.json", MIXES[0].0));
    format!(
        "{}\n{}",
        table(&head, rows),
        paragraph(&format!("Medians of 3 rounds, least and most; {}.", machine(&first)))
    )
}

fn geometric_mean(of: &[f64]) -> f64 {
    (of.iter().map(|one| one.ln()).sum::<f64>() / of.len() as f64).exp()
}

#[test]
fn a_half_and_a_double_are_one_on_average() {
    assert!((geometric_mean(&[0.5, 2.0]) - 1.0).abs() < 1e-12);
    assert!((geometric_mean(&[2.0, 2.0, 16.0]) - 4.0).abs() < 1e-12);
}
