//! The figures that documents quote are those of the kept measurements.
//!
//! A passage between `<!-- measured: NAME -->` and `<!-- /measured -->` is made here, of what
//! `scripts/figures` has left in docs/comparison. A test fails if a document says anything else;
//! with `HAPAX_FIGURES=write` it writes the passages instead, as the script does in the end.

mod kept;
mod mixes;
mod passages;
mod tables;
mod words;

use std::path::{Path, PathBuf};

/// The documents with measured passages.
const DOCUMENTS: [&str; 4] = ["README.md", "docs/comparison/README.md", "docs/filter.md", "benches/README.md"];

const BEGIN: &str = "<!-- measured: ";
const END: &str = "<!-- /measured -->";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns a document with its passages made anew, and the names of these.
fn made_anew(document: &str, passage: impl Fn(&str) -> Option<String>) -> Result<(String, Vec<String>), String> {
    let (mut made, mut names, mut rest) = (String::new(), Vec::new(), document);
    while let Some((before, after)) = rest.split_once(BEGIN) {
        let (name, after) = after.split_once(" -->").ok_or("a passage that has no name")?;
        let (_, after) = after.split_once(END).ok_or_else(|| format!("the passage {name} has no end"))?;
        let text = passage(name).ok_or_else(|| format!("there is no passage {name}"))?;
        made += &format!("{before}{BEGIN}{name} -->\n{}\n{END}", text.trim());
        names.push(name.to_string());
        rest = after;
    }
    Ok((made + rest, names))
}

/// Returns the lines of the one that the other lacks.
fn lacking<'t>(of: &'t str, other: &str) -> Vec<&'t str> {
    of.lines().filter(|line| !other.lines().any(|others| others == *line)).collect()
}

#[test]
fn documents_quote_what_was_measured() {
    let write = std::env::var("HAPAX_FIGURES").is_ok_and(|what| what == "write");
    let (mut used, mut wrong) = (Vec::new(), Vec::new());
    for path in DOCUMENTS {
        let document = std::fs::read_to_string(root().join(path)).unwrap();
        let (made, names) = made_anew(&document, passages::passage).unwrap_or_else(|error| panic!("{path}: {error}"));
        used.extend(names);
        if made != document && write {
            std::fs::write(root().join(path), &made).unwrap();
        } else if made != document {
            let (says, measured) = (lacking(&document, &made).join("\n"), lacking(&made, &document).join("\n"));
            wrong.push(format!("{path} says\n{says}\nand measured was\n{measured}"));
        }
    }
    assert!(wrong.is_empty(), "{}\n(HAPAX_FIGURES=write writes it)", wrong.join("\n\n"));
    used.sort_unstable();
    assert_eq!(used, passages::NAMES, "each passage is in one document");
}

#[test]
fn a_wrong_figure_is_noticed() {
    let passage = |name: &str| (name == "speed").then(|| "19 ns".to_string());
    let right = "Fast:\n\n<!-- measured: speed -->\n19 ns\n<!-- /measured -->\n\nindeed.\n";
    assert_eq!(made_anew(right, passage).unwrap(), (right.to_string(), vec!["speed".to_string()]));
    let wrong = right.replace("19 ns", "18 ns");
    let (made, _) = made_anew(&wrong, passage).unwrap();
    assert_eq!((made.as_str(), lacking(&wrong, &made)), (right, vec!["18 ns"]));
    assert!(made_anew(&right.replace("speed", "sped"), passage).unwrap_err().contains("no passage sped"));
    assert!(made_anew(&right.replace("/measured", ""), passage).unwrap_err().contains("no end"));
}
