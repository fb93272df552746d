//! The tests that docs/testing.md names for each invariant are there.

use super::{all_tests, files, root};
use std::collections::HashSet;
use std::fs;
use std::path::PathBuf;

/// Returns the rows of the tables below a heading: the invariant, and what is between backticks in
/// the last column.
fn rows(text: &str) -> Vec<(&str, Vec<&str>)> {
    let (_, rest) = text.split_once("\n## Invariants\n").expect("there is such a part");
    let part = rest.split("\n## ").next().expect("there is one part");
    let rows = part.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| holds "));
    rows.map(|row| {
        let (invariant, tests) = row.trim_matches([' ', '|']).rsplit_once(" | ").expect("it has two columns");
        (invariant, tests.split('`').skip(1).step_by(2).collect())
    })
    .collect()
}

/// Returns true if a name is a file or folder, a test, or a module of tests (`a::b`, `a::`).
fn is_there(name: &str, tests: &HashSet<String>, sources: &[PathBuf]) -> bool {
    if name.contains('/') {
        return root().join(name).exists();
    }
    let module = name.trim_end_matches("::").replace("::", "/");
    let is_module = || {
        sources.iter().any(|path| {
            let path = path.with_extension("");
            path.ends_with(&module)
                || path.ends_with(format!("{module}/mod"))
                || path.ends_with(format!("{module}/main"))
        })
    };
    tests.contains(name) || (name.contains("::") && is_module())
}

#[test]
fn every_invariant_names_tests_that_are_there() {
    let text = fs::read_to_string(root().join("docs/testing.md")).expect("it is text");
    let (tests, sources) = (all_tests(), files("rs"));
    let rows = rows(&text);
    let lost: Vec<_> =
        rows.iter().flat_map(|(_, named)| named).filter(|name| !is_there(name, &tests, &sources)).collect();
    assert!(lost.is_empty(), "docs/testing.md names tests that are not there: {lost:?}");
    let untested: Vec<_> = rows.iter().filter(|(_, named)| named.is_empty()).map(|(invariant, _)| invariant).collect();
    assert!(untested.is_empty(), "docs/testing.md names no tests: {untested:?}");
    assert!(rows.len() > 60, "there are invariants: {}", rows.len());
}

#[test]
fn a_test_that_is_not_there_is_noticed() {
    let text = "a\n## Invariants\n\n| holds | tests |\n|---|---|\n| `a` is | `b`, `c/d` |\n\n## Rest\n| `e` | `f` |\n";
    assert_eq!(rows(text), [("`a` is", vec!["b", "c/d"])]);
    let (tests, sources) = (HashSet::from(["it_is".to_owned()]), [PathBuf::from("tests/a/b.rs"), "c/d/mod.rs".into()]);
    let there = ["it_is", "a::b", "b::", "d::", "src/lib.rs"];
    let lost = ["it_is_not", "a", "a::c", "c::", "src/none.rs", "src/none/"];
    assert!(there.iter().all(|name| is_there(name, &tests, &sources)));
    assert!(lost.iter().all(|name| !is_there(name, &tests, &sources)));
}
