//! Third stage, in a thread of its own: prints the lines that are wanted.

use super::lines::Unchecked;
use super::parse::Batch;
use crate::failure::Failure;
use hapax::{Certainty, Outcome, Refusal, Tier, Verdict};
use std::io::{self, Write};

/// Which lines are printed, and how.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Wanted {
    Fresh,
    Duplicates,
    /// All, after a column that ends with this delimiter.
    Marked {
        delimiter: u8,
    },
}

/// Prints batches.
pub struct Printer<W> {
    output: W,
    wanted: Wanted,
    /// What is to be written: runs of lines, copied together.
    page: Vec<u8>,
}

impl<W: Write> Printer<W> {
    pub fn new(output: W, wanted: Wanted) -> Self {
        Printer { output, wanted, page: Vec::new() }
    }

    /// Prints the wanted lines of a batch that was checked, as soon as it comes.
    pub fn print(&mut self, batch: &Batch) -> Result<(), Failure> {
        self.page.clear();
        match self.wanted {
            Wanted::Fresh => self.copy(batch, Outcome::Fresh),
            Wanted::Duplicates => self.copy(batch, Outcome::Duplicate),
            Wanted::Marked { delimiter } => self.mark(batch, delimiter),
        }
        self.output.write_all(&self.page).and_then(|()| self.output.flush()).map_err(Failure::output)
    }

    fn copy(&mut self, batch: &Batch, wanted: Outcome) {
        // Neighbours are copied together.
        let mut run = 0..0;
        for (line, fate) in fates(batch) {
            let is_wanted = match fate {
                Fate::Checked(verdict) => verdict.outcome() == wanted,
                Fate::Unchecked(Unchecked::Header) => true,
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

    fn mark(&mut self, batch: &Batch, delimiter: u8) {
        for (line, fate) in fates(batch) {
            let mark = match fate {
                Fate::Checked(verdict) => mark_of(verdict),
                Fate::Unchecked(Unchecked::Header) => "verdict",
                Fate::Unchecked(Unchecked::Pass) => "missing",
                Fate::Unchecked(Unchecked::DropMissing | Unchecked::OtherHeader | Unchecked::Bad) => continue,
            };
            self.page.extend_from_slice(mark.as_bytes());
            self.page.push(delimiter);
            self.page.extend_from_slice(&batch.bytes[line]);
        }
    }
}

/// A verdict in the column of `--mark`.
fn mark_of(verdict: Verdict) -> &'static str {
    match (verdict.outcome(), verdict.tier(), verdict.certainty()) {
        (Outcome::Fresh, Tier::Window, _) => "fresh:window",
        (Outcome::Fresh, _, Certainty::Exact) => "fresh:history",
        (Outcome::Fresh, ..) => "fresh:history?",
        (Outcome::Duplicate, Tier::Window, _) => "duplicate:window",
        (Outcome::Duplicate, ..) => "duplicate:history?",
        (Outcome::InProgress, ..) => "in-progress",
        (Outcome::Refused(Refusal::Late), ..) => "refused:late",
        (Outcome::Refused(_), ..) => "refused:ahead",
    }
}

/// What was decided about a line.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fate {
    Checked(Verdict),
    Unchecked(Unchecked),
}

/// The lines of a batch, and what was decided about each.
fn fates(batch: &Batch) -> impl Iterator<Item = (std::ops::Range<usize>, Fate)> {
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

/// Standard output without std's buffer, which would write line by line.
pub fn stdout() -> io::Result<std::fs::File> {
    #[cfg(unix)]
    return std::os::fd::AsFd::as_fd(&io::stdout()).try_clone_to_owned().map(std::fs::File::from);
    #[cfg(windows)]
    return std::os::windows::io::AsHandle::as_handle(&io::stdout()).try_clone_to_owned().map(std::fs::File::from);
}
