//! `hapax store`, from outside, on stores that the test makes: a file of SQLite and a directory of
//! fjall; and on servers of its own.

mod aside;
mod handled;
mod servers;

use crate::filter::inputs::Directory;
use hapax::Key;
use hapax_fjall::FjallStore;
use hapax_sqlite::SqliteStore;
use hapax_store::*;
use std::process::{Command, Output};
use std::time::Duration;

const YEARS: Duration = Duration::from_secs(10 * 366 * 86_400);

pub(crate) fn wait<A>(work: impl Future<Output = A>) -> A {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}

/// Returns the output of `hapax store`.
pub(crate) fn hapax(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_hapax")).arg("store").args(args).output().expect("the command runs")
}

pub(crate) fn printed(args: &[&str]) -> String {
    let output = hapax(args);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {} {errors}", output.status);
    String::from_utf8(output.stdout).unwrap()
}

/// Fills a store with records in each state.
pub(crate) async fn fill(store: &impl Store) {
    let orders = Scope::new("orders").unwrap();
    let key = |id: &[u8]| RecordKey::new(&orders, id);
    let claim = async |id: &[u8], attempt| {
        let claim = ClaimRequest {
            key: key(id),
            attempt,
            lease: YEARS,
            fingerprint: None,
            held_by: None,
            doubt: Duration::ZERO,
        };
        match store.claim(&[claim]).await.unwrap().remove(0).unwrap() {
            Claimed::Claimed { token, .. } => Hold { key: key(id), token },
            other => panic!("{other:?}"),
        }
    };
    let mark = |key: RecordKey| Mark { key, attempt: 17, retention: YEARS };
    store.mark(&[mark(key(b"order-17")), mark(RecordKey::new(&Scope::default(), "m-1"))]).await.unwrap();
    claim(b"order-18", 1).await;
    let failed = ClaimFailure { hold: claim(b"order-19", 2).await, retry_after: YEARS };
    store.fail(&[failed]).await.unwrap().remove(0).unwrap();
    let hold = claim(Key::new().text("eu").int(20).as_ref(), 3).await;
    let done = Completion { hold, retention: YEARS, result: Some(b"paid".to_vec()) };
    store.complete(&[done]).await.unwrap().remove(0).unwrap();
    store.mark(&[mark(key(b"https://example.com/21")), mark(key(&[0, 255])), mark(key(&[b'x'; 60]))]).await.unwrap();
    let over = claim(b"over", 4).await;
    store.release(&[over]).await.unwrap().remove(0).unwrap();
}

/// Runs every command in `golden/`, on stores that are made for it. `TRYCMD=overwrite` writes the
/// current output into the copies, which are then kept.
#[test]
fn golden() {
    let made = Directory::new("store-golden");
    for file in std::fs::read_dir("tests/integration/store/golden").unwrap() {
        let (file, to) = (file.unwrap().path(), &made.0);
        std::fs::copy(&file, to.join(file.file_name().unwrap())).unwrap();
        let stores = to.join(file.with_extension("in").file_name().unwrap());
        std::fs::create_dir(&stores).unwrap();
        std::fs::write(stores.join("letter.txt"), "Dear hapax").unwrap();
        wait(async {
            fill(&SqliteStore::open(stores.join("ids.db")).await.unwrap()).await;
            fill(&FjallStore::open(stores.join("ids")).await.unwrap()).await;
        });
    }
    trycmd::TestCases::new().case(made.0.join("*.trycmd").to_str().unwrap()).run();
    if std::env::var_os("TRYCMD").is_some() {
        println!("kept: {}", made.0.display());
        std::mem::forget(made);
    }
}

