//! Tests on texts as systems have them: recorded, and shortened.

use super::*;
use std::collections::HashMap;

/// Returns the headroom on a system with these files.
fn headroom(files: &[(&str, &str)]) -> Option<usize> {
    let files: HashMap<&Path, &str> = files.iter().map(|(name, text)| (Path::new(*name), *text)).collect();
    headroom_bytes(|file| files.get(file).map(|text| (*text).to_owned()))
}

const MIB: usize = 1 << 20;

/// A machine with systemd (version 2), a shell in a user's slice.
const SYSTEMD: [(&str, &str); 2] = [
    ("/proc/self/cgroup", "0::/user.slice/user-1000.slice/session-2.scope\n"),
    (
        "/proc/self/mountinfo",
        "22 1 259:2 / / rw,relatime shared:1 - ext4 /dev/root rw\n\
         29 23 0:25 / /sys/fs/cgroup rw,nosuid,nodev,noexec,relatime shared:9 - cgroup2 cgroup2 rw,nsdelegate,memory_recursiveprot\n",
    ),
];

#[test]
fn the_limit_of_a_group_above_counts() {
    let with = |more: &[(&str, &str)]| headroom(&[SYSTEMD.as_slice(), more].concat());
    let scope = "/sys/fs/cgroup/user.slice/user-1000.slice/session-2.scope/memory.max";
    let scope_used = "/sys/fs/cgroup/user.slice/user-1000.slice/session-2.scope/memory.current";
    let slice = "/sys/fs/cgroup/user.slice/memory.max";
    let slice_used = "/sys/fs/cgroup/user.slice/memory.current";
    assert_eq!(with(&[]), None);
    assert_eq!(with(&[(scope, "max\n"), (scope_used, "1048576\n")]), None);
    let above = [(scope, "max\n"), (scope_used, "1048576\n"), (slice, "10485760\n"), (slice_used, "4194304\n")];
    assert_eq!(with(&above), Some(6 * MIB));
    let both = [(scope, "2097152\n"), (scope_used, "1048576\n"), (slice, "10485760\n"), (slice_used, "4194304\n")];
    assert_eq!(with(&both), Some(MIB));
    // More is used than allowed (the limit was lowered): nothing is left.
    assert_eq!(with(&[(scope, "4096\n"), (scope_used, "8192\n")]), Some(0));
}

#[test]
fn above_high_an_engine_would_stand_still_so_it_is_a_limit() {
    let group = "/sys/fs/cgroup/user.slice/user-1000.slice";
    let file = |name: &str| format!("{group}/{name}");
    let (max, high, used) = (file("memory.max"), file("memory.high"), file("memory.current"));
    let more = [(&*max, "10485760\n"), (&*high, "5242880\n"), (&*used, "1048576\n")];
    assert_eq!(headroom(&[SYSTEMD.as_slice(), &more].concat()), Some(4 * MIB));
}

#[test]
fn pages_of_files_that_nobody_uses_are_free() {
    let group = "/sys/fs/cgroup/user.slice/user-1000.slice";
    let file = |name: &str| format!("{group}/{name}");
    let (max, used, stat) = (file("memory.max"), file("memory.current"), file("memory.stat"));
    let text = "anon 1048576\nfile 8388608\ninactive_anon 0\ninactive_file 7340032\nactive_file 1048576\n";
    let more = [(&*max, "10485760\n"), (&*used, "9437184\n"), (&*stat, text)];
    assert_eq!(headroom(&[SYSTEMD.as_slice(), &more].concat()), Some(8 * MIB));
}

#[test]
fn in_a_container_the_mount_is_its_group() {
    // Docker with version 2: a namespace of its own.
    let private = [
        ("/proc/self/cgroup", "0::/\n"),
        (
            "/proc/self/mountinfo",
            "1048 1047 0:26 / /sys/fs/cgroup ro,nosuid,nodev,noexec,relatime - cgroup2 cgroup rw,nsdelegate\n",
        ),
        ("/sys/fs/cgroup/memory.max", "67108864\n"),
        ("/sys/fs/cgroup/memory.current", "1048576\n"),
    ];
    assert_eq!(headroom(&private), Some(63 * MIB));
    // With the host's namespace: its own group is mounted, under the name that the host knows it
    // by.
    let host = [
        ("/proc/self/cgroup", "0::/system.slice/docker-1f2e.scope\n"),
        (
            "/proc/self/mountinfo",
            "1048 1047 0:26 /system.slice/docker-1f2e.scope /sys/fs/cgroup ro,nosuid - cgroup2 cgroup rw\n",
        ),
        ("/sys/fs/cgroup/memory.max", "67108864\n"),
        ("/sys/fs/cgroup/memory.current", "2097152\n"),
    ];
    assert_eq!(headroom(&host), Some(62 * MIB));
    // Mounted in another namespace, or moved elsewhere: nothing outside the mount is read.
    for path in ["0::/../other\n", "0::/..\n", "0::/elsewhere\n"] {
        let mut moved = host;
        moved[0].1 = path;
        assert_eq!(headroom(&moved), Some(62 * MIB), "{path}");
    }
}

/// Docker with version 1, as Kubernetes had it.
const VERSION_1: [(&str, &str); 4] = [
    (
        "/proc/self/cgroup",
        "12:cpu,cpuacct:/kubepods/burstable/podab/1f2e\n5:hugetlb:/x\n4:memory:/kubepods/burstable/podab/1f2e\n\
         1:name=systemd:/kubepods/burstable/podab/1f2e\n",
    ),
    (
        "/proc/self/mountinfo",
        "712 711 0:30 /kubepods/burstable/podab/1f2e /sys/fs/cgroup/cpu,cpuacct ro - cgroup cgroup rw,cpu,cpuacct\n\
         718 711 0:36 /kubepods/burstable/podab/1f2e /sys/fs/cgroup/memory ro,nosuid master:17 - cgroup cgroup rw,memory\n",
    ),
    ("/sys/fs/cgroup/memory/memory.usage_in_bytes", "5242880\n"),
    ("/sys/fs/cgroup/memory/memory.use_hierarchy", "1\n"),
];

