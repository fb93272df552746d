//! Finds the blocks of a file, also behind bytes that are none.

use super::disk::{DiskFile, read_full};
use super::format::{BLOCK_HEADER_BYTES, BLOCK_MAGIC, BlockHeader, HEADER_BYTES};
use super::payload::runs;
use std::io;

/// The next item in a file.
pub(super) enum Item<'p> {
    /// A block that is whole.
    Block { offset: u64, header: BlockHeader, payload: &'p [u8] },
    /// Bytes that are none, up to the next block or the end.
    Bad { offset: u64, bytes: u64, reason: &'static str },
}

/// The number of bytes that are read of a file at a time, at least.
const CHUNK: usize = 1 << 20;

/// A file through a buffer.
struct Reader<'f> {
    file: &'f mut dyn DiskFile,
    size: u64,
    offset: u64,
    bytes: Vec<u8>,
}

impl Reader<'_> {
    /// Bytes that are there: from an offset on, so many.
    fn slice(&mut self, offset: u64, length: usize) -> io::Result<&[u8]> {
        let is_here = offset >= self.offset && offset + length as u64 <= self.offset + self.bytes.len() as u64;
        if !is_here {
            let left = usize::try_from(self.size - offset).unwrap_or(usize::MAX);
            self.bytes.resize(left.min(length.max(CHUNK)), 0);
            self.offset = offset;
            let read = read_full(self.file, offset, &mut self.bytes)?;
            if read < length {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            self.bytes.truncate(read);
        }
        let start = (offset - self.offset) as usize;
        Ok(&self.bytes[start..start + length])
    }

    /// The block at an offset, or why there is none.
    fn block(&mut self, offset: u64, salt: u64) -> io::Result<Result<(BlockHeader, &[u8]), &'static str>> {
        let Some(left) = (self.size - offset).checked_sub(BLOCK_HEADER_BYTES as u64) else {
            return Ok(Err("the header of a block is cut off"));
        };
        let header = self.slice(offset, BLOCK_HEADER_BYTES)?.first_chunk().and_then(BlockHeader::decode);
        let Some(header) = header else {
            return Ok(Err("this is no block"));
        };
        if u64::from(header.payload_bytes) > left {
            return Ok(Err("a block is cut off"));
        }
        let payload = self.slice(offset + BLOCK_HEADER_BYTES as u64, header.payload_bytes as usize)?;
        if !header.holds(payload, salt) {
            return Ok(Err("the checksum of a block is wrong"));
        }
        if runs(payload).any(|run| run.is_none()) {
            return Ok(Err("a block has what is no run"));
        }
        Ok(Ok((header, payload)))
    }

    /// Returns the offset at which the next block may begin, from an offset on.
    fn next_magic(&mut self, mut offset: u64) -> io::Result<u64> {
        const MAGIC: usize = BLOCK_MAGIC.len();
        while offset + MAGIC as u64 <= self.size {
            let length = (self.size - offset).min(CHUNK as u64) as usize;
            let bytes = self.slice(offset, length)?;
            if let Some(at) = bytes.windows(MAGIC).position(|window| window == BLOCK_MAGIC) {
                return Ok(offset + at as u64);
            }
            offset += (length - MAGIC + 1) as u64;
        }
        Ok(self.size)
    }
}

/// Goes through a file after its header. How long the file is.
pub(super) fn scan(file: &mut dyn DiskFile, salt: u64, each: &mut dyn FnMut(Item<'_>)) -> io::Result<u64> {
    let size = file.size()?;
    let mut reader = Reader { file, size, offset: 0, bytes: Vec::new() };
    let mut offset = HEADER_BYTES as u64;
    let mut bad = None;
    while offset < size {
        match reader.block(offset, salt)? {
            Ok((header, payload)) => {
                if let Some((from, reason)) = bad.take() {
                    each(Item::Bad { offset: from, bytes: offset - from, reason });
                }
                each(Item::Block { offset, header, payload });
                offset += (BLOCK_HEADER_BYTES + payload.len()) as u64;
            }
            Err(reason) => {
                bad.get_or_insert((offset, reason));
                offset = reader.next_magic(offset + 1)?;
            }
        }
    }
    if let Some((from, reason)) = bad {
        each(Item::Bad { offset: from, bytes: size - from, reason });
    }
    Ok(size)
}
