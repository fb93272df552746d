//! Real servers come, tell what they take, and go.

use super::*;

fn directory_of(provided: &Provided) -> PathBuf {
    provided.directory.as_ref().expect("something was asked for").path().to_owned()
}

/// Returns true if a process is there, not counting one that has ended and was not waited for.
fn lives(process: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with('Z'))
}

#[test]
fn a_directory_is_empty_and_tells_what_is_put_there() {
    let provided = provide(Needs::Directory).unwrap();
    let path = directory_of(&provided);
    assert_eq!(provided.place(), Place::Directory(path.clone()));
    assert_eq!(fs::read_dir(&path).unwrap().count(), 0);
    assert_eq!(provided.usage(), Usage { cpu: None, bytes: Some(0) });
    fs::create_dir(path.join("inner")).unwrap();
    fs::write(path.join("inner/file"), vec![7; 100_000]).unwrap();
    fs::File::open(path.join("inner/file")).unwrap().sync_all().unwrap();
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
#[cfg(all(unix, feature = "redis"))]
fn servers_come_and_go() {
    for needs in [Needs::Redis, Needs::Postgres] {
        if let Some(reason) = missing(needs) {
            testkit::skipped(format_args!("servers_come_and_go: {reason}"));
            continue;
        }
        let provided = provide(needs).unwrap();
        let (path, server) = (directory_of(&provided), provided.server.as_ref().unwrap().id());
        let usage = provided.usage();
        assert_eq!(usage.cpu.is_some(), cfg!(target_os = "linux"));
        assert!(usage.bytes.unwrap() < 1 << 20, "{needs:?} is empty: {usage:?}");
        assert!(lives(server) || !cfg!(target_os = "linux"));
        drop(provided);
        assert!(!path.exists() && !lives(server), "{needs:?} is still there");
    }
}

#[test]
#[cfg(unix)]
fn a_server_that_does_not_start_says_why() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().to_owned();
    let mut provided = Provided { needs: Needs::Redis, server: None, directory: Some(directory), empty_bytes: 0 };
    let mut command = Command::new("sh");
    command.args(["-c", "echo the disk is on fire; exit 3"]);
    let error = provided.serve(command, &path).unwrap_err().to_string();
    assert!(error.contains("ended with exit status: 3") && error.contains("the disk is on fire"), "{error}");
    let error = run(Command::new("sh").args(["-c", "echo no room; exit 4"]), &path).unwrap_err().to_string();
    assert!(error.contains("exit status: 4") && error.contains("no room"), "{error}");
}

#[test]
fn processor_times_are_those_of_a_process_and_its_children() {
    let stat = |id: u32, parent: u32| format!("{id} (a) b) S {parent} 1 1 0 -1 4 0 0 0 0 10 20 3 4 20 0 1 0 5 6");
    assert_eq!(ticks_of(7, &stat(7, 1)), Some(37));
    assert_eq!(ticks_of(7, &stat(8, 7)), Some(37));
    assert_eq!((ticks_of(7, &stat(8, 9)), ticks_of(7, "7 (x")), (None, None));
}
