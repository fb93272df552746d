//! Files that others have put into a journal's directory, or in the place of a snapshot, are not
//! followed, not waited for, and not changed.

use super::*;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::process::Command;

const SECRET: &str = "what nobody may overwrite";

/// Makes a file that belongs to someone else, with contents.
fn victim(directory: &Directory) -> PathBuf {
    let path = directory.0.with_extension("victim");
    fs::write(&path, SECRET).unwrap();
    path
}

fn make(directory: &Directory) {
    fs::create_dir(&directory.0).unwrap();
    set_mode(&directory.0, 0o700);
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn fifo(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

/// Runs work that ends within this many seconds, or the program does: a guard against hanging.
fn within_seconds<R: Send + 'static>(seconds: u64, work: impl FnOnce() -> R + Send + 'static) -> R {
    let (done, is_done) = std::sync::mpsc::channel();
    std::thread::spawn(move || done.send(work()));
    is_done.recv_timeout(Duration::from_secs(seconds)).expect("it hangs, or has failed")
}

/// Checks the error of an engine that is not built, which names the file and says what to do.
fn refused(result: Result<Dedup, Error>, path: &Path, what: &str, remedy: &str) {
    match result {
        Err(Error::Journal(error @ JournalError::Untrusted { .. })) => {
            let (text, path) = (error.to_string(), path.display().to_string());
            assert!(text.contains(&path) && text.contains(what) && text.contains(remedy), "{text}");
        }
        other => panic!("{what}: {other:?}"),
    }
}

fn open(directory: &Directory) -> Result<Dedup, Error> {
    let builder = directory.builder(&clock(), JournalOptions::new());
    within_seconds(120, move || builder.build())
}

/// Makes a journal with one file.
fn with_a_file(directory: &Directory) -> PathBuf {
    let dedup = directory.open(&clock());
    let _ = dedup.check("a");
    dedup.journal().unwrap().flush().unwrap();
    drop(dedup);
    directory.segments().pop().unwrap()
}

#[test]
fn a_lock_that_is_a_link_is_not_followed() {
    let directory = Directory::new("link");
    make(&directory);
    let victim = victim(&directory);
    let lock = directory.0.join("lock");
    symlink(&victim, &lock).unwrap();
    refused(open(&directory), &lock, "a symbolic link", "delete it");
    assert_eq!(fs::read_to_string(&victim).unwrap(), SECRET);
    // Nor one of its second names.
    fs::remove_file(&lock).unwrap();
    fs::hard_link(&victim, &lock).unwrap();
    refused(open(&directory), &lock, "2 names", "delete it");
    assert_eq!(fs::read_to_string(&victim).unwrap(), SECRET);
    // Nor what is not there.
    fs::remove_file(&victim).unwrap();
    fs::remove_file(&lock).unwrap();
    symlink(&victim, &lock).unwrap();
    refused(open(&directory), &lock, "a symbolic link", "delete it");
    assert!(!victim.exists());
}

#[test]
fn files_that_are_links_are_not_followed() {
    for name in ["segment", "mark", "new mark"] {
        let directory = Directory::new("links");
        let segment = with_a_file(&directory);
        let (path, target) = match name {
            "segment" => (segment.clone(), directory.0.with_extension("target")),
            "mark" => (directory.0.join("mark"), directory.0.with_extension("target")),
            _ => (directory.0.join("mark.new"), directory.0.with_extension("target")),
        };
        if path.exists() {
            fs::copy(&path, &target).unwrap();
            fs::remove_file(&path).unwrap();
        } else {
            fs::write(&target, SECRET).unwrap();
        }
        let before = fs::read(&target).unwrap();
        symlink(&target, &path).unwrap();
        match name {
            // Written anew in any case: the link goes, its target stays.
            "new mark" => drop(open(&directory).unwrap().check("b")),
            _ => refused(open(&directory), &path, "a symbolic link", "delete it"),
        }
        assert_eq!(fs::read(&target).unwrap(), before, "{name}");
        fs::remove_file(&target).unwrap();
    }
}

#[test]
fn pipes_and_devices_are_not_waited_for() {
    for name in ["lock", "00000000000000000007.hapax", "mark"] {
        let directory = Directory::new("fifo");
        make(&directory);
        let path = directory.0.join(name);
        fifo(&path);
        refused(open(&directory), &path, "a pipe", "delete it");
        let inspected = directory.0.clone();
        if name != "lock" {
            let inspected = within_seconds(120, move || hapax::seam::inspect(inspected));
            assert!(matches!(inspected, Err(JournalError::Untrusted { .. })), "{inspected:?}");
        }
        fs::remove_file(&path).unwrap();
        symlink("/dev/zero", &path).unwrap();
        refused(open(&directory), &path, "a symbolic link", "delete it");
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        refused(open(&directory), &path, "a directory", "delete it");
    }
}

#[test]
fn a_directory_that_others_can_write_is_refused_unless_the_files_mode_says_so() {
    let directory = Directory::new("writable");
    make(&directory);
    let open = |file_mode| directory.builder(&clock(), JournalOptions::new().file_mode(file_mode)).build();
    for (mode, by_default, for_group) in [
        (0o700, true, true),
        (0o755, true, true),
        (0o2775, false, true),
        (0o770, false, true),
        (0o777, false, false),
        (0o1777, false, false),
        (0o702, false, false),
    ] {
        set_mode(&directory.0, mode);
        match (open(0o600), by_default) {
            (Ok(_), true) => {}
            (refusal @ Err(_), false) => refused(refusal, &directory.0, "may write", "chmod"),
            (other, _) => panic!("{mode:o}: {other:?}"),
        }
        assert_eq!(open(0o660).is_ok(), for_group, "{mode:o}");
        assert!(open(0o666).is_ok(), "{mode:o}");
    }
    // A missing directory is made, and fits.
    for file_mode in [0o600, 0o640, 0o660] {
        let within = Directory(directory.0.join(format!("{file_mode:o}")));
        let open = || within.builder(&clock(), JournalOptions::new().file_mode(file_mode)).build().unwrap();
        let _ = open().check("a");
        let _ = open().check("b");
    }
}

#[test]
fn files_that_others_can_write_are_refused() {
    let directory = Directory::new("others-write");
    let segment = with_a_file(&directory);
    set_mode(&segment, 0o622);
    refused(open(&directory), &segment, "may write", "chmod");
    set_mode(&segment, 0o600);
    open(&directory).unwrap();
}

/// Returns true if the user is root, which changing owners takes.
fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|this| this.uid() == 0)
}