#[test]
fn version_1_has_limits_as_well() {
    let with = |more: &[(&str, &str)]| headroom(&[VERSION_1.as_slice(), more].concat());
    let (limit, stat) = ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.stat");
    assert_eq!(with(&[(limit, "9223372036854771712\n")]), None);
    assert_eq!(with(&[(limit, "104857600\n")]), Some(95 * MIB));
    // The pod's limit, which the container cannot see, except for this line.
    let text = "cache 0\nhierarchical_memory_limit 10485760\nhierarchical_memsw_limit 9223372036854771712\n\
                total_cache 4194304\ntotal_inactive_file 4194304\n";
    assert_eq!(with(&[(limit, "9223372036854771712\n"), (stat, text)]), Some(9 * MIB));
}

#[test]
fn a_group_of_version_1_without_hierarchy_does_not_limit_those_below() {
    let system = |hierarchy: &'static str| {
        headroom(&[
            ("/proc/self/cgroup", "4:memory:/a/b\n0::/\n"),
            ("/proc/self/mountinfo", "35 31 0:32 / /mnt/c\\040g rw,relatime - cgroup cgroup rw,memory\n"),
            ("/mnt/c g/a/memory.limit_in_bytes", "10485760\n"),
            ("/mnt/c g/a/memory.usage_in_bytes", "0\n"),
            ("/mnt/c g/a/memory.use_hierarchy", hierarchy),
        ])
    };
    assert_eq!(system("1\n"), Some(10 * MIB));
    assert_eq!(system("0\n"), None);
}

/// A hybrid system, which has both: recorded on a virtual machine of this project.
const HYBRID: [(&str, &str); 2] = [
    (
        "/proc/self/cgroup",
        "9:name=systemd:/\n8:pids:/\n4:memory:/process_api/9a61\n3:cpuset:/\n2:cpuacct:/\n1:cpu:/\n0::/\n",
    ),
    (
        "/proc/self/mountinfo",
        "31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n\
         32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu\n\
         35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n\
         41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n",
    ),
];

#[test]
fn in_a_hybrid_system_the_one_that_has_the_memory_limits() {
    let with = |more: &[(&str, &str)]| headroom(&[HYBRID.as_slice(), more].concat());
    let own = "/sys/fs/cgroup/memory/process_api/9a61";
    let file = |name: &str| format!("{own}/{name}");
    let (limit, used) = (file("memory.limit_in_bytes"), file("memory.usage_in_bytes"));
    assert_eq!(with(&[(&*limit, "9223372036854771712\n"), (&*used, "774787072\n")]), None);
    assert_eq!(with(&[(&*limit, "1073741824\n"), (&*used, "536870912\n")]), Some(512 * MIB));
    let above = [
        ("/sys/fs/cgroup/memory/process_api/memory.limit_in_bytes", "536870912\n"),
        ("/sys/fs/cgroup/memory/process_api/memory.usage_in_bytes", "268435456\n"),
    ];
    assert_eq!(with(&above), Some(256 * MIB));
    let unified =
        [("/sys/fs/cgroup/unified/memory.max", "2097152\n"), ("/sys/fs/cgroup/unified/memory.current", "1048576\n")];
    assert_eq!(with(&unified), Some(MIB));
}

#[test]
fn without_the_list_of_mounts_they_are_looked_for_where_they_usually_are() {
    let two = [
        ("/proc/self/cgroup", "0::/a/b\n"),
        ("/sys/fs/cgroup/a/memory.max", "2097152\n"),
        ("/sys/fs/cgroup/a/memory.current", "1048576\n"),
    ];
    assert_eq!(headroom(&two), Some(MIB));
    let one = [
        ("/proc/self/cgroup", "7:memory:/a\n"),
        ("/sys/fs/cgroup/memory/a/memory.limit_in_bytes", "2097152\n"),
        ("/sys/fs/cgroup/memory/a/memory.usage_in_bytes", "1048576\n"),
    ];
    assert_eq!(headroom(&one), Some(MIB));
}

#[test]
fn texts_that_say_nothing_limit_nothing() {
    for groups in ["", "\n", ":", "::", "0:", "0::", "garbage", "4:memory", "0::/a\0b\n"] {
        for mounts in ["", " - ", "1 2 3 4 5 - cgroup2", "35 31 0:32 / /x\\ - cgroup2 a b", "- cgroup2 - -"] {
            assert_eq!(headroom(&[("/proc/self/cgroup", groups), ("/proc/self/mountinfo", mounts)]), None);
        }
    }
    assert_eq!(headroom(&[]), None);
    let unreadable = [("/sys/fs/cgroup/user.slice/memory.max", "12x\n"), ("/sys/fs/cgroup/memory.max", "-1\n")];
    assert_eq!(headroom(&[SYSTEMD.as_slice(), &unreadable].concat()), None);
}

#[test]
fn octal_escapes_are_undone() {
    assert_eq!(unescaped(r"/mnt/a\040b\134c\011"), "/mnt/a b\\c\t");
    assert_eq!(unescaped(r"\"), r"\");
    assert_eq!(unescaped(r"/a\9"), r"/a\9");
}
