//! The form's submit: translated by tsc, and tried by Node.js.

use std::path::Path;
use std::process::{Command, Output};

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/browser");

/// Runs a program. None if it is not installed.
fn run(command: &mut Command) -> Option<Output> {
    match command.output() {
        Ok(output) => Some(output),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            println!("SKIPPED: a submit in the browser: {:?} is not installed", command.get_program());
            None
        }
        Err(error) => panic!("{command:?}: {error}"),
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr[..]].concat()).into_owned()
}

/// Translates a version of the submit, and tries it. None without the programs, else the trial's
/// output, or why it failed.
fn tried(name: &str, change: impl Fn(&str) -> String) -> Option<Result<String, String>> {
    let folder = std::env::temp_dir().join(format!("hapax-browser-{}-{name}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let read = |file: &str| std::fs::read_to_string(Path::new(FOLDER).join(file)).expect("it is text");
    let write = |file: &str, text: &str| std::fs::write(folder.join(file), text).expect("written");
    write("submit.ts", &change(&read("submit.ts")));
    write("trial.mjs", &read("trial.mjs"));
    write("package.json", r#"{"type": "module"}"#);
    let result = (|| {
        let mut compiler = Command::new("tsc");
        let options = ["--strict", "--target", "es2022", "--module", "es2022", "--lib", "es2022,dom"];
        let translated = run(compiler.args(options).arg("submit.ts").current_dir(&folder))?;
        if !translated.status.success() {
            return Some(Err(said(&translated)));
        }
        let trial = run(Command::new("node").arg("trial.mjs").current_dir(&folder))?;
        Some(if trial.status.success() { Ok(said(&trial)) } else { Err(said(&trial)) })
    })();
    std::fs::remove_dir_all(&folder).expect("a folder");
    result
}

#[test]
fn a_submit_has_one_key_and_a_key_of_each_request_is_found_out() {
    let Some(result) = tried("good", str::to_owned) else { return };
    assert_eq!(result.as_deref(), Ok("tried\n"));
    let naive = |key: &'static str| move |text: &str| text.replace("${keyOf(form)}", key);
    // A key with the time, and one of the request: of two clicks at once, or after a reload, both
    // are new.
    for (name, key) in [("time", "${keyOf(form)}-${Date.now()}-${Math.random()}"), ("random", "${crypto.randomUUID()}")]
    {
        let found = tried(name, naive(key)).expect("as before").expect_err("it is found out");
        assert!(found.contains("AssertionError"), "{name}: {found}");
    }
    let wrong = tried("types", |text| text.replace("body: string", "body: number")).expect("as before");
    assert!(wrong.expect_err("it is no body").contains("error TS"), "types are checked");
}
