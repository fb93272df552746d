//! The search for the blocks of a file, also behind bytes that are none.

use crate::journal::encoding::format::{BLOCK_HEADER_BYTES, BLOCK_MAGIC, BlockHeader, HEADER_BYTES};
use crate::journal::encoding::payload::runs;
use crate::journal::files::disk::{DiskFile, read_full};
use std::io;

/// The next item in a file.
pub(in crate::journal) enum Item<'p> {
    /// A block that is whole.
    Block { offset: u64, header: BlockHeader, payload: &'p [u8] },
    /// Bytes that are no block, up to the next block or the end.
    Bad { offset: u64, bytes: u64, reason: &'static str },
}

/// The number of bytes that are read of a file at a time, at least.
const CHUNK: usize = 1 << 20;

/// The most bytes of would-be blocks that are read for each byte of a file: by accident there is
/// hardly ever a would-be block, but somebody may have written them.
const WORK_MAX: u64 = 8;

/// A file through a buffer.
struct Reader<'f> {
    file: &'f mut dyn DiskFile,
    size: u64,
    offset: u64,
    bytes: Vec<u8>,
}

impl Reader<'_> {
    /// Returns bytes from an offset on: as many of them as are there, up to `length`.
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
        #[expect(clippy::cast_possible_truncation, reason = "a place within the bytes that were read")]
        let start = (offset - self.offset) as usize;
        Ok(&self.bytes[start..start + length])
    }

    /// Returns the block at an offset, or the reason why there is none.
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

    /// Returns the number of bytes that must be read to know what is at an offset.
    fn claimed(&mut self, offset: u64) -> io::Result<u64> {
        let left = self.size - offset;
        if left < BLOCK_HEADER_BYTES as u64 {
            return Ok(left);
        }
        let header = self.slice(offset, BLOCK_HEADER_BYTES)?.first_chunk().and_then(BlockHeader::decode);
        let payload_bytes = header.map_or(0, |header| u64::from(header.payload_bytes));
        Ok(if payload_bytes > left { 0 } else { BLOCK_HEADER_BYTES as u64 + payload_bytes })
    }

    /// Returns the offset, from this one on, at which the next block may begin.
    fn next_magic(&mut self, mut offset: u64) -> io::Result<u64> {
        const MAGIC: usize = BLOCK_MAGIC.len();
        while offset + MAGIC as u64 <= self.size {
            #[expect(clippy::cast_possible_truncation, reason = "a chunk at most")]
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

/// Goes through a file after its header. Returns the length of the file.
pub(in crate::journal) fn scan(file: &mut dyn DiskFile, salt: u64, each: &mut dyn FnMut(Item<'_>)) -> io::Result<u64> {
    scan_counting(file, salt, &mut 0, each)
}

/// Does the same; counts the bytes that only claim to be a block.
fn scan_counting(
    file: &mut dyn DiskFile,
    salt: u64,
    work: &mut u64,
    each: &mut dyn FnMut(Item<'_>),
) -> io::Result<u64> {
    let size = file.size()?;
    let mut reader = Reader { file, size, offset: 0, bytes: Vec::new() };
    let mut offset = HEADER_BYTES as u64;
    let mut bad = None;
    while offset < size {
        if *work > WORK_MAX * (size + CHUNK as u64) {
            bad.get_or_insert((offset, "too much of it claims to be a block, and is none"));
            break;
        }
        let claimed = reader.claimed(offset)?;
        match reader.block(offset, salt)? {
            Ok((header, payload)) => {
                if let Some((from, reason)) = bad.take() {
                    each(Item::Bad { offset: from, bytes: offset - from, reason });
                }
                each(Item::Block { offset, header, payload });
                offset += (BLOCK_HEADER_BYTES + payload.len()) as u64;
            }
            Err(reason) => {
                *work += claimed;
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

#[cfg(all(test, not(any(modelled, alone))))]
mod tests {
    use super::*;
    use crate::journal::encoding::payload::Payload;
    use crate::journal::files::disk::{DiskFile, Identity};

    const SALT: u64 = 99;

    /// A file that counts how much of it is read.
    struct Counting {
        bytes: Vec<u8>,
        read: u64,
    }

    impl DiskFile for Counting {
        fn size(&mut self) -> io::Result<u64> {
            Ok(self.bytes.len() as u64)
        }

        fn read_at(&mut self, offset: u64, bytes: &mut [u8]) -> io::Result<usize> {
            let rest = &self.bytes[offset as usize..];
            let n = rest.len().min(bytes.len());
            bytes[..n].copy_from_slice(&rest[..n]);
            self.read += n as u64;
            Ok(n)
        }

        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            unreachable!("it is only read")
        }

        fn sync(&mut self) -> io::Result<()> {
            unreachable!("it is only read")
        }

        fn truncate(&mut self, _: u64) -> io::Result<()> {
            unreachable!("it is only read")
        }

        fn identity(&mut self) -> io::Result<Identity> {
            unreachable!("it is only read")
        }
    }

    /// Scans a file. Returns the numbers of its blocks, and how many bytes were read and hashed.
    fn scanned(bytes: Vec<u8>) -> (Vec<u64>, u64, u64) {
        let mut file = Counting { bytes, read: 0 };
        let (mut numbers, mut work) = (Vec::new(), 0);
        scan_counting(&mut file, SALT, &mut work, &mut |item| {
            if let Item::Block { header, .. } = item {
                numbers.push(header.number);
            }
        })
        .unwrap();
        (numbers, file.read, work)
    }

    fn block(number: u64) -> Vec<u8> {
        let mut payload = Payload::default();
        payload.push_position(b"source", b"position");
        let header = BlockHeader { number, ..BlockHeader::default() }.seal(payload.bytes(), SALT);
        [&header.encode()[..], payload.bytes()].concat()
    }

    /// Returns bytes in which each block claims all of the rest, and is none.
    fn claiming(size: usize) -> Vec<u8> {
        let mut bytes = vec![0; size];
        for at in (0..size - BLOCK_HEADER_BYTES).step_by(BLOCK_HEADER_BYTES) {
            bytes[at..at + 4].copy_from_slice(&BLOCK_MAGIC);
            let rest = (size - at - BLOCK_HEADER_BYTES) as u32;
            bytes[at + 4..at + 8].copy_from_slice(&rest.to_le_bytes());
        }
        bytes
    }

    #[test]
    fn blocks_behind_what_is_none_are_found() {
        let mut bytes = vec![0; HEADER_BYTES];
        bytes.extend(block(1));
        bytes.extend(claiming(5_000));
        bytes.extend(block(2));
        assert_eq!(scanned(bytes).0, [1, 2]);
    }

    #[test]
    fn a_block_behind_many_bytes_is_found_wherever_in_it_a_chunk_ends() {
        for chunks in 1..=2 {
            for more in 0..16 {
                let mut bytes = vec![0; HEADER_BYTES];
                bytes.extend(block(1));
                bytes.resize(bytes.len() + chunks * CHUNK - 8 + more, 0);
                bytes.extend(block(2));
                assert_eq!(scanned(bytes).0, [1, 2], "{chunks} chunks and {more} - 8 bytes");
            }
        }
    }

    #[test]
    fn what_only_claims_to_be_a_block_costs_what_the_files_length_justifies() {
        for size in [400_000, 4_000_000] {
            let mut bytes = vec![0; HEADER_BYTES];
            bytes.extend(claiming(size));
            let length = bytes.len() as u64;
            let (numbers, read, hashed) = scanned(bytes);
            assert!(numbers.is_empty());
            let most = (WORK_MAX + 2) * (length + CHUNK as u64);
            assert!(hashed <= most && read <= 2 * most, "{length} bytes: {read} were read, {hashed} hashed");
        }
    }
}
