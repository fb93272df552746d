//! Decides, before the first line, how large the engine must be.

use super::compressed::compression::Compression;
use super::engine_errors;
use super::options::{Damage, FilterArgs, History, Unconfirmed};
use super::record::extract::Extractor;
use super::source::input::{Source, decompress, read_at};
use super::source::sample;
use crate::error::CommandError;
use hapax::{Dedup, JournalOptions};
use std::fs::File;
use std::io::Read;
use std::time::Duration;

/// The size of the input, as far as it is known beforehand.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Size {
    /// Bytes, before decompression.
    pub bytes: u64,
    /// The estimated number of lines.
    pub lines: u64,
}

/// The engine, and how it was sized.
pub struct Plan {
    pub dedup: Dedup,
    pub capacity: usize,
    /// The source of the capacity: the option, or an estimate.
    pub capacity_from: &'static str,
}

/// The default capacity to start with: 21 MB. The number of lines says only that there are no more
/// ids than that.
const CAPACITY_UNASKED: usize = 1_000_000;

/// The most memory to start with if samples of the input show many ids.
const BYTES_UNASKED_MAX: usize = 1 << 30;

/// The most memory that the window takes by default.
pub const MEMORY_UNASKED_MAX: usize = 8 << 30;

/// Adds a margin to an estimate, since it may be wrong, and since a table of ids that never expire
/// may lose one beyond 88 % of its capacity (docs/filter.md).
fn with_margin(lines: u64) -> usize {
    (lines + lines * 3 / 20 + 10_000) as usize
}

/// Returns the number of ids that fit into this many bytes.
fn room_in(bytes: usize) -> usize {
    bytes / 85 * 4 // 21.25 bytes an id
}

impl Plan {
    pub fn new(
        args: &FilterArgs,
        sources: &[Source],
        size: Option<Size>,
        has_time: bool,
    ) -> Result<Self, CommandError> {
        let estimated = size.map(|size| with_margin(size.lines));
        let distinct = size.filter(|size| args.window.is_none() && size.lines >= CAPACITY_UNASKED as u64);
        let distinct = distinct.and_then(|size| {
            let last_byte = args.lines.format.last_byte();
            let ids = sample::distinct(sources, &mut Extractor::new(&args.lines).ok()?, size.lines, last_byte);
            ids.map(with_margin)
        });
        let (capacity, capacity_from) = match (args.capacity, estimated) {
            (Some(capacity), _) => (capacity, "given"),
            (None, Some(lines)) if lines < CAPACITY_UNASKED => (lines, "from the input's size"),
            (None, _) => match distinct {
                Some(ids) if ids > CAPACITY_UNASKED => {
                    (ids.min(room_in(BYTES_UNASKED_MAX)), "from some of the input's ids")
                }
                _ => (CAPACITY_UNASKED, "to begin with"),
            },
        };
        let capacity = match args.max_memory {
            Some(bytes) if args.capacity.is_none() => capacity.min(room_in(bytes)).max(1),
            _ => capacity,
        };
        // Without a window time stands still, and any window will do.
        let window = args.window.unwrap_or(Duration::from_secs(3600));
        // Lines can wait for memory, so no id may be lost meanwhile.
        let mut builder = Dedup::builder()
            .window(window)
            .capacity(capacity)
            .growth_thread(false)
            .refresh_on_duplicate(args.refresh_on_duplicate);
        if has_time || args.window.is_none() {
            builder = builder.event_time(args.refusing.event_time(has_time));
        }
        // A given capacity may take more than the default.
        if args.max_memory.is_some() || args.capacity.is_none() {
            builder = builder.max_memory_bytes(args.max_memory.unwrap_or(MEMORY_UNASKED_MAX));
        }
        if let (Some(history), Some(unconfirmed)) = (args.history, args.unconfirmed) {
            let ids = history.ids.or(estimated).ok_or_else(|| {
                CommandError::Usage(
                    "--history needs a number of ids, since the input's size is unknown (like 24h:1e-6:50M)".into(),
                )
            })?;
            let unconfirmed = match unconfirmed {
                Unconfirmed::Fresh => hapax::Unconfirmed::Fresh,
                Unconfirmed::Duplicate => hapax::Unconfirmed::Duplicate,
            };
            let History { horizon, false_positive_rate, .. } = history;
            builder = builder.history(hapax::History { horizon, ids, false_positive_rate, unconfirmed });
        }
        if let Some(seed) = args.seed {
            builder = builder.seed(seed);
        }
        if let Some(state) = &args.state {
            let damage = match args.damage {
                Damage::Refuse => hapax::Damage::Refuse,
                Damage::Keep => hapax::Damage::Keep,
            };
            // Lines that are checked and not yet printed must not be remembered by the next run.
            builder = builder.journal(state, JournalOptions::new().deferred(true).damage(damage));
        }
        let dedup = builder.build().map_err(|error| engine_errors::failure(error, args))?;
        Ok(Plan { dedup, capacity, capacity_from })
    }
}

