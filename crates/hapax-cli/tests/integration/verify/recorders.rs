//! The recorders of docs/verify.md, as they are shown there, around a right and a wrong
//! deduplication. Threads of the wrong ones meet between looking and adding, so each is caught
//! every time.

use super::{code, error, out};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use testkit::directory::Directory;

/// The wrong one, and what comes before the answer of the command: `order-7` is fresh twice.
const FINDING: &str = "id \"order-7\": fresh to two overlapping calls";

const PYTHON: &str = r#"
import sys

right, path = sys.argv[1] == "right", sys.argv[2]
seen, lock, meet = set(), threading.Lock(), threading.Barrier(2)


def add(id):
    with lock:
        is_new = id not in seen
        seen.add(id)
        return is_new


def look_and_add(id):
    is_new = id not in seen
    if id == "order-7":
        meet.wait()
    seen.add(id)
    return is_new


recorder = Recorder(path, 60)


def work():
    for n in range(100):
        recorder.check(f"order-{n}", add if right else look_and_add)


def fail(id):
    raise TimeoutError(id)


threads = [threading.Thread(target=work, name=f"worker-{n}") for n in (1, 2)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
try:
    recorder.check("order-100", fail)
except TimeoutError:
    pass
recorder.file.close()
"#;

const GO_BEFORE: &str = "package main

import (
	\"encoding/json\"
	\"errors\"
	\"fmt\"
	\"io\"
	\"os\"
	\"sync\"
	\"time\"
)

";

const GO: &str = r#"
func main() {
	right := os.Args[1] == "right"
	file, err := os.Create(os.Args[2])
	if err != nil {
		panic(err)
	}
	recorder, err := NewRecorder(file, time.Minute)
	if err != nil {
		panic(err)
	}
	var mu sync.Mutex
	var meet, done sync.WaitGroup
	seen := map[string]bool{}
	isNew := func(id string) (bool, error) {
		mu.Lock()
		fresh := !seen[id]
		if !right && id == "order-7" {
			mu.Unlock()
			meet.Done()
			meet.Wait()
			mu.Lock()
		}
		seen[id] = true
		mu.Unlock()
		return fresh, nil
	}
	meet.Add(2)
	for worker := 1; worker <= 2; worker++ {
		done.Add(1)
		go func(worker int) {
			defer done.Done()
			for n := 0; n < 100; n++ {
				if _, err := recorder.Check(worker, fmt.Sprintf("order-%d", n), isNew); err != nil {
					panic(err)
				}
			}
		}(worker)
	}
	done.Wait()
	recorder.Check(1, "order-100", func(string) (bool, error) { return false, errors.New("timed out") })
}
"#;

const TYPESCRIPT: &str = r#"
const [how, path] = process.argv.slice(2);
const recorder = new Recorder(path!, 60_000);
const seen = new Set<string>();

async function isNew(id: string): Promise<boolean> {
  const fresh = !seen.has(id);
  if (how !== "right" && id === "order-7") await new Promise((resolve) => setTimeout(resolve, 50));
  seen.add(id);
  return fresh;
}

async function work(task: string) {
  for (let n = 0; n < 100; n++) await recorder.check(task, `order-${n}`, isNew);
}

async function main() {
  await Promise.all([work("task-1"), work("task-2")]);
  await recorder.check("task-1", "order-100", async () => { throw new Error("timed out"); }).catch(() => {});
}
main();
"#;

/// Returns the recorder of a language as the document shows it.
fn shown(tag: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/verify.md");
    let document = std::fs::read_to_string(path).unwrap();
    let (_, rest) = document.split_once(&format!("```{tag}\n")).expect(tag);
    rest.split_once("```").expect("the block ends").0.to_owned()
}

/// Returns true if the program runs; else says that the test does not.
fn is_there(program: &str, arguments: &[&str]) -> bool {
    let is_there = Command::new(program).args(arguments).output().is_ok_and(|output| output.status.success());
    if !is_there {
        let call = arguments.join(" ");
        testkit::skipped(format_args!("a recorder of docs/verify.md: `{program} {call}` does not run here"));
    }
    is_there
}

/// Runs a program that records, once right and once wrong, and judges the histories.
fn judged(name: &str, source: &str, run: impl Fn(&Path) -> Command) {
    let made = Directory::new("verify");
    let folder = made.path();
    let program = folder.join(name);
    std::fs::write(&program, source).unwrap();
    let judge = |how: &str| -> Output {
        let history: PathBuf = folder.join(format!("{how}.jsonl"));
        let recorded = run(&program).args([how]).arg(&history).output().unwrap();
        assert!(recorded.status.success(), "{name}: {}", error(&recorded));
        Command::new(env!("CARGO_BIN_EXE_hapax")).arg("verify").arg(&history).output().unwrap()
    };
    let right = judge("right");
    assert_eq!((code(&right), error(&right)), (Some(0), String::new()), "{name}: {}", out(&right));
    assert!(out(&right).starts_with("right: 201 calls, 100 fresh, 100 duplicates, 1 without"), "{}", out(&right));
    let wrong = judge("wrong");
    assert!(code(&wrong) == Some(1) && out(&wrong).starts_with(FINDING), "{name}: {}{}", out(&wrong), error(&wrong));
    println!("{}", out(&wrong));
}

#[test]
fn the_python_recorder_shows_what_is_wrong() {
    if is_there("python3", &["--version"]) {
        judged("recorder.py", &(shown("python") + PYTHON), |program| {
            let mut command = Command::new("python3");
            command.arg(program);
            command
        });
    }
}

#[test]
fn the_go_recorder_shows_what_is_wrong() {
    if is_there("go", &["version"]) {
        judged("recorder.go", &format!("{GO_BEFORE}{}{GO}", shown("go")), |program| {
            let mut command = Command::new("go");
            command.arg("run").arg(program).env("GO111MODULE", "off").env("GOFLAGS", "");
            command
        });
    }
}

#[test]
fn the_typescript_recorder_shows_what_is_wrong() {
    // Node strips types by itself from 22.6 on; before, tsx from npm does.
    let strips = Command::new("node").args(["--experimental-strip-types", "--eval", "0"]).output();
    let strips = strips.is_ok_and(|output| output.status.success());
    let tsx = ["--yes", "tsx@4"];
    if strips || is_there("npx", &[&tsx[..], &["--version"]].concat()) {
        judged("recorder.mts", &(shown("ts") + TYPESCRIPT), |program| {
            let mut command = Command::new(if strips { "node" } else { "npx" });
            match strips {
                true => command.args(["--experimental-strip-types", "--no-warnings"]),
                false => command.args(tsx),
            };
            command.arg(program);
            command
        });
    }
}