#[test]
fn what_others_own_is_refused() {
    if !is_root() {
        testkit::skipped("files that others own: root alone can give files away");
        return;
    }
    let give = |path: &Path| std::os::unix::fs::chown(path, Some(4_711), None).unwrap();
    let directory = Directory::new("owned");
    let segment = with_a_file(&directory);
    for path in [&segment, &directory.0.join("lock"), &directory.0.join("mark")] {
        give(path);
        refused(open(&directory), path, "user 4711", "chown");
        std::os::unix::fs::chown(path, Some(0), None).unwrap();
    }
    give(&directory.0);
    refused(open(&directory), &directory.0, "user 4711", "chown");
    let open = |file_mode| directory.builder(&clock(), JournalOptions::new().file_mode(file_mode)).build();
    assert!(open(0o660).is_err() && open(0o666).is_ok());
}

#[test]
fn a_lock_that_is_gone_is_noticed() {
    let directory = Directory::new("gone-lock");
    let dedup = directory.open(&clock());
    let _ = dedup.check("a");
    dedup.journal().unwrap().flush().unwrap();
    fs::remove_file(directory.0.join("lock")).unwrap();
    // A second process comes …
    let second = directory.open(&clock());
    assert!(second.check("b").is_fresh());
    second.journal().unwrap().flush().unwrap();
    // … and the first notices, at its next flush, also of nothing.
    let gone = dedup.journal().unwrap().flush().unwrap_err();
    assert!(matches!(&gone, JournalError::Gone { path } if path.ends_with("lock")), "{gone}");
    assert!(gone.to_string().contains("another process"), "{gone}");
    let _ = dedup.check("c");
    assert!(dedup.journal().unwrap().flush().is_err());
    assert!(matches!(dedup.journal().unwrap().reopen(), Err(JournalError::InUse { .. })));
    // When the second has gone, its blocks are in the way of the first.
    drop(second);
    let files = directory.segments();
    let refusal = dedup.journal().unwrap().reopen().unwrap_err();
    assert!(refusal.to_string().contains("build the engine again"), "{refusal}");
    assert_eq!(directory.segments(), files);
    drop(dedup);
    let dedup = directory.open(&clock());
    assert!(dedup.check("a").is_duplicate() && dedup.check("b").is_duplicate());
}

#[test]
fn a_lock_that_is_gone_is_taken_again() {
    let directory = Directory::new("again-lock");
    let dedup = directory.open(&clock());
    let _ = dedup.check("a");
    dedup.journal().unwrap().flush().unwrap();
    fs::remove_file(directory.0.join("lock")).unwrap();
    assert!(dedup.journal().unwrap().flush().is_err());
    let _ = dedup.check("b");
    dedup.journal().unwrap().reopen().unwrap();
    dedup.journal().unwrap().flush().unwrap();
    let second = directory.builder(&clock(), JournalOptions::new()).build();
    assert!(matches!(second, Err(Error::Journal(JournalError::InUse { .. }))), "{second:?}");
    drop(dedup);
    let dedup = directory.open(&clock());
    assert!(dedup.check("a").is_duplicate() && dedup.check("b").is_duplicate());
}
