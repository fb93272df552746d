//! `hapax bench`: compares strategies in speed, size, cost and accuracy.
//!
//! Plan ([`cases`]), run ([`child`]: each case a process of its own), report.

mod cases;
mod child;
mod list;
mod options;

pub use self::options::BenchArgs;

use self::cases::Plan;
use self::child::Ended;
use crate::error::CommandError;
use crate::printable::{self, tell};
use crate::shell::quoted;
use hapax_bench::measure::{Case, Effort, Machine, Report, Row, render, servers};
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};
use tempfile::{NamedTempFile, TempDir};

/// The directory where processes may leave files, and the flag that is set when the user wants the
/// command to end.
struct Surroundings {
    directory: TempDir,
    interrupt: Arc<AtomicBool>,
}

/// Runs the command to its end.
pub fn run(args: BenchArgs) -> Result<(), CommandError> {
    if args.case {
        return child::answer();
    }
    if args.list {
        return crate::print(list::text().as_bytes());
    }
    for path in args.save.iter().chain(&args.html) {
        create(path).map_err(|error| CommandError::input(path, error))?; // before anything is measured
    }
    if cfg!(debug_assertions) {
        tell("hapax: built without optimization: these figures say nothing; build with --release");
    }
    let surroundings = Surroundings::new()?;
    let plan = Plan::new(&args, std::thread::available_parallelism().map_or(1, usize::from))?;
    let seed = args.seed.unwrap_or_else(rand);
    let began_unix_seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
    let mut rows = plan.rows;
    tell(format_args!("{} rows, {} rounds; --seed {seed}", rows.len(), args.rounds()));
    let interrupted = measure_all(&mut rows, &args, seed, &surroundings);
    rows.retain(|row| !row.runs.is_empty() || !row.failures.is_empty());
    let words = std::env::args().skip(2).map(|word| quoted(&word));
    let words = args.seed.is_none().then(|| format!("--seed={seed}")).into_iter().chain(words);
    let command = ["hapax".to_string(), "bench".to_string()].into_iter().chain(words).collect::<Vec<_>>().join(" ");
    let machine = Machine::here();
    let report = Report { began_unix_seconds, command, seed, machine, rows, absent: plan.absent, interrupted };
    write(&report, &args)?;
    verdict(&report)
}

impl Surroundings {
    /// Notices interrupts from now on; a second one ends the process at once.
    fn new() -> Result<Self, CommandError> {
        let base = servers::parent();
        let directory = tempfile::Builder::new().prefix("hapax-").tempdir_in(&base);
        let directory = directory.map_err(|error| CommandError::input(&base, error))?;
        let interrupt = Arc::new(AtomicBool::new(false));
        let failed = |error: std::io::Error| CommandError::Io(format!("signals cannot be received: {error}"));
        for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
            let code = i32::from(CommandError::INTERRUPTED);
            // The order matters: at the first interrupt the shutdown handler must not find the flag
            // set.
            signal_hook::flag::register_conditional_shutdown(signal, code, interrupt.clone()).map_err(failed)?;
            signal_hook::flag::register(signal, interrupt.clone()).map_err(failed)?;
        }
        Ok(Surroundings { directory, interrupt })
    }

    fn is_interrupted(&self) -> bool {
        // Relaxed: nothing else is read because of it.
        self.interrupt.load(Ordering::Relaxed)
    }
}

/// Runs rounds in turns over all rows, so that changes in the machine affect all of them. Returns
/// true if it ended early.
fn measure_all(rows: &mut [Row], args: &BenchArgs, seed: u64, surroundings: &Surroundings) -> bool {
    let effort = if args.quick { Effort::Quick } else { Effort::Full };
    let cases = rows.len() * args.rounds() as usize;
    for i in 0..cases {
        let count = rows.len();
        let row = &mut rows[i % count];
        let case = Case { strategy: row.strategy.clone(), setting: row.setting.clone(), seed, effort };
        let said = match child::measure(&case, surroundings) {
            Ok(seen) => {
                let said = match &seen.latency {
                    Some(latency) => format!("99 % within {:.1} us", latency.p99 as f64 / 1e3),
                    None => format!("{:.1} ns an id", seen.nanos as f64 / seen.checks.max(1) as f64),
                };
                row.runs.push(seen);
                said
            }
            Err(Ended::Interrupted) => return true,
            Err(Ended::Failed(reason)) => {
                row.failures.push(reason.clone());
                format!("failed: {reason}")
            }
        };
        tell(format_args!("{} of {cases}: {}, {}: {said}", i + 1, row.strategy, render::described(&row.setting)));
        // The signal may have come between two cases.
        if surroundings.is_interrupted() {
            return true;
        }
    }
    false
}

/// Writes the files, and prints the tables. A failure does not keep the rest from being written;
/// the first one is returned.
fn write(report: &Report, args: &BenchArgs) -> Result<(), CommandError> {
    let write = |path: &Path, text: String| {
        let written = create(path).and_then(|mut file| {
            file.write_all(text.as_bytes())?;
            file.as_file().sync_all()?;
            file.persist(path)?;
            Ok(())
        });
        written.map_err(|error| CommandError::input(path, error))
    };
    let json = serde_json::to_string_pretty(report).map_err(|error| CommandError::Io(error.to_string()))?;
    let saved = args.save.as_ref().map_or(Ok(()), |path| write(path, json + "\n"));
    let drawn = args.html.as_ref().map_or(Ok(()), |path| write(path, render::html(report)));
    let printed = printable::page(&render::table(report));
    saved.and(drawn).and(printed)
}

/// Creates a file that becomes the path's when all of it is there, so that the path has all of it
/// or its former contents.
fn create(path: &Path) -> std::io::Result<NamedTempFile> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut file = tempfile::Builder::new();
    #[cfg(unix)] // as of any file: less what the umask says
    file.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    if path.is_dir() {
        Err(std::io::Error::other("expected a file, got a directory"))
    } else {
        file.prefix(".hapax-").tempfile_in(folder)
    }
}

/// Names the strategies that were wrong more often than they promise.
fn verdict(report: &Report) -> Result<(), CommandError> {
    let culprits = report.rows.iter().flat_map(|row| {
        let setting = render::described(&row.setting);
        row.broken_promises().into_iter().map(move |broken| format!("{broken} ({setting})"))
    });
    let culprits: Vec<String> = culprits.collect();
    match (culprits.is_empty(), report.interrupted) {
        (false, _) => {
            Err(CommandError::Wrong(format!("more wrong answers than promised:\n  {}", culprits.join("\n  "))))
        }
        (true, true) => Err(CommandError::Interrupted),
        (true, false) if report.rows.iter().all(|row| row.runs.is_empty()) => {
            Err(CommandError::Wrong("every case has failed".to_string()))
        }
        (true, false) => Ok(()),
    }
}

/// Returns a number that differs from run to run.
fn rand() -> u64 {
    use std::hash::{BuildHasher, Hasher, RandomState};
    RandomState::new().build_hasher().finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_cannot_be_replaced_stays_and_nothing_is_left_beside_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("report.html");
        std::fs::create_dir(&path).unwrap();
        assert!(create(&path).unwrap_err().to_string().contains("expected a file"));
        assert!(create(&directory.path().join("absent/report.html")).is_err());
        let kept = directory.path().join("report.json");
        std::fs::write(&kept, "former").unwrap();
        drop(create(&kept).unwrap());
        assert_eq!(std::fs::read_to_string(&kept).unwrap(), "former");
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 2);
    }
}
