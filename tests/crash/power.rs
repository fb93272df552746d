//! Power cuts: a file system in a file is shut down during writes, without its log, as
//! EXT4_IOC_SHUTDOWN does for root.

use super::child::{Child, Journal};
use super::{ROUND, seed, times};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use testkit::random::Random;

/// _IOR('X', 125, u32), and "as if the power was cut: not even the log is written".
const EXT4_IOC_SHUTDOWN: libc::Ioctl = 0x8004_587d_u32 as libc::Ioctl;
const NO_LOG_FLUSH: u32 = 2;

/// A file system of our own, in a file.
struct FileSystem {
    image: PathBuf,
    mount: PathBuf,
}

fn run(command: &str, args: &[&dyn AsRef<std::ffi::OsStr>]) -> Result<(), String> {
    let mut command = Command::new(command);
    let output = command
        .args(args.iter().map(|arg| arg.as_ref()))
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("{command:?}: {error}"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr))),
    }
}

impl FileSystem {
    fn new() -> Result<Self, String> {
        let base = std::env::temp_dir().join(format!("hapax-power-{}", std::process::id()));
        let mount = base.join("mount");
        std::fs::create_dir_all(&mount).map_err(|error| error.to_string())?;
        let image = base.join("image");
        File::create(&image).and_then(|file| file.set_len(256 << 20)).map_err(|error| error.to_string())?;
        run("mkfs.ext4", &[&"-q", &"-F", &image])?;
        let this = FileSystem { image, mount };
        this.mount()?;
        Ok(this)
    }

    fn mount(&self) -> Result<(), String> {
        run("mount", &[&"-o", &"loop", &self.image, &self.mount])
    }

    /// Unmounts it. Another process may have it open for a moment: one that another test has just
    /// forked, and that has not yet become another program.
    fn unmount(&self) -> Result<(), String> {
        for _ in 0..100 {
            match run("umount", &[&self.mount]) {
                Err(busy) if busy.contains("busy") => std::thread::sleep(std::time::Duration::from_millis(20)),
                done => return done,
            }
        }
        run("umount", &[&self.mount])
    }

    fn cut_the_power(&self) {
        let root = File::open(&self.mount).unwrap();
        let how = NO_LOG_FLUSH;
        // SAFETY: the descriptor is open, and the call reads one u32, which outlives it.
        let failed = unsafe { libc::ioctl(root.as_raw_fd(), EXT4_IOC_SHUTDOWN, &raw const how) };
        assert_eq!(failed, 0, "{}", std::io::Error::last_os_error());
    }
}

impl Drop for FileSystem {
    fn drop(&mut self) {
        let _ = self.unmount();
        let _ = std::fs::remove_dir_all(self.image.parent().unwrap_or(Path::new("/nowhere")));
    }
}

#[test]
fn power_cuts_at_any_moment() {
    let cuts = times("HAPAX_POWER_CUTS", 50);
    let files = match FileSystem::new() {
        Ok(files) => files,
        // `.ci/run` asks for the same, and says it aloud.
        Err(why) => return println!("SKIPPED: power cuts take root and a loop device: {why}"),
    };
    let seed = seed();
    println!("HAPAX_CRASH_SEED={seed} HAPAX_POWER_CUTS={cuts}");
    let mut random = Random(seed);
    let mut journal = Journal::new(files.mount.join("journal"));
    let mut acknowledged_by = 0;
    for cut in 0..cuts {
        if cut % ROUND == 0 {
            // The new journal has another name: the removal of the old one might not survive the
            // next cut.
            let _ = std::fs::remove_dir_all(&journal.path);
            journal = Journal::new(files.mount.join(format!("journal-{cut}")));
        }
        let mut child = Child::start(&journal);
        child.let_it_run(&mut random);
        // Reports from now on would never have left a machine without power. (And they would be
        // wrong sometimes: when the log is aborted while a sync waits for it, ext4 finds nothing
        // left to wait for.)
        let acknowledged = child.acknowledged();
        files.cut_the_power();
        child.kill();
        files.unmount().unwrap();
        files.mount().unwrap();
        acknowledged_by += u32::from(acknowledged > 0);
        journal.verify(acknowledged, &format!("power cut {cut}"));
        if cut % 100 == 99 {
            println!("{} power cuts, none of the ids lost that were acknowledged", cut + 1);
        }
    }
    assert!(acknowledged_by > cuts / 3, "only {acknowledged_by} of {cuts} children acknowledged anything");
}
