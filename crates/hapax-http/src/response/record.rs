//! A response in its stored form: a versioned record. Pure.
//!
//! ```text
//! record:    version: u8, 1 | kind: u8 | status: u16 | gone for: u64 | headers | trailers | body
//! kind:      0 a response; 1 one that was not kept, of which there is no more than that
//! gone for:  how long before the record's end it is not sent again any more: milliseconds
//! headers:   count: u32 | (name length: u16 | name | value length: u32 | value) …      trailers alike
//! body:      length: u64 | bytes, to the end of the record
//! ```
//! Little-endian. A record with any other content is an error: data from a store may be written by
//! another program. So is a status that is not of a final response, a body where there can be none,
//! and more fields than are ever stored. Reading takes time and memory in proportion to the record.

use super::headers;
use bytes::{Buf, Bytes};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use std::fmt;
use std::time::Duration;

const VERSION: u8 = 1;
/// The largest number of stored headers, and of trailers, and their bytes: more than any client
/// takes.
const MAX_FIELDS: usize = 1_024;
const MAX_FIELD_BYTES: usize = 256 << 10;

/// The stored part of an answer.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct StoredResponse {
    pub(crate) status: StatusCode,
    /// The time before the end of the record during which it only says that the request was
    /// handled: whole milliseconds.
    pub(crate) gone_for: Duration,
    /// `None` if it was too large.
    pub(crate) content: Option<Content>,
}

/// Everything but the status.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Content {
    pub(crate) headers: HeaderMap,
    pub(crate) trailers: HeaderMap,
    pub(crate) body: Bytes,
}

/// The reason for which bytes are not a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RecordError {
    Version(u8),
    Kind(u8),
    Status(u16),
    Short,
    Long(usize),
    Header,
    Fields,
    Content(u16),
}

impl Content {
    /// Returns the number of bytes that it counts as.
    pub(crate) fn bytes(&self) -> usize {
        headers::bytes(&self.headers) + headers::bytes(&self.trailers) + self.body.len()
    }

    /// Returns true if there are at most as many fields as may be stored.
    pub(crate) fn has_few_fields(&self) -> bool {
        [&self.headers, &self.trailers]
            .iter()
            .all(|fields| fields.len() <= MAX_FIELDS && headers::bytes(fields) <= MAX_FIELD_BYTES)
    }
}

/// Returns true if a response of this status can have content (RFC 9110, 15.3.5, 15.3.6, 15.4.5).
pub(crate) fn has_content(status: StatusCode) -> bool {
    !matches!(status, StatusCode::NO_CONTENT | StatusCode::RESET_CONTENT | StatusCode::NOT_MODIFIED)
}

impl fmt::Display for RecordError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RecordError::Version(got) => write!(f, "a record of version {got}, expected {VERSION}"),
            RecordError::Kind(got) => write!(f, "a record of kind {got}, expected 0 or 1"),
            RecordError::Status(got) => write!(f, "status {got}, expected that of a final response, 200 to 999"),
            RecordError::Short => f.write_str("the record ends before what it says it holds"),
            RecordError::Long(more) => write!(f, "{more} bytes after the end of the record"),
            RecordError::Header => f.write_str("a header's name or value that no header has"),
            RecordError::Fields => {
                write!(f, "more than {MAX_FIELDS} headers or trailers, or {MAX_FIELD_BYTES} bytes of them")
            }
            RecordError::Content(status) => write!(f, "content of status {status}, which has none"),
        }
    }
}

pub(crate) fn encode(kept: &StoredResponse) -> Vec<u8> {
    match &kept.content {
        None => head(1, kept, 0),
        Some(Content { headers, trailers, body }) => {
            let mut out = head(0, kept, 16 + size(headers) + size(trailers) + body.len());
            put_headers(headers, &mut out);
            put_headers(trailers, &mut out);
            out.extend_from_slice(&(body.len() as u64).to_le_bytes());
            out.extend_from_slice(body);
            out
        }
    }
}

fn head(kind: u8, kept: &StoredResponse, more_bytes: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(12 + more_bytes);
    let gone_ms = u64::try_from(kept.gone_for.as_millis()).unwrap_or(u64::MAX);
    out.extend_from_slice(&[VERSION, kind]);
    out.extend_from_slice(&kept.status.as_u16().to_le_bytes());
    out.extend_from_slice(&gone_ms.to_le_bytes());
    out
}

fn size(headers: &HeaderMap) -> usize {
    headers.iter().map(|(name, value)| 6 + name.as_str().len() + value.len()).sum()
}

fn put_headers(headers: &HeaderMap, out: &mut Vec<u8>) {
    out.extend_from_slice(&(headers.len() as u32).to_le_bytes());
    for (name, value) in headers {
        // `http` allows names of less than 2^16 bytes.
        out.extend_from_slice(&(name.as_str().len() as u16).to_le_bytes());
        out.extend_from_slice(name.as_str().as_bytes());
        out.extend_from_slice(&(value.len() as u32).to_le_bytes());
        out.extend_from_slice(value.as_bytes());
    }
}

