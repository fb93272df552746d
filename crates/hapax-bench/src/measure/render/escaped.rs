//! Text for HTML and SVG.

use std::fmt::{self, Display, Write};

/// Text or an attribute's value that is escaped for HTML and XML.
pub struct Text<'t>(pub &'t str);

impl Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.chars() {
            match c {
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '&' => f.write_str("&amp;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                '\n' | '\t' => f.write_char(c)?,
                // XML has no way to write the first ones; the others reorder the text around them.
                c if c.is_control() => f.write_char('\u{fffd}')?,
                '\u{fffe}' | '\u{ffff}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
                    f.write_char('\u{fffd}')?;
                }
                c => f.write_char(c)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_ends_no_element_and_no_attribute() {
        assert_eq!(Text("<a b='\"'>&").to_string(), "&lt;a b=&#39;&quot;&#39;&gt;&amp;");
        assert_eq!(Text("a\u{0}b\u{202e}c").to_string(), "a\u{fffd}b\u{fffd}c");
    }
}
