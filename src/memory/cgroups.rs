//! The memory that the control groups of this process leave it: versions 1 and 2, its own group and
//! all above it.
//!
//! Pure: the caller says how a file is read. The kernel's documents: cgroup-v1/memory.rst,
//! cgroup-v2.rst, proc_pid_mountinfo(5).

use std::path::{Component, Path, PathBuf};

/// Returns how many bytes this process's control groups leave until one of them is at its limit.
///
/// `None`: no group has a limit, or none can be read.
pub(super) fn headroom_bytes(read: impl Fn(&Path) -> Option<String>) -> Option<usize> {
    let groups = read(Path::new("/proc/self/cgroup"))?;
    let mounts = read(Path::new("/proc/self/mountinfo")).unwrap_or_default();
    let headroom = |version: Version| {
        let path = version.group(&groups)?;
        let mut mounted: Vec<Mount> = mounts.lines().filter_map(|line| Mount::parse(line, version)).collect();
        if mounted.is_empty() {
            mounted.push(version.usual_mount());
        }
        mounted.iter().filter_map(|mount| version.headroom_below(mount, path, &read)).min()
    };
    [Version::One, Version::Two].into_iter().filter_map(headroom).min()
}

/// The version of control groups. A hybrid system has both, and one of them controls the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

/// The place where a hierarchy of groups is mounted, and the group that is mounted there.
#[derive(Debug, PartialEq, Eq)]
struct Mount {
    root: String,
    point: PathBuf,
}

impl Mount {
    /// Parses a line of /proc/self/mountinfo, if it is the memory's hierarchy of this version.
    fn parse(line: &str, version: Version) -> Option<Self> {
        // 35 31 0:32 /root /point rw,relatime shared:1 - cgroup source rw,memory
        let (here, there) = line.split_once(" - ")?;
        let mut here = here.split(' ').skip(3);
        let (root, point) = (unescaped(here.next()?), unescaped(here.next()?));
        let mut there = there.split(' ');
        let (kind, options) = (there.next()?, there.nth(1).unwrap_or(""));
        let is_memory = match version {
            Version::One => kind == "cgroup" && options.split(',').any(|option| option == "memory"),
            Version::Two => kind == "cgroup2",
        };
        is_memory.then(|| Mount { root, point: point.into() })
    }

    /// Returns the directory of a group of this path. A group that is not below the mount (it was
    /// mounted in another namespace, or the process was moved out of its own) cannot be seen; then
    /// the mount's own group is used, a container's.
    fn directory(&self, path: &str) -> PathBuf {
        let below = Path::new(path).strip_prefix(&self.root).unwrap_or(Path::new(""));
        if below.components().all(|part| matches!(part, Component::Normal(_))) {
            self.point.join(below)
        } else {
            self.point.clone()
        }
    }
}

impl Version {
    /// Returns the path of this process's group, from the text of /proc/self/cgroup.
    fn group(self, groups: &str) -> Option<&str> {
        // 4:memory:/docker/1f2e  or  0::/system.slice/a.service
        groups.lines().find_map(|line| {
            let (number, rest) = line.split_once(':')?;
            let (controllers, path) = rest.split_once(':')?;
            let is_memory = match self {
                Version::One => controllers.split(',').any(|controller| controller == "memory"),
                Version::Two => number == "0" && controllers.is_empty(),
            };
            is_memory.then_some(path)
        })
    }

    fn usual_mount(self) -> Mount {
        let point = match self {
            Version::One => "/sys/fs/cgroup/memory",
            Version::Two => "/sys/fs/cgroup",
        };
        Mount { root: "/".to_owned(), point: point.into() }
    }

    /// Returns the least that a group leaves, from this one up to the mount. (A group that is gone
    /// has no files; those above it do.)
    fn headroom_below(self, mount: &Mount, path: &str, read: &impl Fn(&Path) -> Option<String>) -> Option<usize> {
        let directory = mount.directory(path);
        let mut least = None;
        for group in directory.ancestors().take_while(|group| group.starts_with(&mount.point)) {
            let file = |name: &str| read(&group.join(name));
            // Without hierarchy, which only version 1 knows, groups below are not limited by this
            // one.
            let is_own = group == directory;
            let counts = is_own || self == Version::Two || file("memory.use_hierarchy").as_deref() != Some("0\n");
            let headroom = if counts { self.headroom_of(file) } else { None };
            least = least.into_iter().chain(headroom).min();
        }
        least
    }

    /// Returns what one group leaves: its limit, minus the used memory that cannot be taken back at
    /// once.
    fn headroom_of(self, file: impl Fn(&str) -> Option<String>) -> Option<usize> {
        // "max" is no number: no limit.
        let number = |name: &str| file(name)?.trim().parse::<usize>().ok();
        let stat = file("memory.stat").unwrap_or_default();
        let stat = |key: &str| stat.lines().find_map(|line| line.strip_prefix(key)?.trim().parse::<usize>().ok());
        let (limit, used, cache) = match self {
            Version::One => {
                // The second limit includes those of the groups above, which a container may not
                // see.
                let limits = [number("memory.limit_in_bytes"), stat("hierarchical_memory_limit ")];
                let limit = limits.into_iter().flatten().filter(|&limit| limit < NO_LIMIT).min();
                (limit?, number("memory.usage_in_bytes")?, stat("total_inactive_file "))
            }
            Version::Two => {
                // Above `high` nothing is killed, but a thread that allocates is held up until it
                // is below again.
                let limit = [number("memory.max"), number("memory.high")].into_iter().flatten().min();
                (limit?, number("memory.current")?, stat("inactive_file "))
            }
        };
        // File pages that were not used lately are given up before anything is killed.
        Some(limit.saturating_sub(used.saturating_sub(cache.unwrap_or(0))))
    }
}

/// The value of version 1 for no limit: the largest number of whole pages in 63 bits.
const NO_LIMIT: usize = usize::MAX >> 1 & !0xffff;

/// Decodes a path of mountinfo: a space, a tab, a newline and a backslash are three octal digits.
fn unescaped(field: &str) -> String {
    let mut parts = field.split('\\');
    let mut path = parts.next().unwrap_or("").to_owned();
    for part in parts {
        match part.get(..3).and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => {
                path.push(byte.into());
                path.push_str(&part[3..]);
            }
            None => {
                path.push('\\');
                path.push_str(part);
            }
        }
    }
    path
}

#[cfg(all(test, not(modelled)))]
mod tests;
