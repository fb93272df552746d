//! The end of compressed content, and what comes behind it.

use super::compression::Compression;
use std::io::{self, BufRead, Read};

/// Input that knows its offset.
pub struct Positioned<R> {
    input: R,
    at: u64,
}

impl<R: BufRead> Positioned<R> {
    /// Creates an input that is at its beginning.
    pub fn new(input: R) -> Self {
        Positioned { input, at: 0 }
    }

    /// Returns the number of bytes that were read.
    pub fn at(&self) -> u64 {
        self.at
    }
}

impl<R: BufRead> Read for Positioned<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.input.read(buffer)?;
        self.at += read as u64;
        Ok(read)
    }
}

impl<R: BufRead> BufRead for Positioned<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.input.fill_buf()
    }

    fn consume(&mut self, amount: usize) {
        self.at += amount as u64;
        self.input.consume(amount);
    }
}

/// Returns the next byte; none at the end.
pub fn next_byte(input: &mut impl BufRead) -> io::Result<Option<u8>> {
    input.bytes().next().transpose()
}

/// Returns the error for input that goes on after content of this compression, though with none of
/// it. `begun` has what was read of the rest.
pub fn unexpected<R: BufRead>(ended: &str, mut begun: Vec<u8>, input: &mut Positioned<R>) -> io::Error {
    let at = input.at() - begun.len() as u64;
    let found = match kind(&mut begun, input) {
        Err(error) => return error,
        Ok(Some(name)) if name == ended => {
            return io::Error::other(format!(
                "from offset {at} on it is {name} again, after zeros, and {name} does not read on there"
            ));
        }
        Ok(Some(name)) => name.to_string(),
        Ok(None) => {
            // As many as are there, since a pipe may keep us waiting for more.
            const SHOWN: usize = 8;
            let more = input.fill_buf().unwrap_or_default();
            begun.extend_from_slice(&more[..more.len().min(SHOWN)]);
            begun.truncate(SHOWN);
            format!("`{}`", begun.escape_ascii())
        }
    };
    io::Error::other(format!("from offset {at} on it is {found}, and no longer {ended}"))
}

/// Returns the name of the compression that the rest of an input seems to have.
fn kind<R: BufRead>(begun: &mut Vec<u8>, input: &mut Positioned<R>) -> io::Result<Option<&'static str>> {
    loop {
        if let Some(told) = Compression::name_of(begun) {
            return Ok(told);
        }
        match next_byte(input)? {
            None => return Ok(None),
            Some(byte) => begun.push(byte),
        }
    }
}
