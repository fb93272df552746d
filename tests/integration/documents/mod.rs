//! Checks that links and paths in documents lead somewhere.

mod budgets;
mod invariants;
mod prose;
mod snippets;

use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};
use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};

const REPOSITORY: &str = concat!(env!("CARGO_PKG_REPOSITORY"), "/blob/main/");

/// The beginnings of paths that documents put between backticks.
const FOLDERS: [&str; 8] = ["benches/", "crates/", "docs/", "examples/", "fuzz/", "scripts/", "src/", "tests/"];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns files of these kinds that belong to the package, by their paths from its root.
fn files(extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(root().join(&folder)).expect("the package can be read") {
            let entry = entry.expect("it has a name");
            let path = folder.join(entry.file_name());
            let name = entry.file_name();
            let is_ours = !name.to_string_lossy().starts_with('.') && name != "target" && name != "corpus";
            match entry.file_type().expect("it has a type") {
                kind if kind.is_dir() && is_ours => folders.push(path),
                kind if kind.is_file() && path.extension().is_some_and(|other| other == extension) => found.push(path),
                _ => {}
            }
        }
    }
    found.sort();
    found
}

/// The links of a document, the texts that it puts between backticks, and its headings' anchors.
#[derive(Default)]
struct Document {
    links: Vec<String>,
    code: Vec<String>,
    anchors: HashSet<String>,
}

impl Document {
    fn read(text: &str) -> Self {
        let mut document = Document::default();
        let mut heading: Option<String> = None;
        for event in Parser::new_ext(text, Options::ENABLE_TABLES) {
            match event {
                Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                    document.links.push(dest_url.into_string());
                }
                Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
                Event::End(TagEnd::Heading(_)) => document.anchors.extend(heading.take().map(|title| anchor(&title))),
                Event::Text(text) => heading.iter_mut().for_each(|heading| heading.push_str(&text)),
                Event::Code(code) => {
                    heading.iter_mut().for_each(|heading| heading.push_str(&code));
                    document.code.push(code.into_string());
                }
                _ => {}
            }
        }
        document
    }
}

/// Returns a heading's name in a link: small letters, digits, and hyphens for spaces.
fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c.to_ascii_lowercase() }).collect()
}

/// Returns what is wrong with a link in a document of a folder, if anything is.
fn broken(folder: &Path, own: &Document, link: &str) -> Option<String> {
    let (path, place) = link.split_once('#').map_or((link, None), |(path, place)| (path, Some(place)));
    let local = path.strip_prefix(REPOSITORY);
    if link.contains("://") && local.is_none() {
        return None; // somebody else's
    }
    let target = match local {
        Some(path) => root().join(path),
        None => root().join(folder).join(path),
    };
    if !path.is_empty() && !target.exists() {
        return Some(format!("{link}: there is no such file"));
    }
    let is_there = |place: &str| {
        if path.is_empty() {
            own.anchors.contains(place)
        } else {
            fs::read_to_string(&target).is_ok_and(|text| Document::read(&text).anchors.contains(place))
        }
    };
    place.filter(|&place| !is_there(place)).map(|place| format!("{link}: there is no heading {place}"))
}

/// Returns true if a text between backticks is the path of a file that is not there. Patterns and
/// commands are no paths.
fn is_lost_path(code: &str) -> bool {
    let is_path = FOLDERS.iter().any(|folder| code.starts_with(folder))
        && code.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '_' | '-'));
    is_path && !root().join(code).exists()
}

