//! Code in documents that names its source is there as it is shown.

use super::{files, root};
use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};
use std::fs;

/// Code in a document: its language, the path that the line before it names, and its text.
struct Snippet {
    tag: String,
    source: Option<String>,
    code: String,
}

/// Returns the path in `<!-- source: PATH -->`.
fn source(html: &str) -> Option<&str> {
    html.trim().strip_prefix("<!-- source: ")?.strip_suffix(" -->")
}

fn snippets(text: &str) -> Vec<Snippet> {
    let (mut found, mut named, mut is_code) = (Vec::<Snippet>::new(), None, false);
    for event in Parser::new_ext(text, Options::ENABLE_TABLES) {
        match event {
            Event::Html(html) => named = source(&html).map(str::to_owned),
            Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(tag))) => {
                is_code = true;
                found.push(Snippet { tag: tag.into_string(), source: named.take(), code: String::new() });
            }
            Event::End(TagEnd::CodeBlock) => is_code = false,
            Event::Text(code) if is_code => found.last_mut().expect("it has begun").code.push_str(&code),
            Event::Start(Tag::HtmlBlock) | Event::End(TagEnd::HtmlBlock) => {}
            _ => named = None,
        }
    }
    found
}

/// Returns the first part of a snippet that its source lacks: whole lines. Between its parts stands
/// a line that says that something is left out.
fn lacks<'s>(source: &str, snippet: &'s str) -> Option<&'s str> {
    let source = format!("\n{source}");
    snippet.split("\n// …\n").map(|part| part.trim_end_matches('\n')).find(|part| {
        let is_there = source.match_indices(&format!("\n{part}")).any(|(at, there)| {
            let after = source[at + there.len()..].chars().next();
            after.is_none_or(|next| next == '\n')
        });
        part.trim().is_empty() || !is_there
    })
}

#[test]
fn code_that_names_its_source_is_there() {
    let mut count = 0;
    for path in files("md") {
        for snippet in snippets(&fs::read_to_string(root().join(&path)).expect("it is text")) {
            let place = format!("{}:\n{}", path.display(), snippet.code);
            let Some(source) = snippet.source else {
                let is_tested_elsewhere = !snippet.tag.contains("ignore") && snippet.tag != "ts";
                assert!(is_tested_elsewhere || !path.ends_with("patterns.md"), "no source of {place}");
                continue;
            };
            count += 1;
            let text = fs::read_to_string(root().join(&source)).unwrap_or_else(|error| panic!("{source}: {error}"));
            let lacking = lacks(&text, &snippet.code);
            assert!(lacking.is_none(), "{source} has no\n{}\nwhich is in {place}", lacking.unwrap_or_default());
        }
    }
    assert!(count > 0, "there are snippets: {count}");
}

#[test]
fn code_that_is_not_there_is_noticed() {
    let found = snippets("a\n\n<!-- source: b.rs -->\n```rust,ignore\nc();\n```\n\n```ts\nd\n```\n");
    let found: Vec<_> =
        found.iter().map(|snippet| (&*snippet.tag, snippet.source.as_deref(), &*snippet.code)).collect();
    assert_eq!(found, [("rust,ignore", Some("b.rs"), "c();\n"), ("ts", None, "d\n")]);
    let source = "fn a() {\n    b();\n    c();\n    d();\n}\n";
    assert_eq!(lacks(source, "    b();\n// …\n    d();\n}\n"), None);
    assert_eq!(lacks(source, "    b();\n    d();\n"), Some("    b();\n    d();"));
    assert_eq!(lacks(source, "    b()\n"), Some("    b()"));
    assert_eq!(lacks(source, "b();\n"), Some("b();"));
    assert_eq!(lacks(source, "\n// …\n    b();\n"), Some(""));
}
