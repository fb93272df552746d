//! Real traces, and the exact answers.

use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;

/// A trace, how many milliseconds its times count, and published answers: window in seconds, fresh,
/// fresh if duplicates refresh.
pub type Published = (&'static str, u64, &'static [(u64, u64, u64)]);

pub const PUBLISHED: [Published; 3] = [
    (
        "bitcoin_blocks/trace.tsv.zst",
        1,
        &[(1, 70_102, 70_102), (60, 54_541, 54_541), (600, 54_486, 54_486), (3_600, 54_446, 54_446)],
    ),
    ("helium_lorawan/trace_b.tsv.zst", 1, &[(15, 20_348, 20_347), (300, 20_289, 20_287), (1_800, 20_109, 20_109)]),
    ("loramob/trace.tsv.zst", 1_000, &[(60, 32_847, 32_847), (600, 32_779, 32_779)]),
];

/// Returns the path of a trace: in `HAPAX_DATA`, or next to the checkout.
pub fn data(file: &str) -> Option<PathBuf> {
    let beside = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data");
    let folder = std::env::var_os("HAPAX_DATA").map_or_else(|| PathBuf::from(beside), PathBuf::from);
    let path = folder.join(file);
    if !path.exists() {
        crate::skipped(format_args!("no {} (HAPAX_DATA says where the traces are)", path.display()));
        return None;
    }
    Some(path)
}

/// Returns the lines of a compressed file.
pub fn lines(path: &PathBuf) -> impl Iterator<Item = String> {
    let file = std::fs::File::open(path).expect("the trace can be opened");
    let decoder = zstd::Decoder::new(file).expect("the trace is compressed with zstd");
    BufReader::new(decoder).lines().map(|line| line.expect("the trace can be read"))
}

/// Reads a trace's times, in milliseconds, and ids: the first two columns.
pub fn trace(path: &PathBuf, ms_a_unit: u64) -> Vec<(u64, String)> {
    rows(lines(path), ms_a_unit)
}

/// Reads times and ids in lines behind a header.
pub fn rows(lines: impl Iterator<Item = String>, ms_a_unit: u64) -> Vec<(u64, String)> {
    let row = |line: String| {
        let mut columns = line.split('\t');
        let time: u64 = columns.next().unwrap().parse().expect("the first column is a time");
        (time * ms_a_unit, columns.next().expect("the second column is the id").to_string())
    };
    lines.skip(1).map(row).collect()
}

/// Returns how many ids are fresh, exactly: not accepted (or, if duplicates refresh, not seen)
/// within the last `window_ms`.
pub fn exact_fresh(rows: &[(u64, String)], window_ms: u64, refresh: bool) -> u64 {
    let mut accepted = HashMap::new();
    let mut fresh = 0;
    for (now, id) in rows {
        let duplicate = accepted.get(id).is_some_and(|then| now - then < window_ms);
        fresh += u64::from(!duplicate);
        if refresh || !duplicate {
            accepted.insert(id, *now);
        }
    }
    fresh
}
