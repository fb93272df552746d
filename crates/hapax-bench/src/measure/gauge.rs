//! Measurements of this process by the system, and the cost of reading the clock.

use std::hint::black_box;
use std::time::{Duration, Instant};

/// Returns the memory that is resident and not a copy of a file, as the program's own code is; 0
/// where the system does not tell.
pub(super) fn resident_bytes() -> u64 {
    // Of the files that tell, this is the one that adds up all pages; the others are a few hundred
    // off.
    let rollup = std::fs::read_to_string("/proc/self/smaps_rollup").unwrap_or_default();
    let kib = rollup.lines().find_map(|line| line.strip_prefix("Anonymous:")?.trim().strip_suffix(" kB")?.parse().ok());
    kib.map_or(0, |kib: u64| kib * 1024)
}

/// Returns the processor time of all threads of this process, ended ones included; zero where the
/// system does not tell.
pub(super) fn cpu_time() -> Duration {
    #[cfg(target_os = "linux")]
    {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
        Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
    }
    #[cfg(not(target_os = "linux"))]
    Duration::ZERO
}

/// Returns the cost of reading the clock, in nanoseconds: the fastest of several tries, since all
/// others were disturbed.
pub(super) fn clock_nanos() -> u64 {
    const READINGS: u32 = 1_000;
    let try_once = || {
        let begun = Instant::now();
        for _ in 0..READINGS {
            black_box(Instant::now());
        }
        begun.elapsed() / READINGS
    };
    (0..5).map(|_| try_once()).min().map_or(0, nanos)
}

/// Returns a duration in whole nanoseconds: 584 years at most.
pub(super) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_os = "linux")]
    fn work_takes_processor_time_and_memory() {
        let cpu = cpu_time();
        let work = std::thread::spawn(|| black_box(vec![1_u8; 64 << 20]));
        let memory = work.join().expect("it does not panic");
        assert!(cpu_time() > cpu, "also that of a thread that has ended");
        assert!(resident_bytes() >= 64 << 20);
        drop(memory);
        assert!(clock_nanos() > 0);
    }
}
