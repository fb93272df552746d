//! Keys and other ids as text, and back: exactly, so that what is printed finds the id again.
//!
//! | bytes | text |
//! |---|---|
//! | UTF-8 without a zero byte | itself; `\` and what cannot be printed as escapes, as in Rust |
//! | such text that would read as something else | the same in `"` |
//! | all others | `0x`, and two digits a byte |

use super::{BYTES, INT, Key, NULL};
use crate::Error;
use std::fmt::{self, Display, Write};
use std::str::FromStr;

/// The reason why a text is that of no key.
#[derive(Clone)]
struct Unread {
    at: usize,
    what: &'static str,
}

impl From<Unread> for Error {
    fn from(Unread { at, what }: Unread) -> Self {
        Error::KeyText { at, what }
    }
}

/// The beginning of bytes in hexadecimal digits.
const HEX: &str = "0x";
/// The beginning of the text of a digest, in stores, that is kept instead of a long id.
const DIGEST: &str = "sha384:";

/// Prints the parts, with `/` in between: `orders/3/9017`.
///
/// Integers and `null` are printed as they are, and text that looks like one of them in quotes:
/// `"17"`, `"null"`. So is text that is empty, or contains a `/`. Bytes that are no text are
/// printed as hexadecimal digits after `0x`. What cannot be printed in a line is escaped as in
/// Rust.
impl Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mut rest, mut is_first) = (self.0.as_slice(), true);
        while let Some((part, after)) = split_first(rest) {
            if !std::mem::take(&mut is_first) {
                f.write_char('/')?;
            }
            match part {
                Part::Null => f.write_str("null")?,
                Part::Int(int) => write!(f, "{int}")?,
                Part::Bytes(bytes) => write_bytes(f, bytes, |text| text == "null" || integer(text).is_some())?,
            }
            rest = after;
        }
        Ok(())
    }
}

/// Reads what [`Display`] prints: `key.to_string().parse()` is the key.
///
/// ```
/// use hapax::Key;
///
/// let error = "orders//17".parse::<Key>().unwrap_err();
/// assert_eq!(error.to_string(), r#"byte 7: expected a part, got none (an empty text is written "")"#);
/// ```
impl FromStr for Key {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let mut key = Key::new();
        let mut at = 0;
        while !text.is_empty() {
            let end = end_of_part(text, at)?;
            match &text[at..end] {
                "null" => key.null(),
                part => match integer(part) {
                    Some(int) => key.int(int),
                    None => key.bytes(bytes_of(part, at)?),
                },
            };
            if end == text.len() {
                break;
            }
            at = end + 1;
        }
        Ok(key)
    }
}

impl Key {
    /// Returns the text of an id, whatever it is: that of a key's parts, or that of other bytes.
    /// [`id_of`](Key::id_of) reads it back, exactly.
    ///
    /// ```
    /// use hapax::Key;
    ///
    /// let mut key = Key::new();
    /// assert_eq!(Key::describe(key.text("orders").int(3).int(9017)), "orders/3/9017");
    /// assert_eq!(Key::describe("order-17"), "order-17");
    /// assert_eq!(Key::describe("orders/17"), r#""orders/17""#); // text with a slash, and no key
    /// assert_eq!(Key::describe([0, 255]), "0x00ff");
    /// ```
    ///
    /// A key of one part ends with a `/`, to tell it from plain text. No text has a line break or
    /// another control character, so it is safe in a line of a log; but an id may be personal data.
    pub fn describe(id: impl AsRef<[u8]>) -> String {
        let id = id.as_ref();
        let mut text = String::new();
        // To write to a string never fails.
        let _ = match Key::from_bytes(id).filter(|key| !key.0.is_empty()) {
            Some(key) => write!(text, "{key}").and_then(|()| match split_first(id) {
                Some((_, [])) => text.write_char('/'),
                _ => Ok(()),
            }),
            None => write_bytes(&mut text, id, |_| false),
        };
        text
    }

    /// Returns the id that a text [describes](Key::describe).
    ///
    /// ```
    /// use hapax::Key;
    ///
    /// assert_eq!(Key::id_of("order-17")?, b"order-17");
    /// assert_eq!(Key::id_of("orders/3")?, Key::new().text("orders").int(3).as_ref());
    /// # Ok::<(), hapax::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::KeyText`] says where the text is that of no id, and what was expected there.
    pub fn id_of(text: &str) -> Result<Vec<u8>, Error> {
        let end = end_of_part(text, 0)?;
        if end == text.len() {
            return Ok(bytes_of(text, 0)?);
        }
        let key: Key = if end + 1 == text.len() { text[..end].parse()? } else { text.parse()? };
        Ok(key.0)
    }

    /// Returns the key that is encoded as these bytes, or `None` if no key is.
    ///
    /// ```
    /// use hapax::Key;
    ///
    /// let key = Key::new().text("orders").int(17).clone();
    /// assert_eq!(Key::from_bytes(key.as_ref()), Some(key));
    /// assert_eq!(Key::from_bytes(b"order-17"), None);
    /// ```
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let mut rest = bytes;
        while !rest.is_empty() {
            (_, rest) = split_first(rest)?;
        }
        Some(Key(bytes.to_vec()))
    }
}

