//! Pages that are not in memory: how many of them the disk gives in a second to whoever just reads.

use hapax::tier::random::Random;
use rustix::fs::{Advice, fadvise};
use rustix::io::{ReadWriteFlags, preadv2};
use std::fs::File;
use std::io::IoSliceMut;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const PAGE: u64 = 4096;

/// Returns the files of segments.
fn files(directory: &Path) -> Result<Vec<(PathBuf, u64)>, String> {
    let entries = std::fs::read_dir(directory).map_err(|error| error.to_string())?;
    let files = entries.flatten().filter_map(|entry| Some((entry.path(), entry.metadata().ok()?)));
    Ok(files.filter(|(_, metadata)| metadata.is_file()).map(|(path, metadata)| (path, metadata.len())).collect())
}

/// Lets the system forget what it has of the files.
pub fn drop_cached(directory: &Path) -> Result<(), String> {
    for (path, _) in files(directory)? {
        let file = File::open(path).map_err(|error| error.to_string())?;
        // What is not on the disk stays.
        file.sync_all().map_err(|error| error.to_string())?;
        fadvise(&file, 0, None, Advice::DontNeed).map_err(|error| error.to_string())?;
        fadvise(&file, 0, None, Advice::Random).map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// Files that are open, with the number of pages of each.
struct Open(Vec<(File, u64)>);

impl Open {
    fn all(files: &[(PathBuf, u64)]) -> std::io::Result<Self> {
        files.iter().map(|(path, bytes)| Ok((File::open(path)?, bytes / PAGE))).collect::<Result<_, _>>().map(Open)
    }

    /// Returns a page at random: its file, and its offset there.
    fn any(&self, random: &mut Random) -> Option<(&File, u64)> {
        let total = self.0.iter().map(|(_, pages)| pages).sum();
        let mut at = random.below(total);
        for (file, pages) in &self.0 {
            if at < *pages {
                return Some((file, at * PAGE));
            }
            at -= pages;
        }
        None
    }
}

/// Reads so many pages at random, with so many threads, each of which asks for some at once and
/// then waits for them. Returns the time that it took.
fn read_at_random(files: &[(PathBuf, u64)], pages: u64, threads: u64, at_once: u64) -> Result<Duration, String> {
    let began = Instant::now();
    let read = |thread: u64| -> std::io::Result<()> {
        let open = Open::all(files)?;
        let (mut random, mut page) = (Random::new(thread), [0; PAGE as usize]);
        for _ in 0..pages / threads / at_once {
            let some: Vec<_> = (0..at_once).filter_map(|_| open.any(&mut random)).collect();
            if at_once > 1 {
                for (file, offset) in &some {
                    // (It says that it would wait, and begins to read.)
                    let _ = preadv2(file, &mut [IoSliceMut::new(&mut page)], *offset, ReadWriteFlags::NOWAIT);
                }
            }
            for (file, offset) in some {
                file.read_exact_at(&mut page, offset)?;
            }
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|thread| scope.spawn(move || read(thread))).collect();
        threads.into_iter().try_for_each(|thread| match thread.join() {
            Ok(read) => read.map_err(|error| error.to_string()),
            Err(panic) => std::panic::resume_unwind(panic),
        })
    })?;
    Ok(began.elapsed())
}

/// Compares what was measured with the best that plain reads of as many pages do.
pub fn report(directory: &Path, pages: u64, took: Duration) -> Result<(), String> {
    let files = files(directory)?;
    let each = |took: Duration| took.as_secs_f64() * 1e6 / pages.max(1) as f64;
    let mut best = f64::INFINITY;
    for (threads, at_once) in [(9, 1), (32, 1), (64, 1), (1, 50)] {
        drop_cached(directory)?;
        let plain = each(read_at_random(&files, pages, threads, at_once)?);
        println!("{pages} pages at random, threads: {threads}, each asks for {at_once} at once: {plain:.1} us a page");
        best = best.min(plain);
    }
    let ours = each(took);
    println!("hapax: {ours:.1} us a page that it read: {:.2} times that of the disk", ours / best);
    Ok(())
}
