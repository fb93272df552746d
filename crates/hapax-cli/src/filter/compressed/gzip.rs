//! Reads gzip like `gzip -d`: members one after the other. Zeros after the last member are padding,
//! and anything else there is an error, as is a member that is cut off or damaged.

use super::content_end::{Positioned, next_byte, unexpected};
use flate2::bufread::GzDecoder;
use std::io::{self, BufRead, Read};

/// The bytes that each member begins with.
const MAGIC: [u8; 2] = [0x1f, 0x8b];

/// Decompresses members one after the other.
pub struct Members<R> {
    /// The member under way, with the input after it; none once all is read.
    member: Option<GzDecoder<AfterMagic<Positioned<R>>>>,
}

impl<R: BufRead> Members<R> {
    /// Creates a reader of input that begins with a member.
    pub fn new(input: R) -> Self {
        Members { member: Some(GzDecoder::new(AfterMagic { magic: &[], input: Positioned::new(input) })) }
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
            if is_member_behind(&mut input)? {
                // Its magic was read already.
                self.member = Some(GzDecoder::new(AfterMagic { magic: &MAGIC, input }));
            }
        }
        Ok(0)
    }
}

/// Reads on after a member, past the magic of the next one if there is one: then it returns true.
fn is_member_behind<R: BufRead>(input: &mut Positioned<R>) -> io::Result<bool> {
    let mut begun = Vec::new();
    match next_byte(input)? {
        None => return Ok(false),
        Some(0) if skip_zeros(input)? => return Ok(false),
        Some(0) => {}
        Some(first) => {
            begun.push(first);
            if first == MAGIC[0] {
                begun.extend(next_byte(input)?);
            }
        }
    }
    if begun == MAGIC { Ok(true) } else { Err(unexpected("gzip", begun, input)) }
}

/// Reads zeros. Returns true if they go on to the end.
fn skip_zeros(input: &mut impl BufRead) -> io::Result<bool> {
    loop {
        let piece = match input.fill_buf() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            piece => piece?,
        };
        let (length, zeros) = (piece.len(), piece.iter().take_while(|byte| **byte == 0).count());
        input.consume(zeros);
        if length == 0 || zeros < length {
            return Ok(length == 0);
        }
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