/// A part of a key.
enum Part<'k> {
    Null,
    Bytes(&'k [u8]),
    Int(i128),
}

/// Writes bytes as text, in quotes if it would read as something else.
fn write_bytes(f: &mut impl Write, bytes: &[u8], is_another: impl FnOnce(&str) -> bool) -> fmt::Result {
    let text = match std::str::from_utf8(bytes) {
        Ok(text) if !bytes.contains(&0) => text,
        _ => {
            f.write_str(HEX)?;
            return bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"));
        }
    };
    let begins_like_another = ["\"", HEX, DIGEST].iter().any(|start| text.starts_with(start));
    let is_cut = text.trim() != text || text.contains('/') || text.is_empty();
    let is_quoted = begins_like_another || is_cut || is_another(text);
    if is_quoted {
        f.write_char('"')?;
    }
    for c in text.chars() {
        match c {
            '"' if is_quoted => f.write_str("\\\"")?,
            '"' | '\'' => f.write_char(c)?,
            _ => write!(f, "{}", c.escape_debug())?,
        }
    }
    if is_quoted { f.write_char('"') } else { Ok(()) }
}

/// Returns the integer that a text is, if it is written in the one way in which integers are.
fn integer(text: &str) -> Option<i128> {
    text.parse().ok().filter(|int: &i128| int.to_string() == text)
}

/// Returns the end of the part that begins here: that of the text, or the place of a `/`.
fn end_of_part(text: &str, at: usize) -> Result<usize, Unread> {
    let rest = &text[at..];
    let Some(quoted) = rest.strip_prefix('"') else {
        let end = rest.find('/').unwrap_or(rest.len());
        return match end {
            0 => Err(Unread { at, what: "expected a part, got none (an empty text is written \"\")" }),
            end => Ok(at + end),
        };
    };
    let mut is_escaped = false;
    let close = quoted.find(|c| match c {
        _ if std::mem::take(&mut is_escaped) => false,
        '\\' => {
            is_escaped = true;
            false
        }
        c => c == '"',
    });
    let close = close.ok_or(Unread { at, what: "expected a second \" after this one, got none" })?;
    let end = at + close + 2;
    match text[end..].chars().next() {
        None | Some('/') => Ok(end),
        Some(_) => Err(Unread { at: end, what: "expected / or the end after \"" }),
    }
}

/// Returns the bytes that one part's text stands for. It begins at this place of the whole.
fn bytes_of(part: &str, at: usize) -> Result<Vec<u8>, Unread> {
    if let Some(digits) = part.strip_prefix(HEX) {
        return hex(digits).ok_or(Unread {
            at,
            what: "expected pairs of hexadecimal digits after 0x (a text that begins so is written in \")",
        });
    }
    if part.starts_with(DIGEST) {
        return Err(Unread { at, what: "expected an id, got the digest of one (a text is written in \")" });
    }
    match part.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
        Some(quoted) => unescaped(quoted, at + 1),
        None => unescaped(part, at),
    }
}

fn hex(digits: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let (pairs, []) = digits.as_bytes().as_chunks::<2>() else { return None };
    let bytes = pairs.iter().map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?));
    bytes.collect::<Option<Vec<u8>>>().filter(|bytes| !bytes.is_empty())
}

fn unescaped(text: &str, at: usize) -> Result<Vec<u8>, Unread> {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let escape = Unread {
            at: at + text.len() - rest.len(),
            what: "expected \\\\, \\\", \\', \\n, \\r, \\t, \\0 or \\u{…} for a \\",
        };
        rest = &rest[c.len_utf8()..];
        if c != '\\' {
            plain.push(c);
            continue;
        }
        let kind = rest.chars().next().ok_or_else(|| escape.clone())?;
        rest = &rest[kind.len_utf8()..];
        plain.push(match kind {
            '\\' | '"' | '\'' => kind,
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            '0' => '\0',
            'u' => {
                let inner = rest.strip_prefix('{').and_then(|rest| rest.split_once('}'));
                let (digits, after) = inner.ok_or_else(|| escape.clone())?;
                rest = after;
                let number = u32::from_str_radix(digits, 16).ok();
                number.and_then(char::from_u32).ok_or(escape)?
            }
            _ => return Err(escape),
        });
    }
    Ok(plain.into_bytes())
}

/// Returns the first part of an encoded key, and the rest.
fn split_first(encoded: &[u8]) -> Option<(Part<'_>, &[u8])> {
    match encoded.split_first()? {
        (&NULL, rest) => Some((Part::Null, rest)),
        (&BYTES, rest) => {
            let (len, rest) = rest.split_first_chunk()?;
            let (bytes, rest) = rest.split_at_checked(usize::try_from(u64::from_le_bytes(*len)).ok()?)?;
            Some((Part::Bytes(bytes), rest))
        }
        (&INT, rest) => {
            let (int, rest) = rest.split_first_chunk()?;
            Some((Part::Int(i128::from_le_bytes(*int)), rest))
        }
        _ => None,
    }
}
