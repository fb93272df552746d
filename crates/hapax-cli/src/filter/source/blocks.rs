//! Input as blocks of whole records.

use super::checkpoint::{Beginning, Checkpoint};
use super::encoding::{Content, Encoding};
use crate::filter::record::cut::Cutter;
use std::io::{self, Read};

/// Cuts input into blocks of whole records.
pub struct Blocks {
    content: Content,
    cutter: Cutter,
    /// The beginning of a record whose end was not read yet.
    rest: Vec<u8>,
    line_bytes_max: usize,
    block_bytes: usize,
    /// True if the rest of a record that is too long is still to be skipped.
    skipping: bool,
    /// Lines that were skipped since the last question, and those of a record that was only just
    /// found to be too long.
    skipped: u64,
    skipped_just: u64,
    ended: bool,
    beginning: Beginning,
    /// Bytes of the content that were read.
    read: u64,
    /// The offset in the content at which the last block began, and how many of its bytes are not
    /// part of the content: an end that a line did not have.
    start: u64,
    added: u64,
}

/// The next block, if there is one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Block {
    /// Whole records, each with its end.
    Records,
    /// A record that is longer than allowed, and was skipped.
    TooLong,
    /// The last record, if it ends within quotes.
    Unterminated,
    End,
}

/// A size that makes a system call cheap, and is small enough to stay in a core's cache.
pub const BLOCK_BYTES: usize = 256 << 10;

impl Blocks {
    pub fn new(content: Content, cutter: Cutter, line_bytes_max: usize) -> Self {
        Blocks {
            content,
            cutter,
            rest: Vec::new(),
            line_bytes_max,
            block_bytes: BLOCK_BYTES,
            skipping: false,
            skipped: 0,
            skipped_just: 0,
            ended: false,
            beginning: Beginning::new(),
            read: 0,
            start: 0,
            added: 0,
        }
    }

    /// Reads smaller blocks than usual from now on.
    pub fn set_block_bytes(&mut self, block_bytes: usize) {
        self.block_bytes = block_bytes;
    }

    /// Continues the input from this offset in its content, which is known to begin like this.
    pub fn from(self, offset: u64, beginning: Beginning) -> Self {
        Blocks { read: offset, start: offset, beginning, ..self }
    }

    /// Returns the encoding that the content had.
    pub fn encoding(&self) -> Encoding {
        self.content.encoding
    }

    /// Returns the offset in the content at which the last block began. Skipped records that are
    /// too long are in no block.
    pub fn start(&self) -> u64 {
        self.start
    }

    /// Returns the offset in the content at which the last block ends, including added bytes.
    pub fn end(&self) -> u64 {
        self.read + self.added - self.rest.len() as u64
    }

    /// Notes how far the content is done when so many records of the last block are, which end
    /// there.
    pub fn note(&self, ends: &[u32], done: usize, place: &mut Checkpoint) {
        (place.first, place.beginning) = self.beginning.spans();
        let Some(last) = done.checked_sub(1) else { return };
        let (start, end) = (if last > 0 { ends[last - 1] } else { 0 }, ends[last]);
        // At the last record of the block the content's end is known; the record's own end may not
        // be part of the content.
        let added = if done == ends.len() { self.added } else { 0 };
        place.offset = self.end() - u64::from(ends[ends.len() - 1] - end) - added;
        place.unended = if added > 0 { u64::from(end - start) - added } else { 0 };
    }

    /// Returns the number of bytes of the content that were read.
    pub fn read(&self) -> u64 {
        self.read
    }

    /// Returns the number of lines that were skipped since the last call.
    pub fn take_skipped(&mut self) -> u64 {
        std::mem::take(&mut self.skipped)
    }

