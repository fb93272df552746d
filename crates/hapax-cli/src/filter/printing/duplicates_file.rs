//! The file that duplicates are written to, beside the output.

use super::output::Output;
use crate::error::CommandError;
use crate::filter::source::input::{Source, identity, read_full_at};
use crate::filter::source::parse::Batch;
use crate::filter::verdicts::print::{Printer, Wanted};
use crate::filter::verdicts::refusing::Refused;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// The file, and how lines are printed to it.
pub struct Beside {
    path: PathBuf,
    pub printer: Printer<File>,
}

/// The inputs and the output, which no such file may be, and the files that duplicates go to.
pub struct Place<'a> {
    pub sources: &'a [Source],
    pub output: &'a Output,
    pub others: Vec<File>,
}

/// Opens a file of this option to append to it. An input, the output, and a file of another option,
/// are refused and left as they are.
pub fn open(option: &str, path: &Path, place: &Place) -> Result<File, CommandError> {
    let failed = |error: io::Error| CommandError::input(path, error);
    let file = File::options().append(true).create(true).open(path).map_err(failed)?;
    place.sources.iter().try_for_each(|source| source.check(&file))?;
    let here = identity(&file.metadata().map_err(failed)?);
    let is = |other: &File| here.is_some() && other.metadata().is_ok_and(|other| here == identity(&other));
    let other = place.others.iter().any(is).then_some("the file of --duplicates-to");
    match other.or(place.output.is(&file).then_some("the output")) {
        Some(what) => Err(CommandError::Usage(format!("{option} {}: it is {what}", path.display()))),
        None => Ok(file),
    }
}

impl Beside {
    /// Opens the file, empty; or, if the run `goes_on`, to write behind what is there.
    pub fn open(path: &Path, goes_on: bool, place: &mut Place) -> Result<Self, CommandError> {
        let failed = |error: io::Error| CommandError::input(path, error);
        let mut file = open("--duplicates-to", path, place)?;
        let meta = file.metadata().map_err(failed)?;
        let is_continued = meta.is_file() && goes_on && meta.len() > 0;
        let last_byte = place.output.last_byte;
        let mut end = [last_byte];
        if is_continued {
            File::open(path).and_then(|file| read_full_at(&file, &mut end, meta.len() - 1)).map_err(failed)?;
        }
        if end != [last_byte] {
            // A run was killed while it wrote, or others have left it so: that is theirs.
            file.write_all(&[last_byte]).map_err(failed)?;
        }
        if meta.is_file() && !goes_on {
            file.set_len(0).map_err(failed)?;
        }
        place.others.push(file.try_clone().map_err(failed)?);
        let printer = Printer::new(file, Wanted::Duplicates, Refused::Drop, is_continued, is_continued);
        Ok(Beside { path: path.to_path_buf(), printer })
    }

    /// Prints the duplicates of a batch.
    pub fn print(&mut self, batch: &Batch) -> Result<(), CommandError> {
        self.printer.print(batch).map_err(|error| CommandError::input(&self.path, error))
    }
}