#[test]
fn links_and_paths_in_documents_lead_somewhere() {
    let (mut links, mut wrong) = (0, Vec::new());
    // Documents in `src` are read by rustdoc, which checks them.
    let is_source = |path: &Path| path.components().any(|part| part.as_os_str() == "src");
    for path in files("md").iter().filter(|path| !is_source(path)) {
        let document = Document::read(&fs::read_to_string(root().join(path)).expect("it is text"));
        let folder = path.parent().expect("it is in a folder");
        links += document.links.len();
        let broken_links = document.links.iter().filter_map(|link| broken(folder, &document, link));
        let lost_paths =
            document.code.iter().filter(|code| is_lost_path(code)).map(|path| format!("`{path}`: it is not there"));
        wrong.extend(broken_links.chain(lost_paths).map(|what| format!("{}: {what}", path.display())));
    }
    assert!(links > 20, "there are links: {links}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn documentation_in_the_source_links_to_files_that_are_there() {
    let mut wrong = Vec::new();
    for path in files("rs") {
        let text = fs::read_to_string(root().join(&path)).expect("it is text");
        for (_, rest) in text.match_indices(REPOSITORY).map(|(at, _)| text.split_at(at + REPOSITORY.len())) {
            let target = rest.split([')', '"', '#', ' ', '>', '\n']).next().expect("there is one part");
            if !target.is_empty() && !root().join(target).exists() {
                wrong.push(format!("{}: {target}", path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_readme_names_every_crate_and_feature() {
    let readme = fs::read_to_string(root().join("README.md")).expect("it is text");
    let rows = |name: &str| -> Vec<&str> {
        readme.lines().filter(|line| line.starts_with('|') && line.contains(&format!("`{name}`"))).collect()
    };
    let manifests = files("toml").into_iter().filter(|path| path.ends_with("Cargo.toml") && !path.starts_with("fuzz"));
    // The features that a row says, of which each has to belong to one of its crates.
    let said = |row: &str| -> Vec<String> {
        let cell = row.trim_end_matches('|').rsplit('|').next().unwrap_or_default();
        cell.split('`').skip(1).step_by(2).map(str::to_owned).collect()
    };
    let (mut crates, mut said_in_vain) = (0, BTreeMap::<String, Vec<String>>::new());
    for path in manifests {
        let manifest = fs::read_to_string(root().join(&path)).expect("it is text");
        if manifest.contains("publish = false") {
            continue;
        }
        crates += 1;
        let has_pages =
            ["\nreadme = \"README.md\"\n", "\nall-features = true\n"].iter().all(|line| manifest.contains(line));
        assert!(has_pages, "{}: it has no README.md of its own, or docs.rs not all features", path.display());
        let name = manifest.split("\nname = \"").nth(1).and_then(|rest| rest.split('"').next()).expect("a name");
        let own = rows(name);
        assert!(!own.is_empty(), "README.md: the crate `{name}` is in no table");
        let features =
            manifest.split_once("[features]\n").map_or("", |(_, rest)| rest.split("\n[").next().unwrap_or(""));
        let named = |line: &&str| line.contains(" = [") && !line.starts_with("default");
        for feature in features.lines().filter(named).map(|line| line.split(' ').next().expect("it has a name")) {
            let is_named = own.iter().any(|row| row.contains(&format!("`{feature}`")));
            assert!(is_named, "README.md: the row of `{name}` does not name its feature `{feature}`");
        }
        for row in own {
            let left = said_in_vain.entry(row.to_owned()).or_insert_with(|| said(row));
            left.retain(|feature| !features.lines().any(|line| line.starts_with(&format!("{feature} = ["))));
        }
    }
    said_in_vain.retain(|_, features| !features.is_empty());
    assert!(said_in_vain.is_empty(), "README.md: features that no crate of the row has: {said_in_vain:?}");
    assert!(crates > 8, "there are crates: {crates}");
}

/// Returns the blocks of code of a document: what each is tagged with, and its text.
fn blocks(text: &str) -> Vec<(String, String)> {
    let (mut blocks, mut is_in_block) = (Vec::new(), false);
    for event in Parser::new_ext(text, Options::ENABLE_TABLES) {
        match event {
            Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(tag))) => {
                blocks.push((tag.into_string(), String::new()));
                is_in_block = true;
            }
            Event::End(TagEnd::CodeBlock) => is_in_block = false,
            Event::Text(code) if is_in_block => blocks.last_mut().expect("it has begun").1.push_str(&code),
            _ => {}
        }
    }
    blocks
}

#[test]
fn code_in_documents_is_tested_as_it_is_shown() {
    let read = |path: &Path| fs::read_to_string(root().join(path)).expect("it is text");
    let tested = read(Path::new("crates/testkit/src/documents.rs"));
    let is_of_a_crate = |path: &Path| path.starts_with("crates") && path.ends_with("README.md");
    let is_shown =
        |path: &Path| path.starts_with("docs") || path.parent() == Some(Path::new("")) || is_of_a_crate(path);
    let mut found = 0;
    for path in files("md").iter().filter(|path| is_shown(path)) {
        for (tag, code) in blocks(&fs::read_to_string(root().join(path)).expect("it is text")) {
            let place = format!("{}:\n{code}", path.display());
            assert!(!tag.is_empty(), "a block without a language in {place}");
            if !tag.starts_with("rust") || tag.contains("ignore") {
                continue;
            }
            found += 1;
            let is_tested = if is_of_a_crate(path) {
                read(&path.with_file_name("src/lib.rs")).contains("include_str!(\"../README.md\")")
            } else {
                tested.contains(&format!("\"{}\"", path.display()))
            };
            assert!(is_tested, "no documentation test compiles {place}");
            let has_hidden = code.lines().any(|line| line == "#" || line.starts_with("# "));
            assert!(!has_hidden, "lines that rustdoc alone hides in {place}");
            assert!(code.contains("fn "), "a block that cannot be compiled as it is shown in {place}");
        }
    }
    assert!(found > 20, "there is code: {found}");
    assert_eq!(blocks("a\n```sh\nb\n```\n```\nc\n```"), [("sh".into(), "b\n".into()), (String::new(), "c\n".into())]);
}

#[test]
fn the_readme_is_one_screen_and_has_the_two_commands() {
    let readme = fs::read_to_string(root().join("README.md")).expect("it is text");
    let shown = readme.lines().filter(|line| !line.starts_with("<!--"));
    assert!(shown.count() <= 140, "README.md: what is more goes to docs/");
    for command in
        ["cargo run --release -p hapax-cli -- filter --column id --stats examples/blocks.tsv.gz", "scripts/test"]
    {
        assert!(readme.lines().any(|line| line == command), "README.md does not say: {command}");
    }
}

#[test]
fn every_example_is_listed() {
    let list = fs::read_to_string(root().join("examples/README.md")).expect("it is text");
    let is_example =
        |path: &Path| path.parent().is_some_and(|folder| folder.ends_with("examples")) && !path.starts_with("tests");
    for path in files("rs").iter().filter(|path| is_example(path)) {
        let name = path.file_stem().expect("it has a name").to_string_lossy().into_owned();
        let is_listed = list.split('`').any(|code| code.ends_with(&format!("--example {name}")));
        assert!(is_listed, "examples/README.md: {name} is missing");
    }
}

/// Returns the names of tests that a paragraph gives after "Tests:".
fn tests_named(paragraph: &str) -> Vec<&str> {
    let Some((_, named)) = paragraph.split_once("Tests:") else { return vec![] };
    named.split('`').skip(1).step_by(2).collect()
}

/// Returns every test of the package, by name, and the cases of those without a harness:
/// `("name", module::name)`.
fn all_tests() -> HashSet<String> {
    let mut tests = HashSet::new();
    for path in files("rs") {
        let text = fs::read_to_string(root().join(&path)).expect("it is text");
        let mut is_test = false;
        for line in text.lines().map(str::trim) {
            let case = line.strip_prefix("(\"").and_then(|line| line.split_once("\", "));
            if let Some((case, function)) = case
                && function.ends_with(&format!("::{case}),"))
            {
                tests.insert(case.to_owned());
            }
            let name = line.split_once("fn ").and_then(|(_, rest)| rest.split(['(', '<']).next());
            match name {
                Some(name) if is_test => {
                    tests.insert(name.to_owned());
                    is_test = false;
                }
                _ => is_test |= line.starts_with("#[test") || line.starts_with("#[tokio::test"),
            }
        }
    }
    tests
}

#[test]
fn every_claim_about_security_names_tests_that_are_there() {
    let text = fs::read_to_string(root().join("SECURITY.md")).expect("there is a SECURITY.md");
    let (tests, mut claims) = (all_tests(), 0);
    for paragraph in text.split("\n\n") {
        let named = tests_named(paragraph);
        if paragraph.starts_with("*Cannot") {
            claims += 1;
            assert!(!named.is_empty(), "a claim that no test tries to break: {paragraph}");
        }
        let lost: Vec<_> = named.into_iter().filter(|name| !tests.contains(*name)).collect();
        assert!(lost.is_empty(), "SECURITY.md names tests that are not there: {lost:?}");
    }
    assert!(claims > 5, "there are claims: {claims}");
    assert_eq!(tests_named("*Cannot* `a_b`. Tests: `c_d`,\n`e_f`: `g`."), ["c_d", "e_f", "g"]);
    assert!(tests.contains("every_claim_about_security_names_tests_that_are_there") && !tests.contains("all_tests"));
}

#[test]
fn wrong_links_are_noticed() {
    let document = Document::read(
        "# One heading\n[a](Cargo.toml) [b](nothing.md) [c](#one-heading) [d](#other) `src/lib.rs` `src/none.rs`",
    );
    let wrong: Vec<_> = document.links.iter().filter_map(|link| broken(Path::new(""), &document, link)).collect();
    assert_eq!(wrong, ["nothing.md: there is no such file", "#other: there is no heading other"]);
    let lost: Vec<_> = document.code.iter().filter(|code| is_lost_path(code)).collect();
    assert_eq!(lost, ["src/none.rs"]);
    assert_eq!(anchor("`hapax filter`: lines, in and out"), "hapax-filter-lines-in-and-out");
}

#[test]
fn what_is_installed_is_what_was_tested() {
    let texts = ["md", "rs", "sh", "yml"].iter().flat_map(|extension| files(extension));
    let mut found = 0;
    for path in texts.chain(["scripts/fuzz", "scripts/mutants", ".ci/run"].map(PathBuf::from)) {
        let text = fs::read_to_string(root().join(&path)).expect("it is text");
        // (What this very test looks for is no command.)
        for line in text.lines().filter(|line| line.contains("cargo install ") && !line.contains("contains(\"")) {
            found += 1;
            assert!(line.contains("--locked"), "{}: without --locked it takes later versions: {line}", path.display());
        }
    }
    assert!(found > 4, "there are such commands: {found}");
}
