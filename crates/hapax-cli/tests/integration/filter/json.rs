//! Ids in JSON: of several values, without their type, in arrays; and letters of both cases.

use crate::filter::bytes::gzip;
use crate::filter::inputs::Directory;
use crate::filter::state::State;
use crate::filter::{printed, said_of, text};

fn lines(options: &[&str], input: &str) -> String {
    text(&printed(options, input.as_bytes()))
}

#[test]
fn several_values_are_one_id_in_their_order() {
    let input = "{\"a\":\"ab\",\"b\":\"c\"}\n{\"a\":\"a\",\"b\":\"bc\"}\n{\"b\":\"c\",\"a\":\"ab\",\"n\":1}\n\
                 {\"a\":1,\"b\":true}\n{\"a\":\"1\",\"b\":true}\n{\"a\":1,\"b\":\"true\"}\n{\"a\":1,\"b\":true}\n";
    let several = ["--json", "/a", "--json", "/b"];
    let expected: Vec<_> = input.lines().enumerate().filter(|(i, _)| ![2, 6].contains(i)).map(|(_, l)| l).collect();
    assert_eq!(lines(&several, input).lines().collect::<Vec<_>>(), expected);
    let loose = lines(&[&several[..], &["--loose"]].concat(), input);
    assert_eq!(loose.lines().collect::<Vec<_>>(), [expected[0], expected[1], expected[2]]);
    let directory = Directory::new("json-several");
    let spilled = [&several[..], &["--spill", directory.0.to_str().unwrap()]].concat();
    assert_eq!(lines(&spilled, input).lines().collect::<Vec<_>>(), expected);
    let counts = directory.file("counts", b"");
    lines(&[&several[..], &["--count", &counts]].concat(), input);
    assert_eq!(std::fs::read_to_string(counts).unwrap(), "repeated\tat_least\tid\n1\t1\t1\ttrue\n1\t1\tab\tc\n");
}

#[test]
fn types_count_unless_they_are_not_to() {
    let input = "{\"a\":1}\n{\"a\":\"1\"}\n{\"a\":1.0}\n{\"a\":true}\n{\"a\":\"true\"}\n{\"a\":\"1.0\"}\n";
    assert_eq!(lines(&["--json", "/a"], input), input);
    assert_eq!(lines(&["--json", "/a", "--loose"], input), "{\"a\":1}\n{\"a\":1.0}\n{\"a\":true}\n");
    for (options, message) in
        [(&["--field", "1", "--loose"][..], "'--field <N,…>'"), (&["--loose"], "--json <POINTER>")]
    {
        let (_, errors, code) = said_of(options, input);
        assert!(code == Some(2) && errors.contains(message), "{errors}");
    }
}

#[test]
fn it_is_said_why_there_is_no_id() {
    let (several, one) = (["--json", "/a", "--json", "/b/c"], ["--json", "/b/c"]);
    for (input, message) in [
        ("{\"a\":1}\n", "missing or blank (see --missing): there is no value at `/b/c`"),
        ("{\"a\":1,\"b\":7}\n", "missing or blank (see --missing): there is no value at `/b/c`"),
        ("{\"a\":1,\"b\":{\"c\":null}}\n", "missing or blank (see --missing): the value at `/b/c` is null"),
        ("{\"a\":1,\"b\":{\"c\":\" \"}}\n", "missing or blank (see --missing): the value at `/b/c` is blank"),
        ("{\"a\":1,\"b\":{\"c\":{}}}\n", "the value at `/b/c` is an object, and not a string, number or boolean"),
        ("{\"a\":1,\"b\":{\"c\":[]}}\n", "the value at `/b/c` is an array, and not a string, number or boolean"),
    ] {
        for options in [&several[..], &one] {
            let whole = format!("{{\"a\":1,\"b\":{{\"c\":2}}}}\n{input}");
            let (output, errors, code) = said_of(options, &whole);
            assert_eq!((output.lines().count(), code), (1, Some(3)), "{errors}");
            assert!(errors.starts_with("hapax: standard input, line 2: ") && errors.contains(message), "{errors}");
            let is_missing = message.starts_with("missing");
            let passed = if is_missing { &whole[..] } else { &whole[..whole.find('\n').unwrap() + 1] };
            let output = lines(&[options, &["--missing", "pass", "--on-bad", "skip"]].concat(), &whole);
            assert_eq!(output, passed, "an object is bad, and the others are missing");
        }
    }
    let (_, errors, _) = said_of(&["--json", "/a,/b"], "{\"a\":1,\"b\":2}\n");
    assert!(errors.contains("no value at `/a,/b` (for several, give --json several times)"), "{errors}");
    let times = ["--json", "/a", "--time-json", "/at", "--window", "1m"];
    for (input, message) in
        [("{\"a\":1}", "no value at `/at`"), ("{\"a\":1,\"at\":null}", "the value at `/at` is null")]
    {
        let (_, errors, code) = said_of(&times, input);
        assert!(
            code == Some(3) && errors.contains("line 1: there is no time: ") && errors.contains(message),
            "{errors}"
        );
    }
}

