//! `--null`: records that end with NUL.

use crate::filter::inputs::Directory;
use crate::filter::state::State;
use crate::filter::{filter, printed, run, said};
use std::fs;

#[test]
fn records_end_with_nul_in_and_out() {
    let names: &[u8] = b"./a\nb\0./a\n\0./a\r\0./a\nb\0./a\0./a\r";
    let once: &[u8] = b"./a\nb\0./a\n\0./a\r\0./a\0";
    let directory = Directory::new("null");
    let spill = directory.0.to_str().unwrap();
    for how in [&[][..], &["--spill", spill], &["--window", "1h"]] {
        assert_eq!(printed(&[&["--null"], how].concat(), names), once, "{how:?}");
    }
    let last: &[u8] = b"./a\n\0./a\nb\0./a\0./a\r\0";
    assert_eq!(printed(&["--null", "--keep", "last"], names), last);
    assert_eq!(printed(&["--null", "--keep", "last", "--spill", spill], names), last);
    assert_eq!(printed(&["--null", "--mark"], b"a\0a"), b"fresh:window\ta\0duplicate:window\ta\0");
    // It is no UTF-16.
    assert_eq!(printed(&["--null"], b"a\0b\0\n\0c\0a\0"), b"a\0b\0\n\0c\0");
    // Fields have no quotes, and a header is the first record.
    let rows = b"id,n\0\"a,1\0\"a,2\0b\n,3\0b\n,4\0";
    assert_eq!(printed(&["--null", "--column", "id", "--delimiter", ","], rows), b"id,n\0\"a,1\0b\n,3\0");
    assert_eq!(printed(&["--null", "--json", "/id"], b"{\n\"id\":1}\0{\"id\":\n1}\0"), b"{\n\"id\":1}\0");
    let (code, _, errors) = said(&run(filter(&["--null", "--quote", "'"]), b""));
    assert!(code == Some(2) && errors.contains("--null") && errors.contains("--quote"), "{errors}");
    // Records are what is counted, and what may be too long.
    let (code, _, errors) = said(&run(filter(&["--null", "--json", "/id"]), b"{\"id\":\n\n1}\0no\0"));
    assert!(code == Some(3) && errors.contains("line 2: "), "{errors}");
    let long = [vec![b'\n'; 1 << 20], b"\0a\0".to_vec()].concat();
    let short = ["--null", "--line-bytes-max", "9", "--on-bad", "skip", "--stats", "--format=json"];
    let (_, output, errors) = said(&run(filter(&short), &long));
    assert!(output == "a\0" && errors.contains("\"bad\":1,"), "{output:?} {errors}");
}

#[test]
fn a_state_goes_on_behind_a_record_that_had_no_end() {
    let (state, directory) = (State::new("null"), Directory::new("null-state"));
    let [input, again] = ["in", "again"].map(|name| directory.file(name, b""));
    let mut runs = Vec::new();
    for content in [&b"a\0b\n\0b\n\0c"[..], b"a\0b\n\0b\n\0c\0d\0d"] {
        fs::write(&input, content).unwrap();
        let output = state.filter(&["--null", "--duplicates-to", &again, &input]).output().unwrap();
        assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
        runs.push(output.stdout);
    }
    assert_eq!(runs, [&b"a\0b\n\0c\0"[..], b"d\0"]);
    assert_eq!(fs::read(&again).unwrap(), b"b\n\0d\0");
    // And as text the same file is another input.
    let (_, output, errors) = said(&state.filter(&[&input]).output().unwrap());
    assert!(errors.contains("with other options") && output.starts_with("a\0b\n"), "{output:?} {errors}");
}

#[test]
#[cfg(target_os = "linux")]
fn a_writer_that_is_killed_leaves_whole_records() {
    use std::io::Read;
    let directory = Directory::new("null-kill");
    let records: Vec<u8> = (0..200_000).flat_map(|i| format!("{i}\n{i}\0").into_bytes()).collect();
    let mut child = filter(&["--null", &directory.file("in", &records)]).spawn().unwrap();
    std::thread::sleep(std::time::Duration::from_millis(300));
    child.kill().unwrap();
    let mut taken = Vec::new();
    child.stdout.take().unwrap().read_to_end(&mut taken).unwrap();
    child.wait().unwrap();
    assert!(records.starts_with(&taken) && taken.last().is_none_or(|end| *end == 0), "{}", taken.len());
}
