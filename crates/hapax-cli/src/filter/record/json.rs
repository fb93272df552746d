//! The value at a pointer of a JSON document, without building the document.

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;

/// A JSON pointer (RFC 6901), split into its tokens.
#[derive(Clone, Debug, PartialEq)]
pub struct Pointer {
    text: String,
    tokens: Vec<String>,
}

impl Pointer {
    /// Parses a pointer that is empty or begins with a slash.
    pub fn new(text: &str) -> Self {
        let tokens = text.split('/').skip(1).map(|token| token.replace("~1", "/").replace("~0", "~"));
        Pointer { text: text.to_string(), tokens: tokens.collect() }
    }

    /// Returns the text of the string, number or boolean there; none if there is null or no value.
    /// Numbers are as they are written, so that none loses digits.
    pub fn find<'a>(&self, line: &'a [u8]) -> Result<Option<Cow<'a, [u8]>>, String> {
        Ok(self.plain(line)?.map(|plain| match plain {
            Plain::String { text, .. } => text,
            Plain::Other(text) => Cow::Borrowed(text),
        }))
    }

    /// Returns the same text as an id. A string is never the id of a number or of a boolean: one
    /// that might be their text has a mark before it.
    pub fn find_id<'a>(&self, line: &'a [u8]) -> Result<Option<Cow<'a, [u8]>>, String> {
        Ok(self.plain(line)?.map(|plain| match plain {
            Plain::String { text, .. } if !is_marked(&text) => text,
            // The quote that it begins with is its mark.
            Plain::String { written, text: Cow::Borrowed(text) } => Cow::Borrowed(&written[..=text.len()]),
            Plain::String { text, .. } => Cow::Owned([&[MARK], &*text].concat()),
            Plain::Other(text) => Cow::Borrowed(text),
        }))
    }

    /// Describes what there is instead of a string, number or boolean, unless it is one.
    pub fn describe_missing(&self, line: &[u8]) -> String {
        let text = &self.text;
        match (self.value(line).ok().flatten().map(RawValue::get), self.find(line)) {
            (_, Ok(Some(found))) if !found.trim_ascii().is_empty() => String::new(),
            (Some("null"), _) => format!(": the value at `{text}` is null"),
            (Some(_), _) => format!(": the value at `{text}` is blank"),
            _ if text.contains(",/") => {
                format!(": there is no value at `{text}` (for several, give --json several times)")
            }
            _ => format!(": there is no value at `{text}`"),
        }
    }

    #[inline]
    fn value<'a>(&self, line: &'a [u8]) -> Result<Option<&'a RawValue>, String> {
        walk(line, &self.tokens).or_else(|error| self.step_by_step(line).map_err(|_| describe(error)))
    }

    /// Returns the string, number or boolean there; none if there is null or no value.
    fn plain<'a>(&self, line: &'a [u8]) -> Result<Option<Plain<'a>>, String> {
        let Some(value) = self.value(line)?.map(RawValue::get) else { return Ok(None) };
        let written = value.as_bytes();
        match written[0] {
            b'n' => Ok(None),
            b'"' => {
                let text: Text = serde_json::from_str(value).map_err(describe)?;
                Ok(Some(Plain::String { written, text: text.0 }))
            }
            b'{' | b'[' => {
                let what = if written[0] == b'{' { "an object" } else { "an array" };
                Err(format!("the value at `{}` is {what}, and not a string, number or boolean", self.text))
            }
            _ => Ok(Some(Plain::Other(written))),
        }
    }

    /// Walks down one level at a time, which never decodes a string that is not on the pointer's
    /// path: elsewhere a string may be invalid Unicode.
    fn step_by_step<'a>(&self, line: &'a [u8]) -> serde_json::Result<Option<&'a RawValue>> {
        let mut value: &RawValue = serde_json::from_slice(line)?;
        for token in self.tokens.chunks(1) {
            if !value.get().starts_with(['{', '[']) {
                return Ok(None);
            }
            match walk(value.get().as_bytes(), token)? {
                Some(found) => value = found,
                None => return Ok(None),
            }
        }
        Ok(Some(value))
    }
}

/// A string, as it is written and as text; or a number or boolean as it is written.
enum Plain<'a> {
    String { written: &'a [u8], text: Cow<'a, [u8]> },
    Other(&'a [u8]),
}

/// The byte before an id that is a string and might be taken for a number or a boolean. No other id
/// begins with it.
const MARK: u8 = b'"';