pub(crate) fn decode(record: Vec<u8>) -> Result<StoredResponse, RecordError> {
    let mut rest = Bytes::from(record);
    let short = |_| RecordError::Short;
    let version = rest.try_get_u8().map_err(short)?;
    if version != VERSION {
        return Err(RecordError::Version(version));
    }
    let kind = rest.try_get_u8().map_err(short)?;
    let status = rest.try_get_u16_le().map_err(short)?;
    let status = match StatusCode::from_u16(status) {
        Ok(code) if !code.is_informational() => code,
        _ => return Err(RecordError::Status(status)),
    };
    let gone_for = Duration::from_millis(rest.try_get_u64_le().map_err(short)?);
    let content = match kind {
        0 => {
            let (headers, trailers) = (get_headers(&mut rest)?, get_headers(&mut rest)?);
            let len = rest.try_get_u64_le().map_err(short)?;
            let len = usize::try_from(len).map_err(|_| RecordError::Short)?;
            Some(Content { headers, trailers, body: get_bytes(&mut rest, len)? })
        }
        1 => None,
        other => return Err(RecordError::Kind(other)),
    };
    if let Some(content) = &content
        && !has_content(status)
        && !(content.body.is_empty() && content.trailers.is_empty())
    {
        return Err(RecordError::Content(status.as_u16()));
    }
    match rest.len() {
        0 => Ok(StoredResponse { status, gone_for, content }),
        more => Err(RecordError::Long(more)),
    }
}

fn get_headers(rest: &mut Bytes) -> Result<HeaderMap, RecordError> {
    let short = |_| RecordError::Short;
    let count = rest.try_get_u32_le().map_err(short)?;
    if count as usize > MAX_FIELDS {
        return Err(RecordError::Fields);
    }
    // Without reserving room for the number of fields that it claims, which may be a lie.
    let (mut headers, mut bytes) = (HeaderMap::new(), 0);
    for _ in 0..count {
        let name_len = rest.try_get_u16_le().map_err(short)?;
        let name = HeaderName::from_bytes(&get_bytes(rest, name_len.into())?).map_err(|_| RecordError::Header)?;
        let value_len = rest.try_get_u32_le().map_err(short)?;
        let value = get_bytes(rest, value_len as usize)?;
        bytes += 32 + usize::from(name_len) + value.len();
        if bytes > MAX_FIELD_BYTES {
            return Err(RecordError::Fields);
        }
        let value = HeaderValue::from_maybe_shared(value).map_err(|_| RecordError::Header)?;
        headers.try_append(name, value).map_err(|_| RecordError::Header)?;
    }
    Ok(headers)
}

