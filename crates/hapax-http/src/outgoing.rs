//! Keys of calls that this process makes.

pub(super) mod layer;

use hapax::Key;
use http::{HeaderMap, HeaderName, HeaderValue};
use sha2::{Digest as _, Sha256};
use std::fmt;

/// The header in which keys travel.
pub const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// A builder of an [`OutgoingKey`] from parts: the same parts, in any process and at any time, make
/// the same key.
///
/// ```
/// use hapax_http::KeyBuilder;
///
/// let key = |step: &str| KeyBuilder::new("payments").text("order-17").text(step).int(1_999).build();
/// assert_eq!(key("charge"), key("charge")); // at every attempt
/// assert_ne!(key("charge"), key("refund"));
/// assert_eq!(key("charge").to_string(), "h1648d561fb419914c4d0dbac34d7d0e2129688573");
/// ```
///
/// # Guarantees
///
/// - Different parts make different keys, as in [`Key`]: ("ab", "c") is not ("a", "bc"), null is
///   not absent, 123 is not "123". Two are taken for one another if SHA-256 collides in its first
///   160 bits.
/// - The form is versioned, the 1 in `h1`: the keys of version 1 never change.
///
/// Use parts that name the effect: the saga, its step, the payee. Leave out values that change from
/// one attempt to the next: a time, a counter of attempts, a random number.
///
/// Idea: Helland, "Life beyond Distributed Transactions", CIDR 2007; UUIDs of names, RFC 9562.
#[derive(Clone, Debug)]
pub struct KeyBuilder(Key);

impl KeyBuilder {
    /// Creates a key in a namespace: the service, or the kind of call.
    pub fn new(namespace: &str) -> Self {
        let mut key = Key::new();
        key.text(namespace);
        KeyBuilder(key)
    }

    /// Appends text.
    pub fn text(&mut self, part: &str) -> &mut Self {
        self.0.text(part);
        self
    }

    /// Appends bytes: the same part as text of the same content.
    pub fn bytes(&mut self, part: impl AsRef<[u8]>) -> &mut Self {
        self.0.bytes(part);
        self
    }

    /// Appends an integer.
    pub fn int(&mut self, part: impl Into<i128>) -> &mut Self {
        self.0.int(part);
        self
    }

    /// Appends the absence of a value.
    pub fn null(&mut self) -> &mut Self {
        self.0.null();
        self
    }

    /// Returns the key.
    pub fn build(&self) -> OutgoingKey {
        OutgoingKey(Sha256::new().chain_update(b"hapax outgoing key 1\0").chain_update(&self.0).finalize().into())
    }
}

/// A key of a call that this process makes, by which the other side recognizes the call when it is
/// repeated.
///
/// ```
/// use hapax_http::KeyBuilder;
///
/// let key = KeyBuilder::new("payments").text("order-17").text("charge").build();
/// let mut request = http::Request::post("https://api.example/charges").body(())?;
/// key.insert_into(request.headers_mut());
/// assert_eq!(request.headers()["idempotency-key"].len(), 42);
/// # Ok::<(), http::Error>(())
/// ```
///
/// As text it is `h1` and 40 hexadecimal digits: 42 characters, within the 45 to 255 that known
/// APIs accept. For APIs that want a UUID there is [`to_uuid`](OutgoingKey::to_uuid). A
/// [layer](super::OutgoingKeyLayer) adds it to requests that carry it as an extension.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OutgoingKey([u8; 32]);

impl OutgoingKey {
    /// Returns the same key as a UUID of version 8 (RFC 9562), whose 122 bits are those of the
    /// digest.
    pub fn to_uuid(&self) -> String {
        let mut uuid = [0; 16];
        uuid.copy_from_slice(&self.0[..16]);
        uuid[6] = uuid[6] & 0x0f | 0x80;
        uuid[8] = uuid[8] & 0x3f | 0x80;
        let hex = hex(&uuid);
        format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
    }

    /// Returns the value of its header: bare, as known APIs read it.
    pub fn header_value(&self) -> HeaderValue {
        header(self.to_string())
    }

    /// Returns the value of its header in the form of the IETF draft: a string in quotation marks.
    /// APIs that compare headers literally take it for another key than the [bare
    /// one](OutgoingKey::header_value).
    pub fn quoted_header_value(&self) -> HeaderValue {
        header(format!("\"{self}\""))
    }

    /// Puts it into the header `Idempotency-Key`, bare, in place of an existing value.
    pub fn insert_into(&self, headers: &mut HeaderMap) {
        headers.insert(IDEMPOTENCY_KEY, self.header_value());
    }
}

fn header(text: String) -> HeaderValue {
    // Provably unreachable: letters, digits and quotation marks are a valid header.
    HeaderValue::try_from(text).expect("letters and digits")
}

impl fmt::Display for OutgoingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "h1{}", hex(&self.0[..20]))
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    // The vectors were computed independently of this code, from the description of the encoding in
    // `Key`.
    #[test]
    fn vectors_of_version_1() {
        for (key, text, uuid) in [
            (
                KeyBuilder::new("").build(),
                "h1ce9180c4fbfe42b6309de9c9aaf0e44bd6b6388f",
                "ce9180c4-fbfe-82b6-b09d-e9c9aaf0e44b",
            ),
            (
                KeyBuilder::new("payments").text("order-17").text("charge").int(1_999).build(),
                "h1648d561fb419914c4d0dbac34d7d0e2129688573",
                "648d561f-b419-814c-8d0d-bac34d7d0e21",
            ),
            (
                KeyBuilder::new("saga").bytes([0, 255]).int(-1).null().build(),
                "h106e696433baed73e75b4212bff1d5be548130a13",
                "06e69643-3bae-873e-b5b4-212bff1d5be5",
            ),
        ] {
            assert_eq!(key.to_string(), text);
            assert_eq!(key.to_uuid(), uuid);
        }
    }

    #[test]
    fn parts_do_not_run_into_each_other() {
        let key = |build: fn(&mut KeyBuilder) -> &mut KeyBuilder| build(&mut KeyBuilder::new("n")).build();
        let different = [
            key(|k| k),
            key(|k| k.text("ab").text("c")),
            key(|k| k.text("a").text("bc")),
            key(|k| k.text("abc")),
            key(|k| k.text("ab").null().text("c")),
            key(|k| k.int(123)),
            key(|k| k.text("123")),
            key(|k| k.text("")),
            KeyBuilder::new("na").build(),
        ];
        for (i, a) in different.iter().enumerate() {
            assert!(different[..i].iter().all(|b| a != b && a.to_string() != b.to_string()), "{i}");
        }
        assert_eq!(key(|k| k.text("a")), key(|k| k.bytes(b"a")));
    }

    #[test]
    fn it_is_a_header_of_either_form() {
        let key = KeyBuilder::new("n").build();
        for value in [key.header_value(), key.quoted_header_value()] {
            let parsed = super::super::key::parse(std::iter::once(value.as_bytes())).unwrap();
            assert_eq!(parsed, key.to_string());
            assert_eq!(parsed.len(), 42);
        }
    }
}
