//! The kind of file system that a directory is on: it decides whether synced files are durable.

use std::path::Path;

/// Returns its name, as `ext4`, where the system is Linux.
pub(super) fn of(directory: &Path) -> Option<String> {
    let directory = directory.canonicalize().ok()?;
    parsed(&std::fs::read_to_string("/proc/self/mountinfo").ok()?, &directory)
}

/// Reads lines such as `36 35 98:0 /root /mount/point rw,noatime master:1 - ext4 /dev/disk rw`: see
/// proc(5). The innermost mount counts, and of several on one place the last.
fn parsed(mounts: &str, directory: &Path) -> Option<String> {
    let mounts = mounts.lines().filter_map(|line| {
        let (mount, system) = line.split_once(" - ")?;
        Some((unescaped(mount.split(' ').nth(4)?), system.split(' ').next()?))
    });
    let around = mounts.filter(|(point, _)| directory.starts_with(point));
    around.max_by_key(|(point, _)| Path::new(point).components().count()).map(|(_, system)| system.to_owned())
}

/// Decodes spaces and the like, which are written as three octal digits.
fn unescaped(point: &str) -> String {
    [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")]
        .iter()
        .fold(point.to_owned(), |point, (escaped, text)| point.replace(escaped, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_and_last_mount_counts() {
        let mounts = "1 0 254:0 / / rw - ext4 /dev/vda rw\n\
                      2 1 0:5 / /var/my\\040files rw shared:1 - xfs /dev/vdb rw\n\
                      3 1 0:6 / /tmp rw - ext3 /dev/vdc rw\n\
                      4 1 0:7 / /tmp rw - tmpfs tmpfs rw\n\
                      broken\n";
        let of = |path: &str| parsed(mounts, Path::new(path));
        assert_eq!(of("/var/tmp").as_deref(), Some("ext4"));
        assert_eq!(of("/var/my files/ids").as_deref(), Some("xfs"));
        assert_eq!(of("/tmp/a").as_deref(), Some("tmpfs"));
        assert_eq!(of("/tmpfs").as_deref(), Some("ext4"));
        assert_eq!(parsed("", Path::new("/")), None);
    }
}
