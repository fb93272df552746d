//! Tests that panic, and tests that are killed, leave no server behind.
//!
//! A child, this program once more, starts one of each kind, with a variable in its environment
//! that all of its descendants have, too.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;
use testkit::brokers::{Nats, Rabbit};
use testkit::directory::Directory;
use testkit::moto_server::MotoServer;
use testkit::postgres_pooler::Pooler;
use testkit::processes::PATIENCE;
use testkit::{children, postgres_server, redis_server};

const CHILD: &str = "HAPAX_LEFT_BEHIND_CHILD";

/// Runs the child; this is no test.
#[test]
fn child() {
    let Ok(asked) = std::env::var(CHILD) else { return };
    let redis = (!redis_server::is_missing()).then(|| redis_server::Server::start(&[]));
    let postgres = postgres_server::Server::shared();
    let alone = postgres_server::Server::start(&["fsync=off"]);
    let pooler = alone.as_ref().and_then(|server| Pooler::start(server, 1, &[]));
    let others = (Nats::start("left"), Rabbit::start("left"), MotoServer::start());
    // What another test holds while this one panics.
    let held = std::thread::spawn(|| std::mem::forget(Directory::new("left-held")));
    held.join().expect("it is made");
    let _all = (redis, postgres, alone, pooler, others);
    println!("\nstarted");
    if asked.starts_with("panics") {
        panic!("as asked");
    }
    std::thread::sleep(PATIENCE);
}

/// Returns the processes that have this variable: their names and numbers.
fn with_variable(variable: &str) -> Vec<String> {
    let processes = std::fs::read_dir("/proc").expect("Linux").flatten().map(|entry| entry.path());
    let has_it = |process: &Path| {
        let environment = std::fs::read(process.join("environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|one| one == variable.as_bytes())
    };
    let name = |process: &Path| std::fs::read_to_string(process.join("comm")).unwrap_or_default().trim().to_owned();
    let named = |process: std::path::PathBuf| format!("{} {}", name(&process), process.display());
    processes.filter(|process| has_it(process)).map(named).collect()
}

/// Starts the child. Returns what it has left in its directory once it has ended, and all processes
/// with it.
fn left_by(how: &str) -> Vec<String> {
    let directory = Directory::new("left-behind");
    // A socket's path has a hundred bytes at most, and the servers' directories are below this one.
    let value = format!("{how} {}", std::process::id());
    let mut child = Command::new(std::env::current_exe().expect("this program"));
    child.args(["--exact", "left_behind::child", "--nocapture", "--test-threads=1"]);
    child.env(CHILD, &value).env("TMPDIR", directory.path()).stdout(Stdio::piped()).stderr(Stdio::null());
    if postgres_server::is_root() {
        // The server is another user's.
        let opened = Command::new("chmod").arg("a+rx").arg(directory.path()).status();
        assert!(opened.expect("chmod").success());
    }
    let mut child = children::started(child);
    let (mut output, mut said) = (BufReader::new(child.stdout.take().expect("a pipe")), String::new());
    while !said.ends_with("started\n") {
        assert!(output.read_line(&mut said).expect("text") > 0, "it has ended: {said}");
    }
    let variable = format!("{CHILD}={value}");
    let running = with_variable(&variable);
    println!("{how}: {running:?}");
    if how == "is killed" {
        assert!(running.len() > 1 || !Path::new("/usr/bin/redis-server").exists(), "it has started nothing: {said}");
        child.kill().expect("it can be killed");
    }
    // Its output is not read: what is left behind may have it open.
    assert!(!child.wait().expect("it has ended").success(), "{said}");
    let began = Instant::now();
    while !with_variable(&variable).is_empty() {
        assert!(began.elapsed() < PATIENCE, "{how}: there are still {:?}", with_variable(&variable));
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let left = std::fs::read_dir(directory.path()).expect("a directory").flatten();
    left.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

#[test]
fn a_test_that_panics_leaves_neither_a_process_nor_a_directory() {
    let left = left_by("panics");
    // But for what was held on purpose, which shows that this looks in the right place.
    assert!(left.len() == 1 && left[0].contains("left-held"), "{left:?}");
}

#[test]
fn a_test_that_is_killed_leaves_no_process() {
    left_by("is killed");
}
