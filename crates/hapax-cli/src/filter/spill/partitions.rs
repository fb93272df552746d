//! First pass: the digest of each line goes to its partition, by its highest bits.

use super::budget::Budget;
use super::marks::Marks;
use super::nameless::Nameless;
use super::recent::Recent;
use super::records::{RECORD_BYTES, encode};
use crate::error::CommandError;
use crate::filter::options::Keep;
use hapax_plan::BytesNeeded;
use xxhash_rust::xxh3::xxh3_64;

/// Digests on their way to the disk.
pub struct Partitions {
    budget: Budget,
    /// A buffer for each partition, one after the other.
    buffers: Vec<u8>,
    heads: Vec<Head>,
    blocks: Vec<Vec<Block>>,
    file: Nameless,
    recent: Recent,
    marks: Marks,
    ids: u64,
    keep: Keep,
}

/// A partition, as far as each id needs it.
#[derive(Clone, Copy, Default)]
struct Head {
    /// The bytes in its buffer.
    filled: usize,
    /// The number of its last id among all ids.
    last: u64,
    records: u64,
}

/// A buffer that was written.
#[derive(Clone, Copy)]
struct Block {
    offset: u64,
    hash: u64,
}

/// All partitions, once all lines are in them.
pub struct Filed(Partitions);

impl Partitions {
    pub fn new(budget: Budget, keep: Keep, file: Nameless) -> Self {
        let partitions = 1 << budget.partition_bits;
        let buffers = vec![0; partitions * budget.buffer_records * RECORD_BYTES];
        let (heads, blocks) = (vec![Head::default(); partitions], vec![Vec::new(); partitions]);
        let (recent, marks) = (Recent::new(), Marks::default());
        Partitions { budget, buffers, heads, blocks, file, recent, marks, ids: 0, keep }
    }

    /// Takes in the digests of the next lines.
    pub fn add(&mut self, digests: &[u128]) -> Result<(), CommandError> {
        let ids = self.ids + digests.len() as u64;
        if ids > self.budget.lines_max {
            return Err(CommandError::Usage(format!(
                "--max-memory: more than {} lines take a bitmap of more than half of it; nothing is printed. {} are \
                 enough for twice as many",
                self.budget.lines_max,
                BytesNeeded(Budget::needed(self.budget.lines_max * 2) as f64)
            )));
        }
        self.marks.grow_to(ids);
        if self.keep == Keep::Last {
            // One that came before is a duplicate of this one: all have to be filed.
            for digest in digests {
                self.file(*digest)?;
                self.ids += 1;
            }
            return Ok(());
        }
        for digest in digests {
            if self.recent.has(*digest) {
                self.marks.mark(self.ids);
            } else {
                self.file(*digest)?;
            }
            self.ids += 1;
        }
        Ok(())
    }

    #[inline]
    fn file(&mut self, digest: u128) -> Result<(), CommandError> {
        let partition = (digest >> (128 - self.budget.partition_bits)) as usize;
        let distance = self.ids - self.heads[partition].last;
        let (far, record) = encode(distance, digest);
        if let Some(far) = far {
            self.push(partition, &far)?;
        }
        self.push(partition, &record)?;
        self.heads[partition].last = self.ids;
        Ok(())
    }

    #[inline]
    fn push(&mut self, partition: usize, record: &[u8; RECORD_BYTES]) -> Result<(), CommandError> {
        let bytes = self.buffer_bytes();
        let head = &mut self.heads[partition];
        let at = partition * bytes + head.filled;
        self.buffers[at..at + RECORD_BYTES].copy_from_slice(record);
        head.filled += RECORD_BYTES;
        head.records += 1;
        if head.filled == bytes {
            self.write(partition)?;
        }
        Ok(())
    }

    #[cold]
    fn write(&mut self, partition: usize) -> Result<(), CommandError> {
        let bytes = self.buffer_bytes();
        let buffer = &self.buffers[partition * bytes..(partition + 1) * bytes];
        let offset = self.file.append(buffer)?;
        self.blocks[partition].push(Block { offset, hash: xxh3_64(buffer) });
        self.heads[partition].filled = 0;
        Ok(())
    }

    fn buffer_bytes(&self) -> usize {
        self.budget.buffer_records * RECORD_BYTES
    }

    /// Ends the pass.
    pub fn end(mut self) -> Filed {
        if self.keep == Keep::Last {
            self.blocks.iter_mut().for_each(|blocks| blocks.reverse());
        }
        Filed(self)
    }
}

impl Filed {
    pub fn partitions(&self) -> usize {
        self.0.heads.len()
    }

    /// Returns the number of records in a partition.
    pub fn records(&self, partition: usize) -> u64 {
        self.0.heads[partition].records
    }

    /// Returns the number of a partition's last id, if the partition is read from its end.
    pub fn backwards(&self, partition: usize) -> Option<u64> {
        (self.0.keep == Keep::Last).then_some(self.0.heads[partition].last)
    }

    pub fn budget(&self) -> Budget {
        self.0.budget
    }

    pub fn marks(&self) -> &Marks {
        &self.0.marks
    }

    /// Returns the bitmap, and gives all other memory back.
    pub fn into_marks(self) -> Marks {
        self.0.marks
    }

    /// Returns the bytes that were written to the disk.
    pub fn written(&self) -> u64 {
        self.0.file.written()
    }

    /// Calls `each` with the records of a partition in the order of lines, a buffer at a time,
    /// until it returns false; with the last buffer first if the last line of each id is kept.
    pub fn stream(
        &self,
        partition: usize,
        buffer: &mut Vec<u8>,
        mut each: impl FnMut(&[u8]) -> Result<bool, CommandError>,
    ) -> Result<(), CommandError> {
        let Partitions { buffers, heads, blocks, file, .. } = &self.0;
        buffer.resize(self.0.buffer_bytes(), 0);
        let at = partition * self.0.buffer_bytes();
        let end = &buffers[at..at + heads[partition].filled];
        let is_last = self.0.keep == Keep::Last;
        if is_last && !each(end)? {
            return Ok(());
        }
        for block in &blocks[partition] {
            file.read(buffer, block.offset)?;
            if xxh3_64(buffer) != block.hash {
                return Err(file.damaged());
            }
            if !each(buffer)? {
                return Ok(());
            }
        }
        if is_last { Ok(()) } else { each(end).map(drop) }
    }
}