fn get_bytes(rest: &mut Bytes, len: usize) -> Result<Bytes, RecordError> {
    if rest.len() < len {
        return Err(RecordError::Short);
    }
    Ok(rest.split_to(len))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn headers(max: usize) -> impl Strategy<Value = HeaderMap> {
        let header = ("[a-z0-9-]{1,12}", proptest::collection::vec(32_u8..127, 0..20));
        proptest::collection::vec(header, 0..max).prop_map(|headers| {
            let named = |(name, value): (String, Vec<u8>)| {
                (HeaderName::try_from(name).unwrap(), HeaderValue::from_bytes(&value).unwrap())
            };
            let mut map = HeaderMap::new();
            headers.into_iter().map(named).for_each(|(name, value)| {
                map.append(name, value);
            });
            map
        })
    }

    fn kept() -> impl Strategy<Value = StoredResponse> {
        let status = (200_u16..1_000).prop_map(|status| StatusCode::from_u16(status).unwrap());
        let status = status.prop_filter("it has content", |status| has_content(*status));
        let body = proptest::collection::vec(any::<u8>(), 0..100).prop_map(Bytes::from);
        let content =
            (headers(8), headers(3), body).prop_map(|(headers, trailers, body)| Content { headers, trailers, body });
        let gone_for = prop_oneof![Just(0), 1_u64..100, Just(u64::MAX)].prop_map(Duration::from_millis);
        (status, gone_for, proptest::option::of(content)).prop_map(|(status, gone_for, content)| StoredResponse {
            status,
            gone_for,
            content,
        })
    }

    proptest! {
        #[test]
        fn what_is_kept_comes_back(kept in kept()) {
            prop_assert_eq!(decode(encode(&kept)), Ok(kept));
        }

        #[test]
        fn any_bytes_are_a_record_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = decode(bytes);
        }

        #[test]
        fn a_damaged_record_is_never_a_panic(kept in kept(), at in any::<prop::sample::Index>(), with: u8) {
            let mut record = encode(&kept);
            let at = at.index(record.len());
            record[at] = with;
            let _ = decode(record);
        }

        #[test]
        fn a_record_cut_short_or_continued_is_refused(kept in kept(), at in any::<prop::sample::Index>()) {
            let record = encode(&kept);
            let cut = record[..at.index(record.len())].to_vec();
            prop_assert_eq!(decode(cut), Err(RecordError::Short));
            prop_assert_eq!(decode([record, vec![0]].concat()), Err(RecordError::Long(1)));
        }
    }

    #[test]
    fn the_form_stays() {
        let mut headers = HeaderMap::new();
        headers.insert("a", HeaderValue::from_static("bc"));
        let content = Content { headers, trailers: HeaderMap::new(), body: Bytes::from_static(b"ok") };
        let kept = StoredResponse { status: StatusCode::CREATED, gone_for: Duration::ZERO, content: Some(content) };
        let record = b"\x01\x00\xc9\x00\0\0\0\0\0\0\0\0\x01\0\0\0\x01\0a\x02\0\0\0bc\0\0\0\0\x02\0\0\0\0\0\0\0ok";
        assert_eq!(encode(&kept), record);
        assert_eq!(decode(record.to_vec()), Ok(kept));
        let kept = StoredResponse { status: StatusCode::OK, gone_for: Duration::from_millis(0x0102), content: None };
        assert_eq!(encode(&kept), b"\x01\x01\xc8\0\x02\x01\0\0\0\0\0\0");
        assert_eq!(decode(encode(&kept)), Ok(kept));
        assert_eq!(decode(vec![2, 0, 0, 0]), Err(RecordError::Version(2)));
        assert_eq!(decode(b"\x01\x02\xc8\0\0\0\0\0\0\0\0\0".to_vec()), Err(RecordError::Kind(2)));
        assert_eq!(decode(vec![1, 0, 0, 0]), Err(RecordError::Status(0)));
        assert_eq!(decode(b"\x01\x01\xc8\0\x02\x01\0\0\0\0\0".to_vec()), Err(RecordError::Short));
    }

    #[test]
    fn no_record_is_an_interim_response_or_has_content_where_there_is_none() {
        for status in [100, 101, 103, 199, 1_000, u16::MAX] {
            for kind in [0, 1] {
                let [low, high] = status.to_le_bytes();
                assert_eq!(decode(vec![1, kind, low, high]), Err(RecordError::Status(status)));
            }
        }
        let of = |status, body: &'static [u8], trailers: HeaderMap| {
            let content = Content { headers: HeaderMap::new(), trailers, body: Bytes::from_static(body) };
            decode(encode(&StoredResponse { status, gone_for: Duration::ZERO, content: Some(content) }))
        };
        let trailers = HeaderMap::from_iter([(HeaderName::from_static("a"), HeaderValue::from_static("b"))]);
        for status in [StatusCode::NO_CONTENT, StatusCode::RESET_CONTENT, StatusCode::NOT_MODIFIED] {
            assert!(of(status, b"", HeaderMap::new()).is_ok());
            assert_eq!(of(status, b"x", HeaderMap::new()), Err(RecordError::Content(status.as_u16())));
            assert_eq!(of(status, b"", trailers.clone()), Err(RecordError::Content(status.as_u16())));
        }
        assert!(of(StatusCode::OK, b"x", trailers).is_ok());
    }

    #[test]
    fn fields_are_bounded_alike_when_stored_and_when_read() {
        let fields = |count: usize, bytes: usize| -> HeaderMap {
            let value = HeaderValue::try_from("x".repeat(bytes)).unwrap();
            (0..count).map(|i| (HeaderName::try_from(format!("x-{i:04}")).unwrap(), value.clone())).collect()
        };
        let of = |headers: HeaderMap, trailers: HeaderMap| {
            let content = Content { headers, trailers, body: Bytes::new() };
            let (fits, kept) = (
                content.has_few_fields(),
                StoredResponse { status: StatusCode::OK, gone_for: Duration::ZERO, content: Some(content) },
            );
            assert_eq!(decode(encode(&kept)).is_ok(), fits);
            fits
        };
        let each = 32 + "x-0000".len();
        for (count, bytes, fits) in [
            (MAX_FIELDS, 0, true),
            (MAX_FIELDS + 1, 0, false),
            (1, MAX_FIELD_BYTES - each, true),
            (1, MAX_FIELD_BYTES - each + 1, false),
            (2, MAX_FIELD_BYTES / 2, false),
        ] {
            assert_eq!(of(fields(count, bytes), HeaderMap::new()), fits, "{count} headers of {bytes}");
            assert_eq!(of(HeaderMap::new(), fields(count, bytes)), fits, "{count} trailers of {bytes}");
        }
    }
}
