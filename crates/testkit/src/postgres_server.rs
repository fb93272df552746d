//! A PostgreSQL server of a test's own: in a temporary directory, on a Unix socket and a port of
//! the loopback, ended with the test.

use crate::children;
use crate::directory::{Directory, copy};
use crate::processes::{PATIENCE, free_port, send};
use crate::shared::Shared;
use hapax_store::sync::lock;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// The user that the server runs as if this process is root, which it refuses. (Whoever becomes
/// another user is no longer killed with its parent, unless it asks for that again.)
const UNPRIVILEGED: [&str; 4] = ["--reuid=nobody", "--regid=nogroup", "--clear-groups", "--pdeathsig=KILL"];

pub struct Server {
    dir: Directory,
    binaries: PathBuf,
    pub port: u16,
    settings: Vec<String>,
    process: Mutex<Option<Child>>,
}

impl Server {
    /// Returns the server that the tests of a program share. None if there is no PostgreSQL here.
    pub fn shared() -> Option<Arc<Server>> {
        static RUNNING: Shared<Server> = Shared::new();
        RUNNING.get(|| Server::start(&["fsync=off", "full_page_writes=off"]))
    }

    /// Starts a server with these settings. None if there is no PostgreSQL here, which is printed.
    pub fn start(settings: &[&str]) -> Option<Server> {
        let Some(binaries) = binaries() else {
            crate::skipped_without("PostgreSQL", "postgresql");
            return None;
        };
        let server = Server::stopped(binaries, settings.iter().map(|setting| setting.to_string()).collect());
        server.make_data();
        server.launch();
        Some(server)
    }

    /// Starts a server that follows this one, as an asynchronous standby.
    pub fn standby(&self) -> Server {
        let standby = Server::stopped(self.binaries.clone(), self.settings.clone());
        standby.follow(self);
        standby
    }

    /// Starts this server anew, as an asynchronous standby of another one. It must not run.
    pub fn follow(&self, primary: &Server) {
        let _ = fs::remove_dir_all(self.data());
        let port = primary.port.to_string();
        let from = ["-h", primary.dir.path().to_str().expect("a path in ASCII"), "-p", &port, "-U", "postgres"];
        run(self.command("pg_basebackup").args(from).args(["-c", "fast", "--no-sync", "-R", "-D"]).arg(self.data()));
        self.launch();
    }

    /// Returns a server without files, in a directory of its own.
    fn stopped(binaries: PathBuf, settings: Vec<String>) -> Server {
        let dir = Directory::new("postgres");
        let server = Server { dir, binaries, port: free_port(), settings, process: Mutex::new(None) };
        server.own(server.dir.path());
        server
    }

    /// Keeps a copy of its files, for [`restore`](Self::restore). It must not run.
    pub fn back_up(&self) {
        copy(&self.data(), &self.dir.path().join("backup")).expect("a copy");
    }

    /// Puts the copy in the place of its files. It must not run.
    pub fn restore(&self) {
        fs::remove_dir_all(self.data()).expect("its files");
        copy(&self.dir.path().join("backup"), &self.data()).expect("a copy");
    }

    /// Makes the files of an empty server, or copies those that were made before in the build's
    /// directory, which takes a tenth of the time.
    fn make_data(&self) {
        let template = self.template();
        if template.as_ref().is_some_and(|template| copy(template, &self.data()).is_ok()) {
            return;
        }
        let locale = ["--no-locale", "--encoding=UTF8", "--username=postgres", "--no-sync", "-A", "trust"];
        run(self.command("initdb").args(locale).arg("-D").arg(self.data()));
        let rules = self.data().join("pg_hba.conf");
        let trusting = fs::read_to_string(&rules).expect("pg_hba.conf");
        fs::write(&rules, format!("host all guarded 127.0.0.1/32 scram-sha-256\n{trusting}")).expect("pg_hba.conf");
        // Whole or not at all; of several that are made at a time, the first stays.
        let Some(template) = template else { return };
        let part = template.with_extension(format!("{}-part", self.port));
        if copy(&self.data(), &part).and_then(|()| fs::rename(&part, &template)).is_err() {
            let _ = fs::remove_dir_all(&part);
        }
    }

    /// Returns where the files of an empty server of this version and user are between runs: where
    /// Cargo has the tests put what they keep. None where no Cargo has built this program.
    fn template(&self) -> Option<PathBuf> {
        use std::os::unix::fs::MetadataExt as _;
        let program = std::env::current_exe().ok()?;
        let target = program.ancestors().find(|directory| directory.join("CACHEDIR.TAG").exists())?;
        fs::create_dir_all(target.join("tmp")).ok()?;
        let (postgres, us) = (self.binaries.join("postgres").metadata().ok()?, fs::metadata("/proc/self").ok()?);
        let name = format!("hapax-postgres-{}-{}-{}", us.uid(), postgres.mtime(), postgres.size());
        Some(target.join("tmp").join(name))
    }

    /// Returns an address for the driver, by the socket.
    pub fn address(&self) -> String {
        format!("host={} port={} user=postgres dbname=postgres", self.dir.path().display(), self.port)
    }

