//! Ids: byte strings, and what is none to begin with: integers, and keys made of several parts.

mod text;

use crate::digest::{Digest, Digester};

/// An id, as the calls of an engine take it: bytes in any form, an [`Int`], a [`Key`], or an id
/// that was [prepared](crate::Dedup::prepare).
///
/// ```
/// use hapax::{Dedup, Id, Int};
///
/// fn is_new(dedup: &Dedup, id: impl Id) -> bool {
///     dedup.check(id).is_fresh()
/// }
///
/// let dedup = Dedup::builder().build()?;
/// assert!(is_new(&dedup, "order-17") && is_new(&dedup, Int::from(17_u64)));
/// assert!(!is_new(&dedup, dedup.prepare(b"order-17")));
/// # Ok::<(), hapax::Error>(())
/// ```
pub trait Id {
    #[doc(hidden)]
    fn digest_by(&self, digester: &Digester) -> Digest;
}

impl<I: AsRef<[u8]> + ?Sized> Id for I {
    #[inline(always)]
    fn digest_by(&self, digester: &Digester) -> Digest {
        digester.digest(self)
    }
}

/// An integer as an id.
///
/// ```
/// use hapax::{Dedup, Int};
///
/// let dedup = Dedup::builder().build()?;
/// assert!(dedup.check(Int::from(17_u64)).is_fresh());
/// assert!(dedup.check(17_u64.to_le_bytes()).is_duplicate());
/// # Ok::<(), hapax::Error>(())
/// ```
///
/// The id is the integer's little-endian bytes, so integers of different widths are different ids.
/// Their length is known to the compiler, which is what makes them fast. A UUID is as fast: pass
/// its 16 bytes (`uuid.as_bytes()`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Int<const BYTES: usize>([u8; BYTES]);

impl<const BYTES: usize> AsRef<[u8]> for Int<BYTES> {
    #[inline(always)]
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

macro_rules! int_ids {
    ($($int:ty)*) => {$(
        impl From<$int> for Int<{ size_of::<$int>() }> {
            #[inline(always)]
            fn from(int: $int) -> Self {
                Int(int.to_le_bytes())
            }
        }
    )*};
}

int_ids!(u8 u16 u32 u64 u128 i8 i16 i32 i64 i128);

/// A key made of parts, such that different parts make different keys.
///
/// ```
/// use hapax::{Dedup, Key};
///
/// let dedup = Dedup::builder().build()?;
/// let mut key = Key::new();
/// assert!(dedup.check(key.text("orders").int(17)).is_fresh());
///
/// key.clear(); // keeps its memory: no allocation for the next key
/// assert!(dedup.check(key.text("orders").text("17")).is_fresh());
/// # Ok::<(), hapax::Error>(())
/// ```
///
/// Joining parts with a separator does not work: ("ab", "c") and ("a", "bc"), or a part that
/// contains the separator, become one key. Here every part carries its kind and its length: null
/// differs from an absent part and from an empty one, 123 from "123". Text and bytes of the same
/// content are the same part.
///
/// The encoding is stable: a byte for the kind (0 null, 1 bytes, 2 integer), then for bytes the
/// length as 8 little-endian bytes and the bytes, for an integer its value as 16 little-endian
/// bytes.
///
/// A key prints as text that a person can read, and that is read back exactly:
///
/// ```
/// use hapax::Key;
///
/// let key = Key::new().text("orders").int(3).text("17").clone();
/// assert_eq!(key.to_string(), r#"orders/3/"17""#);
/// assert_eq!(r#"orders/3/"17""#.parse::<Key>()?, key);
/// # Ok::<(), hapax::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Key(Vec<u8>);

/// The kinds of parts, in the encoding.
const NULL: u8 = 0;
const BYTES: u8 = 1;
const INT: u8 = 2;

impl Key {
    /// Returns a key without parts.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends bytes.
    pub fn bytes(&mut self, part: impl AsRef<[u8]>) -> &mut Self {
        let part = part.as_ref();
        self.0.push(BYTES);
        self.0.extend_from_slice(&(part.len() as u64).to_le_bytes());
        self.0.extend_from_slice(part);
        self
    }

