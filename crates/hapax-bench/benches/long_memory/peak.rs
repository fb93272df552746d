//! The most memory that a benchmark has taken, and the time of processors.

/// Returns the most bytes of memory that this process has taken.
pub fn peak_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
    line.trim().trim_end_matches(" kB").parse().unwrap_or(0) << 10
}

/// Returns the nanoseconds for which this thread was on a processor, and all others that are there.
pub fn processor_nanos() -> [u64; 2] {
    let of = |path: &std::path::Path| -> u64 {
        let stat = std::fs::read_to_string(path.join("schedstat")).unwrap_or_default();
        stat.split(' ').next().and_then(|nanos| nanos.parse().ok()).unwrap_or(0)
    };
    let own = of("/proc/thread-self".as_ref());
    let threads = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let all: u64 = threads.map(|thread| of(&thread.path())).sum();
    [own, all.saturating_sub(own)]
}