/// Returns true if a string might be the text of a number or of a boolean, or of a marked id.
fn is_marked(text: &[u8]) -> bool {
    let is_of_numbers = |byte: &u8| matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E');
    match text {
        [MARK, ..] => true,
        [b'0'..=b'9' | b'-', rest @ ..] => rest.iter().all(is_of_numbers),
        // Whatever their case, which may not count.
        _ => text.eq_ignore_ascii_case(b"true") || text.eq_ignore_ascii_case(b"false"),
    }
}

/// Returns the text of an id, as it is in the document.
pub fn shown(id: &[u8]) -> &[u8] {
    id.strip_prefix(&[MARK]).unwrap_or(id)
}

/// Returns the value at these tokens of a document, all of which must be JSON.
fn walk<'a>(line: &'a [u8], tokens: &[String]) -> serde_json::Result<Option<&'a RawValue>> {
    let mut document = serde_json::Deserializer::from_slice(line);
    let found = At(tokens).deserialize(&mut document)?;
    document.end()?;
    Ok(found)
}

/// A string, borrowed if nothing in it is escaped. JSON's strings consist of 16-bit units, and half
/// of a surrogate pair need not have its other half: such a half is encoded as in WTF-8.
struct Text<'a>(Cow<'a, [u8]>);

impl<'a> serde::Deserialize<'a> for Text<'a> {
    fn deserialize<D: Deserializer<'a>>(deserializer: D) -> Result<Self, D::Error> {
        struct Borrow;
        impl<'a> Visitor<'a> for Borrow {
            type Value = Text<'a>;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_borrowed_bytes<E: Error>(self, text: &'a [u8]) -> Result<Text<'a>, E> {
                Ok(Text(Cow::Borrowed(text)))
            }

            fn visit_bytes<E: Error>(self, text: &[u8]) -> Result<Text<'a>, E> {
                Ok(Text(Cow::Owned(text.to_vec())))
            }
        }
        deserializer.deserialize_bytes(Borrow)
    }
}

/// Walks down to the value at the rest of a pointer.
struct At<'p>(&'p [String]);

impl<'de> DeserializeSeed<'de> for At<'_> {
    type Value = Option<&'de RawValue>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        match self.0 {
            [] => <&RawValue as serde::Deserialize>::deserialize(deserializer).map(Some),
            _ => deserializer.deserialize_any(self),
        }
    }
}

/// Visits plain values, in which a pointer leads nowhere.
macro_rules! nowhere {
    ($($visit:ident: $value:ty),*) => {
        $(fn $visit<E: Error>(self, _: $value) -> Result<Self::Value, E> {
            Ok(None)
        })*
    };
}

impl<'de> Visitor<'de> for At<'_> {
    type Value = Option<&'de RawValue>;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut found = None;
        while let Some(key) = map.next_key::<Text>()? {
            // The last one of equal keys counts, as in most readers.
            if *key.0 == *self.0[0].as_bytes() {
                found = map.next_value_seed(At(&self.0[1..]))?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(found)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        // RFC 6901: no sign, no leading zeros.
        let index = Some(&self.0[0]).filter(|token| *token == "0" || !token.starts_with(['0', '+']));
        let index = index.and_then(|token| token.parse::<usize>().ok());
        let mut found = None;
        for i in 0.. {
            let more = if index == Some(i) {
                seq.next_element_seed(At(&self.0[1..]))?.map(|value| found = value)
            } else {
                seq.next_element::<IgnoredAny>()?.map(drop)
            };
            if more.is_none() {
                break;
            }
        }
        Ok(found)
    }

    nowhere!(visit_bool: bool, visit_i64: i64, visit_u64: u64, visit_f64: f64, visit_str: &str);

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok(None)
    }
}