/// A list has all that is stored, and each line of it finds its record again.
#[test]
fn each_id_that_is_listed_is_found_by_its_text() {
    let made = Directory::new("store-round");
    let (file, directory) = (made.0.join("ids.db"), made.0.join("ids"));
    wait(async {
        fill(&SqliteStore::open(&file).await.unwrap()).await;
        fill(&FjallStore::open(&directory).await.unwrap()).await;
    });
    for place in [&file, &directory].map(|path| path.to_str().unwrap()) {
        let listed = printed(&["list", place, "--format=json"]);
        assert_eq!(listed.lines().count(), 8, "{listed}");
        for line in listed.lines() {
            let listed: serde_json::Value = serde_json::from_str(line).unwrap();
            let (scope, id) = (listed["scope"].as_str().unwrap(), listed["id"].as_str().unwrap());
            let got = printed(&["get", place, "--format=json", "--scope", scope, "--", id]);
            let got: serde_json::Value = serde_json::from_str(&got).unwrap();
            assert_eq!((&got["id"], &got["state"]), (&listed["id"], &listed["state"]), "{got}");
        }
    }
}

#[test]
fn what_is_in_doubt_is_listed_with_its_age_and_holder() {
    let made = Directory::new("store-doubt");
    let file = made.0.join("ids.db");
    wait(async {
        let store = SqliteStore::open(&file).await.unwrap();
        fill(&store).await;
        let (key, held_by) = (RecordKey::new(&Scope::new("mails").unwrap(), "m-17"), Some(HeldBy::of("worker-7")));
        let lease = Duration::from_millis(1);
        let claim = ClaimRequest { key, attempt: 1, lease, fingerprint: None, held_by, doubt: YEARS };
        store.claim(&[claim]).await.unwrap().remove(0).unwrap();
    });
    let place = file.to_str().unwrap();
    let listed = printed(&["list", place, "--in-doubt"]);
    assert!(listed.starts_with("in-doubt ") && listed.ends_with(" ago by worker-7\n"), "{listed}");
    assert_eq!(listed.lines().count(), 1, "{listed}");
    let listed = printed(&["list", place, "--in-doubt", "--format=json"]);
    let listed: serde_json::Value = serde_json::from_str(&listed).unwrap();
    assert_eq!((&listed["id"], &listed["in_doubt"]["held_by"]), (&"m-17".into(), &"worker-7".into()));
    assert!(printed(&["get", place, "--scope", "mails", "m-17"]).contains("  in doubt     begun "));
}

#[test]
fn what_is_forgotten_is_said_and_is_new_to_who_asks_next() {
    let made = Directory::new("store-forget");
    let file = made.0.join("ids.db");
    wait(async { fill(&SqliteStore::open(&file).await.unwrap()).await });
    let place = file.to_str().unwrap();
    let named = printed(&["forget", place, "--scope", "orders", "order-17", "eu/20", "never"]);
    assert_eq!(
        named,
        "unknown    never (scope orders)\n\
         forgotten  order-17 (scope orders) (it was marked)\n\
         forgotten  eu/20 (scope orders) (it was completed)\n"
    );
    let refused = hapax(&["forget", place, "--scope", "orders", "order-19", "order-18"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("order-18 (scope orders) is claimed"));
    assert!(printed(&["get", place, "--scope", "orders", "order-19"]).contains("failed"), "nothing was forgotten");
    printed(&["forget", place, "--scope", "orders", "--yes", "order-18"]);

    let chosen = hapax(&["forget", place, "--scope", "orders"]);
    assert_eq!(chosen.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&chosen.stderr).contains("would forget 4 records"), "{chosen:?}");
    let all = printed(&["forget", place, "--scope", "orders", "--yes"]);
    assert!(all.ends_with("4 records forgotten\n") && all.lines().count() == 5, "{all}");
    let left = printed(&["list", place, "--format=json"]);
    assert_eq!(left.lines().count(), 1, "{left}");
    let marked = wait(async {
        let store = SqliteStore::open(&file).await.unwrap();
        let key = RecordKey::new(&Scope::new("orders").unwrap(), "order-17");
        store.mark(&[Mark { key, attempt: 99, retention: YEARS }]).await.unwrap().remove(0).unwrap()
    });
    assert_eq!(marked, Marked::Fresh);
}

#[test]
fn a_store_that_a_process_has_to_itself_is_left_to_it() {
    let made = Directory::new("store-locked");
    let directory = made.0.join("ids");
    let output = wait(async {
        let _open = FjallStore::open(&directory).await.unwrap();
        hapax(&["list", directory.to_str().unwrap()])
    });
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("conflict"), "{output:?}");
}

