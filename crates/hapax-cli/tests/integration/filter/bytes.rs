//! Input is bytes, however they are written, wrapped and compressed.

use crate::filter::inputs::Directory;
use crate::filter::{code_and_errors, filter, printed, run};
use std::io::Write;

pub fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(text).and_then(|()| encoder.finish()).expect("memory takes everything")
}

pub fn zstd(text: &[u8]) -> Vec<u8> {
    zstd::encode_all(text, 1).expect("memory takes everything")
}

#[test]
fn ends_of_lines_are_kept_and_are_not_part_of_ids() {
    assert_eq!(printed(&[], b"a\r\nb\na\nb\r\n"), b"a\r\nb\n");
    assert_eq!(printed(&[], b"a\nb"), b"a\nb\n", "the last line gets an end");
    assert_eq!(printed(&[], b"b\na\nb"), b"b\na\n");
    assert_eq!(printed(&["--field", "2"], b"x\ta\r\ny\ta\n"), b"x\ta\r\n");
    assert_eq!(printed(&[], b""), b"");
}

#[test]
fn ids_are_any_bytes() {
    assert_eq!(printed(&[], b"a\0b\na\0c\na\0b\n\xff\xfe\n\xff\n\xff\xfe\n"), b"a\0b\na\0c\n\xff\xfe\n\xff\n");
    let by_regex = printed(&["--regex", r"(?-u)\xff(.)"], b"\xffa\n\xffb\n\xffa\n");
    assert_eq!(by_regex, b"\xffa\n\xffb\n", "bytes need not be text for a regex");
    let nul = printed(&["--field", "2", "--delimiter", ","], b"1,\0\n2,\0\0\n3,\0\n");
    assert_eq!(nul, b"1,\0\n2,\0\0\n");
}

#[test]
fn lines_may_be_long() {
    let line = |byte: u8| [vec![byte; 5 << 20], b"\n".to_vec()].concat();
    let input = [line(b'x'), line(b'y'), line(b'x')].concat();
    assert!(printed(&[], &input) == [line(b'x'), line(b'y')].concat());
}

#[test]
fn compressed_input_is_recognized_by_content_from_files_and_pipes() {
    let text: Vec<u8> = (0..50_000).flat_map(|i| format!("{}\n", i % 40_000).into_bytes()).collect();
    let expected: Vec<u8> = (0..40_000).flat_map(|i| format!("{i}\n").into_bytes()).collect();
    let (first, second) = text.split_at(text.len() / 3);
    let skippable = b"\x50\x2a\x4d\x18\x03\x00\x00\x00abc";
    let forms = [
        ("plain", text.clone()),
        ("gzip", gzip(&text)),
        ("gzip of two members", [gzip(first), gzip(second)].concat()),
        ("zstd", zstd(&text)),
        ("zstd of two frames", [zstd(first), zstd(second)].concat()),
        ("zstd after a skippable frame", [&skippable[..], &zstd(&text)].concat()),
    ];
    let directory = Directory::new("forms");
    for (name, content) in forms {
        assert!(printed(&[], &content) == expected, "{name}, from a pipe");
        let output = filter(&[&directory.file(&name.replace(' ', "-"), &content)]).output().unwrap();
        assert!(output.status.success() && output.stdout == expected, "{name}, from a file");
    }
}

#[test]
fn compressed_input_that_is_cut_off_is_an_error() {
    let text = b"a\nb\nc\n".repeat(100_000);
    for content in [gzip(&text), zstd(&text)] {
        let output = run(filter(&[]), &content[..content.len() - 5]);
        let (code, errors) = code_and_errors(&output);
        assert_eq!(code, Some(1), "{errors}");
        assert!(errors.starts_with("hapax: standard input: "), "{errors}");
    }
}
