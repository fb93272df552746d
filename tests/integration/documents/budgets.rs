//! Documents are as long as somebody reads (bytes, words of a sentence and of a cell), and say
//! nothing of what was once.

use super::{files, root};
use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};
use std::fs;

const KB: usize = 1024;

/// The bytes that a document may have, by the beginning of its path. The first one counts.
const BUDGETS: [(&str, usize); 5] = [
    ("ARCHITECTURE.md", 15 * KB),
    ("CHANGELOG.md", 4 * KB),
    ("docs/testing.md", 18 * KB),
    ("docs/design/", 20 * KB),
    ("", 20 * KB),
];

/// The bytes that all documents may have together.
const ALL: usize = 300 * KB;

/// The words that a sentence in nine of ten, and every cell of a table, may have.
const WORDS: usize = 30;

/// Words of how something came to be. A document says what is.
const PAST: [&str; 7] =
    ["audit", "audits", "the brief", "the last time", "what was found", "was measured to be", "in earlier versions"];

/// Cells of tables that compare what was with what is.
const PAST_CELLS: [&str; 3] = ["before", "now", "has found"];

/// The sentences and the cells of a document. Code between backticks is one word.
#[derive(Default)]
struct Prose {
    sentences: Vec<String>,
    cells: Vec<String>,
}

impl Prose {
    fn read(text: &str) -> Self {
        let (mut prose, mut said, mut is_code) = (Prose::default(), String::new(), false);
        for event in Parser::new_ext(text, Options::ENABLE_TABLES) {
            match event {
                Event::Start(Tag::CodeBlock(_)) => is_code = true,
                Event::End(TagEnd::CodeBlock) => is_code = false,
                Event::Text(text) if !is_code => said.push_str(&text),
                Event::Code(code) => said.push_str(&code.replace(char::is_whitespace, "_")),
                Event::SoftBreak | Event::HardBreak => said.push(' '),
                Event::End(TagEnd::TableCell) => prose.cells.push(std::mem::take(&mut said)),
                Event::End(TagEnd::Heading(_)) => said.clear(),
                // An item's text ends where it ends, or where a list in it begins.
                Event::End(TagEnd::Paragraph | TagEnd::Item) | Event::Start(Tag::List(_)) => {
                    prose.sentences.extend(sentences(&said));
                    said.clear();
                }
                _ => {}
            }
        }
        prose
    }

    /// Returns the sentences that are too long, if they are more than one in ten.
    fn long_sentences(&self) -> Vec<&str> {
        let long: Vec<_> = self.sentences.iter().map(String::as_str).filter(|said| words(said) > WORDS).collect();
        if long.len() * 10 > self.sentences.len() { long } else { vec![] }
    }

    fn long_cells(&self) -> impl Iterator<Item = &str> {
        self.cells.iter().map(String::as_str).filter(|cell| words(cell) > WORDS)
    }

    fn of_the_past(&self) -> Vec<&'static str> {
        let all = self.sentences.iter().chain(&self.cells);
        let all = all.map(|said| format!(" {} ", plain(said))).collect::<String>();
        let said = PAST.into_iter().filter(|past| all.contains(&format!(" {past} ")));
        said.chain(PAST_CELLS.into_iter().filter(|past| self.cells.iter().any(|cell| plain(cell) == *past))).collect()
    }
}

fn words(text: &str) -> usize {
    text.split_whitespace().filter(|word| word.contains(char::is_alphanumeric)).count()
}

/// Returns a text in small letters, without signs.
fn plain(text: &str) -> String {
    let is_kept = |c: char| c.is_alphanumeric() || c == '\'';
    let words = text.split(|c: char| !is_kept(c)).filter(|word| !word.is_empty());
    words.map(str::to_lowercase).collect::<Vec<_>>().join(" ")
}

/// Returns the sentences of a paragraph: each ends with its sign, before a word that does not begin
/// with a small letter.
fn sentences(paragraph: &str) -> Vec<String> {
    let mut found = vec![String::new()];
    let mut is_over = false;
    for word in paragraph.split_whitespace() {
        let begins = !word.trim_start_matches(['(', '"']).starts_with(char::is_lowercase);
        if is_over && begins {
            found.push(String::new());
        }
        let last = found.last_mut().expect("there is one");
        if !last.is_empty() {
            last.push(' ');
        }
        last.push_str(word);
        is_over = word.trim_end_matches([')', '"']).ends_with(['.', '?', '!']);
    }
    found.retain(|sentence| !sentence.is_empty());
    found
}

/// Returns the bytes that a document may have.
fn budget(path: &str) -> usize {
    BUDGETS.iter().find(|(beginning, _)| path.starts_with(beginning)).expect("the last one is every path's").1
}

#[test]
fn documents_are_as_long_as_somebody_reads() {
    let (mut wrong, mut all) = (Vec::new(), 0);
    for path in files("md") {
        let (text, path) = (fs::read_to_string(root().join(&path)).expect("it is text"), path.display().to_string());
        // (Each crate's own is the first page of its documentation, which the sum does not count.)
        if !(path.starts_with("crates/") && path.ends_with("/README.md")) {
            all += text.len();
        }
        if text.len() > budget(&path) {
            wrong.push(format!("{path}: {} bytes, of {}", text.len(), budget(&path)));
        }
        let prose = Prose::read(&text);
        let count = prose.sentences.len();
        let long = prose.long_sentences();
        wrong.extend(long.iter().map(|said| format!("{path}: of {count} sentences {} are long: {said}", long.len())));
        wrong.extend(prose.long_cells().map(|cell| format!("{path}: a long cell: {cell}")));
        wrong.extend(prose.of_the_past().iter().map(|past| format!("{path}: speaks of the past: {past}")));
    }
    assert!(wrong.is_empty(), "a sentence has {WORDS} words, and so has a cell: {wrong:#?}");
    assert!(all <= ALL, "all documents have {all} bytes, of {ALL}: shorten one");
}

#[test]
fn long_documents_are_noticed() {
    let long = "word ".repeat(31);
    let text = format!("# {long}\n\n- A `{long}` b. C?\n- {long}\n\n```sh\n{long}\n```\n\n| a | {long} |\n|---|---|\n");
    let prose = Prose::read(&text);
    assert_eq!(prose.sentences.len(), 3);
    assert_eq!((prose.long_sentences(), prose.long_cells().count()), (vec![long.trim()], 1));
    assert_eq!(Prose::read(&format!("{long}. {}", "It is. ".repeat(9))).long_sentences().len(), 0);
    assert_eq!(
        sentences("It is 1.5 (or e.g. two). \"Yes.\" `no` is."),
        ["It is 1.5 (or e.g. two).", "\"Yes.\"", "`no` is."]
    );
    assert_eq!(Prose::read("So said\nthe *brief*: (an audit)\n").of_the_past(), ["audit", "the brief"]);
    assert_eq!(Prose::read("| a | Now |\n|---|---|\n| b | 2 |\n").of_the_past(), ["now"]);
    assert_eq!(Prose::read("Auditors are brief now.\n").of_the_past(), [""; 0]);
    assert_eq!((budget("docs/design/a.md"), budget("docs/a.md")), (20 * KB, 20 * KB));
}
