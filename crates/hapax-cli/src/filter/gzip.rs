//! Reads gzip like `gzip -d`: members one after the other. Zeros after the last member are padding,
//! and anything else there is ignored with a warning. A member that is cut off or damaged is an
//! error.

use flate2::bufread::GzDecoder;
use std::io::{self, BufRead, Read};
use std::path::PathBuf;

/// The bytes that each member begins with.
const MAGIC: [u8; 2] = [0x1f, 0x8b];

/// Decompresses members one after the other.
pub struct Members<R> {
    /// The member under way, with the input after it; none once all is read.
    member: Option<GzDecoder<AfterMagic<R>>>,
    /// The name of the input in a warning, if one is wanted.
    name: Option<PathBuf>,
}

/// The kind of the bytes after a member.
enum Behind {
    Member,
    Nothing,
    Garbage,
}

impl<R: BufRead> Members<R> {
    /// Creates a reader of input that begins with a member.
    pub fn new(input: R, name: Option<PathBuf>) -> Self {
        Members { member: Some(GzDecoder::new(AfterMagic { magic: &[], input })), name }
    }

    fn warn(&self) {
        if let Some(name) = &self.name {
            eprintln!("hapax: {}: decompression OK, trailing garbage ignored", name.display());
        }
    }
}

impl<R: BufRead> Read for Members<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while let Some(member) = &mut self.member {
            let read = member.read(buffer)?;
            if read > 0 || buffer.is_empty() {
                return Ok(read);
            }
            let mut input = self.member.take().map(GzDecoder::into_inner).expect("it is there").input;
            match behind(&mut input)? {
                // Its magic was read already.
                Behind::Member => self.member = Some(GzDecoder::new(AfterMagic { magic: &MAGIC, input })),
                Behind::Nothing => {}
                Behind::Garbage => self.warn(),
            }
        }
        Ok(0)
    }
}

/// Reads on after a member, past the magic of the next one if there is one.
fn behind(input: &mut impl BufRead) -> io::Result<Behind> {
    match next_byte(input)? {
        None => Ok(Behind::Nothing),
        Some(0) => Ok(if is_all_zeros(input)? { Behind::Nothing } else { Behind::Garbage }),
        Some(first) if first == MAGIC[0] && next_byte(input)? == Some(MAGIC[1]) => Ok(Behind::Member),
        Some(_) => Ok(Behind::Garbage),
    }
}

fn next_byte(input: &mut impl BufRead) -> io::Result<Option<u8>> {
    let mut byte = [0];
    loop {
        match input.read(&mut byte) {
            Ok(0) => return Ok(None),
            Ok(_) => return Ok(Some(byte[0])),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

fn is_all_zeros(input: &mut impl BufRead) -> io::Result<bool> {
    loop {
        let piece = match input.fill_buf() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            piece => piece?,
        };
        let length = piece.len();
        if length == 0 || piece.iter().any(|byte| *byte != 0) {
            return Ok(length == 0);
        }
        input.consume(length);
    }
}

/// Input whose magic was read already, before the rest.
struct AfterMagic<R> {
    magic: &'static [u8],
    input: R,
}

impl<R: BufRead> Read for AfterMagic<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.magic.is_empty() { self.input.read(buffer) } else { self.magic.read(buffer) }
    }
}

impl<R: BufRead> BufRead for AfterMagic<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.magic.is_empty() { self.input.fill_buf() } else { Ok(self.magic) }
    }

    fn consume(&mut self, amount: usize) {
        match self.magic.get(amount..) {
            Some(rest) if !self.magic.is_empty() => self.magic = rest,
            _ => self.input.consume(amount),
        }
    }
}