/// Returns the size of the input, whose lines end with this byte, if all of it is in files.
pub fn size_of(sources: &[Source], last_byte: u8) -> Option<Size> {
    sources.iter().map(|source| file_size(source, last_byte)).try_fold(Size { bytes: 0, lines: 0 }, |sum, size| {
        let size = size?;
        Some(Size { bytes: sum.bytes + size.bytes, lines: sum.lines + size.lines })
    })
}

/// Looks at a few places of a file, whose position does not change. Returns none if it is no
/// ordinary file, or cannot be read; reading it will report why. Nor of an array, all of which may
/// be one line.
fn file_size(source: &Source, last_byte: u8) -> Option<Size> {
    let file = source.is_file().then(|| source.open().ok())??;
    let meta = file.metadata().ok().filter(|meta| meta.is_file() && !source.is_array(&file))?;
    let bytes = meta.len();
    let beginning = read_at(&file, 0, 8)?;
    let lines = match Compression::of(&beginning).ok()? {
        None | Some(Compression::None) => plain_lines(&file, bytes, last_byte)?,
        _ => compressed_lines(&file, bytes, last_byte)?,
    };
    Some(Size { bytes, lines })
}

/// Estimates the lines of a file by the density of line ends in 16 places.
fn plain_lines(file: &File, bytes: u64, last_byte: u8) -> Option<u64> {
    const PLACES: u64 = 16;
    const SAMPLE: usize = 64 << 10;
    let places = (0..PLACES).map(|i| bytes / PLACES * i);
    let samples: Vec<Vec<u8>> = places.map(|at| read_at(file, at, SAMPLE)).collect::<Option<_>>()?;
    Some(extrapolate(samples.iter().map(|sample| (lines_in(sample, last_byte), sample.len() as u64)), bytes))
}

/// Estimates the lines of a compressed file by its beginning.
fn compressed_lines(file: &File, bytes: u64, last_byte: u8) -> Option<u64> {
    const SAMPLE: usize = 1 << 20;
    let beginning = read_at(file, 0, SAMPLE)?;
    let compressed = beginning.len() as u64;
    let mut content = Vec::new();
    // An error at the cut is expected, and ignored. Highly repetitive content is not decompressed
    // forever.
    let _ = decompress(std::io::Cursor::new(beginning)).ok()?.bytes.take(64 << 20).read_to_end(&mut content);
    Some(extrapolate([(lines_in(&content, last_byte), compressed)].into_iter(), bytes))
}

fn lines_in(sample: &[u8], last_byte: u8) -> u64 {
    memchr::memchr_iter(last_byte, sample).count() as u64
}

/// Returns the number of lines in this many bytes, given those in some samples and the bytes of the
/// samples.
fn extrapolate(samples: impl Iterator<Item = (u64, u64)>, bytes: u64) -> u64 {
    let (lines, sampled) = samples.fold((0, 0), |sum, sample| (sum.0 + sample.0, sum.1 + sample.1));
    (u128::from(lines) * u128::from(bytes) / u128::from(sampled.max(1))) as u64 + 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::path::PathBuf;

    fn size(content: &[u8]) -> Option<Size> {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(content).unwrap();
        size_of(&[Source::new(file.path().to_owned())], b'\n')
    }

    #[test]
    fn the_number_of_lines_is_about_right() {
        let text: String = (0..400_000).map(|i| format!("{i:width$}\n", width = 10 + i % 30)).collect();
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(text.as_bytes()).unwrap();
        for (name, content) in [("plain", text.as_bytes()), ("gzip", &encoder.finish().unwrap())] {
            let size = size(content).unwrap();
            assert_eq!(size.bytes, content.len() as u64);
            assert!((320_000..=480_000).contains(&size.lines), "{name}: {size:?}");
            assert!(with_margin(size.lines) > size.lines as usize);
        }
        assert_eq!(size(b""), Some(Size { bytes: 0, lines: 1 }));
        assert_eq!(size(b"a\nb\n"), Some(Size { bytes: 4, lines: 3 }));
    }

    #[test]
    fn what_is_no_file_has_no_size() {
        let missing = Source::new(PathBuf::from("/nowhere/nothing"));
        assert_eq!(size_of(&[missing], b'\n'), None);
        assert_eq!(size_of(&[Source::new(std::env::temp_dir())], b'\n'), None);
    }
}
