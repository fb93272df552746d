//! The key of a language model's call: calls with the same key get the same answer.

use serde_json::Value;
use sha2::{Digest, Sha256};
use std::fmt;

/// The reason why an answer cannot be kept and given again.
#[derive(Debug)]
pub enum Refusal {
    /// The request is not JSON.
    Malformed(serde_json::Error),
    /// The request is not an object, or has no `model` or no `messages`.
    NotACall,
    /// The request wants its answer as a stream.
    Streams,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Malformed(error) => write!(f, "expected JSON: {error}"),
            Refusal::NotACall => f.write_str("expected an object with `model` and `messages`"),
            Refusal::Streams => f.write_str("option `stream`: expected false, since an answer is kept as a whole"),
        }
    }
}

impl std::error::Error for Refusal {}

/// Returns the SHA-256 of caller and request, in a form that does not depend on the order of
/// fields, on spaces, or on how a number or character is written (RFC 8785).
///
/// Every parameter counts, so another temperature is another key. `user` and `metadata` do not
/// count: models get them, but ignore them. The caller counts, so no caller gets an answer that was
/// made for another one.
///
/// # Errors
///
/// [`Refusal`].
pub fn key(caller: &[u8], request: &[u8]) -> Result<[u8; 32], Refusal> {
    let mut request: Value = serde_json::from_slice(request).map_err(Refusal::Malformed)?;
    let call = request.as_object_mut().ok_or(Refusal::NotACall)?;
    if !call.contains_key("model") || !call.contains_key("messages") {
        return Err(Refusal::NotACall);
    }
    if call.get("stream").is_some_and(|stream| *stream != Value::Bool(false)) {
        return Err(Refusal::Streams);
    }
    call.retain(|field, _| !["stream", "user", "metadata"].contains(&field.as_str()));
    let canonical = serde_json_canonicalizer::to_vec(&request).map_err(Refusal::Malformed)?;
    let hash = Sha256::new().chain_update(Sha256::digest(caller)).chain_update(canonical);
    Ok(hash.finalize().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(request: &str) -> [u8; 32] {
        key(b"somebody", request.as_bytes()).unwrap_or_else(|refusal| panic!("{request}: {refusal}"))
    }

    const CALL: &str = r#"{"model":"m","messages":[{"role":"user","content":"é"}],"temperature":1}"#;

    #[test]
    fn one_call_has_one_key_however_it_is_written() {
        let written = [
            r#"{ "temperature": 1.0, "messages": [ {"content":"\u00e9", "role":"user"} ], "model": "m" }"#,
            r#"{"model":"m","messages":[{"role":"user","content":"é"}],"temperature":1e0,"stream":false}"#,
            r#"{"model":"m","messages":[{"role":"user","content":"é"}],"temperature":1,"user":"u-17","metadata":{"try":2}}"#,
        ];
        for other in written {
            assert_eq!(of(other), of(CALL), "{other}");
        }
    }

    #[test]
    fn what_changes_the_answer_changes_the_key() {
        let changed = [
            r#"{"model":"n","messages":[{"role":"user","content":"é"}],"temperature":1}"#,
            r#"{"model":"m","messages":[{"role":"system","content":"é"}],"temperature":1}"#,
            r#"{"model":"m","messages":[{"role":"user","content":"é"}],"temperature":0.9}"#,
            r#"{"model":"m","messages":[{"role":"user","content":"é"}],"temperature":1,"seed":null}"#,
            r#"{"model":"m","messages":[{"role":"user","content":"é "}],"temperature":1}"#,
            r#"{"model":"m","messages":[],"temperature":1}"#,
        ];
        let keys: std::collections::BTreeSet<_> = changed.iter().map(|call| of(call)).chain([of(CALL)]).collect();
        assert_eq!(keys.len(), changed.len() + 1);
        assert_ne!(key(b"somebody else", CALL.as_bytes()).ok(), Some(of(CALL)));
    }

    #[test]
    fn what_is_no_call_is_refused() {
        let refused = |request: &str| key(b"", request.as_bytes()).unwrap_err();
        assert!(matches!(refused("{"), Refusal::Malformed(_)));
        assert!(matches!(refused("[]"), Refusal::NotACall));
        assert!(matches!(refused(r#"{"model":"m"}"#), Refusal::NotACall));
        assert!(matches!(refused(r#"{"model":"m","messages":[],"stream":true}"#), Refusal::Streams));
    }
}
