//! Third stage, in the caller's thread: prints the lines that are wanted.

use super::refusing::Refused;
use crate::filter::source::lines::Unchecked;
use crate::filter::source::parse::Batch;
use hapax::{Outcome, Refusal, Tier, Verdict};
use std::io::{self, Write};

/// The lines that are printed, and their form.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Wanted {
    Fresh,
    Duplicates,
    /// All lines, after a column that ends with this delimiter.
    Marked {
        delimiter: u8,
    },
}

/// Prints batches.
pub struct Printer<W> {
    pub output: W,
    wanted: Wanted,
    refused: Refused,
    /// True if the header is on this output.
    has_header: bool,
    /// True if something is on this output: a mark belongs to its beginning.
    has_begun: bool,
    /// A header that is printed before the next printed line, unless it is on the output already.
    pub header: Option<Vec<u8>>,
    /// The text to be written: runs of lines, copied together.
    page: Vec<u8>,
}

impl<W: Write> Printer<W> {
    pub fn new(output: W, wanted: Wanted, refused: Refused, has_header: bool, has_begun: bool) -> Self {
        Printer { output, wanted, refused, has_header, has_begun, header: None, page: Vec::new() }
    }

    /// Returns true if the header is on this output, from this run or an earlier one.
    pub fn has_header(&self) -> bool {
        self.has_header
    }

    /// Prints the wanted lines of a batch that was checked, as soon as it comes.
    pub fn print(&mut self, batch: &Batch) -> io::Result<()> {
        self.page.clear();
        if let Some((kind, header)) = &batch.header
            && batch.unchecked.first() != Some(&(0, *kind))
        {
            self.header = Some(header.clone());
            self.has_header &= *kind == Unchecked::Header;
        }
        // The header goes in front of the printed lines, and is taken back if there are none.
        let due = self.header.take().filter(|_| !self.has_header);
        if let Some(header) = &due {
            self.mark_with("verdict");
            self.page.extend_from_slice(header);
        }
        let begin = self.page.len();
        match self.wanted {
            Wanted::Fresh => self.copy(batch, Outcome::Fresh),
            Wanted::Duplicates => self.copy(batch, Outcome::Duplicate),
            Wanted::Marked { .. } => self.mark(batch),
        }
        if self.page.len() == begin {
            self.page.clear();
            self.header = due;
        } else {
            self.has_header |= due.is_some();
        }
        self.has_header |= batch.unchecked.iter().any(|(_, unchecked)| unchecked.is_new_header());
        if !self.page.is_empty() {
            batch.encoding.encode(&mut self.page, !self.has_begun);
            self.has_begun = true;
        }
        self.output.write_all(&self.page).and_then(|()| self.output.flush())
    }

    /// Begins a line of `--mark`.
    fn mark_with(&mut self, mark: &str) {
        if let Wanted::Marked { delimiter } = self.wanted {
            self.page.extend_from_slice(mark.as_bytes());
            self.page.push(delimiter);
        }
    }

    fn copy(&mut self, batch: &Batch, wanted: Outcome) {
        // Neighbouring lines are copied together.
        let mut run = 0..0;
        for (line, fate) in fates(batch) {
            let is_wanted = match fate {
                Fate::Checked(verdict) if verdict.refusal().is_some() => {
                    wanted == Outcome::Fresh && self.refused == Refused::Pass
                }
                Fate::Checked(verdict) => verdict.outcome() == wanted,
                Fate::Unchecked(Unchecked::Header) => !self.has_header,
                Fate::Unchecked(Unchecked::OwnHeader) => true,
                Fate::Unchecked(Unchecked::Pass) => wanted == Outcome::Fresh,
                Fate::Unchecked(Unchecked::DropMissing | Unchecked::OtherHeader | Unchecked::Bad) => false,
            };
            if !is_wanted {
                continue;
            }
            if run.end != line.start {
                self.page.extend_from_slice(&batch.bytes[run]);
                run = line.start..line.start;
            }
            run.end = line.end;
        }
        self.page.extend_from_slice(&batch.bytes[run]);
    }

    fn mark(&mut self, batch: &Batch) {
        for (line, fate) in fates(batch) {
            let mark = match fate {
                Fate::Checked(verdict) if verdict.refusal().is_some() && self.refused == Refused::Drop => continue,
                Fate::Checked(verdict) => mark_of(verdict),
                Fate::Unchecked(Unchecked::Header) if !self.has_header => "verdict",
                Fate::Unchecked(Unchecked::OwnHeader) => "verdict",
                Fate::Unchecked(Unchecked::Pass) => "missing",
                Fate::Unchecked(_) => continue,
            };
            self.mark_with(mark);
            self.page.extend_from_slice(&batch.bytes[line]);
        }
    }
}

/// Returns a verdict's text in the column of `--mark`.
fn mark_of(verdict: Verdict) -> &'static str {
    match (verdict.outcome(), verdict.tier(), verdict.is_certain()) {
        (Outcome::Fresh, Tier::Window, _) => "fresh:window",
        (Outcome::Fresh, _, true) => "fresh:history",
        (Outcome::Fresh, ..) => "fresh:history?",
        (Outcome::Duplicate, Tier::Window, _) => "duplicate:window",
        (Outcome::Duplicate, ..) => "duplicate:history?",
        (Outcome::InProgress, ..) => "in-progress",
        (Outcome::Refused(Refusal::Late), ..) => "refused:late",
        (Outcome::Refused(_), ..) => "refused:ahead",
    }
}

/// The decision about a line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fate {
    Checked(Verdict),
    Unchecked(Unchecked),
}

/// Returns the lines of a batch, and the decision about each.
pub fn fates(batch: &Batch) -> impl Iterator<Item = (std::ops::Range<usize>, Fate)> {
    let mut start = 0;
    let mut verdicts = batch.verdicts.iter();
    let mut unchecked = batch.unchecked.iter().peekable();
    batch.ends.iter().enumerate().map_while(move |(i, end)| {
        let line = start..*end as usize;
        start = line.end;
        let fate = match unchecked.next_if(|(line, _)| *line as usize == i) {
            Some((_, unchecked)) => Fate::Unchecked(*unchecked),
            None => Fate::Checked(*verdicts.next()?),
        };
        Some((line, fate))
    })
}
