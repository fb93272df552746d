//! The figures that documents quote are those of the kept measurements.
//!
//! A passage between `<!-- measured: NAME -->` and `<!-- /measured -->` is a table made here, of
//! what is kept in docs/comparison/figures.json, or the output of another benchmark. A test fails
//! if a document has another table. With `HAPAX_FIGURES=write` it keeps what `scripts/figures` has
//! left in target/figures, and writes the passages.

mod kept;
mod tables;

use self::kept::Kept;
use std::path::{Path, PathBuf};

/// The documents with measured passages.
const DOCUMENTS: [&str; 5] =
    ["README.md", "docs/comparison/README.md", "docs/comparison/files.md", "docs/filter.md", "benches/README.md"];

/// The outputs of other benchmarks, of which documents have the only copy.
const PRINTED: [&str; 7] = ["claims", "filter", "filter-all", "filter-spill", "journal", "odd-files", "scale"];

const BEGIN: &str = "<!-- measured: ";
const END: &str = "<!-- /measured -->";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns a document with its passages made anew, of their names and texts.
fn made_anew(document: &str, passage: impl Fn(&str, &str) -> Option<String>) -> Result<String, String> {
    let (mut made, mut rest) = (String::new(), document);
    while let Some((before, after)) = rest.split_once(BEGIN) {
        let (name, after) = after.split_once(" -->").ok_or("a passage that has no name")?;
        let (text, after) = after.split_once(END).ok_or_else(|| format!("the passage {name} has no end"))?;
        let text = passage(name, text).ok_or_else(|| format!("there is no passage {name}"))?;
        made += &format!("{before}{BEGIN}{name} -->\n{}\n{END}", text.trim());
        rest = after;
    }
    Ok(made + rest)
}

/// Returns the lines of the one that the other lacks.
fn lacking<'t>(of: &'t str, other: &str) -> Vec<&'t str> {
    of.lines().filter(|line| !other.lines().any(|others| others == *line)).collect()
}

#[test]
fn documents_quote_what_was_measured() {
    let measured = root().join("target/figures");
    let write = std::env::var("HAPAX_FIGURES").is_ok_and(|what| what == "write");
    let mut kept = Kept::read();
    if write {
        kept.renew(&measured);
    }
    let passage = |name: &str, text: &str| {
        if PRINTED.contains(&name) {
            let printed = write.then(|| std::fs::read_to_string(measured.join(name).with_extension("txt")).ok());
            Some(printed.flatten().map_or(text.into(), |new| match new.trim_end() {
                table if table.starts_with('|') => table.into(),
                lines => format!("```text\n{lines}\n```"),
            }))
        } else {
            tables::table(&kept, name)
        }
    };
    let mut wrong = Vec::new();
    for path in DOCUMENTS {
        let document = std::fs::read_to_string(root().join(path)).unwrap();
        let made = made_anew(&document, passage).unwrap_or_else(|error| panic!("{path}: {error}"));
        if made != document && write {
            std::fs::write(root().join(path), &made).unwrap();
        } else if made != document {
            let (says, measured) = (lacking(&document, &made).join("\n"), lacking(&made, &document).join("\n"));
            wrong.push(format!("{path} says\n{says}\nand measured was\n{measured}"));
        }
    }
    assert!(wrong.is_empty(), "{}\n(HAPAX_FIGURES=write writes it)", wrong.join("\n\n"));
    if write {
        kept.write();
    }
    assert_eq!(kept.unquoted(), Vec::<String>::new(), "what no document quotes is not kept");
}

#[test]
fn a_wrong_figure_is_noticed() {
    let passage = |name: &str, _: &str| (name == "speed").then(|| "19 ns".to_string());
    let right = "Fast:\n\n<!-- measured: speed -->\n19 ns\n<!-- /measured -->\n\nindeed.\n";
    assert_eq!(made_anew(right, passage).unwrap(), right);
    let wrong = right.replace("19 ns", "18 ns");
    let made = made_anew(&wrong, passage).unwrap();
    assert_eq!((made.as_str(), lacking(&wrong, &made)), (right, vec!["18 ns"]));
    assert!(made_anew(&right.replace("speed", "sped"), passage).unwrap_err().contains("no passage sped"));
    assert!(made_anew(&right.replace("/measured", ""), passage).unwrap_err().contains("no end"));
}
