//! The key as a client sends it: a quoted string of structured fields (RFC 9651), or a bare token.

use super::outgoing::KeyBuilder;
use hapax::{Key, Token};
use hapax_store::StoredId;
use hapax_store::sync::{Ordering, StdAtomicBool};
use std::fmt;
use std::sync::Arc;

/// The length of the longest key, in characters, without quotes and escapes.
pub const MAX_KEY_CHARS: usize = 255;

/// The key under which a handler runs, as an extension of the request.
///
/// ```
/// use hapax_http::IdempotencyKey;
///
/// fn charge(request: &http::Request<()>) -> Option<String> {
///     let key = request.extensions().get::<IdempotencyKey>()?;
///     // The payment provider knows this step of this request by one key, however often it is tried.
///     Some(key.step("shop", "charge the card").to_string())
/// }
/// # assert_eq!(charge(&http::Request::new(())), None);
/// ```
#[derive(Clone, Debug)]
pub struct IdempotencyKey {
    pub(super) key: Arc<str>,
    pub(super) scope: Option<Arc<str>>,
    pub(super) token: Token,
    pub(super) is_verified: bool,
    pub(super) begun: Begun,
}

/// A flag that the handler sets when it has begun.
#[derive(Clone, Debug, Default)]
pub(super) struct Begun(Arc<StdAtomicBool>);

impl Begun {
    pub(super) fn is_set(&self) -> bool {
        // Relaxed: the response that is judged by it comes from the thread that has set it.
        self.0.load(Ordering::Relaxed)
    }
}

impl IdempotencyKey {
    /// Returns the key, without quotes.
    pub fn as_str(&self) -> &str {
        &self.key
    }

    /// Returns the owner of the key, from the layer's scope function; `None` if all clients share
    /// one scope.
    pub fn scope(&self) -> Option<&str> {
        self.scope.as_deref()
    }

    /// Returns a fencing token for the handler's own writes: it grows from one run of a key to the
    /// next.
    pub fn token(&self) -> Token {
        self.token
    }

    /// Returns true if the store has confirmed that no other run is under way. It has not if it was
    /// down, and the engine admits messages then.
    pub fn is_verified(&self) -> bool {
        self.is_verified
    }

    /// Declares that from here on the handler has effects: its answer is remembered even if its
    /// status is one by which routers and extractors refuse requests before anything begins.
    /// To be called once the request is found to be in order, before the first effect.
    ///
    /// ```
    /// use hapax_http::IdempotencyKey;
    ///
    /// fn charge(key: &IdempotencyKey, amount: u64) -> http::StatusCode {
    ///     if amount == 0 {
    ///         return http::StatusCode::UNPROCESSABLE_ENTITY; // not remembered: the next try is handled
    ///     }
    ///     key.begin();
    ///     http::StatusCode::NOT_FOUND // say, the card at the provider: remembered
    /// }
    /// ```
    pub fn begin(&self) {
        self.begun.0.store(true, Ordering::Relaxed);
    }

    /// Returns a key for one outgoing call of the handler: the same at every run, another one for
    /// another namespace (for example this service), step, key or scope.
    pub fn step(&self, namespace: &str, step: &str) -> super::OutgoingKey {
        let mut builder = KeyBuilder::new(namespace);
        match &self.scope {
            Some(scope) => builder.text(scope),
            None => builder.null(),
        };
        builder.text(&self.key).text(step).build()
    }
}

/// Returns the id under which the engine has a key, to look it up, or to forget it:
/// [`TieredDedup::forget`](hapax_store::TieredDedup::forget).
///
/// ```
/// # use hapax_store::{InMemoryStore, TieredDedup};
/// # async fn example(dedup: TieredDedup<InMemoryStore>) -> Result<(), hapax_store::StoreError> {
/// dedup.forget(hapax_http::id_of(Some("alice"), "k-1")).await?; // her next request with it is handled
/// # Ok(())
/// # }
/// ```
///
/// For a scope it is an id [of a group](hapax_store::StoredId::of_group), the scope; for all
/// together ([`global_scope`](super::LayerBuilder::global_scope)) a [`Key`] of null and the key.
pub fn id_of(scope: Option<&str>, key: &str) -> Vec<u8> {
    match scope {
        Some(scope) => StoredId::of_group(scope.as_bytes(), key.as_bytes()).as_bytes().to_vec(),
        None => Key::new().null().text(key).as_ref().to_vec(),
    }
}

/// The error in a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeyError {
    Missing,
    Many,
    NotAscii,
    Blank,
    TooLong(usize),
    Unclosed,
    Escape,
    AfterQuote,
    Character(char),
}

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeyError::Missing => f.write_str("the header is required here, and the request has none"),
            KeyError::Many => f.write_str("expected one header field, got more"),
            KeyError::NotAscii => f.write_str("expected printable ASCII characters, got others"),
            KeyError::Blank => f.write_str("expected 1 to 255 characters, got none, or only spaces"),
            KeyError::TooLong(got) => write!(f, "expected at most {MAX_KEY_CHARS} characters, got {got}"),
            KeyError::Unclosed => f.write_str("expected a closing quotation mark, got none"),
            KeyError::Escape => f.write_str("expected \\\" or \\\\ after a backslash, got another character"),
            KeyError::AfterQuote => f.write_str("expected nothing after the closing quotation mark, got more"),
            KeyError::Character(got) => write!(f, "expected a quoted string or a bare token, which has no {got:?}"),
        }
    }
}

