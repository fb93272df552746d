//! The file that duplicates are written to, beside the output.

use super::input::{Source, identity};
use super::output::Output;
use super::parse::Batch;
use super::print::{Printer, Wanted};
use super::refusing::Refused;
use crate::error::CommandError;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// The file, and how lines are printed to it.
pub struct Beside {
    path: PathBuf,
    printer: Printer<File>,
}

impl Beside {
    /// Opens the file, empty; or, if the run `goes_on`, to write behind what earlier runs have
    /// written. An input, and the output, are refused and left as they are.
    pub fn open(path: &Path, goes_on: bool, sources: &[Source], output: &Output) -> Result<Self, CommandError> {
        let failed = |error: io::Error| CommandError::input(path, error);
        let file = File::options().append(true).create(true).open(path).map_err(failed)?;
        sources.iter().try_for_each(|source| source.check(&file))?;
        let meta = file.metadata().map_err(failed)?;
        let here = identity(&meta);
        if here.is_some() && here == output.file().metadata().map_err(failed).map(|meta| identity(&meta))? {
            return Err(CommandError::Usage(format!("--duplicates-to {}: it is the output", path.display())));
        }
        let kept = match (meta.is_file(), goes_on) {
            (true, true) => whole_lines(path, meta.len()).map_err(failed)?,
            _ => 0,
        };
        if meta.is_file() {
            file.set_len(kept).map_err(failed)?;
        }
        let printer = Printer::new(file, Wanted::Duplicates, Refused::Drop, kept > 0);
        Ok(Beside { path: path.to_path_buf(), printer })
    }

    /// Prints the duplicates of a batch.
    pub fn print(&mut self, batch: &Batch) -> Result<(), CommandError> {
        self.printer.print(batch).map_err(|error| CommandError::input(&self.path, error))
    }
}

/// Returns the length of a file without the half line at its end that a run has left which was
/// killed.
fn whole_lines(path: &Path, length: u64) -> io::Result<u64> {
    const STEP: u64 = 64 << 10;
    let mut file = File::open(path)?;
    let mut until = length;
    while until > 0 {
        let start = until.saturating_sub(STEP);
        let mut piece = vec![0; (until - start) as usize];
        file.seek(SeekFrom::Start(start)).and_then(|_| file.read_exact(&mut piece))?;
        if let Some(newline) = memchr::memrchr(b'\n', &piece) {
            return Ok(start + newline as u64 + 1);
        }
        until = start;
    }
    Ok(0)
}
