//! The memory that is available without the system killing a process.

use super::cgroups;
use std::path::Path;

/// Returns the free and reclaimable bytes, within the limits of this process's control groups.
///
/// Linux promises more memory than there is, and kills when the promise is called in; an engine for
/// which there is no memory should be an error instead. `None`: another system, which lacks these
/// files.
pub fn available_bytes() -> Option<usize> {
    available_by(|file: &Path| std::fs::read_to_string(file).ok())
}

fn available_by(read: impl Fn(&Path) -> Option<String>) -> Option<usize> {
    let meminfo = read(Path::new("/proc/meminfo"))?;
    let free = meminfo_bytes(&meminfo, "MemAvailable:")? + meminfo_bytes(&meminfo, "SwapFree:")?;
    Some(cgroups::headroom_bytes(read).map_or(free, |headroom| headroom.min(free)))
}

fn meminfo_bytes(meminfo: &str, key: &str) -> Option<usize> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix(key))?;
    let kib: usize = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

#[cfg(all(test, not(modelled)))]
mod tests {
    use super::*;

    #[test]
    fn meminfo_is_understood() {
        let text = "MemTotal:  10 kB\nMemAvailable:     7 kB\n";
        assert_eq!(meminfo_bytes(text, "MemAvailable:"), Some(7 * 1024));
        assert_eq!(meminfo_bytes(text, "SwapFree:"), None);
        assert_eq!(available_bytes().is_some(), cfg!(target_os = "linux"));
    }

    #[test]
    fn what_is_free_and_what_the_groups_leave_the_smaller_of_both() {
        let system = |limit: &'static str| {
            move |file: &Path| match file.to_str()? {
                "/proc/meminfo" => Some("MemAvailable: 1000 kB\nSwapFree: 24 kB\n".to_owned()),
                "/proc/self/cgroup" => Some("0::/a\n".to_owned()),
                "/sys/fs/cgroup/a/memory.max" => Some(limit.to_owned()),
                "/sys/fs/cgroup/a/memory.current" => Some("4096\n".to_owned()),
                _ => None,
            }
        };
        assert_eq!(available_by(system("max\n")), Some(1024 << 10));
        assert_eq!(available_by(system("1048576000\n")), Some(1024 << 10));
        assert_eq!(available_by(system("12288\n")), Some(8192));
        assert_eq!(available_by(|_| None), None);
    }
}
