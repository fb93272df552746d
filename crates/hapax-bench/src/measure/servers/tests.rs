//! Real servers come, tell what they take, and go.

use super::*;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Returns true if no server is available; prints that the test is skipped.
fn is_skipped(test: &str, needs: Needs) -> bool {
    missing(needs).inspect(|reason| testkit::skipped(format_args!("{test}: {reason}"))).is_some()
}

fn directory_of(provided: &Provided) -> PathBuf {
    provided.watched.as_ref().expect("something was asked for").path().to_owned()
}

/// Returns true if a process is there, not counting one that has ended and was not waited for.
fn lives(process: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with('Z'))
}

/// Waits until something is so. The limit only ends a test that would hang.
fn soon(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(60), "not within a minute: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_directory_is_empty_and_tells_what_is_put_there() {
    let provided = provide(Needs::Directory).unwrap();
    let path = directory_of(&provided);
    assert_eq!(provided.place(), Place::Directory(path.clone()));
    assert_eq!(std::fs::read_dir(&path).unwrap().count(), 0);
    assert_eq!(provided.usage(), Usage { cpu: None, bytes: Some(0) });
    std::fs::create_dir(path.join("inner")).unwrap();
    std::fs::write(path.join("inner/file"), vec![7; 100_000]).unwrap();
    std::fs::File::open(path.join("inner/file")).unwrap().sync_all().unwrap();
    let bytes = provided.usage().bytes.unwrap();
    assert!((50_000..1_000_000).contains(&bytes), "{bytes} B");
    // Other places have other paths, and a panic removes them, too.
    let panicked = std::panic::catch_unwind(move || {
        assert_ne!(directory_of(&provide(Needs::Directory).unwrap()), directory_of(&provided));
        panic!("on purpose");
    });
    assert!(panicked.is_err() && !path.exists());
}

#[test]
fn servers_come_and_go() {
    for needs in [Needs::Redis, Needs::Postgres] {
        if is_skipped("servers_come_and_go", needs) {
            continue;
        }
        let provided = provide(needs).unwrap();
        let (path, server) = (directory_of(&provided), provided.server().unwrap());
        let usage = provided.usage();
        assert_eq!(usage.cpu.is_some(), cfg!(target_os = "linux"));
        assert!(usage.bytes.unwrap() < 1 << 20, "{needs:?} is empty: {usage:?}");
        let version = version(needs).unwrap();
        let (name, number) = version.rsplit_once(' ').unwrap();
        assert!(!name.is_empty() && number.starts_with(|first: char| first.is_ascii_digit()), "{version}");
        drop(provided);
        assert!(!path.exists() && !lives(server), "{needs:?} is still there");
    }
}

#[test]
fn a_server_that_does_not_start_says_why() {
    let mut watched = Watched::for_server("broken", "KILL").unwrap();
    let mut command = std::process::Command::new("sh");
    command.args(["-c", "echo the disk is on fire; exit 3"]);
    let error = watched.serve(command, PATIENCE, || false).unwrap_err().to_string();
    assert!(error.contains("ended with exit status: 3") && error.contains("the disk is on fire"), "{error}");

    let mut watched = Watched::for_server("silent", "KILL").unwrap();
    let mut command = std::process::Command::new("sh");
    command.args(["-c", "echo thinking; exec sleep 600"]);
    let error = watched.serve(command, Duration::from_millis(200), || false).unwrap_err().to_string();
    assert!(error.contains("no answer of sh in 200ms"), "{error}");
    let (server, path) = (watched.process().unwrap(), watched.path().to_owned());
    drop(watched);
    assert!(!lives(server) && !path.exists());
}

#[test]
fn a_path_that_no_socket_can_have_is_an_error() {
    let error = Watched::for_server(&"x".repeat(100), "KILL").unwrap_err().to_string();
    assert!(error.contains("103 bytes: set TMPDIR"), "{error}");
}

/// Set in a process of its own, which is killed.
const CHILD: &str = "HAPAX_SERVERS_CHILD";

/// A process that is killed when it is dropped.
#[cfg(target_os = "linux")]
struct Killed(std::process::Child);

#[cfg(target_os = "linux")]
impl Drop for Killed {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn hold_servers_until_killed() {
    let needs = [Needs::Directory, Needs::Redis, Needs::Postgres].into_iter().filter(|needs| missing(*needs).is_none());
    let provided: Vec<Provided> = needs.map(|needs| provide(needs).unwrap()).collect();
    for provided in &provided {
        println!("HOLDS {} {}", provided.server().unwrap_or(0), directory_of(provided).display());
    }
    println!("READY");
    std::thread::sleep(Duration::from_secs(60));
}

#[test]
#[cfg(target_os = "linux")]
fn nothing_outlives_a_process_that_is_killed() {
    use std::io::BufRead;
    if std::env::var_os(CHILD).is_some() {
        return hold_servers_until_killed();
    }
    // This runs the test once more.
    let child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["nothing_outlives_a_process_that_is_killed", "--nocapture"])
        .env(CHILD, "1")
        .stdout(std::process::Stdio::piped())
        .spawn();
    let mut child = Killed(child.unwrap());
    let lines = std::io::BufReader::new(child.0.stdout.take().unwrap()).lines().map(Result::unwrap);
    let lines: Vec<String> = lines.take_while(|line| line != "READY").collect();
    drop(child);
    let held = lines.iter().filter_map(|line| line.split_once("HOLDS ")?.1.split_once(' '));
    let held: Vec<(u32, &Path)> = held.map(|(server, path)| (server.parse().unwrap(), Path::new(path))).collect();
    assert!(!held.is_empty(), "{lines:?}");
    for (server, path) in held {
        soon(&format!("{} is gone", path.display()), || !path.exists() && (server == 0 || !lives(server)));
    }
}
