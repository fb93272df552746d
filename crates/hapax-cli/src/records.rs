//! Reads ids and times from files, for commands that do not print lines: exactly as `hapax filter`
//! does.

use crate::args::{BadLineArgs, Blank, LineArgs, Missing};
use crate::error::CommandError;
use crate::filter::record::extract::Extractor;
use crate::filter::source::blocks::{Block, Blocks};
use crate::filter::source::input::sources;
use crate::filter::source::lines::{Line, Lines, Unchecked, each_record};
use crate::filter::source::named;
use hapax::Timestamp;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;

/// Counts of lines, by their kind.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counts {
    pub lines: u64,
    pub headers: u64,
    /// Lines that were skipped, as bad or too long.
    pub bad: u64,
    /// Lines that were dropped, having no id.
    pub missing: u64,
    /// Lines with an id.
    pub events: u64,
}

/// Hands the id and, if the options say where it is, the time of each event to `each`, in the order
/// of files and lines. Standard input is read if there are no files. Reading ends at the first
/// failure, or when `each` says so.
pub fn read(
    lines: &LineArgs,
    bad: &BadLineArgs,
    files: &[PathBuf],
    mut each: impl FnMut(&[u8], Option<Timestamp>) -> Result<ControlFlow<()>, CommandError>,
) -> Result<Counts, CommandError> {
    if bad.missing == Missing::Pass || lines.blank == Some(Blank::Pass) {
        return Err(CommandError::Usage("`pass`: no lines are printed here; `drop` leaves them out".to_string()));
    }
    let files = &named::files(files)?;
    let lines = &lines.of_files(files).map_err(CommandError::Usage)?;
    let may_be_arrays = lines.may_have_arrays();
    let mut lines = Lines::new(lines, bad, Extractor::new(lines)?);
    let mut counts = Counts::default();
    let (mut block, mut ends) = (Vec::new(), Vec::new());
    for source in sources(files, may_be_arrays) {
        let mut blocks = Blocks::new(source.read(Arc::default())?, lines.cutter(), lines.line_bytes_max());
        lines.begin_file(&source);
        loop {
            let next =
                blocks.next(&mut block, &mut ends).map_err(|error| CommandError::reading(source.name(), error))?;
            lines.skipped(blocks.take_skipped());
            match next {
                Block::End => break,
                Block::TooLong | Block::Unterminated => {
                    lines.no_record((next == Block::Unterminated).then_some(&block)).map_err(|bad| bad.of(&source))?;
                    counts.lines += 1;
                    counts.bad += 1;
                }
                Block::Records => {
                    let ended = each_record(&block, &ends, |line| {
                        counts.lines += 1;
                        match lines.next(line).map_err(|bad| Some(bad.of(&source)))? {
                            Line::Event { id, at } => {
                                counts.events += 1;
                                return if each(&id, at)?.is_break() { Err(None) } else { Ok(()) };
                            }
                            Line::Unchecked(Unchecked::Header | Unchecked::OtherHeader | Unchecked::OwnHeader) => {
                                counts.headers += 1
                            }
                            Line::Unchecked(Unchecked::Pass | Unchecked::DropMissing) => counts.missing += 1,
                            Line::Unchecked(Unchecked::Bad) => counts.bad += 1,
                        }
                        Ok(())
                    });
                    match ended {
                        Err(Some(failure)) => return Err(failure),
                        Err(None) => return Ok(counts),
                        Ok(()) => {}
                    }
                }
            }
        }
    }
    Ok(counts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::FilterArgs;
    use std::io::Write;
    use std::sync::atomic::AtomicU32;
    use std::sync::atomic::Ordering::Relaxed;

    /// An id, and its time in milliseconds.
    type Event = (String, Option<u64>);

    /// Returns the records of files with these contents.
    fn records(options: &[&str], contents: &[&[u8]]) -> Result<(Vec<Event>, Counts), CommandError> {
        let args = FilterArgs::parse(options.iter().copied()).unwrap();
        let written = Files::new(contents);
        let mut events = Vec::new();
        let counts = read(&args.lines, &args.bad, &written.0, |id, at| {
            if id == b"stop" {
                return Err(CommandError::Usage("no more".to_string()));
            }
            events.push((String::from_utf8(id.to_vec()).unwrap(), at.map(Timestamp::as_nanos)));
            Ok(if id == b"last" { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        });
        counts.map(|counts| (events, counts))
    }

    /// Files that are removed at the end of the test.
    struct Files(Vec<PathBuf>);

    impl Files {
        fn new(contents: &[&[u8]]) -> Self {
            static NEXT: AtomicU32 = AtomicU32::new(0);
            let written = contents.iter().map(|content| {
                let name = format!("hapax-records-{}-{}", std::process::id(), NEXT.fetch_add(1, Relaxed));
                let path = std::env::temp_dir().join(name);
                std::fs::write(&path, content).unwrap();
                path
            });
            Files(written.collect())
        }
    }

    impl Drop for Files {
        fn drop(&mut self) {
            self.0.iter().for_each(|path| drop(std::fs::remove_file(path)));
        }
    }

    #[test]
    fn ids_and_times_of_all_files_in_order() {
        let options = ["--column", "id", "--window", "1m", "--time-column", "at", "--time-format", "s"];
        let mut second = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        second.write_all(b"at\tid\n3\tb").unwrap();
        let second = second.finish().unwrap();
        let (events, counts) = records(&options, &[b"id\tat\na\t1\r\nb\t2\n", &second]).unwrap();
        let expected = [("a", 1), ("b", 2), ("b", 3)];
        assert_eq!(events, expected.map(|(id, seconds)| (id.to_string(), Some(seconds * 1_000_000_000))));
        assert_eq!(counts, Counts { lines: 5, headers: 2, events: 3, ..Counts::default() });
    }

    #[test]
    fn bad_lines_are_skipped_or_named() {
        let content: &[u8] = b"{\"i\":1}\n{}\nx\n{\"i\":\"long, long, long\"}\n";
        let skip = ["--json", "/i", "--on-bad", "skip", "--missing", "drop", "--line-bytes-max", "16"];
        let (events, counts) = records(&skip, &[content]).unwrap();
        assert_eq!(events, [("1".to_string(), None)]);
        assert_eq!(counts, Counts { lines: 4, headers: 0, bad: 2, missing: 1, events: 1 });
        let message = |options: &[&str]| records(options, &[b"{\"i\":1}\n", content]).unwrap_err();
        let missing = message(&["--json", "/i"]);
        assert!(missing.message().is_some_and(|text| text.contains(", line 2: the id is missing")), "{missing:?}");
        let bad = message(&["--json", "/i", "--missing", "drop"]);
        assert!(bad.message().is_some_and(|text| text.contains(", line 3: ")), "{bad:?}");
        assert!(matches!(message(&["--blank", "pass"]), CommandError::Usage(_)));
    }

    #[test]
    fn records_of_several_lines_are_one() {
        let csv: &[u8] = b"id,note\n1,\"a\nb\"\n\"2\n2\",x\r\n";
        let (events, counts) = records(&["--column", "id", "--delimiter", ","], &[csv, csv]).unwrap();
        let ids: Vec<_> = events.iter().map(|(id, _)| id.as_str()).collect();
        assert_eq!(ids, ["1", "2\n2", "1", "2\n2"]);
        assert_eq!(counts, Counts { lines: 6, headers: 2, events: 4, ..Counts::default() });
    }

    #[test]
    fn the_first_failure_ends_it() {
        let stopped = records(&[], &[b"a\nstop\nb\n"]).unwrap_err();
        assert_eq!(stopped.message(), Some("no more"));
        let (events, counts) = records(&[], &[b"a\nlast\nb\n", b"c\n"]).unwrap();
        assert_eq!((events.len(), counts), (2, Counts { lines: 2, events: 2, ..Counts::default() }));
        let args = FilterArgs::parse([]).unwrap();
        let nowhere = [PathBuf::from("/nowhere/nothing")];
        let missing = read(&args.lines, &args.bad, &nowhere, |_, _| Ok(ControlFlow::Continue(()))).unwrap_err();
        assert!(missing.message().is_some_and(|text| text.starts_with("/nowhere/nothing: ")), "{missing:?}");
    }
}