const ARRAY: &str = "\n[\n  {\"id\": 1,\n   \"n\": [\"],\"]},\n  {\"id\": 2}, {\"id\": 1}\n]\n";
const ELEMENTS: &str = "{\"id\": 1,    \"n\": [\"],\"]}\n{\"id\": 2}\n";

#[test]
fn elements_of_an_array_are_records_in_every_way() {
    let directory = Directory::new("json-array");
    let id = ["--json", "/id"];
    let plain = directory.file("a.json", ARRAY.as_bytes());
    let gz = directory.file("a.json.gz", &gzip(ARRAY.as_bytes()));
    let rows = directory.file("rows.jsonl", b"{\"id\": 3}\n{\"id\": 2}\n");
    assert_eq!(lines(&id, ARRAY), ELEMENTS);
    for file in [&plain, &gz] {
        assert_eq!(lines(&[&id[..], &[file, &rows]].concat(), ""), format!("{ELEMENTS}{{\"id\": 3}}\n"), "{file}");
    }
    let spill = [&id[..], &["--spill", directory.0.to_str().unwrap()]].concat();
    assert_eq!((lines(&spill, ARRAY), lines(&[&spill[..], &[&gz]].concat(), "")), (ELEMENTS.into(), ELEMENTS.into()));
    let [counts, again] = ["counts", "again"].map(|name| directory.file(name, b""));
    let marked = lines(&[&id[..], &["--mark", "--count", &counts]].concat(), ARRAY);
    assert!(marked.ends_with("fresh:window\t{\"id\": 2}\nduplicate:window\t{\"id\": 1}\n"), "{marked}");
    assert_eq!(std::fs::read_to_string(counts).unwrap(), "repeated\tat_least\tid\n1\t1\t1\n");
    assert_eq!(lines(&[&id[..], &["--duplicates-to", &again]].concat(), ARRAY), ELEMENTS);
    assert_eq!(std::fs::read_to_string(again).unwrap(), "{\"id\": 1}\n");
    // A pointer to all of an element, and one into lines that are arrays.
    assert_eq!(lines(&["--json", ""], "[\"a\", 1, \"a\"]"), "\"a\"\n1\n");
    assert_eq!(lines(&["--json", "/0"], "[\"a\", 1]\n[\"a\", 2]\n[\"b\"]\n"), "[\"a\", 1]\n[\"b\"]\n");
    assert_eq!((lines(&id, "[]"), lines(&id, "")), (String::new(), String::new()));
    // Another kind of id knows no arrays.
    assert_eq!(lines(&[], "[1,\n1,\n1,\n2]"), "[1,\n1,\n2]\n");
}

#[test]
fn what_is_wrong_with_an_array_is_said_with_its_place() {
    let options = ["--json", "/id"];
    for (input, output, message) in [
        (
            "[{\"id\":1},\n{\"id\":null}]",
            1,
            "element 2: the id is missing or blank (see --missing): the value at `/id` is",
        ),
        ("[{\"id\":1},\n{\"id\"}]", 1, "element 2: it is no JSON: expected `:` at column 6"),
        ("[{\"id\":1},\n{\"id\":2}", 1, "line 2, column 8: it is no array of JSON: it does not end"),
        (
            "[{\"id\":1}]\n{\"id\":2}",
            1,
            "line 2, column 1: it is no array of JSON: there is something behind the array",
        ),
    ] {
        let (printed, errors, code) = said_of(&options, input);
        assert_eq!((printed.lines().count(), code), (output, Some(3)), "{errors}");
        assert!(errors.starts_with(&format!("hapax: standard input, {message}")), "{errors}");
        let directory = Directory::new("json-wrong");
        let spill = [&options[..], &["--spill", directory.0.to_str().unwrap()]].concat();
        let (printed, of_spill, code) = said_of(&spill, input);
        assert_eq!((printed.as_str(), of_spill.as_str(), code), ("", errors.as_str(), Some(3)));
        let skipping = said_of(&[&options[..], &["--on-bad", "skip", "--missing", "drop"]].concat(), input).2;
        assert_eq!(skipping, if message.starts_with("element") { Some(0) } else { Some(3) }, "{message}");
    }
    let long = ["--json", "/id", "--line-bytes-max", "20"];
    let input = format!("[{{\"id\":1}},{{\"id\":\"{}\"}},{{\"id\":1}}]", "x".repeat(600_000));
    assert!(said_of(&long, &input).1.contains("element 2: it is longer than 20 B"));
    let skipping = [&long[..], &["--on-bad", "skip"]].concat();
    assert_eq!(lines(&skipping, &input), "{\"id\":1}\n");
    let late = ["--json", "/id", "--time-json", "/t", "--time-format", "s", "--window", "1m", "--refused", "error"];
    let (_, errors, _) = said_of(&late, "[{\"id\":1,\"t\":1},{\"id\":2,\"t\":7258118400}]");
    assert!(errors.contains("standard input, element 2: its time is too far ahead"), "{errors}");
}

