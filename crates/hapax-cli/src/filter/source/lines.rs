//! Classifies each line of a file: an event with its id, or something else.

use super::input::Source;
use crate::args::{BadLineArgs, Blank, LineArgs, Missing, OnBad};
use crate::error::CommandError;
use crate::filter::record::columns::{Columns, FirstLine};
use crate::filter::record::cut::Cutter;
use crate::filter::record::extract::{Extracted, Extractor};
use crate::printable::tell;
use hapax::Timestamp;
use hapax_plan::Bytes;
use std::borrow::Cow;

/// Takes lines of files in their order.
#[derive(Clone)]
pub struct Lines {
    rules: Rules,
    extractor: Extractor,
    columns: Columns,
    /// The name of the file in messages.
    file: String,
    next: Next,
    /// The number of the next line in its file.
    line_number: u64,
}

/// The kind of the next line.
#[derive(Clone)]
enum Next {
    Record,
    /// A file's header, or its first record if it has none.
    Header,
    /// A record whose fields come in another order than those of the first file; this brings them
    /// into that order.
    Moved(Vec<usize>),
}

/// The treatment of lines that cannot be checked.
#[derive(Clone, Copy, Debug)]
struct Rules {
    missing: Missing,
    on_bad: OnBad,
    line_bytes_max: usize,
    has_header: bool,
    /// The byte that ends a record.
    last_byte: u8,
    /// True if records may have several lines.
    multiline: bool,
    /// True if what is noticed was said before.
    is_silent: bool,
}

/// The kind of a line.
#[derive(Debug, PartialEq)]
pub enum Line<'a> {
    Event { id: Cow<'a, [u8]>, at: Option<Timestamp> },
    Unchecked(Unchecked),
}

/// The treatment of a line that is not checked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Unchecked {
    /// The id is missing, and the line is printed.
    Pass,
    /// The id is missing, and the line is dropped.
    DropMissing,
    /// The first header is printed.
    Header,
    /// The header of another file is not printed.
    OtherHeader,
    /// A header with other columns than the one before is printed, too.
    OwnHeader,
    /// A bad line is dropped.
    Bad,
}

/// A header that is printed, as it is written, with its end.
pub type Header = (Unchecked, Vec<u8>);

/// A bad line that ends the command.
#[derive(Debug)]
pub struct BadLine {
    line_number: u64,
    reason: String,
}

impl Line<'_> {
    /// Returns the line, as it is written, if it is a header that is to be printed.
    pub fn header(&self, written: &[u8]) -> Option<Header> {
        match self {
            Line::Unchecked(unchecked) if unchecked.is_new_header() => Some((*unchecked, written.to_vec())),
            _ => None,
        }
    }
}

impl Unchecked {
    /// Returns true for a header that the records behind it have on the output.
    pub fn is_new_header(self) -> bool {
        matches!(self, Unchecked::Header | Unchecked::OwnHeader)
    }
}

impl BadLine {
    /// Returns the failure for this line in this file.
    pub fn of(self, source: &Source) -> CommandError {
        let BadLine { line_number, reason } = self;
        CommandError::BadInput(format!("{}, {} {line_number}: {reason}", source.name().display(), source.record()))
    }
}

/// Calls `each` with each record of a block, without its end, given where each ends.
pub fn each_record<E>(block: &[u8], ends: &[u32], mut each: impl FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
    let mut start = 0;
    ends.iter().try_for_each(|&end| {
        let record = without_end(&block[start..end as usize]);
        start = end as usize;
        each(record)
    })
}

/// Returns a record without its end: that of its last line, or NUL (`--null`).
pub fn without_end(record: &[u8]) -> &[u8] {
    match record {
        [line @ .., b'\n'] => line.strip_suffix(b"\r").unwrap_or(line),
        [line @ .., 0] => line,
        _ => record,
    }
}

