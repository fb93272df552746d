//! Prose has 100 columns at most, documentation opens with a noun or a verb, and commands name what
//! is there.

use super::{files, root};
use std::collections::HashSet;
use std::fs;

const COLUMNS: usize = 100;

/// The words that a question begins with. Documentation answers it instead.
const QUESTIONS: [&str; 7] = ["What", "How", "When", "Why", "Whether", "Where", "Who"];

/// Returns the text of a line of a comment in Rust, after its slashes.
fn comment(line: &str) -> Option<&str> {
    let text = line.trim_start().strip_prefix("//")?;
    Some(text.strip_prefix(['/', '!']).unwrap_or(text))
}

/// Returns a line of a document.
fn whole(line: &str) -> Option<&str> {
    Some(line)
}

/// Returns the lines that are too long, by their numbers, given the prose of each line. Code,
/// tables, and a link that alone is a line are as long as they are.
fn too_long(text: &str, prose: fn(&str) -> Option<&str>) -> Vec<usize> {
    let mut is_code = false;
    let mut found = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let Some(prose) = prose(line) else {
            is_code = false;
            continue;
        };
        is_code ^= prose.trim_start().starts_with("```");
        let is_free =
            is_code || prose.trim_start().starts_with('|') || is_link(prose.trim_start()) || prose.starts_with("    ");
        if !is_free && line.chars().count() > COLUMNS {
            found.push(number);
        }
    }
    found
}

/// Returns true if a line is a link, and nothing after it.
fn is_link(line: &str) -> bool {
    let after = line.rsplit(']').next().unwrap_or_default();
    line.starts_with('[') && !after.trim_start_matches(": ").contains(' ')
}

#[test]
fn prose_has_at_most_100_columns() {
    let mut wrong = Vec::new();
    for (extension, prose) in [("md", whole as fn(&str) -> Option<&str>), ("rs", comment)] {
        for path in files(extension) {
            let text = fs::read_to_string(root().join(&path)).expect("it is text");
            wrong.extend(too_long(&text, prose).iter().map(|line| format!("{}:{line}", path.display())));
        }
    }
    assert!(wrong.is_empty(), "more than {COLUMNS} columns: {wrong:#?}");
    let long = "word ".repeat(21);
    assert_eq!(too_long(&format!("{long}\n```\n{long}\n```\n{long}\n"), whole), [1, 5]);
    assert_eq!(too_long(&format!("[`{long}`](a)\n[a] {long}\n[a]: {}", "b".repeat(101)), whole), [2]);
    assert_eq!(too_long(&format!("/// {long}\nlet a = \"{long}\";\n// | {long}"), comment), [1]);
}

/// Returns the lines on which documentation opens with a question, by their numbers.
fn questions(text: &str) -> Vec<usize> {
    let opening = |line: &str| -> Option<String> {
        let text = line.trim_start();
        let text = text.strip_prefix("///").or_else(|| text.strip_prefix("//!"))?;
        text.split_whitespace().next().map(str::to_owned)
    };
    let mut is_open = false;
    let mut found = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let is_documentation = line.trim_start().starts_with("///") || line.trim_start().starts_with("//!");
        if is_documentation && !is_open && opening(line).is_some_and(|word| QUESTIONS.contains(&word.as_str())) {
            found.push(number);
        }
        is_open = is_documentation;
    }
    found
}

#[test]
fn documentation_opens_with_a_noun_or_a_verb() {
    let mut wrong = Vec::new();
    for path in files("rs") {
        let text = fs::read_to_string(root().join(&path)).expect("it is text");
        wrong.extend(questions(&text).iter().map(|line| format!("{}:{line}", path.display())));
    }
    assert!(wrong.is_empty(), "it opens with one of {QUESTIONS:?}: {wrong:#?}");
    assert_eq!(questions("/// What it is.\n/// How it is.\nfn a() {}\n    //! Why so.\n"), [1, 4]);
}

/// Returns what commands of Cargo in a text name: pairs of an option and its value.
fn named(text: &str) -> Vec<(&str, &str)> {
    let mut found = Vec::new();
    let ends = |word: &str| word.ends_with(['`', ')', '"']) || word.starts_with(['#', '|', '>', '&']);
    for command in text.split("cargo ").skip(1) {
        let words: Vec<&str> = command.lines().next().unwrap_or_default().split_whitespace().collect();
        if !matches!(words.first(), Some(&("run" | "test" | "bench"))) {
            continue;
        }
        let count = words.iter().position(|word| ends(word)).map_or(words.len(), |last| last + 1);
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        for pair in words[..count].windows(2).take_while(|pair| pair[0] != "--") {
            let name = pair[1].split(|c| !is_name(c)).next().unwrap_or_default();
            if matches!(pair[0], "-p" | "--example" | "--bench" | "--test") && name.chars().any(char::is_lowercase) {
                found.push((pair[0], name));
            }
        }
    }
    found
}

/// Returns the packages, examples, tests and benches that there are, as commands name them.
fn targets() -> HashSet<(&'static str, String)> {
    let mut found = HashSet::new();
    for path in files("toml").iter().filter(|path| path.ends_with("Cargo.toml")) {
        let text = fs::read_to_string(root().join(path)).expect("it is text");
        let name = text.lines().find_map(|line| line.strip_prefix("name = \""));
        found.extend(name.map(|name| ("-p", name.trim_end_matches('"').to_owned())));
    }
    for path in files("rs") {
        let parts: Vec<String> = path.iter().map(|part| part.to_string_lossy().into_owned()).collect();
        for (folder, option) in [("examples", "--example"), ("tests", "--test"), ("benches", "--bench")] {
            if let Some(at) = parts.iter().position(|part| part == folder)
                && let Some(name) = parts.get(at + 1)
            {
                found.insert((option, name.trim_end_matches(".rs").to_owned()));
            }
        }
    }
    found
}

#[test]
fn commands_name_what_is_there() {
    let targets = targets();
    let (mut wrong, mut count) = (Vec::new(), 0);
    for path in files("rs").into_iter().chain(files("md")).chain(files("yml")) {
        let text = fs::read_to_string(root().join(&path)).expect("it is text");
        for (option, name) in named(&text) {
            count += 1;
            let is_there = targets.contains(&(option, name.to_owned())) || path.ends_with("prose.rs");
            if !is_there {
                wrong.push(format!("{}: {option} {name}", path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "there is no {wrong:#?}");
    assert!(count > 30, "there are commands: {count}");
    let text = "`cargo test -p a --test b` --test c, cargo bench -p d-e -- --bench f\ncargo run --example g";
    assert_eq!(named(text), [("-p", "a"), ("--test", "b"), ("-p", "d-e"), ("--example", "g")]);
}