    /// Appends text.
    pub fn text(&mut self, part: &str) -> &mut Self {
        self.bytes(part)
    }

    /// Appends an integer. Its width does not matter: 17 is 17. (An `i128` holds every integer but
    /// the largest `u128`s; append those as bytes.)
    pub fn int(&mut self, part: impl Into<i128>) -> &mut Self {
        self.0.push(INT);
        self.0.extend_from_slice(&part.into().to_le_bytes());
        self
    }

    /// Appends the absence of a value, which is not the same as appending nothing.
    pub fn null(&mut self) -> &mut Self {
        self.0.push(NULL);
        self
    }

    /// Removes all parts and keeps the memory.
    pub fn clear(&mut self) -> &mut Self {
        self.0.clear();
        self
    }
}

impl AsRef<[u8]> for Key {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

#[cfg(all(test, not(modelled)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Clone, Debug, PartialEq)]
    enum Part {
        Null,
        Bytes(Vec<u8>),
        Int(i128),
    }

    fn key_of(parts: &[Part]) -> Key {
        let mut key = Key::new();
        for part in parts {
            match part {
                Part::Null => key.null(),
                Part::Bytes(bytes) => key.bytes(bytes),
                Part::Int(int) => key.int(*int),
            };
        }
        key
    }

    fn parts() -> impl Strategy<Value = Vec<Part>> {
        // Few different bytes, so that parts run into each other's encodings.
        let bytes = proptest::collection::vec(0_u8..4, 0..12).prop_map(Part::Bytes);
        let int = (0_i128..4).prop_map(Part::Int);
        proptest::collection::vec(prop_oneof![Just(Part::Null), bytes, int], 0..4)
    }

    /// Parts as ids have them, and as a text could be mistaken.
    fn texts() -> impl Strategy<Value = Vec<Part>> {
        let looks_like =
            ["null", "17", "-3", "007", "", "0x", "0xff", "sha384:", "\"", "\"\"", "a/b", "\\", " a", "\n"];
        let text = prop_oneof![
            proptest::sample::select(looks_like.to_vec()).prop_map(str::to_owned),
            "[a\"'/\\\\{}ux0 \n\u{202e}\u{301}ß-]{0,6}",
            any::<String>(),
        ];
        let bytes = prop_oneof![
            text.prop_map(String::into_bytes),
            proptest::collection::vec(any::<u8>(), 0..6),
            proptest::collection::vec(0_u8..3, 0..3)
        ];
        let int = prop_oneof![any::<i128>(), -3..4_i128].prop_map(Part::Int);
        proptest::collection::vec(prop_oneof![Just(Part::Null), bytes.prop_map(Part::Bytes), int], 0..4)
    }

    proptest! {
        #[test]
        fn what_is_printed_is_read_back(parts in texts()) {
            let key = key_of(&parts);
            let text = key.to_string();
            prop_assert_eq!(text.parse().ok(), Some(key.clone()), "{}", text);
            prop_assert!(!text.contains(char::is_control), "{:?}", text);
        }

        /// Any id, also one that is no key, and one that looks like the text of another one.
        #[test]
        fn what_describes_an_id_is_read_back(parts in texts(), id in proptest::collection::vec(any::<u8>(), 0..12)) {
            let first = parts.iter().find_map(|part| match part {
                Part::Bytes(bytes) => Some(bytes.clone()),
                _ => None,
            });
            let key = key_of(&parts);
            let text = Key::describe(&key);
            for id in [id, first.unwrap_or_default(), key.0, text.into_bytes()] {
                let text = Key::describe(&id);
                prop_assert_eq!(Key::id_of(&text).ok(), Some(id), "{}", text);
                prop_assert!(!text.contains(char::is_control), "{:?}", text);
            }
        }

        /// Two ids never have one text: what it says of them is what they are.
        #[test]
        fn a_text_is_an_error_or_an_id(text in "[an17/\"\\\\0x{}u]{0,8}") {
            if let Ok(id) = Key::id_of(&text) {
                prop_assert_eq!(Key::id_of(&Key::describe(&id)).ok(), Some(id));
            }
            if let Ok(key) = text.parse::<Key>() {
                prop_assert_eq!(key.to_string().parse().ok(), Some(key));
            }
        }

        #[test]
        fn different_parts_make_different_keys(a in parts(), b in parts()) {
            prop_assert_eq!(a == b, key_of(&a) == key_of(&b));
        }
    }

