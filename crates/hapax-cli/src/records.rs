//! Reads ids and times from files, for commands that do not print lines: exactly as `hapax filter`
//! does.

use crate::args::{BadLineArgs, Blank, LineArgs, Missing};
use crate::error::CommandError;
use crate::filter::record::extract::Extractor;
use crate::filter::source::blocks::{Block, Blocks};
use crate::filter::source::input::sources;
use crate::filter::source::lines::{Line, Lines, each_record};
use crate::filter::source::named;
use hapax::Timestamp;
use std::path::PathBuf;
use std::sync::Arc;

/// Hands the id and, if the options say where it is, the time of each event to `each`, in the order
/// of files and lines. Standard input is read if there are no files. Reading ends at the first
/// failure.
pub fn read(
    lines: &LineArgs,
    bad: &BadLineArgs,
    files: &[PathBuf],
    mut each: impl FnMut(&[u8], Option<Timestamp>) -> Result<(), CommandError>,
) -> Result<(), CommandError> {
    if bad.missing == Missing::Pass || lines.blank == Some(Blank::Pass) {
        return Err(CommandError::Usage("`pass`: no lines are printed here; `drop` leaves them out".to_string()));
    }
    let files = &named::files(files)?;
    let lines = &lines.of_files(files).map_err(CommandError::Usage)?;
    let may_be_arrays = lines.may_have_arrays();
    let mut lines = Lines::new(lines, bad, Extractor::new(lines)?);
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
                Block::TooLong => lines.no_record(None).map_err(|bad| bad.of(&source))?,
                Block::Unterminated => lines.no_record(Some(&block)).map_err(|bad| bad.of(&source))?,
                Block::Records => each_record(&block, &ends, |line| match lines.next(line) {
                    Ok(Line::Event { id, at }) => each(&id, at),
                    Ok(Line::Unchecked(_)) => Ok(()),
                    Err(bad) => Err(bad.of(&source)),
                })?,
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::FilterArgs;
    use std::io::Write;

    /// An id, and its time in nanoseconds.
    type Event = (String, Option<u64>);

    /// Returns the events of files with these contents.
    fn events(options: &[&str], contents: &[&[u8]]) -> Result<Vec<Event>, CommandError> {
        let args = FilterArgs::parse(options.iter().copied()).unwrap();
        let directory = tempfile::tempdir().unwrap();
        let files = contents.iter().enumerate().map(|(n, content)| {
            let path = directory.path().join(n.to_string());
            std::fs::write(&path, content).unwrap();
            path
        });
        let (files, mut events) = (files.collect::<Vec<_>>(), Vec::new());
        let read = read(&args.lines, &args.bad, &files, |id, at| {
            if id == b"stop" {
                return Err(CommandError::Usage("no more".to_string()));
            }
            events.push((String::from_utf8(id.to_vec()).unwrap(), at.map(Timestamp::as_nanos)));
            Ok(())
        });
        read.map(|()| events)
    }

    #[test]
    fn ids_and_times_of_all_files_in_order() {
        let options = ["--column", "id", "--window", "1m", "--time-column", "at", "--time-format", "s"];
        let mut second = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        second.write_all(b"at\tid\n3\tb").unwrap();
        let second = second.finish().unwrap();
        let expected = [("a", 1), ("b", 2), ("b", 3)];
        assert_eq!(
            events(&options, &[b"id\tat\na\t1\r\nb\t2\n", &second]).unwrap(),
            expected.map(|(id, seconds)| (id.to_string(), Some(seconds * 1_000_000_000)))
        );
    }

    #[test]
    fn bad_lines_are_skipped_or_named_and_the_first_failure_ends_it() {
        let content: &[u8] = b"{\"i\":1}\n{}\nx\n{\"i\":\"long, long, long\"}\n";
        let skip = ["--json", "/i", "--on-bad", "skip", "--missing", "drop", "--line-bytes-max", "16"];
        assert_eq!(events(&skip, &[content]).unwrap(), [("1".to_string(), None)]);
        for (options, says) in [
            (&["--json", "/i"][..], ", line 2: the id is missing"),
            (&["--json", "/i", "--missing", "drop"], ", line 3: "),
            (&["--blank", "pass"], "`pass`"),
        ] {
            let failure = events(options, &[b"{\"i\":1}\n", content]).unwrap_err();
            assert!(failure.message().is_some_and(|text| text.contains(says)), "{failure:?}");
        }
        assert_eq!(events(&[], &[b"a\nstop\nb\n"]).unwrap_err().message(), Some("no more"));
    }

    #[test]
    fn records_of_several_lines_are_one() {
        let csv: &[u8] = b"id,note\n1,\"a\nb\"\n\"2\n2\",x\r\n";
        let events = events(&["--column", "id", "--delimiter", ","], &[csv, csv]).unwrap();
        let ids: Vec<_> = events.iter().map(|(id, _)| id.as_str()).collect();
        assert_eq!(ids, ["1", "2\n2", "1", "2\n2"]);
    }
}