/// Reads the key from these header fields.
pub(super) fn parse<'h>(mut fields: impl Iterator<Item = &'h [u8]>) -> Result<String, KeyError> {
    let field = fields.next().ok_or(KeyError::Missing)?;
    if fields.next().is_some() {
        return Err(KeyError::Many);
    }
    let text = std::str::from_utf8(field).map_err(|_| KeyError::NotAscii)?;
    let text = text.trim_matches([' ', '\t']);
    if !text.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
        return Err(KeyError::NotAscii);
    }
    let key = match text.strip_prefix('"') {
        Some(quoted) => unquote(quoted)?,
        None => bare(text)?.to_owned(),
    };
    match key.len() {
        _ if key.trim().is_empty() => Err(KeyError::Blank),
        1..=MAX_KEY_CHARS => Ok(key),
        long => Err(KeyError::TooLong(long)),
    }
}

/// Returns the text before the closing quotation mark, which must be the end: a list, or
/// parameters, of which none are defined, could mean anything.
fn unquote(quoted: &str) -> Result<String, KeyError> {
    let (mut key, mut rest) = (String::new(), quoted.chars());
    loop {
        match rest.next().ok_or(KeyError::Unclosed)? {
            '"' if rest.as_str().is_empty() => return Ok(key),
            '"' => return Err(KeyError::AfterQuote),
            '\\' => match rest.next().ok_or(KeyError::Unclosed)? {
                escaped @ ('"' | '\\') => key.push(escaped),
                _ => return Err(KeyError::Escape),
            },
            other => key.push(other),
        }
    }
}

/// Reads a bare token. It accepts more than a structured field's token, which a UUID that begins
/// with a digit is not; but nothing that could be a list, parameters or half a string.
fn bare(text: &str) -> Result<&str, KeyError> {
    match text.chars().find(|c| matches!(c, ' ' | '"' | ',' | ';' | '\\')) {
        Some(wrong) => Err(KeyError::Character(wrong)),
        None => Ok(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn one(field: &[u8]) -> Result<String, KeyError> {
        parse(std::iter::once(field))
    }

    #[test]
    fn keys_are_quoted_strings_or_bare_tokens() {
        for (field, key) in [
            (r#""8e03978e-40d5-43dd-bc93-6894a57f9324""#, "8e03978e-40d5-43dd-bc93-6894a57f9324"),
            ("8e03978e-40d5-43dd-bc93-6894a57f9324", "8e03978e-40d5-43dd-bc93-6894a57f9324"),
            (r#""a \"quoted\" back\\slash, and; more""#, r#"a "quoted" back\slash, and; more"#),
            ("  \t\"a\"  ", "a"),
            ("0", "0"),
            ("False", "False"),
            ("a+/b==", "a+/b=="),
            ("\" a \"", " a "),
        ] {
            assert_eq!(one(field.as_bytes()).as_deref(), Ok(key), "{field}");
        }
        let longest = "x".repeat(MAX_KEY_CHARS);
        assert_eq!(one(format!("\"{longest}\"").as_bytes()), Ok(longest));
        // Escapes do not count.
        let escaped = format!("\"{}\"", r#"\""#.repeat(MAX_KEY_CHARS));
        assert_eq!(one(escaped.as_bytes()).map(|key| key.len()), Ok(MAX_KEY_CHARS));
    }

    #[test]
    fn what_is_wrong_with_a_key_is_said() {
        for (field, error) in [
            ("", KeyError::Blank),
            ("  ", KeyError::Blank),
            ("\"\"", KeyError::Blank),
            ("\"   \"", KeyError::Blank),
            ("\"a", KeyError::Unclosed),
            ("\"a\\", KeyError::Unclosed),
            ("\"a\\n\"", KeyError::Escape),
            ("\"a\", \"b\"", KeyError::AfterQuote),
            ("\"a\";p=1", KeyError::AfterQuote),
            ("a, b", KeyError::Character(',')),
            ("a b", KeyError::Character(' ')),
            ("a;p=1", KeyError::Character(';')),
            ("a\"", KeyError::Character('"')),
            ("käse", KeyError::NotAscii),
            ("a\tb", KeyError::NotAscii),
        ] {
            assert_eq!(one(field.as_bytes()), Err(error), "{field}");
        }
        assert_eq!(one(b"\xff"), Err(KeyError::NotAscii));
        assert_eq!(one("x".repeat(256).as_bytes()), Err(KeyError::TooLong(256)));
        assert_eq!(parse([b"a".as_slice(), b"a"].into_iter()), Err(KeyError::Many));
        assert_eq!(parse(std::iter::empty()), Err(KeyError::Missing));
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_valid_key_or_an_error(field in proptest::collection::vec(any::<u8>(), 0..300)) {
            if let Ok(key) = one(&field) {
                prop_assert!((1..=MAX_KEY_CHARS).contains(&key.len()) && !key.trim().is_empty());
            }
        }

        #[test]
        fn any_text_survives_quoting(key in "[ -~]{0,40}x") {
            let quoted = format!("\"{}\"", key.replace('\\', "\\\\").replace('"', "\\\""));
            prop_assert_eq!(one(quoted.as_bytes()), Ok(key));
        }
    }
}
