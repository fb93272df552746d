//! Gauges: figures that the system tells of this process and of this machine.

use super::Machine;
use std::time::Duration;

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

/// Returns a duration in whole nanoseconds: 584 years at most.
pub(super) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

impl Machine {
    /// Describes this machine, as far as its system tells.
    pub fn here() -> Self {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let release = read("/proc/sys/kernel/osrelease");
        Machine {
            processor: processor(&read("/proc/cpuinfo")).unwrap_or_else(|| std::env::consts::ARCH.to_string()),
            processors: std::thread::available_parallelism().map_or(1, usize::from),
            system: system(release.trim(), &read("/sys/kernel/mm/transparent_hugepage/enabled")),
        }
    }
}

/// Returns the model, and whether it has the vectors that make most of a difference.
fn processor(cpuinfo: &str) -> Option<String> {
    let value = |name: &str| {
        let line = cpuinfo.lines().find(|line| line.starts_with(name))?;
        line.split_once(':').map(|(_, value)| value.trim())
    };
    let has_vectors = value("flags").is_some_and(|flags| flags.split(' ').any(|flag| flag == "avx512f"));
    value("model name").map(|model| format!("{model}{}", if has_vectors { " with AVX-512" } else { "" }))
}

/// Returns the operating system, and whether huge pages are available: programs that get them are
/// much faster.
fn system(release: &str, huge_pages: &str) -> String {
    let name = format!("{} {release} {}", std::env::consts::OS, std::env::consts::ARCH).replace("  ", " ");
    match huge_pages.split_once('[').and_then(|(_, rest)| rest.split_once(']')) {
        Some((mode, _)) => format!("{name}, huge pages: {mode}"),
        None => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_os = "linux")]
    fn work_takes_processor_time_and_memory() {
        let cpu = cpu_time();
        let work = std::thread::spawn(|| std::hint::black_box(vec![1_u8; 64 << 20]));
        let memory = work.join().expect("it does not panic");
        assert!(cpu_time() > cpu, "also that of a thread that has ended");
        assert!(resident_bytes() >= 64 << 20);
        drop(memory);
    }

    #[test]
    fn a_machine_tells_what_it_is() {
        let cpuinfo = "processor\t: 0\nmodel name\t: A fine one: 2 GHz\nflags\t\t: avx2 avx512f\nmodel name\t: B\n";
        assert_eq!(processor(cpuinfo).as_deref(), Some("A fine one: 2 GHz with AVX-512"));
        assert_eq!(processor(&cpuinfo.replace("512f", "512")).as_deref(), Some("A fine one: 2 GHz"));
        assert_eq!(processor("Processor: none\n"), None);
        assert!(system("6.1", "always [madvise] never").ends_with(", huge pages: madvise"));
        assert!(!system("", "").contains("huge"));
    }
}