    /// Returns an address by TCP.
    pub fn tcp_address(&self, user: &str) -> String {
        format!("host=127.0.0.1 port={} user={user} dbname=postgres", self.port)
    }

    /// Makes the server the owner of a file.
    pub fn own(&self, file: &Path) {
        if is_root() {
            run(Command::new("chown").arg("nobody:nogroup").arg(file));
        }
    }

    pub fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    /// Starts the server, and waits until it answers.
    pub fn launch(&self) {
        let end = Instant::now() + PATIENCE;
        let log = || fs::OpenOptions::new().create(true).append(true).open(self.dir.path().join("log")).expect("a log");
        loop {
            let mut command = self.command("postgres");
            command.arg("-D").arg(self.data()).arg("-k").arg(self.dir.path()).arg("-p").arg(self.port.to_string());
            for setting in ["listen_addresses=127.0.0.1", "max_connections=60", "shared_buffers=64MB"] {
                command.arg("-c").arg(setting);
            }
            for setting in &self.settings {
                command.arg("-c").arg(setting);
            }
            command.stdout(log()).stderr(log());
            let mut child = children::started(command);
            while child.try_wait().expect("its state").is_none() {
                if self.answers() {
                    *self.process() = Some(child);
                    return;
                }
                if Instant::now() >= end {
                    *self.process() = Some(child); // which is killed with this
                    panic!("no answer: {}", self.log());
                }
                std::thread::sleep(Duration::from_millis(10));
            }
            // A killed server may not be gone yet.
            assert!(Instant::now() < end, "it does not start: {}", self.log());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn answers(&self) -> bool {
        let mut ready = Command::new(self.binaries.join("pg_isready"));
        ready.arg("-q").arg("-h").arg(self.dir.path()).arg("-p").arg(self.port.to_string()).arg("-d").arg("postgres");
        ready.status().is_ok_and(|status| status.success())
    }

    /// Returns its process, while it runs. (As root there is none between: `setpriv` becomes it.)
    pub fn pid(&self) -> Option<u32> {
        self.process().as_ref().map(Child::id)
    }

    /// Kills it and all of its processes at once, as a lack of memory would.
    pub fn kill(&self) {
        let Some(mut child) = self.process().take() else { return };
        let children = children_of(child.id());
        child.kill().expect("it can be killed");
        if !children.is_empty() {
            // Some are gone already.
            send("KILL", children);
        }
        child.wait().expect("it was killed");
    }

    /// Returns the processor time of all of its processes, ended ones included.
    pub fn processor_time(&self) -> Duration {
        let postmaster = self.process().as_ref().map(Child::id).expect("it runs");
        let children = children_of(postmaster);
        let children = children.iter().filter_map(|pid| pid.parse().ok());
        processor_time_of(&children.chain([postmaster]).collect::<Vec<u32>>())
    }

    fn command(&self, binary: &str) -> Command {
        let mut command = unprivileged(&self.binaries.join(binary));
        command.current_dir(self.dir.path()).stdin(Stdio::null());
        command
    }

    fn process(&self) -> std::sync::MutexGuard<'_, Option<Child>> {
        lock(&self.process)
    }

    fn log(&self) -> String {
        fs::read_to_string(self.dir.path().join("log")).unwrap_or_default()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

fn binaries() -> Option<PathBuf> {
    // The program on the PATH may be a script or a link: the server's other programs are in the
    // folder of its target.
    let in_path =
        std::env::var_os("PATH").into_iter().flat_map(|path| std::env::split_paths(&path).collect::<Vec<_>>());
    let mut versions: Vec<PathBuf> = fs::read_dir("/usr/lib/postgresql")
        .map(|versions| versions.flatten().map(|version| version.path().join("bin")).collect())
        .unwrap_or_default();
    versions.sort();
    let complete = |dir: &PathBuf| ["initdb", "postgres", "pg_isready"].iter().all(|name| dir.join(name).exists());
    versions.into_iter().rev().chain(in_path).find(complete)
}

/// Returns a command that runs a program as another user than root.
pub(crate) fn unprivileged(program: &Path) -> Command {
    if !is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.args(UNPRIVILEGED).arg(program);
    command
}

pub fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt as _;
    fs::metadata("/proc/self").is_ok_and(|us| us.uid() == 0)
}

fn run(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

fn children_of(parent: u32) -> Vec<String> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = processes.filter_map(|process| process.file_name().into_string().ok());
    pids.filter(|pid| parent_of(Path::new("/proc").join(pid).as_path()) == Some(parent)).collect()
}

fn parent_of(process: &Path) -> Option<u32> {
    let stat = fs::read_to_string(process.join("stat")).ok()?;
    // Its name may have anything in it, but is followed by the last bracket.
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

/// Returns the processor time of these processes, and of those of their children that have ended.
pub fn processor_time_of(pids: &[u32]) -> Duration {
    let ticks = |pid: &u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let words = stat.rsplit_once(')')?.1.split_whitespace();
        Some(words.skip(11).take(4).filter_map(|word| word.parse::<u64>().ok()).sum::<u64>())
    };
    // A hundred a second, on every Linux.
    Duration::from_millis(10 * pids.iter().filter_map(ticks).sum::<u64>())
}
