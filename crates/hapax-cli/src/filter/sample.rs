//! Estimates, before the first line, how many different ids a file has, by those in some places of
//! it.

use super::extract::{Extracted, Extractor};
use super::input::{Compression, Source, read_at};
use super::lines::without_end;
use std::fs::File;
use xxhash_rust::xxh3::xxh3_64;

/// Many short places rather than few long ones: an id that comes again from time to time must have
/// the chance to be in two.
const PLACES: u64 = 128;
const PLACE_BYTES: u64 = 8 << 10;

/// Returns about how many different ids are in this many lines of plain files; none if the files
/// show nothing, or not enough.
///
/// Of `n` lines drawn from `d` ids that come equally often, `n²/2d` pairs have the same one. If
/// some come more often, or close together, the result is less than the true number.
pub fn distinct(sources: &[Source], extractor: &mut Extractor, lines: u64) -> Option<u64> {
    let files: Vec<(File, u64)> = sources.iter().map(plain).collect::<Option<_>>()?;
    let bytes: u64 = files.iter().map(|(_, bytes)| bytes).sum();
    let mut ids = Vec::new();
    for (file, length) in &files {
        if extractor.needs_header() {
            let beginning = read_at(file, 0, 64 << 10)?;
            let end = memchr::memchr(b'\n', &beginning)?;
            extractor.read_header(without_end(&beginning[..=end])).ok()?;
        }
        let places = (u128::from(PLACES) * u128::from(*length)).div_ceil(u128::from(bytes.max(1))) as u64;
        for place in 0..places {
            // There is one place in each part of the file, so that no two overlap: a line that is
            // drawn twice is not a repeated id.
            let part = length / places;
            let at = part * place + at_random(place) % part.saturating_sub(PLACE_BYTES).max(1);
            add_ids(&read_at(file, at, PLACE_BYTES as usize)?, extractor, &mut ids);
        }
    }
    Some(estimate(&mut ids, lines))
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

/// Adds the ids of all whole lines of a piece; the first and the last may be halves.
fn add_ids(piece: &[u8], extractor: &Extractor, ids: &mut Vec<u64>) {
    let ends: Vec<usize> = memchr::memchr_iter(b'\n', piece).collect();
    for line in ends.windows(2) {
        if let Ok(Extracted::Event { id, .. }) = extractor.extract(without_end(&piece[line[0] + 1..=line[1]])) {
            ids.push(xxh3_64(&id));
        }
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
