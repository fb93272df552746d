//! Estimates, before the first line, how many different ids a file has, by those in some places of
//! it.

use super::input::{Source, read_at};
use super::lines::without_end;
use crate::filter::compressed::compression::Compression;
use crate::filter::record::extract::{Extracted, Extractor};
use std::fs::File;
use xxhash_rust::xxh3::xxh3_64;

/// Many short places, since an id that comes again from time to time must have the chance to be in
/// two …
const PLACES: u64 = 128;
const PLACE_BYTES: u64 = 8 << 10;

/// … and two long ones, for ids that come again soon, all over the file.
const LONG_PLACES: u64 = 2;
const LONG_BYTES: u64 = 10 << 20; // of one file; several share as much

/// The number of bytes of a long place that are read at a time.
const PIECE_BYTES: u64 = 64 << 10;

/// One in so many ids of a long place stands for all of them, so that they are soon counted.
const STANDS_FOR: u64 = 8;

/// Returns about how many different ids are in this many lines of plain files, each of which ends
/// with this byte; none if the files show nothing, or not enough.
///
/// Of `n` lines drawn from `d` ids that come equally often, `n²/2d` pairs have the same one. If
/// some come more often, or close together, the result is less than the true number. There are no
/// more than the share of a long place that is new there.
pub fn distinct(sources: &[Source], extractor: &mut Extractor, lines: u64, last_byte: u8) -> Option<u64> {
    let bytes = sources.iter().map(|source| plain(source).map(|(_, bytes)| bytes)).sum::<Option<u64>>()?;
    let (mut ids, mut near) = (Vec::new(), Near::default());
    for source in sources {
        // One after the other: there may be more than may be open.
        let (file, length) = &plain(source)?;
        if extractor.needs_header() {
            let beginning = read_at(file, 0, 64 << 10)?;
            let end = memchr::memchr(last_byte, &beginning)?;
            extractor.read_header(without_end(&beginning[..=end])).ok()?;
        }
        let share = |of: u64| (u128::from(of) * u128::from(*length)).div_ceil(u128::from(bytes.max(1))) as u64;
        for at in places(share(PLACES), PLACE_BYTES, *length) {
            each_id(&read_at(file, at, PLACE_BYTES as usize)?, extractor, last_byte, |id| ids.push(id));
        }
        let long_places = share(LONG_PLACES);
        let long_bytes = share(LONG_PLACES * LONG_BYTES) / long_places.max(1);
        for at in places(long_places, long_bytes, *length) {
            let mut place = Vec::new();
            // In pieces, so that little memory is taken, and lines where two meet do not count.
            for offset in (0..long_bytes).step_by(PIECE_BYTES as usize) {
                let bytes = PIECE_BYTES.min(long_bytes - offset) as usize;
                each_id(&read_at(file, at + offset, bytes)?, extractor, last_byte, |id| {
                    place.extend((id % STANDS_FOR == 0).then_some(id));
                });
            }
            near.add(&mut place);
        }
    }
    Some(estimate(&mut ids, lines).min(near.at_most(lines)))
}

/// Returns the beginnings of places in a file: one in each part of it, so that no two overlap. A
/// line that is drawn twice is not a repeated id.
fn places(places: u64, bytes: u64, length: u64) -> impl Iterator<Item = u64> {
    let part = length / places.max(1);
    (0..places).map(move |place| part * place + at_random(place) % part.saturating_sub(bytes).max(1))
}

/// The ids of long places.
#[derive(Default)]
struct Near {
    lines: u64,
    /// Those that are new in their place.
    new: u64,
}

impl Near {
    fn add(&mut self, ids: &mut [u64]) {
        ids.sort_unstable();
        self.lines += ids.len() as u64;
        self.new += ids.chunk_by(|one, other| one == other).count() as u64;
    }

    /// Returns the most different ids of this many lines, if all of them are like these.
    fn at_most(&self, lines: u64) -> u64 {
        match self.lines {
            0 => lines,
            all => (u128::from(lines) * u128::from(self.new)).div_ceil(u128::from(all)) as u64,
        }
    }
}

/// Opens a plain file, and returns its length.
fn plain(source: &Source) -> Option<(File, u64)> {
    let file = source.is_file().then(|| source.open().ok())??;
    let meta = file.metadata().ok().filter(|meta| meta.is_file())?;
    let is_plain = matches!(Compression::of(&read_at(&file, 0, 8)?), Ok(None | Some(Compression::None)));
    is_plain.then_some((file, meta.len()))
}

/// Returns a number that is the same for each run, and that no file's content is periodic with.
fn at_random(place: u64) -> u64 {
    xxh3_64(&place.to_le_bytes())
}

/// Calls `id` with the hash of the id of each whole line of a piece; the first and the last may be
/// halves.
fn each_id(piece: &[u8], extractor: &Extractor, last_byte: u8, mut id: impl FnMut(u64)) {
    let mut ends = memchr::memchr_iter(last_byte, piece);
    let Some(mut start) = ends.next() else { return };
    for end in ends {
        let line = without_end(&piece[start + 1..=end]);
        if let Ok(Extracted::Event { id: bytes, .. }) = extractor.extract(line) {
            id(xxh3_64(&bytes));
        }
        start = end;
    }
}

/// Estimates the number of different ids that this many lines have, given those of a sample.
fn estimate(ids: &mut [u64], lines: u64) -> u64 {
    ids.sort_unstable();
    let pairs: u64 =
        ids.chunk_by(|one, other| one == other).map(|same| (same.len() * (same.len() - 1) / 2) as u64).sum();
    let drawn = (ids.len() * ids.len() / 2) as u64;
    // One pair is added, since chance may have kept one away.
    (drawn / (pairs + 1)).min(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_that_come_again_soon_are_fewer_than_lines() {
        let mut near = Near::default();
        assert_eq!(near.at_most(1_000), 1_000);
        // Each comes twice, in one place; none again in the other.
        near.add(&mut (0..1_000).map(|i| i / 2).collect::<Vec<_>>());
        near.add(&mut (0..1_000).collect::<Vec<_>>());
        assert_eq!(near.at_most(10_000_000), 7_500_000);
    }

    #[test]
    fn ids_that_come_again_are_told_from_ids_that_do_not() {
        let drawn = |n: u64, of: u64| (0..n).map(|i| at_random(i) % of).collect::<Vec<_>>();
        for of in [1, 100, 10_000, 1_000_000, 30_000_000] {
            let estimated = estimate(&mut drawn(100_000, of), 40_000_000);
            assert!(estimated <= of * 5 / 4 + 1 && estimated >= of / 2, "{of}: {estimated}");
        }
        assert_eq!(estimate(&mut (0..100_000).collect::<Vec<_>>(), 40_000_000), 40_000_000);
        assert_eq!((estimate(&mut [], 1_000), estimate(&mut [7], 1_000)), (0, 0));
        // Each id comes a thousand times, all together.
        assert!(estimate(&mut (0..100_000).map(|i| i / 1_000).collect::<Vec<_>>(), 40_000_000) < 1_000);
    }
}