/// Describes an error without its line number: a document is one line here, and the caller knows
/// which one of its file.
fn describe(error: serde_json::Error) -> String {
    format!("it is no JSON: {}", error.to_string().replace(" at line 1 column ", " at column "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(pointer: &str, line: &str) -> Result<Option<String>, String> {
        let text = |value: Cow<[u8]>| String::from_utf8(value.into_owned()).unwrap();
        Pointer::new(pointer).find(line.as_bytes()).map(|found| found.map(text))
    }

    #[test]
    fn values_are_found_and_kept_as_they_are_written() {
        let line = r#" {"a": {"b": [10, "x\"y\u00e9", true, null, 12345678901234567890123, 1.0]}, "c/d~e": "f", "": 7, "a2": {}} "#;
        for (pointer, value) in [
            ("/a/b/0", "10"),
            ("/a/b/1", "x\"yé"),
            ("/a/b/2", "true"),
            ("/a/b/4", "12345678901234567890123"),
            ("/a/b/5", "1.0"),
            ("/c~1d~0e", "f"),
            ("/", "7"),
        ] {
            assert_eq!(find(pointer, line).unwrap().as_deref(), Some(value), "{pointer}");
        }
        for nothing in ["/a/b/3", "/a/b/6", "/a/b/00", "/a/b/+1", "/a/b/-", "/a/b/0/x", "/a/b/1/x", "/x", "/a/x/y"] {
            assert_eq!(find(nothing, line), Ok(None), "{nothing}");
        }
        assert!(find("/a", line).unwrap_err().contains("object"));
        assert!(find("/a/b", line).unwrap_err().contains("array"));
        assert_eq!(find("", "\"whole\""), Ok(Some("whole".to_string())));
        assert_eq!(find("/a", r#"{"a": 1, "a": 2}"#), Ok(Some("2".to_string())));
        assert_eq!(find("/a", "5"), Ok(None));
    }

    #[test]
    fn ids_of_different_types_are_different() {
        let id = |value: &str| Pointer::new("").find_id(value.as_bytes()).unwrap().map(Cow::into_owned);
        assert_eq!(shown(&id("\"TRUE\"").unwrap()), b"TRUE");
        assert_ne!(id("\"TRUE\"").unwrap(), b"TRUE");
        let values = ["1", "-1", "0.5e+7", "1E9", "12345678901234567890123", "true", "false"];
        for value in values {
            let string = format!("\"{value}\"");
            let (plain, string) = (id(value).unwrap(), id(&string).unwrap());
            assert_ne!(plain, string);
            assert_eq!([&plain[..], shown(&plain), shown(&string)], [value.as_bytes(); 3]);
        }
        // Strings that are no such text are ids as they are.
        for text in ["", "a", "tru", "truer", "e", "+1", ".5", "1 ", "3f2e", "1\u{ff}"] {
            assert_eq!(id(&format!("\"{text}\"")).unwrap(), text.as_bytes());
        }
        // A mark that a string has itself is none, and how a string is written does not count.
        let quoted = id(r#""\"1""#).unwrap();
        assert_eq!(shown(&quoted), b"\"1");
        assert_ne!(Some(quoted), id("\"1\""));
        assert_eq!(id(r#""\u0031""#), id("\"1\""));
        assert_eq!(id("null"), None);
    }

    #[test]
    fn half_a_surrogate_pair_is_json() {
        let bytes =
            |pointer, line: &str| Pointer::new(pointer).find(line.as_bytes()).map(|found| found.map(Cow::into_owned));
        assert_eq!(bytes("/a", r#"{"a": "\ud800"}"#), Ok(Some(b"\xed\xa0\x80".to_vec())));
        assert_eq!(bytes("/a", r#"{"\udc00": 1, "a": "x\udfffy"}"#), Ok(Some(b"x\xed\xbf\xbfy".to_vec())));
        assert_eq!(bytes("/a", r#"{"a": "\ud83d\ude00"}"#), Ok(Some("\u{1f600}".as_bytes().to_vec())));
        assert_eq!(bytes("/a/b", r#"{"a": "\ud800"}"#), Ok(None));
        assert_eq!(bytes("/a/b", r#"{"a": {"b": "\ud800", "c": "\ud801"}}"#), Ok(Some(b"\xed\xa0\x80".to_vec())));
        assert_eq!(bytes("/a", r#""\ud800""#), Ok(None));
        assert!(bytes("/a/b", r#"{"a": "\ud800"} x"#).is_err());
    }

    #[test]
    fn what_is_no_json_is_refused() {
        for line in ["", "{", "{\"a\": 1", "{\"a\": 1} x", "{\"a\": 1, \"b\": }", "nonsense", "{\"a\": \"\u{1}\"}"] {
            assert!(find("/a", line).is_err(), "{line}");
        }
        assert!(Pointer::new("/a").find(b"{\"a\": \"\xff\"}").is_err());
        // Outside the value, text is skipped and not decoded.
        assert_eq!(Pointer::new("/a").find(b"{\"b\": \"\xff\", \"a\": 1}").unwrap().as_deref(), Some(&b"1"[..]));
    }
}
