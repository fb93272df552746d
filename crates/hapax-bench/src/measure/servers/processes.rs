//! The processor time of a process and all its descendants, from `/proc`.

use std::collections::HashMap;
use std::time::Duration;

/// The unit in which Linux reports processor time to programs: a hundredth of a second, whatever
/// the kernel's own clock is.
const TICK: Duration = Duration::from_millis(10);

/// The fields of `/proc/*/stat` that are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Process {
    id: u32,
    parent: u32,
    /// Its own ticks, and those of its children that have ended and were waited for.
    ticks: u64,
}

/// Returns the processor time of a process and its descendants, those that have ended included.
/// None if it is gone, or the system is not Linux.
pub(super) fn cpu_of_tree(root: u32) -> Option<Duration> {
    let ids = std::fs::read_dir("/proc").ok()?.flatten();
    // Some processes end while they are read.
    let stats = ids.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let stats = stats.filter_map(|id| std::fs::read_to_string(format!("/proc/{id}/stat")).ok());
    let processes: Vec<Process> = stats.filter_map(|stat| parsed(&stat)).collect();
    ticks_of_tree(root, &processes).map(|ticks| TICK.saturating_mul(u32::try_from(ticks).unwrap_or(u32::MAX)))
}

/// Reads `id (name) state parent … utime stime cutime cstime …`: see proc(5). The name may
/// contain anything, but is followed by the last bracket.
fn parsed(stat: &str) -> Option<Process> {
    let (id, rest) = stat.split_once(' ')?;
    let fields: Vec<&str> = rest.rsplit_once(')')?.1.split_whitespace().collect();
    let times = fields.get(11..15)?.iter().map(|field| field.parse::<u64>().ok());
    Some(Process { id: id.parse().ok()?, parent: fields.get(1)?.parse().ok()?, ticks: times.sum::<Option<u64>>()? })
}

fn ticks_of_tree(root: u32, processes: &[Process]) -> Option<u64> {
    let mut children: HashMap<u32, Vec<&Process>> = HashMap::new();
    processes.iter().for_each(|process| children.entry(process.parent).or_default().push(process));
    let mut ticks = processes.iter().find(|process| process.id == root)?.ticks;
    let mut parents = vec![root];
    while let Some(parent) = parents.pop() {
        // The entry is removed, so that the walk ends also on a table that was read while ids were
        // used again.
        for child in children.remove(&parent).unwrap_or_default() {
            ticks += child.ticks;
            parents.push(child.id);
        }
    }
    Some(ticks)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_behind_the_last_bracket() {
        let stat = "17 (a) b (c) S 4 17 17 0 -1 4194560 1 2 3 4 100 20 3 4 20 0 1 0 99 1 1";
        assert_eq!(parsed(stat), Some(Process { id: 17, parent: 4, ticks: 127 }));
        for broken in ["", "17", "17 (a", "17 (a) S 4 1", "x (a) S 4 17 17 0 -1 4194560 1 2 3 4 1 2 3 4"] {
            assert_eq!(parsed(broken), None, "{broken:?}");
        }
    }

    #[test]
    fn a_tree_is_counted_and_nothing_beside_it() {
        let process = |id, parent, ticks| Process { id, parent, ticks };
        let table =
            [process(1, 0, 1_000), process(5, 1, 1), process(6, 5, 20), process(7, 6, 300), process(8, 1, 4_000)];
        assert_eq!(ticks_of_tree(5, &table), Some(321));
        assert_eq!(ticks_of_tree(8, &table), Some(4_000));
        assert_eq!(ticks_of_tree(9, &table), None);
        // This table was read while ids were used again.
        assert_eq!(ticks_of_tree(5, &[process(5, 6, 1), process(6, 5, 2)]), Some(4));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_process_takes_time() {
        let begun = std::time::Instant::now();
        while cpu_of_tree(std::process::id()).expect("we are here").is_zero() {
            assert!(begun.elapsed() < Duration::from_secs(60), "work that takes no time");
            std::hint::black_box((0..1_000_000_u64).sum::<u64>());
        }
    }
}
