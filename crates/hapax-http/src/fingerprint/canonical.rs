//! JSON in a canonical form, which depends on its content and not on its notation.

use serde_json::value::RawValue;
use std::collections::BTreeMap;

/// The largest depth of objects and arrays that are canonicalised.
const MAX_DEPTH: usize = 100;

/// Returns the document with its members in the order of their names, without spaces, with strings
/// written in one way. Returns `None` if it is not JSON, or if an object has two members of one
/// name, which readers interpret differently.
///
/// Numbers stay as they are written: 1 and 1.0, or two that differ behind the sixteenth digit, are
/// different, so that no amount is ever taken for another.
pub(crate) fn canonical(document: &[u8]) -> Option<Vec<u8>> {
    // From here on the text is known to be valid.
    let document = serde_json::from_slice::<&RawValue>(document).ok()?.get();
    let mut out = Vec::with_capacity(document.len());
    let rest = value(document.trim_start(), &mut out, 0)?;
    debug_assert!(rest.trim().is_empty());
    Some(out)
}

/// Writes the value at the beginning of the text, and returns the rest of the text.
fn value<'t>(text: &'t str, out: &mut Vec<u8>, depth: usize) -> Option<&'t str> {
    match text.as_bytes().first()? {
        b'{' if depth < MAX_DEPTH => object(&text[1..], out, depth),
        b'[' if depth < MAX_DEPTH => array(&text[1..], out, depth),
        b'{' | b'[' => None,
        b'"' => {
            let (string, rest) = string(text)?;
            write_string(&string, out)?;
            Some(rest)
        }
        _ => {
            let end = text.find([',', ']', '}', ' ', '\t', '\n', '\r']).unwrap_or(text.len());
            out.extend_from_slice(&text.as_bytes()[..end]);
            Some(&text[end..])
        }
    }
}

fn object<'t>(text: &'t str, out: &mut Vec<u8>, depth: usize) -> Option<&'t str> {
    let mut members: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    let mut rest = text.trim_start();
    while !rest.starts_with('}') {
        let (name, after) = string(rest.strip_prefix(',').unwrap_or(rest).trim_start())?;
        let mut member = Vec::new();
        rest = value(after.trim_start().strip_prefix(':')?.trim_start(), &mut member, depth + 1)?.trim_start();
        if members.insert(name, member).is_some() {
            return None;
        }
    }
    out.push(b'{');
    for (i, (name, member)) in members.into_iter().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        write_string(&name, out)?;
        out.push(b':');
        out.extend_from_slice(&member);
    }
    out.push(b'}');
    rest.strip_prefix('}')
}

fn array<'t>(text: &'t str, out: &mut Vec<u8>, depth: usize) -> Option<&'t str> {
    out.push(b'[');
    let mut rest = text.trim_start();
    while !rest.starts_with(']') {
        if let Some(next) = rest.strip_prefix(',') {
            out.push(b',');
            rest = next.trim_start();
        }
        rest = value(rest, out, depth + 1)?.trim_start();
    }
    out.push(b']');
    rest.strip_prefix(']')
}

/// Returns the content of the string at the beginning of the text, and the rest of the text.
fn string(text: &str) -> Option<(String, &str)> {
    let mut escaped = false;
    let end = text.bytes().skip(1).position(|byte| {
        let is_end = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        is_end
    })?;
    let (string, rest) = text.split_at(end + 2);
    // Half a surrogate pair has no content.
    Some((serde_json::from_str(string).ok()?, rest))
}

fn write_string(string: &str, out: &mut Vec<u8>) -> Option<()> {
    serde_json::to_writer(out, string).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::Value;

    fn text(document: &str) -> Option<String> {
        canonical(document.as_bytes()).map(|bytes| String::from_utf8(bytes).unwrap())
    }

    #[test]
    fn order_and_spaces_and_escapes_do_not_matter() {
        let expected = r#"{"a":[1,2.50,{"x":null,"y":true}],"b":"é\"\n"}"#;
        for same in [
            r#"{"b":"é\"\n","a":[1,2.50,{"y":true,"x":null}]}"#,
            " { \"a\" : [ 1 ,\t2.50, {\"x\":null , \"y\": true } ] ,\r\n \"b\":\"\\u00e9\\u0022\\u000a\" } ",
        ] {
            assert_eq!(text(same).as_deref(), Some(expected), "{same}");
        }
        for (document, expected) in
            [("[]", "[]"), (" {} ", "{}"), ("0", "0"), ("\"[\"", "\"[\""), ("[[],{}]", "[[],{}]")]
        {
            assert_eq!(text(document).as_deref(), Some(expected));
        }
    }

    #[test]
    fn different_documents_stay_different() {
        let different = [
            "[1,2]",
            "[2,1]",
            "[12]",
            "[\"1\",2]",
            "1",
            "1.0",
            "10000000000000000000001",
            "10000000000000000000002",
            "{}",
            "[]",
            "null",
            "\"\"",
            "{\"a\":null}",
            "{\"a\":\"\"}",
            "{\"a\":{\"b\":1}}",
            "{\"a\":1,\"b\":1}",
        ];
        for (i, a) in different.iter().enumerate() {
            for b in &different[..i] {
                assert_ne!(text(a).unwrap(), text(b).unwrap());
            }
        }
    }

    #[test]
    fn what_is_no_json_or_ambiguous_has_no_canonical_form() {
        let deep = "[".repeat(MAX_DEPTH + 1) + &"]".repeat(MAX_DEPTH + 1);
        for wrong in
            ["", "{", "{\"a\":1,}", "1 2", "{\"a\":1,\"a\":1}", "{\"a\":1,\"\\u0061\":2}", "\"\\ud800\"", "nul", &deep]
        {
            assert_eq!(text(wrong), None, "{wrong}");
        }
        assert_eq!(canonical(b"\"\xff\""), None);
    }

    fn json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<String>().prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 40, 6, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                proptest::collection::btree_map(any::<String>(), inner, 0..6)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn it_says_the_same_however_it_was_written(document in json()) {
            let compact = serde_json::to_string(&document).unwrap();
            let pretty = serde_json::to_string_pretty(&document).unwrap();
            let canonical = text(&compact).unwrap();
            prop_assert_eq!(serde_json::from_str::<Value>(&canonical).unwrap(), document);
            prop_assert_eq!(text(&pretty), Some(canonical.clone()));
            prop_assert_eq!(text(&canonical), Some(canonical));
        }

        #[test]
        fn any_bytes_are_read_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = canonical(&bytes);
        }

        #[test]
        fn nearly_json_is_read_without_a_panic(text in "[\\[\\]{}:,\"\\\\u0a1 ]{0,40}") {
            let _ = canonical(text.as_bytes());
        }
    }
}
