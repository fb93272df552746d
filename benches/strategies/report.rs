//! Tables for people.

use crate::case::{Measurement, Setting};
use crate::options::Options;
use crate::results::{Comparison, Results};
use hapax::strategy::FALSE_POSITIVE_RATE;

/// What the numbers depend on.
pub fn print_conditions(options: &Options) {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let cpu = read("/proc/cpuinfo");
    let model = cpu.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or("unknown");
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    println!("processor   {} ({cores} cores)", model.trim_start_matches(['\t', ' ', ':']));
    println!("huge pages  {}", read("/sys/kernel/mm/transparent_hugepage/enabled").trim());
    println!("malloc      {}", if options.huge_pages { "asks for huge pages" } else { "as it comes" });
    println!("seed        {}", options.seed);
    println!("rounds      {}, interleaved; medians, with the fastest and the slowest in brackets", options.rounds);
    println!();
    println!("x rival     how many times as fast as the fastest rival; for one by one, of those measured one by one");
    println!("roofline    share of the speed of: prefetch a random line of a table of our size, and add to it");
    println!("B/id        resident memory for each live id, measured");
}

pub fn print_comparison(comparison: &Comparison) {
    let Setting { live, threads, kind } = comparison.setting;
    println!("\n{live} live ids, {kind}, {threads} thread{}", if threads == 1 { "" } else { "s" });
    println!(
        "\n{:<30}{:<9}{:>8}{:>18}{:>9}{:>8}{:>9}{:>10}{:>9}{:>10}",
        "", "", "ns/id", "", "M ids/s", "B/id", "x rival", "roofline", "missed", "invented"
    );
    comparison.rows.iter().filter(|row| row.strategy.expires).for_each(|row| print_row(comparison, row));
    println!("\nFilters, filled from empty");
    comparison.rows.iter().filter(|row| !row.strategy.expires).for_each(|row| print_row(comparison, row));
    println!();
    comparison.rows.iter().for_each(|row| print_end(comparison.setting.live, row));
}

fn print_row(comparison: &Comparison, row: &Results) {
    let name = row.strategy.name;
    let Some(nanos) = row.nanos_per_id() else {
        println!("{name:<30}{:<9}failed", row.mode);
        return;
    };
    let each = || row.runs.iter().map(Measurement::nanos_per_id);
    let (fastest, slowest) = (each().fold(f64::MAX, f64::min), each().fold(0.0, f64::max));
    let spread = format!("[{fastest:.1} {slowest:.1}]");
    print!("{name:<30}{:<9}{nanos:>8.1}{spread:>18}{:>9.1}", row.mode, 1e3 / nanos);
    if row.is_roofline() {
        println!("{:>8}{:>9}{:>9.0}%", "", "", percent(comparison.roofline_nanos(), nanos));
        return;
    }
    let rival = comparison.best_rival_nanos(row.mode, row.strategy.expires).map(|rival| rival / nanos);
    let rival = rival.map_or_else(|| "-".into(), |ratio| format!("{ratio:.2}"));
    let bytes = row.bytes_per_id().unwrap_or(0.0);
    print!("{bytes:>8.1}{rival:>9}{:>9.0}%", percent(comparison.roofline_nanos(), nanos));
    println!("{:>9}{:>10}", row.sum(|run| run.missed), row.sum(|run| run.invented));
}

fn percent(roofline: Option<f64>, nanos: f64) -> f64 {
    roofline.map_or(f64::NAN, |roofline| 100.0 * roofline / nanos)
}

/// What a strategy knew at the end.
fn print_end(live: usize, row: &Results) {
    let (asked, wrong) = (row.sum(|run| run.asked), row.sum(|run| run.wrong));
    let held = row.median(|run| run.held as f64).filter(|&held| held != 0.0 && held != live as f64);
    if asked == 0 && held.is_none() {
        return;
    }
    print!("{:<30}{:<9}", row.strategy.name, row.mode);
    if let Some(held) = held {
        println!("on its own clock: {held:.0} ids were live at the end");
        return;
    }
    let share = wrong as f64 / asked as f64;
    if !row.strategy.expires {
        let (fresh, invented) = (row.sum(|run| run.fresh), row.sum(|run| run.invented));
        let filling = invented as f64 / fresh as f64;
        println!(
            "false positives: {share:.2e} when full ({wrong} of {asked}), {filling:.2e} on the way; rated {FALSE_POSITIVE_RATE:.0e}"
        );
        return;
    }
    print!("of {asked} ids of the last 99 % of a window {wrong} lost ({share:.1e})");
    if row.is_ours() {
        let (evicted, fresh) = (row.sum(|run| run.evicted), row.sum(|run| run.fresh));
        print!("; counted by itself: {evicted} of {fresh} ({:.1e})", evicted as f64 / fresh as f64);
    }
    println!();
}

/// Names those that gave more wrong answers than they are allowed to, or none at all; how many there are.
pub fn print_wrong_answers(comparisons: &[Comparison]) -> usize {
    let mut culprits = 0;
    for (setting, row) in comparisons.iter().flat_map(|c| c.rows.iter().map(|row| (c.setting, row))) {
        let Setting { live, threads, kind } = setting;
        let whose = format!("{}, {}, {live} {kind}, {threads} threads", row.strategy.name, row.mode);
        for (what, wrong, of) in row.broken_promises() {
            println!("WRONG: {whose}: {wrong} of {of} {what}");
            culprits += 1;
        }
        if row.failures > 0 {
            println!("FAILED: {whose}: {} runs", row.failures);
            culprits += 1;
        }
    }
    culprits
}