    #[test]
    fn the_cases_that_joining_gets_wrong() {
        let key = |build: fn(&mut Key) -> &mut Key| build(&mut Key::new()).clone();
        let different = [
            key(|k| k.text("ab").text("c")),
            key(|k| k.text("a").text("bc")),
            key(|k| k.text("abc")),
            key(|k| k.text("ab").null().text("c")),
            key(|k| k.text("ab").text("").text("c")),
            key(|k| k.int(123)),
            key(|k| k.text("123")),
            key(|k| k.null()),
            key(|k| k),
        ];
        for (i, a) in different.iter().enumerate() {
            for (j, b) in different.iter().enumerate() {
                assert_eq!(i == j, a == b, "{i} and {j}");
            }
        }
        assert_eq!(key(|k| k.int(5_u8)), key(|k| k.int(5_i64)));
    }

    #[test]
    fn keys_are_printed_for_people() {
        let printed = |build: fn(&mut Key) -> &mut Key| build(&mut Key::new()).to_string();
        assert_eq!(printed(|k| k.text("orders").int(3).int(9017)), "orders/3/9017");
        assert_eq!(printed(|k| k.null().text("null").text("").int(-17).text("17")), r#"null/"null"/""/-17/"17""#);
        assert_eq!(printed(|k| k.text("a/b").text("50 %").text("käse")), r#""a/b"/50 %/käse"#);
        assert_eq!(printed(|k| k.bytes([255, 0]).text("0xff").text("say \"x\"")), r#"0xff00/"0xff"/say "x""#);
        assert_eq!(printed(|k| k.text("two\nlines").text("\u{202e}C:\\")), r"two\nlines/\u{202e}C:\\");
        assert_eq!(printed(|k| k.text("orders")), "orders");
        assert_eq!(Key::describe(Key::new().text("orders")), "orders/");
        assert_eq!(Key::describe(Key::new().int(17)), "17/");
        assert_eq!(Key::describe("17"), "17");
        assert_eq!(Key::describe(Int::from(17_u32)), "0x11000000");
        assert_eq!(Key::describe(""), r#""""#);
    }

    #[test]
    fn texts_that_are_no_keys_are_refused_where_they_are_wrong() {
        for (text, at, expected) in [
            ("a//b", 2, "expected a part"),
            ("a/", 2, "expected a part"),
            ("/", 0, "expected a part"),
            ("a/\"b", 2, "expected a second \""),
            ("\"a\"b", 3, "expected / or the end"),
            ("a/0x1", 2, "pairs of hexadecimal digits"),
            ("0x", 0, "pairs of hexadecimal digits"),
            ("0xgg", 0, "pairs of hexadecimal digits"),
            ("sha384:00", 0, "got the digest of one"),
            ("a/b\\x", 3, "expected \\\\"),
            ("\"a\\u{d800}\"", 2, "expected \\\\"),
        ] {
            let error = text.parse::<Key>().unwrap_err().to_string();
            assert!(error.starts_with(&format!("byte {at}: ")) && error.contains(expected), "{text}: {error}");
        }
        assert!(Key::id_of("").is_err() && Key::id_of("a//").is_err() && Key::id_of("/").is_err());
    }

    #[test]
    fn a_key_is_used_again() {
        let mut key = Key::new();
        key.text("before").clear().int(5);
        assert_eq!(&key, Key::new().int(5));
    }
}
