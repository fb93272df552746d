//! Reads gzip like `gzip -d`: members one after the other. Zeros after the last member are padding,
//! and anything else there is an error, as is a member that is cut off or damaged.

use super::content_end::{Positioned, next_byte, unexpected};
use flate2::bufread::GzDecoder;
use std::io::{self, BufRead, Chain, Read};

/// The bytes that each member begins with.
const MAGIC: &[u8] = &[0x1f, 0x8b];
const NOTHING: &[u8] = &[];

/// Decompresses members one after the other.
pub struct Members<R> {
    /// The member under way, with the input after it; none once all is read. The magic comes from
    /// elsewhere if it was read before it was known that there is a member.
    member: Option<GzDecoder<Chain<&'static [u8], Positioned<R>>>>,
}

impl<R: BufRead> Members<R> {
    /// Creates a reader of input that begins with a member.
    pub fn new(input: R) -> Self {
        Members { member: Some(GzDecoder::new(NOTHING.chain(Positioned::new(input)))) }
    }
}

impl<R: BufRead> Read for Members<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while let Some(member) = &mut self.member {
            let read = member.read(buffer)?;
            if read > 0 || buffer.is_empty() {
                return Ok(read);
            }
            let (_, mut input) = self.member.take().map(GzDecoder::into_inner).expect("it is there").into_inner();
            if is_member_behind(&mut input)? {
                self.member = Some(GzDecoder::new(MAGIC.chain(input)));
            }
        }
        Ok(0)
    }
}

/// Reads on after a member, past the magic of the next one if there is one: then it returns true.
fn is_member_behind<R: BufRead>(input: &mut Positioned<R>) -> io::Result<bool> {
    let mut next = next_byte(input)?;
    let is_padded = next == Some(0);
    while next == Some(0) {
        next = next_byte(input)?;
    }
    let Some(first) = next else { return Ok(false) };
    let mut begun = vec![first];
    if first == MAGIC[0] && !is_padded {
        begun.extend(next_byte(input)?);
    }
    if begun == MAGIC { Ok(true) } else { Err(unexpected("gzip", begun, input)) }
}
