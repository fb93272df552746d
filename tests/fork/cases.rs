//! The cases, and how they are run.

use super::world::{Part, alarm};
use super::{journal, memory};
use std::process::{Command, Stdio};

type Case = (&'static str, fn());

const CASES: &[Case] = &[
    ("a_child_has_no_journal", journal::a_child_has_no_journal),
    ("a_child_gives_up_nothing_of_its_parent", journal::a_child_gives_up_nothing_of_its_parent),
    ("a_child_does_not_keep_what_its_parent_gives_up", journal::a_child_does_not_keep_what_its_parent_gives_up),
    ("a_child_does_not_keep_what_its_parent_dies_with", journal::a_child_does_not_keep_what_its_parent_dies_with),
    ("a_child_has_a_journal_of_its_own", journal::a_child_has_a_journal_of_its_own),
    ("a_child_that_the_library_does_not_know_of", journal::a_child_that_the_library_does_not_know_of),
    ("forks_at_full_speed", journal::forks_at_full_speed),
    ("a_child_goes_on_in_memory", memory::a_child_goes_on_in_memory),
    ("children_draw_different_numbers", memory::children_draw_different_numbers),
    ("a_child_changes_no_segments_of_its_parent", super::segments::a_child_changes_no_segments_of_its_parent),
];

/// Runs a part of a case, if it is asked for one; else all cases whose names contain the argument.
pub fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let Some(part) = Part::asked_for() {
        return part.run();
    }
    if let [case, run] = &arguments[..]
        && run == "--run"
    {
        // A guard against hanging alone.
        alarm(300);
        let (_, case) = CASES.iter().find(|(name, _)| name == case).expect("a case");
        return case();
    }
    if arguments.iter().any(|argument| argument == "--list") {
        return CASES.iter().for_each(|(name, _)| println!("{name}: test"));
    }
    let wanted: Vec<_> = arguments.iter().filter(|argument| !argument.starts_with('-')).collect();
    let is_wanted = |name: &str| wanted.is_empty() || wanted.iter().any(|part| name.contains(part.as_str()));
    let failed: Vec<_> = CASES.iter().map(|(name, _)| *name).filter(|name| is_wanted(name) && !passes(name)).collect();
    assert!(failed.is_empty(), "failed: {failed:?}");
}

fn passes(name: &str) -> bool {
    let mut command = Command::new(std::env::current_exe().unwrap());
    let status = command.args([name, "--run"]).stdin(Stdio::null()).status().unwrap();
    println!("{name}: {}", if status.success() { "ok".into() } else { status.to_string() });
    status.success()
}
