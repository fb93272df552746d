//! The effect of the examples: a line in a file, in place of a payment, a mail, a row in another
//! database.

use hapax::Token;
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The effects, a line each: the id, and the token of the claim under which it was done. It cannot
/// take part in a transaction, like most effects.
///
/// A file beside it of the same name with the extension `away` has all work fail, as if a service
/// were away; one with `healed` has that succeed which fails by its own fault.
pub struct Ledger {
    file: File,
    path: PathBuf,
}

impl Ledger {
    /// Opens a file to append to, and creates it if it does not exist.
    ///
    /// # Errors
    ///
    /// Those of the file.
    pub fn open(path: impl AsRef<Path>) -> io::Result<Self> {
        let file = OpenOptions::new().append(true).create(true).open(&path)?;
        Ok(Ledger { file, path: path.as_ref().to_owned() })
    }

    /// Does the work for an id.
    ///
    /// # Errors
    ///
    /// Those of the file, of all work while it is away, and of an id with a space in it, unless it
    /// is healed: such a message fails however often it is tried.
    pub async fn work(&self, id: &str, token: Token) -> io::Result<()> {
        if self.is_beside("away") {
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        if id.contains(char::is_whitespace) && !self.is_beside("healed") {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("expected an id without spaces, got {id:?}"),
            ));
        }
        self.append(id, token)?;
        // The pause makes a moment between the effect and its completion in which a process can be
        // killed.
        tokio::time::sleep(Duration::from_millis(2)).await;
        Ok(())
    }

    fn is_beside(&self, name: &str) -> bool {
        self.path.with_extension(name).exists()
    }

    /// Appends the line of an id.
    ///
    /// # Errors
    ///
    /// Those of the file.
    pub fn append(&self, id: &str, token: Token) -> io::Result<()> {
        // One write: lines of several processes do not mix, and a killed one leaves no part of a
        // line.
        (&self.file).write_all(format!("{id} {}\n", token.as_u64()).as_bytes())
    }
}

/// Returns how often the work was done for each id.
///
/// # Errors
///
/// Those of the file.
pub fn count(path: impl AsRef<Path>) -> io::Result<BTreeMap<String, usize>> {
    let mut counts = BTreeMap::new();
    for line in std::fs::read_to_string(path)?.lines() {
        let id = line.rsplit_once(' ').map_or(line, |(id, _token)| id);
        *counts.entry(id.to_owned()).or_default() += 1;
    }
    Ok(counts)
}
