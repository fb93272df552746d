//! Calls at a steady pace, and how late they end; and the same of plain stores to memory, which is
//! what the machine itself allows.

use crate::load::percentiles;
use hapax::seam::random::Random;
use std::fmt;
use std::fs::File;
use std::hint::black_box;
use std::io::{Read, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Calls a second, and for how many seconds.
const PACE: u64 = 100_000;
const SECONDS: u64 = 20;
pub const CALLS: u64 = PACE * SECONDS;

/// The lines of memory that a plain call stores to: as many as a check of a fresh id comes to.
const LINES: usize = 8;
const LINE_WORDS: usize = 8;

/// The bytes that are copied between two syncs, at once, and in a second: as merging does.
const SYNC_BYTES: u64 = 64 << 20;
const COPY_BYTES: usize = 256 << 10;
const COPY_BYTES_PER_SECOND: u64 = 200_000_000;

/// The time by which calls ended late.
pub struct Late {
    /// Microseconds: the 99th percentile, the 99.9th, the most.
    micros: [f64; 3],
}

impl fmt::Display for Late {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [p99, p999, most] = self.micros;
        write!(f, "{PACE} a second: us: p99 {p99:.1}, p99.9 {p999:.1}, longest {most:.1}")
    }
}

/// Makes calls, each when its time has come.
pub fn paced(mut call: impl FnMut() -> Result<(), String>) -> Result<Late, String> {
    let (began, mut nanos) = (Instant::now(), Vec::new());
    for n in 0..CALLS {
        let due = began + Duration::from_nanos(n * (1_000_000_000 / PACE));
        while Instant::now() < due {
            std::hint::spin_loop();
        }
        call()?;
        // From when it was due: what has waited for the one before has waited.
        nanos.push(u64::try_from(due.elapsed().as_nanos()).unwrap_or(u64::MAX));
    }
    Ok(Late { micros: percentiles(&mut nanos).map(|nanos| nanos as f64 / 1e3) })
}

/// Stores to lines at random in a table of so many bytes, at the same pace, while a thread copies
/// so many bytes of the files of a directory, as one that merges does.
pub fn plain(bytes: usize, directory: &Path, to_copy: u64) -> Result<String, String> {
    // (Each word is written, so that the system has given all of it.)
    let mut words = vec![1_u64; bytes / 8];
    let (mut random, is_over) = (Random::new(7), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let copying = scope.spawn(|| copy(directory, to_copy, &is_over));
        let late = paced(|| {
            for _ in 0..LINES {
                let at = random.below((words.len() / LINE_WORDS) as u64) as usize * LINE_WORDS;
                words[at] += 1;
            }
            black_box(&words);
            Ok(())
        });
        is_over.store(true, Ordering::Relaxed);
        let copied = copying.join().map_err(|_| "the thread that copies has panicked")?.map_err(|e| e.to_string())?;
        let [megabytes, copied] = [bytes as u64 / 1_000_000, copied / 1_000_000];
        Ok(format!("plain stores to {LINES} lines of {megabytes} MB, {}; {copied} MB were copied", late?))
    })
}

/// Copies so many bytes of the files of a directory, to a file that is gone in the end. Returns how
/// many these were.
fn copy(directory: &Path, to_copy: u64, is_over: &AtomicBool) -> std::io::Result<u64> {
    let to_path = directory.join("copy");
    let mut to = File::create(&to_path)?;
    std::fs::remove_file(&to_path)?;
    let (mut buffer, mut copied, began) = (vec![0; COPY_BYTES], 0, Instant::now());
    for entry in std::fs::read_dir(directory)? {
        let mut from = File::open(entry?.path())?;
        loop {
            let read = from.read(&mut buffer)?;
            if read == 0 {
                break;
            }
            if copied >= to_copy || is_over.load(Ordering::Relaxed) {
                return Ok(copied);
            }
            to.write_all(&buffer[..read])?;
            if (copied + read as u64) / SYNC_BYTES > copied / SYNC_BYTES {
                to.sync_data()?;
            }
            copied += read as u64;
            let due = Duration::from_secs_f64(copied as f64 / COPY_BYTES_PER_SECOND as f64);
            std::thread::sleep(due.saturating_sub(began.elapsed()));
        }
    }
    Ok(copied)
}
