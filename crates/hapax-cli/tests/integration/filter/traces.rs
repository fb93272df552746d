//! Real traces through the command, with the exact answers.

use crate::filter::filter;
use testkit::traces::{self, PUBLISHED};

#[test]
fn real_traces_get_the_exact_answers() {
    // (Time that moves on with each record costs most where nothing is optimized.)
    for (file, ms_a_unit, answers) in PUBLISHED.into_iter().skip(testkit::long(2, 0)) {
        let Some(path) = traces::data(file) else { continue };
        let rows = traces::trace(&path, ms_a_unit);
        let format = if ms_a_unit == 1 { "ms" } else { "s" };
        for &(seconds, fresh, fresh_if_refreshed) in &answers[..testkit::long(1, answers.len())] {
            for (refresh, published) in [(false, fresh), (true, fresh_if_refreshed)] {
                let window = format!("{seconds}s");
                let time = ["--time-field", "1", "--time-format", format];
                let mut command =
                    filter(&["--header", "--field", "2", "--window", &window, "--stats", "--format=json"]);
                command.args(time).args(refresh.then_some("--refresh-on-duplicate")).arg(&path);
                let output = command.output().unwrap();
                assert!(output.status.success());
                let stats: serde_json::Value = serde_json::from_slice(&output.stderr).unwrap();
                let tick_ms = (stats["tick_seconds"].as_f64().unwrap() * 1e3) as u64;
                let ours = stats["fresh"].as_u64().unwrap();
                let at_least = traces::exact_fresh(&rows, seconds * 1_000 + 2 * tick_ms, refresh);
                println!("{file}, {seconds} s: {ours} fresh, exact {published}, tick {tick_ms} ms");
                assert!((at_least..=published).contains(&ours), "{file}, {seconds} s");
                assert_eq!(
                    output.stdout.iter().filter(|byte| **byte == b'\n').count() as u64,
                    ours + 1,
                    "and a header"
                );
            }
        }
    }
}

#[test]
fn the_whole_input_as_a_window_needs_no_time() {
    let Some(path) = traces::data("bitcoin_blocks/trace.tsv.zst") else { return };
    let output = filter(&["--column", "id", path.to_str().unwrap()]).output().unwrap();
    assert!(output.status.success());
    let lines = String::from_utf8(output.stdout).unwrap();
    let mut seen = std::collections::HashSet::new();
    let expected = traces::lines(&path).filter(|line| seen.insert(line.split('\t').nth(1).unwrap().to_string()));
    assert!(lines.lines().eq(expected));
    assert_eq!(lines.lines().count(), 1 + 54_446);
}
