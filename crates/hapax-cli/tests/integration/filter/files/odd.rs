//! The table of odd files in docs/comparison/files.md, as far as it is about this command.

use std::path::Path;
use std::process::Command;

/// Returns the first two cells of a table's rows: a file, and what came out of this command.
fn rows(text: &str) -> Vec<(&str, &str)> {
    let cells = text.lines().filter_map(|line| line.strip_prefix("| ")?.split_once(" | "));
    cells.map(|(file, rest)| (file, rest.split(" |").next().unwrap_or_default())).collect()
}

#[test]
fn the_table_says_what_comes_out() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut script = Command::new("python3");
    script.arg(root.join("scripts/filter-odd-files")).args(["--only-hapax", env!("CARGO_BIN_EXE_hapax")]);
    let asks = ["-c", "import csv, gzip, lzma"]; // a Python may have its library in another package
    if !Command::new("python3").args(asks).output().is_ok_and(|asked| asked.status.success()) {
        return testkit::skipped("odd files: there is no python3 with its library (Debian: python3)");
    }
    let output = script.output().unwrap();
    let (printed, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{errors}");
    let document = std::fs::read_to_string(root.join("docs/comparison/files.md")).unwrap();
    let table = rows(&document);
    let files: Vec<_> =
        rows(&printed).into_iter().filter(|(file, _)| !file.contains("files") && !file.starts_with('*')).collect();
    assert!(files.len() > 20, "{printed}");
    for row in files {
        assert!(table.contains(&row), "docs/comparison/files.md has no {row:?}");
    }
}
