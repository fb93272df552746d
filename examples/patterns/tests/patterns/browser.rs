//! The form's submit: translated by tsc, and tried by Node.js.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/browser");

/// Runs a program. None if it is not installed.
fn run(command: &mut Command) -> Option<Output> {
    match command.output() {
        Ok(output) => Some(output),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            testkit::skipped(format_args!(
                "a submit in the browser: {:?} is not installed (Debian: nodejs, node-typescript)",
                command.get_program()
            ));
            None
        }
        Err(error) => panic!("{command:?}: {error}"),
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr[..]].concat()).into_owned()
}

/// A folder of a test's own.
struct Folder(PathBuf);

impl Folder {
    fn write(&self, file: &str, text: &str) {
        std::fs::write(self.0.join(file), text).expect("written");
    }

    /// Runs the trial of a translated version. None without Node.js, else its output, or why it
    /// failed.
    fn tried(&self, submit: &str) -> Option<Result<String, String>> {
        self.write("submit.js", submit);
        let trial = run(Command::new("node").arg("trial.mjs").current_dir(&self.0))?;
        Some(if trial.status.success() { Ok(said(&trial)) } else { Err(said(&trial)) })
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_submit_has_one_key_and_a_key_of_each_request_is_found_out() {
    let folder = Folder(std::env::temp_dir().join(format!("hapax-browser-{}", std::process::id())));
    std::fs::create_dir_all(&folder.0).expect("a folder");
    for file in ["submit.ts", "trial.mjs"] {
        folder.write(file, &std::fs::read_to_string(Path::new(FOLDER).join(file)).expect("it is text"));
    }
    folder.write("package.json", r#"{"type": "module"}"#);
    let mut compiler = Command::new("tsc");
    compiler.args(["--strict", "--target", "es2022", "--module", "es2022", "--lib", "es2022,dom", "submit.ts"]);
    let Some(translated) = run(compiler.current_dir(&folder.0)) else { return };
    assert!(translated.status.success(), "{}", said(&translated));

    let submit = std::fs::read_to_string(folder.0.join("submit.js")).expect("it is translated");
    let Some(result) = folder.tried(&submit) else { return };
    assert_eq!(result.as_deref(), Ok("tried\n"));
    // A key with the time, and one of the request: after a reload, or of two clicks, both are new.
    for key in ["${key}-${Date.now()}-${Math.random()}", "${crypto.randomUUID()}"] {
        let naive = submit.replace("${key}", key);
        assert_ne!(naive, submit);
        let found = folder.tried(&naive).expect("as before").expect_err("it is found out");
        assert!(found.contains("AssertionError") && found.contains("strictly equal"), "{key}: {found}");
    }
}
