//! Times as other programs write them.

use crate::filter::inputs::Directory;
use crate::filter::state::State;
use crate::filter::{filter, run};

/// Returns the output, the message and the exit code.
fn said(options: &[&str], input: &str) -> (String, String, Option<i32>) {
    let options = [&["--delimiter", "|", "--field", "1", "--time-field", "2", "--window", "10s"], options].concat();
    let output = run(filter(&options), input.as_bytes());
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr), output.status.code())
}

#[test]
fn times_of_other_programs() {
    // Of three sightings the second one is within ten seconds of the first, and the third is not.
    for (options, times) in [
        (
            &["python", "--time-zone", "UTC"][..],
            ["2026-11-20 10:00:00,123", "2026-11-20 10:00:10,122", "2026-11-20 10:00:10,500"],
        ),
        (
            &["rfc3339", "--time-zone", "+02:00"],
            ["2026-11-20T10:00:00", "2026-11-20T08:00:09Z", "2026-11-20T10:00:10.5"],
        ),
        (&["apache"], ["10/Oct/2026:13:55:36 +0000", "10/Oct/2026:15:55:45 +0200", "[10/Oct/2026:13:55:47 +0000]"]),
        (
            &["apache", "--time-zone", "-05:00"],
            ["[10/Oct/2026:13:55:36", "10/Oct/2026:13:55:45", "10/Oct/2026:18:55:47 +0000"],
        ),
        (&["syslog", "--time-zone", "UTC"], ["Mar  7 10:00:00", "Mar  7 10:00:09", "Mar 07 10:00:11"]),
        (
            &["%d.%m.%Y %H:%M:%S", "--time-zone", "UTC"],
            ["20.11.2026 10:00:00", "20.11.2026 10:00:09", "20.11.2026 10:00:11"],
        ),
        (&["%d.%m.%Y %H:%M %z"], ["20.11.2026 10:00 +0000", "20.11.2026 11:00 +0100", "20.11.2026 10:01 +0000"]),
    ] {
        let options = [&["--time-format"], options].concat();
        let rows = times.map(|time| format!("a|{time}\n"));
        let (output, errors, code) = said(&options, &rows.concat());
        assert_eq!((output, errors.as_str(), code), (rows[0].clone() + &rows[2], "", Some(0)), "{options:?}");
    }
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
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.stdout.len(), errors.contains("with other options")), (0, is_other), "{zone}: {errors}");
    }
}
