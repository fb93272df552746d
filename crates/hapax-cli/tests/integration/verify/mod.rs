//! `hapax verify`, from outside.

mod recorders;

use std::io::Write;
use std::process::{Command, Output, Stdio};

const TERMS: &str = r#"{"hapax_history": 1, "window_ns": 1000, "clock": "given"}"#;

/// Runs the command on a history on standard input.
fn verify(options: &[&str], history: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hapax"));
    command.arg("verify").args(options).arg("-");
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // It may end before it has read everything.
    let _ = child.stdin.take().unwrap().write_all(history.as_bytes());
    child.wait_with_output().unwrap()
}

/// Returns a history of checks: thread, id, start, end, time, answer.
fn history(checks: &[(&str, &str, u64, u64, u64, &str)]) -> String {
    let line = |&(thread, id, start, end, at, answer): &_| {
        format!(
            r#"{{"thread": "{thread}", "id": "{id}", "start": {start}, "end": {end}, "at": {at}, "answer": "{answer}"}}"#
        )
    };
    let lines = checks.iter().map(line);
    std::iter::once(TERMS.to_owned()).chain(lines).map(|line| line + "\n").collect()
}

fn code(output: &Output) -> Option<i32> {
    output.status.code()
}

fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn error(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[test]
fn a_right_history_is_right_to_the_nanosecond() {
    let right = history(&[
        ("a", "x", 1, 2, 5, "fresh"),
        ("b", "x", 3, 4, 1_004, "duplicate"),
        ("b", "x", 5, 6, 1_005, "fresh"),
        ("a", "y", 7, 8, 1_005, "fresh"),
    ]);
    let output = verify(&[], &right);
    assert_eq!((code(&output), error(&output)), (Some(0), String::new()));
    assert!(out(&output).starts_with("right: 4 calls, 3 fresh, 1 duplicates"), "{}", out(&output));
    assert!(out(&output).contains("\nnever exercised: no two calls of one id overlapped\n"), "{}", out(&output));
    let json: serde_json::Value = serde_json::from_slice(&verify(&["--json"], &right).stdout).unwrap();
    assert_eq!((&json["right"], &json["calls"], &json["live_max"]), (&true.into(), &4.into(), &2.into()));
}

#[test]
fn a_wrong_history_is_named_with_its_own_names() {
    for (checks, says) in [
        (vec![("a", "x", 1, 9, 5, "fresh"), ("b", "x", 2, 8, 5, "fresh")], "id \"x\": fresh to two overlapping calls"),
        (vec![("a", "x", 1, 2, 5, "fresh"), ("b", "x", 3, 4, 1_004, "fresh")], "id \"x\": forgotten 1ns early"),
        (
            vec![("a", "x", 1, 2, 5, "fresh"), ("b", "x", 3, 4, 1_005, "duplicate")],
            "id \"x\": still remembered at the end of the window",
        ),
        (vec![("a", "w", 0, 0, 5, "fresh"), ("b", "x", 3, 4, 5, "duplicate")], "id \"x\": fresh to nobody"),
    ] {
        let output = verify(&[], &history(&checks));
        assert_eq!((code(&output), error(&output)), (Some(1), String::new()), "{says}");
        assert!(out(&output).starts_with(says), "{says}: {}", out(&output));
        assert!(out(&output).contains("is \"b\"\n"), "{}", out(&output));
        let json: serde_json::Value = serde_json::from_slice(&verify(&["--json"], &history(&checks)).stdout).unwrap();
        assert_eq!((&json["right"], &json["id"]), (&false.into(), &"x".into()));
    }
}

#[test]
fn claims_leases_and_tokens_are_judged() {
    let terms = r#"{"hapax_history": 1, "window_ns": "1000", "clock": "own", "lease_ns": 100}"#;
    let claimed = |thread: u8, start: u64, token: u64| {
        format!(
            r#"{{"thread": {thread}, "id": 17, "start": {start}, "end": {start}, "answer": "claimed", "token": {token}}}"#
        )
    };
    let completed = |start: u64, answer: &str| {
        format!(r#"{{"thread": 1, "id": "17", "start": {start}, "end": {start}, "answer": "{answer}"}}"#)
    };
    let judged = |lines: &[String]| {
        let output = verify(&[], &format!("{terms}\n{}\n", lines.join("\n")));
        (code(&output), out(&output) + &error(&output))
    };
    let (right, _) = judged(&[claimed(1, 0, 1), claimed(2, 100, 2), completed(150, "refused")]);
    assert_eq!(right, Some(0), "a late holder is refused");
    for (lines, says) in [
        (vec![claimed(1, 0, 1), claimed(2, 99, 2)], "taken over 1ns before its lease ended"),
        (vec![claimed(1, 0, 1), claimed(2, 100, 1)], "two claims got the token 1"),
        (vec![claimed(1, 0, 1), claimed(2, 100, 2), completed(150, "completed")], "no longer belonged"),
    ] {
        let (code, said) = judged(&lines);
        assert!(code == Some(1) && said.contains(says), "{says}: {said}");
    }
}

#[test]
fn what_cannot_be_read_is_said_with_its_line() {
    let after = |line: &str| format!("{TERMS}\n{line}\n");
    let call = r#""thread": 1, "id": 1, "start": 5, "at": 1"#;
    for (history, says) in [
        (String::new(), "is empty; its first line has the terms"),
        ("{}\n".into(), "-:1: the terms of the history: missing field `hapax_history`"),
        (r#"{"hapax_history": 2, "window_ns": 1}"#.into(), "-:1: a history of format 2; this command reads format 1"),
        (r#"{"hapax_history": 1, "window_ns": -1}"#.into(), "-:1: the terms of the history: expected a whole number"),
        (after(&format!(r#"{{{call}, "end": 6, "answer": "perhaps"}}"#)), "-:2: unknown variant `perhaps`"),
        (after(&format!(r#"{{{call}, "end": 6, "answer": "fresh", "colour": 1}}"#)), "-:2: unknown field `colour`"),
        (after(&format!(r#"{{{call}, "end": 4, "answer": "fresh"}}"#)), "-:2: `end` is 4, before `start`, 5"),
        (after(&format!(r#"{{{call}, "answer": "fresh"}}"#)), "-:2: there is an answer, and no `end`"),
        (after(&format!(r#"{{{call}, "end": 6, "answer": "none"}}"#)), "-:2: the answer is `none`, and `end` is 6"),
        (after(r#"{"thread": 1, "id": 1, "start": 1, "end": 2, "answer": "fresh"}"#), "-:2: there is no `at`"),
        (after(&format!(r#"{{{call}, "end""#)), "-:2: "),
        (format!("{TERMS}\n{{\"thread\": 1, \"i"), "the last line has no end: if the recorder was killed"),
        (
            history(&[("a", "x", 1, 9, 5, "fresh"), ("b", "x", 2, 3, 5, "duplicate"), ("a", "x", 8, 9, 5, "fresh")]),
            "-:4: the call of thread \"a\" starts at 8, before its call of line 2 ended, at 9",
        ),
        (format!("{TERMS}\n{}", " ".repeat((1 << 20) + 1)), "line 2 is longer than 1048576 bytes"),
    ] {
        let output = verify(&[], &history);
        assert_eq!((code(&output), out(&output)), (Some(2), String::new()), "{says}");
        assert!(error(&output).contains(says), "{says}: {}", error(&output));
    }
    let missing = Command::new(env!("CARGO_BIN_EXE_hapax")).args(["verify", "/no/such/file"]).output().unwrap();
    assert!(code(&missing) == Some(2) && error(&missing).contains("/no/such/file: No such file"), "{missing:?}");
}

#[test]
fn many_calls_are_judged() {
    let calls: u64 = testkit::long(80_000, 1_000_000);
    let call = |n: u64| {
        let (id, answer) = (n / 2, if n.is_multiple_of(2) { "fresh" } else { "duplicate" });
        format!(
            "{{\"thread\": {}, \"id\": {id}, \"start\": {n}, \"end\": {n}, \"at\": 5, \"answer\": \"{answer}\"}}\n",
            n % 4
        )
    };
    let history: String = std::iter::once(format!("{TERMS}\n")).chain((0..calls).map(call)).collect();
    let begun = std::time::Instant::now();
    let output = verify(&[], &history);
    println!("{:?} for {calls} calls", begun.elapsed());
    let says = format!("right: {calls} calls, {} fresh", calls / 2);
    assert!(code(&output) == Some(0) && out(&output).starts_with(&says), "{output:?}");
}
