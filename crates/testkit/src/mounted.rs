//! File systems of a test's own, which take root, and which are gone when their test is, also if it
//! has panicked.
//!
//! A file system cannot be unmounted while any process has it open: one that another thread has
//! just forked has copies of all descriptors until it becomes another program, and whoever lists
//! mounts looks into each. So a test waits for a while; what still is there then is named.

use std::ffi::OsStr;
use std::io::{self, Error};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The time that other processes have to let go: much longer than a busy machine takes to run each.
const PATIENCE: Duration = Duration::from_secs(60);

/// A file system that is mounted at a directory.
pub struct Mounted {
    at: PathBuf,
    /// The file that it is in; `None`: in memory.
    image: Option<PathBuf>,
}

impl Mounted {
    /// Mounts a file system in memory of a size such as `300k`.
    pub fn in_memory(at: &Path, size: &str) -> io::Result<Self> {
        let size = format!("size={size}");
        run("mount", &["-t", "tmpfs", "-o", &size, "tmpfs"].map(OsStr::new), &[at])?;
        Ok(Mounted { at: at.into(), image: None })
    }

    /// Mounts the file system in a file, by a loop device that goes with it.
    pub fn image(image: &Path, at: &Path) -> io::Result<Self> {
        run("mount", &["-o", "loop"].map(OsStr::new), &[image, at])?;
        Ok(Mounted { at: at.into(), image: Some(image.into()) })
    }

    /// Unmounts it, once no process has it open.
    pub fn unmount(self) -> io::Result<()> {
        self.unmount_within(PATIENCE)
    }

    fn unmount_within(self, patience: Duration) -> io::Result<()> {
        let began = Instant::now();
        let limit = |why: &str| {
            if began.elapsed() >= patience {
                return Err(Error::other(format!("{why}; it is open in {:?}", holders(&self.at))));
            }
            std::thread::sleep(Duration::from_millis(5));
            Ok(())
        };
        while let Err(busy) = run("umount", &[], &[&self.at]) {
            let why = busy.to_string();
            if !why.contains("busy") {
                return Err(busy);
            }
            limit(&why)?;
        }
        // Mounted again before that, it would be what it was: with all that a power cut takes away.
        while !self.devices()?.is_empty() {
            limit("the loop device is still in use")?;
        }
        Ok(())
    }

    /// Returns the loop devices of the image.
    fn devices(&self) -> io::Result<String> {
        let list = |image: &PathBuf| run("losetup", &["-n", "-O", "NAME", "-j"].map(OsStr::new), &[image]);
        self.image.as_ref().map_or(Ok(String::new()), list)
    }
}

impl Drop for Mounted {
    /// Takes it out of the directory at once, whoever has it open. When they let go it ends, and
    /// with it the loop device, which `mount` has made to go with its last user.
    fn drop(&mut self) {
        let _ = run("umount", &[OsStr::new("--lazy")], &[&self.at]);
    }
}

/// Runs a command; returns its output, or fails with its message, in English.
fn run(command: &str, options: &[&OsStr], paths: &[&Path]) -> io::Result<String> {
    let mut command = Command::new(command);
    let output = command.args(options).args(paths).env("LC_ALL", "C").stdin(Stdio::null()).output();
    let output = output.map_err(|error| Error::new(error.kind(), format!("{command:?}: {error}")))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(Error::other(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr).trim())))
    }
}

/// Returns the processes that have something open below a directory: number, name, and what it is.
fn holders(directory: &Path) -> Vec<String> {
    let list = |path: PathBuf| std::fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut holders = Vec::new();
    for process in list("/proc".into()) {
        let Ok(name) = std::fs::read_to_string(process.join("comm")) else { continue };
        let links = ["cwd", "root", "exe"].map(|link| process.join(link)).into_iter().chain(list(process.join("fd")));
        let links = links.filter_map(|link| Some((std::fs::read_link(&link).ok()?, link)));
        let open = links.filter(|(target, _)| target.starts_with(directory));
        let open = open.map(|(target, link)| format!("{} to {}", link.display(), target.display()));
        // Memory that is a file's; and mounts, where they are another namespace's.
        let listed = ["maps", "mountinfo"].map(|list| process.join(list)).into_iter().filter(|path| {
            std::fs::read_to_string(path).is_ok_and(|list| list.contains(&*directory.to_string_lossy()))
        });
        let all = open.chain(listed.map(|path| path.display().to_string()));
        holders.extend(all.map(|what| format!("{} ({what})", name.trim())));
    }
    holders
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Child;

    /// An empty directory of a test's own.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("hapax-mounted-{name}-{}", std::process::id()));
            std::fs::create_dir(&path).unwrap();
            Scratch(path)
        }

        /// Mounts a file system in a file, if this process may.
        fn mount(&self) -> Option<Mounted> {
            let (image, at) = (self.0.join("image"), self.0.join("mount"));
            std::fs::create_dir(&at).unwrap();
            std::fs::File::create(&image).unwrap().set_len(8 << 20).unwrap();
            let made = run("mkfs.ext4", &[OsStr::new("-q")], &[&image]).and_then(|_| Mounted::image(&image, &at));
            made.inspect_err(|why| crate::skipped(format_args!("a file system takes root and a loop device: {why}")))
                .ok()
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    /// Starts a process that has a file open there until its input ends.
    fn holder(files: &Mounted) -> Child {
        let open = std::fs::File::create(files.at.join("open")).unwrap();
        Command::new("cat").stdin(Stdio::piped()).stdout(open).spawn().unwrap()
    }

    fn end(mut holder: Child) {
        drop(holder.stdin.take());
        assert!(holder.wait().unwrap().success());
    }

    #[test]
    fn a_process_that_has_it_open_is_waited_for() {
        let scratch = Scratch::new("waits");
        let Some(files) = scratch.mount() else { return };
        let holder = holder(&files);
        let busy = run("umount", &[], &[&files.at]).unwrap_err();
        assert!(busy.to_string().contains("busy"), "{busy}");
        let ends = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(300));
            end(holder);
        });
        let (image, at) = (scratch.0.join("image"), files.at.clone());
        files.unmount().unwrap();
        ends.join().unwrap();
        assert!(!at.join("open").exists());
        // And the device with it: it can be mounted anew at once.
        Mounted::image(&image, &at).unwrap().unmount().unwrap();
    }

    #[test]
    fn who_has_it_open_is_named_at_the_limit_and_all_is_gone_when_they_let_go() {
        let scratch = Scratch::new("names");
        let Some(files) = scratch.mount() else { return };
        let holder = holder(&files);
        let (at, again) = (files.at.clone(), Mounted { at: files.at.clone(), image: files.image.clone() });
        let said = files.unmount_within(Duration::ZERO).unwrap_err().to_string();
        assert!(said.contains(&format!("cat (/proc/{}/fd/1 to", holder.id())), "{said}");
        // It has been taken out of the directory all the same, and its device is in use.
        assert!(!at.join("open").exists() && !again.devices().unwrap().is_empty());
        end(holder);
        // Kernels release a device some time after its last user.
        let began = Instant::now();
        while !again.devices().unwrap().is_empty() {
            assert!(began.elapsed() < PATIENCE, "{:?} stays", again.devices());
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}