#[test]
fn nothing_is_made_where_there_is_no_store() {
    let made = Directory::new("store-nothing");
    let (directory, file) = (made.0.join("empty"), made.0.join("empty.db"));
    std::fs::create_dir(&directory).unwrap();
    std::fs::write(&file, "").unwrap();
    for place in [&directory, &file].map(|path| path.to_str().unwrap()) {
        for command in [vec!["list", place], vec!["forget", place, "order-17"], vec!["stats", place]] {
            let output = hapax(&command);
            assert_eq!(output.status.code(), Some(2), "{output:?}");
            assert!(String::from_utf8_lossy(&output.stderr).contains("there is no store"), "{output:?}");
        }
    }
    assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 0);
    assert_eq!(std::fs::metadata(&file).unwrap().len(), 0);
}

/// Checks that what others have chosen does nothing to a terminal: a name of a file, here in an
/// error, and ids.
#[test]
fn nothing_steers_a_terminal() {
    let made = Directory::new("store-terminal");
    let hostile = "a\u{1b}[31m\u{202e}b\u{2066}";
    let missing = made.0.join(hostile);
    let missing = missing.to_str().unwrap();
    let commands: [&[&str]; 4] = [&["store", "list"], &["filter"], &["journal", "inspect"], &["plan", "--from"]];
    for command in commands {
        let output = Command::new(env!("CARGO_BIN_EXE_hapax")).args(command).arg(missing).output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(
            !output.status.success() && error.contains("a\\u{1b}[31m\\u{202e}b\\u{2066}"),
            "{command:?}: {error:?}"
        );
        assert!(!error.contains(['\u{1b}', '\u{202e}', '\u{2066}']), "{command:?}: {error:?}");
    }
    let file = made.0.join("ids.db");
    wait(async {
        let store = SqliteStore::open(&file).await.unwrap();
        let key = RecordKey::new(&Scope::new("orders").unwrap(), hostile);
        store.mark(&[Mark { key, attempt: 1, retention: YEARS }]).await.unwrap();
    });
    let file = file.to_str().unwrap();
    for options in [vec!["list", file], vec!["list", file, "--format=json"], vec!["stats", file]] {
        let printed = printed(&options);
        assert!(printed.contains("orders") && !printed.contains(['\u{1b}', '\u{202e}', '\u{2066}']), "{printed:?}");
    }
}

/// Checks the words of an address about TLS, and that no password is shown.
#[test]
fn an_address_asks_for_tls_that_is_verified_or_for_none_and_nothing_shows_it() {
    let address = |words: &str| format!("postgres://u:secret@127.0.0.1:1/db?{words}");
    for (words, code, says) in [
        ("sslmode=verify-full", 1, "unavailable"),
        ("sslmode=disable", 1, "unavailable"),
        ("sslmode=prefer", 2, "sslmode: expected disable or verify-full"),
        ("sslmode=secret", 2, "sslmode: expected disable or verify-full"),
        ("sslmode=verify-full&sslrootcert=/nowhere/ca.pem", 2, "sslrootcert: expected a file"),
        ("sslrootcert=/nowhere/ca.pem", 2, "expected sslmode=verify-full beside it"),
    ] {
        for command in ["list", "handled"] {
            let mut hapax = Command::new(env!("CARGO_BIN_EXE_hapax"));
            let namespace = ["--namespace", "seen"];
            hapax.args(["store", command, "env:ADDRESS"]).args(namespace).env("ADDRESS", address(words));
            let shown = self::hapax(&[&[command, &address(words)], &namespace[..]].concat());
            for output in [shown, hapax.output().unwrap()] {
                let error = String::from_utf8(output.stderr).unwrap();
                assert_eq!(output.status.code(), Some(code), "{command} {words}: {error}");
                assert!(error.contains(says) && !error.contains("secret"), "{command} {words}: {error}");
            }
        }
    }
    let unset = hapax(&["list", "env:HAPAX_NONE"]);
    let error = String::from_utf8(unset.stderr).unwrap();
    assert!(unset.status.code() == Some(2) && error.contains("environment variable HAPAX_NONE"), "{error}");
}
