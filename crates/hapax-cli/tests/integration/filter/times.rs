//! Times as other programs write them.

use crate::filter::inputs::Directory;
use crate::filter::state::State;
use crate::filter::{said_of, text};

fn said(options: &[&str], input: &str) -> (String, String, Option<i32>) {
    let of_rows = ["--delimiter", "|", "--field", "1", "--time-field", "2", "--window", "10s"];
    said_of(&[&of_rows[..], options].concat(), input)
}

#[test]
fn what_a_zone_has_to_say_is_asked_for() {
    for (options, message) in [
        (&["--time-format", "syslog"][..], "--time-format: it has no time zone: say which (like --time-zone UTC)"),
        (&["--time-format", "%d.%m.%Y"], "--time-format: it has no time zone: say which (like --time-zone UTC)"),
        (&["--time-format", "%H:%M %z"], "--time-format: "),
        (
            &["--time-format", "iso"],
            "'iso' for '--time-format <FORMAT>': it is none of s, ms, us, ns, rfc3339, python,",
        ),
        (
            &["--time-zone", "Berlin"],
            "'Berlin' for '--time-zone <ZONE>': it is no zone like UTC, +02:00 or Europe/Berlin",
        ),
    ] {
        let (_, errors, code) = said(options, "");
        assert!(code == Some(2) && errors.contains(message), "{errors}");
    }
    let (_, errors, code) = said(&[], "a|2026-11-20 10:00:00\n");
    assert_eq!(code, Some(3));
    assert!(errors.contains("line 1: `2026-11-20 10:00:00` is no RFC 3339 time: it has no time zone: say"), "{errors}");
    let (_, errors, code) = said(&["--time-zone", "CET-1CEST,M3.5.0,M10.5.0/3"], "a|2025-10-26 02:30:00\n");
    assert!(code == Some(3) && errors.contains("ambiguous"), "{errors}");
}

#[test]
fn a_unit_that_is_another_one_is_noticed_once() {
    let directory = Directory::new("units");
    let rows: String = (0..40_000).map(|i| format!("{i}|{}\n", 1_686_440_593 + i)).collect();
    let file = directory.file("rows", rows.as_bytes());
    let warned = |options: &[&str]| {
        let (output, errors, code) = said(options, "");
        assert_eq!((output.lines().count(), code), (40_000, Some(0)), "{errors}");
        errors
    };
    let expected = format!(
        "hapax: warning: {file}: times cannot be right: `1686440593` looks like seconds since 1970 (--time-format s)\n"
    );
    for unit in ["ms", "us", "ns"] {
        assert_eq!(warned(&["--time-format", unit, &file]), expected);
        assert_eq!(warned(&["--time-format", unit, "--time-unrelated", &file]), "");
    }
    assert_eq!(warned(&["--time-format", "s", &file]), "");
    // The reverse is more than there can be.
    let (_, errors, code) = said(&["--time-format", "s"], "a|1686440593000\n");
    assert!(code == Some(3) && errors.contains("it looks like milliseconds since 1970 (--time-format ms)"), "{errors}");
}

#[test]
fn a_zone_is_a_part_of_the_state() {
    let (state, directory) = (State::new("zones"), Directory::new("zones"));
    let file = directory.file("in", b"a 2026-11-20T10:00:00\n");
    let options = ["--field", "1", "--delimiter", " ", "--time-field", "2", "--window", "1m", "--time-zone"];
    assert_eq!(state.lines(&[&options[..], &["UTC", &file]].concat(), ""), "a 2026-11-20T10:00:00\n");
    for (zone, is_other) in [("UTC", false), ("+01:00", true)] {
        let output = state.filter(&[&options[..], &[zone, &file]].concat()).output().unwrap();
        let errors = text(&output.stderr);
        assert_eq!((output.stdout.len(), errors.contains("with other options")), (0, is_other), "{zone}: {errors}");
    }
}
