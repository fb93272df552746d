//! The delimiter that the names of files say, where no option does. Pure.

use crate::shell::quoted;
use std::path::{Path, PathBuf};

/// The delimiter of fields by default.
pub const DEFAULT: u8 = b'\t';

/// Returns the delimiter of all files.
pub fn of_names(files: &[PathBuf]) -> Result<u8, String> {
    let Some(first) = files.first() else { return Ok(DEFAULT) };
    let delimiter = of_name(first);
    let Some(other) = files.iter().find(|file| of_name(file) != delimiter) else { return Ok(delimiter) };
    let (with_commas, with_tabs) = if delimiter == b',' { (first, other) } else { (other, first) };
    Err(format!(
        "{} seems to be divided by commas and {} by tabs, and all files have one delimiter: {} or {}",
        name(with_commas),
        name(with_tabs),
        option(b','),
        option(b'\t')
    ))
}

/// Returns the delimiter of a file, by its name, compressed or not.
fn of_name(file: &Path) -> u8 {
    let name = file.file_name().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    let compressed = [".gz", ".gzip", ".zst", ".zstd"].iter().find_map(|end| name.strip_suffix(end));
    if compressed.unwrap_or(&name).ends_with(".csv") {
        b','
    } else {
        // Of `.tsv`, and of all others.
        DEFAULT
    }
}

fn name(file: &Path) -> String {
    match file.to_str() {
        Some("-") => "standard input".to_string(),
        _ => file.display().to_string(),
    }
}

/// Formats a delimiter as an option, for a shell.
pub fn option(delimiter: u8) -> String {
    let character = match delimiter {
        b'\t' => "\\t".to_string(),
        _ => char::from(delimiter).to_string(),
    };
    format!("--delimiter {}", quoted(&character))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(names: &[&str]) -> Result<u8, String> {
        of_names(&names.iter().map(PathBuf::from).collect::<Vec<_>>())
    }

    #[test]
    fn names_say_the_delimiter_behind_what_they_are_compressed_with() {
        for name in ["a.csv", "a/b.CSV", "a.csv.gz", "a.tsv.csv.zst", "./a.csv.zstd"] {
            assert_eq!(of(&[name]), Ok(b','), "{name}");
        }
        for name in ["a.tsv", "a.tsv.gz", "a.tsv.zst", "a.log", "-", "csv", "a.csv.bak", ".gz", ""] {
            assert_eq!(of(&[name]), Ok(b'\t'), "{name}");
        }
        assert_eq!((of(&[]), of(&["a.csv", "b.csv.gz"])), (Ok(b'\t'), Ok(b',')));
    }

    #[test]
    fn names_that_differ_are_refused_with_what_to_say() {
        for names in [["a.csv", "b.tsv"], ["b.tsv", "a.csv"], ["a.csv", "b.tsv.gz"]] {
            let said = of(&names).unwrap_err();
            assert!(said.starts_with("a.csv seems to be divided by commas and b.tsv"), "{said}");
            assert!(said.ends_with(r"--delimiter , or --delimiter '\t'"), "{said}");
        }
        assert!(of(&["a.csv", "-"]).unwrap_err().contains("standard input by tabs"));
    }
}
