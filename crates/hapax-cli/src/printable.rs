//! Text of which others have chosen parts (names, ids, errors), printed with nothing that a
//! terminal would obey, or show as something else.

use crate::error::CommandError;
use std::fmt::Display;
use std::io::Write;

/// Returns true if a character can be printed in a line, by the rule by which Rust escapes text.
pub fn is_printable(c: char) -> bool {
    // (After a letter: a mark that combines with it is printed.)
    c == ' ' || c.is_ascii_graphic() || format!("a{c}").escape_debug().count() == 2
}

/// Returns text of lines in which what cannot be printed is escaped as in Rust.
pub fn lines(text: &str) -> String {
    let mut lines = String::with_capacity(text.len());
    for c in text.chars() {
        if c == '\n' || is_printable(c) { lines.push(c) } else { lines.extend(c.escape_debug()) }
    }
    lines
}

/// Returns a text in one line.
#[cfg(any(feature = "store", test))]
pub fn line(text: &str) -> String {
    lines(text).replace('\n', "\\n")
}

/// Returns a line with a JSON value, in which the same is escaped, as JSON does it.
pub fn json_line(value: &serde_json::Value) -> String {
    use std::fmt::Write;

    let mut line = String::new();
    for c in value.to_string().chars() {
        if is_printable(c) {
            line.push(c);
            continue;
        }
        for unit in c.encode_utf16(&mut [0; 2]) {
            // To write to a string never fails.
            let _ = write!(line, "\\u{unit:04x}");
        }
    }
    line + "\n"
}

/// Prints a page of lines.
pub fn page(text: &str) -> Result<(), CommandError> {
    std::io::stdout().write_all(lines(text).as_bytes()).map_err(CommandError::output)
}

/// Says something on standard error, which perhaps nobody reads.
pub fn tell(text: impl Display) {
    let _ = writeln!(std::io::stderr(), "{}", lines(&text.to_string()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_is_printed_steers_a_terminal_or_looks_like_something_else() {
        assert_eq!(lines("order-17 € ka\u{308}se\n日本"), "order-17 € ka\u{308}se\n日本");
        assert_eq!(line("a\u{1b}[2Jb\n"), "a\\u{1b}[2Jb\\n");
        // Controls, directions and their ends, what has no width, line ends of Unicode, tags.
        for c in
            "\0\u{7}\u{8}\t\r\u{1b}\u{7f}\u{85}\u{9b}\u{61c}\u{200b}\u{200e}\u{200f}\u{2028}\u{2029}\u{202a}\u{202b}\
                  \u{202c}\u{202d}\u{202e}\u{2060}\u{2066}\u{2067}\u{2068}\u{2069}\u{feff}\u{fff9}\u{e0001}\u{e0020}"
                .chars()
        {
            let shown = lines(&format!("a{c}b"));
            assert!(shown.starts_with("a\\") && shown.ends_with('b') && shown.is_ascii(), "{c:?}: {shown:?}");
        }
    }
}
