//! Power cuts: a file system in a file is shut down during writes, without its log, as
//! EXT4_IOC_SHUTDOWN does for root.

use super::child::{Journal, LIFE};
use super::{ROUND, seed, times};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::process::Command;
use testkit::long;
use testkit::mounted::Mounted;
use testkit::random::Random;

/// _IOR('X', 125, u32), and "as if the power was cut: not even the log is written".
const EXT4_IOC_SHUTDOWN: libc::Ioctl = 0x8004_587d_u32 as libc::Ioctl;
const NO_LOG_FLUSH: u32 = 2;

/// A file system of our own, in a file.
pub struct FileSystem {
    directory: PathBuf,
    /// `None`: it is not mounted at the moment.
    mounted: Option<Mounted>,
}

impl FileSystem {
    pub fn new(name: &str) -> std::io::Result<Self> {
        let directory = std::env::temp_dir().join(format!("hapax-{name}-{}", std::process::id()));
        let mut files = FileSystem { directory, mounted: None };
        std::fs::create_dir_all(files.mount())?;
        File::create(files.image())?.set_len(256 << 20)?;
        let made = Command::new("mkfs.ext4").args(["-q", "-F"]).arg(files.image()).output()?;
        if !made.status.success() {
            return Err(std::io::Error::other(format!("mkfs.ext4: {}", String::from_utf8_lossy(&made.stderr))));
        }
        files.mounted = Some(Mounted::image(&files.image(), &files.mount())?);
        Ok(files)
    }

    fn image(&self) -> PathBuf {
        self.directory.join("image")
    }

    pub fn mount(&self) -> PathBuf {
        self.directory.join("mount")
    }

    pub fn cut_the_power(&self) {
        let root = File::open(self.mount()).unwrap();
        let how = NO_LOG_FLUSH;
        // SAFETY: the descriptor is open, and the call reads one u32, which outlives it.
        let failed = unsafe { libc::ioctl(root.as_raw_fd(), EXT4_IOC_SHUTDOWN, &raw const how) };
        assert_eq!(failed, 0, "{}", std::io::Error::last_os_error());
    }

    /// Unmounts and mounts it, as a machine does that has power again.
    pub fn start_again(&mut self) {
        self.mounted.take().unwrap().unmount().unwrap();
        self.mounted = Some(Mounted::image(&self.image(), &self.mount()).unwrap());
    }
}

impl Drop for FileSystem {
    fn drop(&mut self) {
        drop(self.mounted.take());
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

#[test]
fn power_cuts_at_any_moment() {
    let cuts = times("HAPAX_POWER_CUTS", long(12, 50));
    let mut files = match FileSystem::new("power") {
        Ok(files) => files,
        // `.ci/run` asks for the same, and says it aloud.
        Err(why) => return testkit::skipped(format_args!("power cuts take root and a loop device: {why}")),
    };
    let seed = seed();
    println!("HAPAX_CRASH_SEED={seed} HAPAX_POWER_CUTS={cuts}");
    let mut random = Random(seed);
    let mut journal = Journal::new(files.mount().join("journal"));
    let mut waited = 0;
    for cut in 0..cuts {
        if cut % ROUND == 0 {
            // The new journal has another name: the removal of the old one might not survive the
            // next cut.
            let _ = std::fs::remove_dir_all(&journal.path);
            journal = Journal::new(files.mount().join(format!("journal-{cut}")));
        }
        let mut child = journal.start();
        let waits = child.let_it_run(&mut random, &LIFE);
        // Reports from now on would never have left a machine without power. (And they would be
        // wrong sometimes: when the log is aborted while a sync waits for it, ext4 finds nothing
        // left to wait for.)
        let acknowledged = child.acknowledged();
        files.cut_the_power();
        child.kill();
        files.start_again();
        waited += u32::from(waits);
        assert!(acknowledged > 0 || !waits, "child {cut} has ended by itself");
        journal.verify(acknowledged, &format!("power cut {cut}"));
        if cut % 100 == 99 {
            println!("{} power cuts, none of the ids lost that were acknowledged", cut + 1);
        }
    }
    assert!(waited > 0, "none of {cuts} children was to acknowledge anything");
}
