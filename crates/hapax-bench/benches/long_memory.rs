//! An engine with a long memory under load, and its rivals: fresh ids while a thread seals and
//! merges, ids of which some come again from beyond the window, single checks at a steady pace, and
//! pages that are not in memory. All verdicts are checked. What the machine itself allows is
//! measured in the same run: plain reads of such pages, and plain stores to memory at that pace.
//!
//! `cargo bench -p hapax-bench --features fjall,sqlite --bench long_memory [-- IDS
//! [NAME [SECONDS [PART]]]]`: by default 50 million ids within the retention, of which the window
//! has an 18th (one of `PART`), in `hapax`. The names of rivals are those of `hapax bench --list`
//! that keep ids in a directory: `fjall`, `rusqlite`, `RocksDB` (with `RUSTFLAGS='--cfg rocksdb'`).
//! They expire nothing, which favours them. Fresh ids end after so many seconds, if those are
//! given, and the rest is measured with what there is then.
//!
//! Everything is written below the directory of temporary files (`TMPDIR`), and deleted at the end:
//! 20 bytes an id for hapax, several times that for others.

#[path = "long_memory/cold.rs"]
mod cold;
#[path = "long_memory/load.rs"]
mod load;
#[path = "long_memory/ours.rs"]
mod ours;
#[path = "long_memory/pace.rs"]
mod pace;
#[path = "long_memory/peak.rs"]
mod peak;
#[path = "long_memory/rival.rs"]
mod rival;

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

/// The ids that are measured, and the place where they are kept.
struct Plan<'a> {
    ids: u64,
    at_most: Duration,
    /// The number of windows in the retention.
    part: u32,
    directory: &'a Path,
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let number =
        |at: usize, default: u64| args.get(at).map_or(Ok(default), |argument| argument.replace('_', "").parse());
    let part = number(3, 18).map(u32::try_from);
    let (Ok(ids), Ok(seconds), Ok(Ok(part @ 1..))) = (number(0, 50_000_000), number(2, 1 << 20), part) else {
        eprintln!("long_memory [IDS [NAME [SECONDS [PART]]]]");
        return ExitCode::from(2);
    };
    let directory = std::env::temp_dir().join(format!("hapax-bench-long-{}", std::process::id()));
    let plan = Plan { ids, at_most: Duration::from_secs(seconds), part, directory: &directory };
    let measured = match args.get(1).map_or("hapax", String::as_str) {
        "hapax" => ours::measure(&plan),
        name => rival::measure(&plan, name),
    };
    let _ = std::fs::remove_dir_all(&directory);
    match measured {
        Ok(()) => ExitCode::SUCCESS,
        Err(wrong) => {
            eprintln!("{wrong}");
            ExitCode::FAILURE
        }
    }
}
