//! Pages that are not in memory: how many of them the disk gives in a second to whoever just reads.

use hapax::seam::random::Random;
use rustix::fs::{Advice, fadvise};
use rustix::io::{ReadWriteFlags, preadv2};
use std::fs::File;
use std::io::{ErrorKind, IoSliceMut, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const PAGE: u64 = 4096;

/// Files of segments that are open, with their numbers of pages: they stay, whatever is merged.
struct Open(Vec<(File, u64)>);

impl Open {
    fn all(directory: &Path) -> std::io::Result<Self> {
        let mut open = Vec::new();
        for entry in std::fs::read_dir(directory)? {
            match File::open(entry?.path()) {
                Ok(file) => open.push((file, 0)),
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        for (file, pages) in &mut open {
            *pages = file.metadata()?.len() / PAGE;
        }
        Ok(Open(open))
    }

    /// Lets the system forget what it has of the files.
    fn drop_cached(&self) -> std::io::Result<()> {
        for (file, _) in &self.0 {
            // What is not on the disk stays.
            file.sync_all()?;
            fadvise(file, 0, None, Advice::DontNeed)?;
        }
        Ok(())
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

/// Lets the system forget what it has of the files.
pub fn drop_cached(directory: &Path) -> Result<(), String> {
    Open::all(directory).and_then(|files| files.drop_cached()).map_err(|error| error.to_string())
}

/// Reads so many pages at random, with so many threads, each of which asks for some at once and
/// then waits for them. Returns the time that it took.
fn read_at_random(open: &Open, pages: u64, threads: u64, at_once: u64) -> Result<Duration, String> {
    let began = Instant::now();
    let read = |thread: u64| -> std::io::Result<()> {
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

/// Reads pages at random, again and again, until that gets no faster: a disk that is somebody
/// else's machine takes up to fifty times as long right after much was written. Says what it saw.
pub fn settle(directory: &Path) -> Result<(), String> {
    const PAGES: u64 = 32 << 10;
    const PASSES_MAX: usize = 20;
    let open = Open::all(directory).map_err(|error| error.to_string())?;
    let mut each = Vec::new();
    let is_settled = |each: &[f64]| each.windows(3).last().is_some_and(|last| last[2] > 0.8 * last[0].min(last[1]));
    while each.len() < PASSES_MAX && !is_settled(&each) {
        open.drop_cached().map_err(|error| error.to_string())?;
        each.push(read_at_random(&open, PAGES, 64, 1)?.as_secs_f64() * 1e6 / PAGES as f64);
    }
    let [first, last] = [each.first(), each.last()].map(|each| each.copied().unwrap_or_default());
    println!("pages at random: {first:.1} us at first, {last:.1} in pass {}", each.len());
    Ok(())
}

/// Appends to a file and syncs it, every 5 ms as a journal does, while something else is measured.
fn beside<T>(path: &Path, bytes_per_second: f64, measure: impl FnOnce() -> T) -> std::io::Result<T> {
    const PAUSE: Duration = Duration::from_millis(5);
    let (mut file, is_over) = (File::create(path)?, AtomicBool::new(false));
    let some = vec![7; (bytes_per_second * PAUSE.as_secs_f64()) as usize];
    std::thread::scope(|scope| {
        let writing = scope.spawn(|| -> std::io::Result<()> {
            // (Relaxed: it says that, and no more.)
            while !is_over.load(Ordering::Relaxed) {
                let began = Instant::now();
                file.write_all(&some)?;
                file.sync_data()?;
                std::thread::sleep(PAUSE.saturating_sub(began.elapsed()));
            }
            Ok(())
        });
        let measured = measure();
        is_over.store(true, Ordering::Relaxed);
        writing.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        Ok(measured)
    })
}

/// Compares what was measured with the best that plain reads of as many pages do: alone, and while
/// as much is appended and synced as our journal has written meanwhile.
pub fn report(directory: &Path, pages: u64, took: Duration, written: u64) -> Result<(), String> {
    let open = Open::all(directory).map_err(|error| error.to_string())?;
    let appended = directory.with_extension("appended");
    let bytes_per_second = written as f64 / took.as_secs_f64();
    let each = |took: Duration| took.as_secs_f64() * 1e6 / pages.max(1) as f64;
    let ways = [(9, 1), (32, 1), (64, 1), (1, 50)];
    let mut best = [f64::INFINITY; 2];
    for (syncs, best) in [false, true].into_iter().zip(&mut best) {
        for (threads, at_once) in ways {
            open.drop_cached().map_err(|error| error.to_string())?;
            let read = || read_at_random(&open, pages, threads, at_once);
            let took = if syncs {
                beside(&appended, bytes_per_second, read).map_err(|error| error.to_string())??
            } else {
                read()?
            };
            let (plain, syncs) = (each(took), if syncs { ", beside syncs" } else { "" });
            println!(
                "{pages} pages at random, threads: {threads}, each asks for {at_once} at once{syncs}: {plain:.1} us a page"
            );
            *best = best.min(plain);
        }
    }
    let (ours, [alone, beside]) = (each(took), best);
    println!(
        "hapax: {ours:.1} us a page that it read: {:.2} times that of the disk, {:.2} times that beside as many syncs",
        ours / alone,
        ours / beside
    );
    let _ = std::fs::remove_file(appended);
    Ok(())
}