impl Lines {
    pub fn new(lines: &LineArgs, bad: &BadLineArgs, extractor: Extractor) -> Self {
        let rules = Rules {
            // Which of them is given goes by the place of the id.
            missing: match lines.blank {
                Some(Blank::Pass) => Missing::Pass,
                Some(Blank::Drop) => Missing::Drop,
                Some(Blank::Once) | None => bad.missing,
            },
            on_bad: bad.on_bad,
            line_bytes_max: bad.line_bytes_max as usize,
            has_header: lines.format.header || extractor.needs_header(),
            last_byte: lines.format.last_byte(),
            multiline: extractor.dialect().is_some_and(|dialect| dialect.quote.is_some()),
            is_silent: false,
        };
        let columns = Columns::new(lines.format.header_mismatch);
        Lines { rules, extractor, columns, file: String::new(), next: Next::Record, line_number: 1 }
    }

    /// Says nothing of files that are read for the second time.
    pub fn silent(mut self) -> Self {
        self.rules.is_silent = true;
        self
    }

    pub fn line_bytes_max(&self) -> usize {
        self.rules.line_bytes_max
    }

    /// Returns the cutter of files into records.
    pub fn cutter(&self) -> Cutter {
        Cutter::new(self.extractor.dialect(), self.rules.last_byte)
    }

    /// Returns true if files have headers.
    pub fn have_header(&self) -> bool {
        self.rules.has_header
    }

    /// Goes on below a header that an earlier run has printed.
    pub fn go_on_below(&mut self, header: &[u8]) -> Result<(), CommandError> {
        self.file = "an earlier run's output".to_string();
        let wrong = |bad: BadLine| CommandError::BadInput(format!("the header of the output: {}", bad.reason));
        self.first(without_end(header)).map(drop).map_err(wrong)
    }

    /// Begins a file: the next line is its first.
    pub fn begin_file(&mut self, source: &Source) {
        self.next = if self.rules.has_header { Next::Header } else { Next::Record };
        self.file = source.name().display().to_string();
        self.line_number = 1;
    }

    /// Skips a line that is too long; or the last record, which is given then, if a quoted field in
    /// it does not end. The line where that begins is named.
    pub fn no_record(&self, unterminated: Option<&[u8]>) -> Result<(), BadLine> {
        let record = unterminated.unwrap_or_default();
        let found = unterminated.and_then(|record| self.extractor.unterminated(record));
        let (at, reason) = found.unwrap_or_else(|| (0, self.longer_than_allowed()));
        let line_number = self.line_number + memchr::memchr_iter(b'\n', &record[..at]).count() as u64;
        if self.is_at_header() || self.rules.on_bad == OnBad::Error {
            return Err(BadLine { line_number, reason });
        }
        Ok(())
    }

    /// Returns true if the next line is a file's header.
    pub fn is_at_header(&self) -> bool {
        matches!(self.next, Next::Header)
    }

    /// Continues behind this many lines of the file that were read before, its header among them.
    pub fn go_on_behind(&mut self, lines: u64) {
        self.line_number = lines + 1;
    }

    /// Returns the number of lines of the file that were read.
    pub fn read(&self) -> u64 {
        self.line_number - 1
    }

    /// Counts skipped lines.
    pub fn skipped(&mut self, lines: u64) {
        self.line_number += lines;
    }

