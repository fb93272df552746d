//! Files that `hapax bench` has kept, as the fuzz target `reports` gives them to their readers: a
//! letter for the kind of file, and its bytes.

use super::Report;
use super::workload::fuzz_trace;

/// Runs the fuzz target `reports` on its input; returns true if the reader accepted it.
pub(crate) fn fuzz(bytes: &[u8]) -> bool {
    match bytes.split_first() {
        Some((b'r', text)) => report(text),
        Some((b't', events)) => fuzz_trace(events),
        _ => false,
    }
}

fn report(text: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(text) else { return false };
    let Ok(report) = Report::from_json(text) else { return false };
    assert_eq!(report.format, Report::FORMAT);
    let written = report.to_json().expect("what was read can be written");
    let again = Report::from_json(&written).expect("what was written is a report");
    // Numbers with a point are read to the nearest double.
    assert_eq!((again.seed, again.rows.len()), (report.seed, report.rows.len()));
    assert_eq!((again.command, again.absent), (report.command, report.absent));
    true
}

#[cfg(all(test, not(modelled)))]
mod tests {
    #[test]
    fn the_corpus_of_the_fuzz_target_reports() {
        let mut taken = 0;
        let files = testkit::corpus::replay("reports", |bytes| taken += usize::from(super::fuzz(bytes)));
        assert!(files == 0 || taken > 1, "of {files} only {taken} are anything");
    }
}
