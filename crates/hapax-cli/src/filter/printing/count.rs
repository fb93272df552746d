//! The file of `--count`: the ids that were repeated, and how often.

use super::duplicates_file::{self, Place};
use super::repeated::{COUNTED_MAX, Repeated};
use crate::error::CommandError;
use crate::filter::record::extract::{Extracted, Extractor};
use crate::filter::source::lines::without_end;
use crate::filter::source::parse::Batch;
use crate::filter::verdicts::print::{Fate, fates};
use crate::printable::tell;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// Counts the duplicates of batches by their ids.
pub struct Counter {
    path: PathBuf,
    file: File,
    extractor: Extractor,
    repeated: Repeated,
}

impl Counter {
    /// Opens the file, empty.
    pub fn open(path: &Path, place: &Place, extractor: Extractor) -> Result<Self, CommandError> {
        let file = duplicates_file::open("--count", path, place)?;
        if file.metadata().is_ok_and(|meta| meta.is_file()) {
            file.set_len(0).map_err(|error| CommandError::input(path, error))?;
        }
        Ok(Counter { path: path.to_path_buf(), file, extractor, repeated: Repeated::new() })
    }

    /// Counts the duplicates of a batch that was checked.
    pub fn add(&mut self, batch: &Batch) {
        if let Some((_, header)) = &batch.header {
            self.header(header);
        }
        for (line, fate) in fates(batch) {
            // One that was checked has an id.
            if let Fate::Checked(verdict) = fate
                && verdict.is_duplicate()
                && let Ok(Extracted::Event { id, .. }) = self.extractor.extract(without_end(&batch.bytes[line]))
            {
                self.repeated.add(&id);
            }
        }
    }

    /// Finds the columns of a header. The first stage has found them, too, or there were no lines.
    pub fn header(&mut self, line: &[u8]) {
        let _ = self.extractor.read_header(without_end(line));
    }

    /// Writes the counts, the largest first, and says so if they are bounds.
    pub fn write(self) -> Result<(), CommandError> {
        let Counter { path, file, extractor, repeated } = self;
        let floor = repeated.floor();
        let write = |mut text: BufWriter<File>| -> io::Result<()> {
            text.write_all(b"repeated\tat_least\tid\n")?;
            for (id, count) in repeated.into_sorted() {
                write!(text, "{}\t{}", count.at_most, count.at_least)?;
                for part in extractor.parts_of(&id) {
                    text.write_all(b"\t")?;
                    text.write_all(escaped(part).as_bytes())?;
                }
                text.write_all(b"\n")?;
            }
            text.flush()
        };
        write(BufWriter::with_capacity(256 << 10, file)).map_err(|error| CommandError::input(&path, error))?;
        if floor > 0 {
            tell(format_args!(
                "hapax: --count {}: more than {COUNTED_MAX} ids were repeated, or they are long: the first two columns \
                 are bounds, exact where they are equal, and an id that is not listed was repeated at most {floor} times",
                path.display()
            ));
        }
        Ok(())
    }
}

/// Returns an id on one line, in one column: control characters, backslashes and what is no UTF-8
/// are escaped.
fn escaped(id: &[u8]) -> String {
    let mut text = String::with_capacity(id.len());
    for chunk in id.utf8_chunks() {
        for character in chunk.valid().chars() {
            match character {
                '\\' | '\0'..='\x1f' | '\x7f' => text.extend((character as u8).escape_ascii().map(char::from)),
                _ => text.push(character),
            }
        }
        text.extend(chunk.invalid().escape_ascii().map(char::from));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::escaped;

    #[test]
    fn an_id_is_on_one_line_in_one_column() {
        assert_eq!(escaped("größe 17".as_bytes()), "größe 17");
        assert_eq!(escaped(b"a\tb\nc\\d\0\x7f"), "a\\tb\\nc\\\\d\\x00\\x7f");
        assert_eq!(escaped(b"a\xffb\xc3"), "a\\xffb\\xc3");
    }
}