    /// Returns the next record, without its end.
    #[inline]
    pub fn next<'a>(&mut self, line: &'a [u8]) -> Result<Line<'a>, BadLine> {
        let is = match &self.next {
            Next::Record => self.line(line)?,
            Next::Header => self.first(line)?,
            Next::Moved(order) => self.moved(line, order)?,
        };
        self.line_number += 1;
        if self.rules.multiline {
            self.line_number += memchr::memchr_iter(b'\n', line).count() as u64;
        }
        Ok(is)
    }

    /// Brings the fields of records into the order of the first file's, if they come in another
    /// one. Records that have not as many, or are bad, stay as they are.
    pub fn put_in_order(&self, bytes: &mut [u8], ends: &[u32]) {
        let Next::Moved(order) = &self.next else { return };
        let mut start = 0;
        for &end in ends {
            let length = without_end(&bytes[start..end as usize]).len();
            let record = &mut bytes[start..start + length];
            if let Ok(Some(ordered)) = self.extractor.ordered(record, order) {
                record.copy_from_slice(&ordered);
            }
            start = end as usize;
        }
    }

    /// Takes the first line of a file that is to have a header. It is never skipped: with a bad
    /// header every line of the file is bad.
    fn first<'a>(&mut self, line: &'a [u8]) -> Result<Line<'a>, BadLine> {
        self.next = Next::Record;
        let columns = self.extractor.columns(line).map_err(|reason| self.bad_line(reason))?;
        let are_named = self.extractor.are_in(&columns);
        let first = self.columns.compare(&columns, are_named, &self.file);
        let unchecked = match first.map_err(|reason| self.bad_line(reason))? {
            FirstLine::Header => Unchecked::Header,
            FirstLine::OwnHeader => Unchecked::OwnHeader,
            FirstLine::SameHeader => Unchecked::OtherHeader,
            FirstLine::Moved(order) => {
                self.next = Next::Moved(order);
                Unchecked::OtherHeader
            }
            FirstLine::Record(notice) => {
                if !self.rules.is_silent {
                    tell(format_args!("hapax: {}: {notice}", self.file));
                }
                return self.line(line);
            }
        };
        if unchecked.is_new_header() {
            self.extractor.read_header(line).map_err(|reason| self.bad_line(reason))?;
        }
        Ok(Line::Unchecked(unchecked))
    }

    /// Takes a record as it is in the order of the first file.
    fn moved<'a>(&self, line: &'a [u8], order: &[usize]) -> Result<Line<'a>, BadLine> {
        match self.extractor.ordered(line, order) {
            Ok(Some(ordered)) => Ok(match self.line(&ordered)? {
                Line::Event { id, at } => Line::Event { id: Cow::Owned(id.into_owned()), at },
                Line::Unchecked(unchecked) => Line::Unchecked(unchecked),
            }),
            Ok(None) if line.trim_ascii().is_empty() => self.line(line),
            Ok(None) => self.bad(format!(
                "it has not as many fields as the header, {}, so they cannot be brought into the order of the first header",
                order.len()
            )),
            Err(reason) => self.bad(reason),
        }
    }

    #[inline(always)] // called for each
    fn line<'a>(&self, line: &'a [u8]) -> Result<Line<'a>, BadLine> {
        if line.len() > self.rules.line_bytes_max {
            return self.bad(self.longer_than_allowed());
        }
        match self.extractor.extract(line) {
            Ok(Extracted::Event { id, at }) => Ok(Line::Event { id, at }),
            Ok(Extracted::Missing) => match self.rules.missing {
                Missing::Error => Err(self.bad_line(self.extractor.describe_missing(line))),
                Missing::Pass => Ok(Line::Unchecked(Unchecked::Pass)),
                Missing::Drop => Ok(Line::Unchecked(Unchecked::DropMissing)),
            },
            Err(reason) => self.bad(reason),
        }
    }

    fn bad<'a>(&self, reason: String) -> Result<Line<'a>, BadLine> {
        match self.rules.on_bad {
            OnBad::Error => Err(self.bad_line(reason)),
            OnBad::Skip => Ok(Line::Unchecked(Unchecked::Bad)),
        }
    }

    fn longer_than_allowed(&self) -> String {
        let hint = if self.rules.multiline { ", or a quote in it does not end (see --quote)" } else { "" };
        format!("it is longer than {} (see --line-bytes-max){hint}", Bytes(self.rules.line_bytes_max as f64))
    }

    fn bad_line(&self, reason: String) -> BadLine {
        BadLine { line_number: self.line_number, reason }
    }
}
