//! Events whose time cannot be right.

use crate::filter::state::State;
use crate::filter::{run, said_of, text};

const AT: [&str; 6] = ["--field", "1", "--delimiter", " ", "--time-field", "2"];

fn times<'a>(format: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [&AT[..], &["--time-format", format, "--window", "100s"], more].concat()
}

const FUTURE: &str = "a 1000\nb 1010\nx 7258118400\na 1020\na 1101\n";

#[test]
fn an_event_from_the_year_2200_is_printed_and_moves_no_time() {
    let (printed, errors, code) = said_of(&times("s", &[]), FUTURE);
    assert_eq!((printed.as_str(), code), ("a 1000\nb 1010\nx 7258118400\na 1101\n", Some(0)));
    assert_eq!(errors.lines().count(), 1, "{errors}");
    assert!(errors.contains("1 events have times") && errors.contains("1 too far ahead, 0 too late"), "{errors}");
    let (printed, errors, _) = said_of(&times("s", &["--refused", "drop", "--stats", "--format=json"]), FUTURE);
    assert_eq!(printed, "a 1000\nb 1010\na 1101\n");
    let stats: serde_json::Value = serde_json::from_str(errors.lines().nth(1).unwrap()).unwrap();
    assert_eq!((&stats["refused_ahead"], &stats["refused_late"]), (&1.into(), &0.into()));
    assert_eq!((&stats["duplicates"], &stats["lines"]), (&1.into(), &5.into()));
    assert!(errors.contains("dropped: 1 too far ahead"), "{errors}");
    let (_, errors, _) = said_of(&times("s", &["--stats"]), FUTURE);
    assert!(errors.contains("refused, too far ahead    1\n"), "{errors}");
    let (printed, ..) = said_of(&times("s", &["--mark"]), FUTURE);
    assert!(
        printed.contains("refused:ahead x 7258118400\n") && printed.contains("duplicate:window a 1020\n"),
        "{printed}"
    );
    assert_eq!(said_of(&times("s", &["--duplicates"]), FUTURE).0, "a 1020\n");
}

#[test]
fn what_is_too_late_is_refused_if_that_is_wanted() {
    let input = "a 1000\nb 1050\nc 1019\nd 1020\n";
    assert_eq!(said_of(&times("s", &[]), input), (input.to_string(), String::new(), Some(0)));
    let late = times("s", &["--allowed-lateness", "30s", "--mark"]);
    let (printed, errors, _) = said_of(&late, input);
    assert!(printed.contains("refused:late c 1019\nfresh:window d 1020\n"), "{printed}");
    assert!(errors.contains("0 too far ahead, 1 too late"), "{errors}");
}

#[test]
fn an_error_ends_before_the_line_and_a_rerun_goes_on_from_there() {
    let input = "a 1000\n\nb 1010\nx 7258118400\na 1020\n";
    let with = |refused| times("s", &["--missing", "pass", "--refused", refused]);
    let (printed, errors, code) = said_of(&with("error"), input);
    assert_eq!((printed.as_str(), code), ("a 1000\n\nb 1010\n", Some(3)));
    assert!(errors.contains("standard input, line 4: its time is too far ahead"), "{errors}");
    let state = State::new("refused");
    let output = run(state.filter(&with("error")), input.as_bytes());
    assert_eq!(text(&output.stdout), "a 1000\n\nb 1010\n");
    let output = run(state.filter(&with("drop")), (input.to_string() + "c 1030\n").as_bytes());
    assert_eq!(text(&output.stdout), "c 1030\n", "a is a duplicate of the first run's");
}

#[test]
fn times_that_are_unrelated_to_a_clock() {
    let far = "a 4000000000\nb 4000000001\n";
    assert_eq!(said_of(&times("s", &["--time-unrelated"]), far), (far.to_string(), String::new(), Some(0)));
    assert!(said_of(&times("s", &["--max-skew", "4000000000s"]), far).1.is_empty());
    let jump = times("s", &["--time-unrelated", "--max-jump", "1h", "--refused", "drop"]);
    let (printed, errors, _) = said_of(&jump, "a 1000\nx 900000\na 1001\nb 1002\n");
    assert_eq!(printed, "a 1000\nb 1002\n");
    assert!(errors.contains("1 too far ahead"), "{errors}");
    // A quiet night is no fault: enough events agree.
    let morning: String = (0..30).map(|i| format!("m{i} {}\n", 50_000 + i)).collect();
    let (printed, errors, _) = said_of(&jump, &format!("a 1000\n{morning}"));
    assert_eq!(printed.lines().count(), 1 + 15, "{errors}");
    for (options, problem) in [
        (&["--max-jump", "1h"][..], "--time-unrelated"),
        (&["--time-unrelated", "--max-skew", "1h"], "cannot be used with"),
    ] {
        let (_, errors, code) = said_of(&times("s", options), "");
        assert!(code == Some(2) && errors.contains(problem), "{errors}");
    }
    let (_, errors, code) = said_of(&["--allowed-lateness", "1s"], "");
    assert!(code == Some(2) && errors.contains("--time-field"), "{errors}");
}