#[test]
fn a_run_goes_on_in_an_array() {
    let (state, directory) = (State::new("array"), Directory::new("array-state"));
    let elements =
        |ids: std::ops::Range<u32>| ids.map(|id| format!("{{\n \"id\": {id}\n}}")).collect::<Vec<_>>().join(",");
    let many = directory.file("many.json", format!("[{}, nonsense]", elements(0..20_000)).as_bytes());
    let options = ["--json", "/id"];
    let output = state.filter(&[&options[..], &[&many]].concat()).output().unwrap();
    assert_eq!((output.status.code(), text(&output.stdout).lines().count()), (Some(3), 20_000));
    // The same file, mended.
    directory.file("many.json", format!("[{}]", elements(0..20_003)).as_bytes());
    let rest = state.lines(&[&options[..], &[&many]].concat(), "");
    assert_eq!(rest, (20_000..20_003).map(|id| format!("{{  \"id\": {id} }}\n")).collect::<String>());
    assert_eq!(state.lines(&[&options[..], &[&many]].concat(), ""), "");
    // Other options begin anew, and ids that are the same are known.
    let output = state.filter(&[&options[..], &["--loose", &many]].concat()).output().unwrap();
    assert!(text(&output.stderr).contains("with other options") && output.stdout.is_empty());
}

#[test]
fn letters_of_both_cases_are_one_id() {
    let directory = Directory::new("case");
    let spill = ["--spill", directory.0.to_str().unwrap()];
    let tsv = "Ab\tC\nab\tc\nabc\t\nÄÖ\tx\näö\tX\nCASE\n";
    for (options, input, expected) in [
        (
            &[][..],
            "Straße\nSTRAßE\nstrasse\n \u{1e9e}\nİ\ni\u{307}\na\u{ff}\n",
            "Straße\nstrasse\n \u{1e9e}\nİ\na\u{ff}\n",
        ),
        (&["--field", "1"], tsv, "Ab\tC\nabc\t\nÄÖ\tx\nCASE\n"),
        (&["--field", "1,2", "--missing", "drop"], tsv, "Ab\tC\nÄÖ\tx\n"),
        (&["--column", "Id"], "Id\tn\na\t1\nA\t2\n", "Id\tn\na\t1\n"),
        (&["--regex", "id=(\\w+)"], "id=Q\nid=q\nid=r\n", "id=Q\nid=r\n"),
        (&["--json", "/a"], "{\"a\":\"X\"}\n{\"a\":\"x\"}\n", "{\"a\":\"X\"}\n"),
        (&["--json", "/a"], "{\"a\":true}\n{\"a\":\"TRUE\"}\n{\"a\":\"True\"}\n", "{\"a\":true}\n{\"a\":\"TRUE\"}\n"),
        (&["--json", "/a", "--loose"], "{\"a\":true}\n{\"a\":\"TRUE\"}\n", "{\"a\":true}\n"),
        (&["--json", "/a"], "{\"a\":1E5}\n{\"a\":1e5}\n{\"a\":\"1e5\"}\n", "{\"a\":1E5}\n{\"a\":\"1e5\"}\n"),
    ] {
        let options = [options, &["--ignore-case"]].concat();
        assert_eq!(lines(&options, input), expected, "{options:?}");
        assert_eq!(lines(&[&options[..], &spill].concat(), input), expected, "{options:?}");
    }
    assert_eq!(printed(&["--ignore-case"], b"A\xff\na\xff\na\xfe\n"), b"A\xff\na\xfe\n");
    let counts = directory.file("counts", b"");
    lines(&["--ignore-case", "--count", &counts], "Ab\naB\nAB\n");
    assert_eq!(std::fs::read_to_string(&counts).unwrap(), "repeated\tat_least\tid\n2\t2\tab\n");
    let state = State::new("case");
    let input = directory.file("in", b"a\nA\n");
    assert_eq!(state.lines(&[&input], ""), "a\nA\n");
    let output = state.filter(&["--ignore-case", &input]).output().unwrap();
    assert!(text(&output.stderr).contains("with other options"), "{output:?}");
    assert_eq!(
        (state.lines(&["--ignore-case"], "B\n"), state.lines(&["--ignore-case"], "b\nc\n")),
        ("B\n".into(), "c\n".into())
    );
}