    /// Reads the next block, and the ends of its records, into buffers whose memory is reused. The
    /// last record gets an end if it has none.
    pub fn next(&mut self, block: &mut Vec<u8>, ends: &mut Vec<u32>) -> io::Result<Block> {
        block.clear();
        ends.clear();
        std::mem::swap(block, &mut self.rest);
        self.skipped += std::mem::take(&mut self.skipped_just);
        while !self.ended {
            // The cutter has seen the block up to here.
            let mut known = block.len();
            let room = self.block_bytes.saturating_sub(known).max(self.block_bytes / 4);
            block.resize(known + room, 0);
            let n = read_some(&mut self.content.bytes, &mut block[known..])?;
            block.truncate(known + n);
            self.beginning.add(&block[known..]);
            self.read += n as u64;
            self.ended = n == 0;
            if self.read == block.len() as u64 && self.cutter.last_byte() == b'\n' {
                check_beginning(block, self.encoding())?;
            }
            if self.skipping && !self.skip(block) {
                continue;
            }
            while let Some(end) = self.cutter.end(&block[known..]) {
                known += end;
                ends.push(known as u32);
            }
            if let Some(&end) = ends.last() {
                self.rest.extend_from_slice(&block[end as usize..]);
                block.truncate(end as usize);
                self.start = self.read - (block.len() + self.rest.len()) as u64;
                return Ok(Block::Records);
            }
            if block.len() > self.line_bytes_max {
                self.skipping = true;
                self.skipped_just = self.lines_in(block);
                block.clear();
                return Ok(Block::TooLong);
            }
        }
        if block.is_empty() {
            return Ok(Block::End);
        }
        self.start = self.read - block.len() as u64;
        if self.cutter.is_within_quotes() {
            return Ok(Block::Unterminated);
        }
        if block.last() != Some(&self.cutter.last_byte()) {
            block.push(self.cutter.last_byte());
            self.added = 1;
        }
        ends.push(block.len() as u32);
        Ok(Block::Records)
    }

    /// Drops the part of the block that belongs to the record that is too long. Returns true if the
    /// record has ended.
    fn skip(&mut self, block: &mut Vec<u8>) -> bool {
        let end = self.cutter.end(block);
        self.skipped += self.lines_in(&block[..end.unwrap_or(block.len())]);
        block.drain(..end.unwrap_or(block.len()));
        self.skipping = end.is_none();
        // The record without an end is the last one.
        self.skipped += u64::from(self.skipping && self.ended);
        !self.skipping
    }

    fn lines_in(&self, bytes: &[u8]) -> u64 {
        memchr::memchr_iter(self.cutter.last_byte(), bytes).count() as u64
    }
}

/// Refuses content that seems to be UTF-16 without a mark.
fn check_beginning(content: &[u8], encoding: Encoding) -> io::Result<()> {
    match Encoding::seeming(content).filter(|_| encoding == Encoding::Bytes) {
        None => Ok(()),
        Some(seeming) => Err(io::Error::other(format!(
            "it seems to be UTF-16, without a byte order mark: give `iconv -f {} -t UTF-8 FILE | hapax filter …`",
            seeming.name()
        ))),
    }
}

fn read_some(input: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        match input.read(buffer) {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            done => return done,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::fuzzing::Trickle;

    fn blocks(input: &[u8], at_once: usize, line_bytes_max: usize) -> (Vec<u8>, usize) {
        let bytes = Box::new(Trickle(io::Cursor::new(input.to_vec()), at_once));
        let content = Content { bytes, encoding: Encoding::Bytes };
        let mut blocks = Blocks::new(content, Cutter::new(None, b'\n'), line_bytes_max);
        let (mut block, mut ends, mut all, mut too_long) = (Vec::new(), Vec::new(), Vec::new(), 0);
        loop {
            match blocks.next(&mut block, &mut ends).unwrap() {
                Block::Records => {
                    assert!(block.ends_with(b"\n") && ends.last() == Some(&(block.len() as u32)));
                    all.extend_from_slice(&block);
                }
                Block::TooLong => too_long += 1,
                Block::Unterminated | Block::End => return (all, too_long),
            }
        }
    }

    #[test]
    fn blocks_are_whole_lines_and_together_the_input() {
        let long = [vec![b'x'; 3 * BLOCK_BYTES], b"\ny\n".to_vec()].concat();
        for input in [&b""[..], b"a", b"a\n", b"a\nb", b"\n\n", b"a\r\nb\0\xff\n", &long] {
            for at_once in [1, 2, 7, 9_999, 1 << 20] {
                if at_once <= 7 && input.len() > BLOCK_BYTES {
                    continue;
                }
                let (all, too_long) = blocks(input, at_once, usize::MAX);
                let mut expected = input.to_vec();
                if !input.is_empty() && !input.ends_with(b"\n") {
                    expected.push(b'\n');
                }
                assert!(all == expected && too_long == 0);
            }
        }
    }

    #[test]
    fn lines_that_are_too_long_are_skipped_and_reported() {
        let long = vec![b'x'; 2 * BLOCK_BYTES];
        let input = [b"a\n", &long[..], b"\nb\n", &long[..], b"\n", &long[..]].concat();
        for at_once in [9_999, 1 << 20] {
            let (all, too_long) = blocks(&input, at_once, BLOCK_BYTES);
            assert_eq!((all.as_slice(), too_long), (&b"a\nb\n"[..], 3));
        }
    }
}
