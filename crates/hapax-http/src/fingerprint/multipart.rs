//! Multipart bodies (RFC 2046, section 5.1) in a form that does not depend on their boundary.

use http::HeaderValue;

/// The longest boundary that there is.
const BOUNDARY_MAX: usize = 70;

/// A multipart body without its boundary.
pub(super) struct Multipart {
    /// The content type without its boundary.
    pub(super) content_type: Vec<u8>,
    /// Each part with its headers, behind its length.
    pub(super) parts: Vec<u8>,
}

/// Returns the body's parts. `None` if it is not multipart, or is written in a way that readers may
/// read differently: then it counts byte for byte.
pub(super) fn canonical(content_type: Option<&HeaderValue>, body: &[u8]) -> Option<Multipart> {
    let (content_type, boundary) = boundary(content_type?.to_str().ok()?)?;
    let delimiter = [b"\r\n--", boundary.as_bytes()].concat();
    let mut rest = body.strip_prefix(&delimiter[2..])?;
    let mut parts = Vec::with_capacity(body.len());
    while !matches!(rest, b"--" | b"--\r\n") {
        let part = rest.strip_prefix(b"\r\n")?;
        let end = part.windows(delimiter.len()).position(|window| window == delimiter)?;
        parts.extend_from_slice(&(end as u64).to_le_bytes());
        parts.extend_from_slice(&part[..end]);
        rest = &part[end + delimiter.len()..];
    }
    Some(Multipart { content_type: content_type.into_bytes(), parts })
}

/// Returns a multipart content type without its boundary, and that.
fn boundary(content_type: &str) -> Option<(String, &str)> {
    let (essence, parameters) = content_type.split_once(';')?;
    if !essence.get(..10)?.eq_ignore_ascii_case("multipart/") {
        return None;
    }
    let (mut without, mut found) = (essence.to_ascii_lowercase(), None);
    for parameter in parameters.split(';') {
        let (name, value) = parameter.split_once('=')?;
        if !name.trim().eq_ignore_ascii_case("boundary") {
            without.push(';');
            without.push_str(parameter);
            continue;
        }
        let value = value.trim();
        let value = value.strip_prefix('"').and_then(|value| value.strip_suffix('"')).unwrap_or(value);
        let is_one = (1..=BOUNDARY_MAX).contains(&value.len()) && !value.contains(['"', '\\', '\r', '\n']);
        if !is_one || found.replace(value).is_some() {
            return None;
        }
    }
    Some((without, found?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(content_type: &str, body: &str) -> Option<(String, Vec<u8>)> {
        let content_type = HeaderValue::from_str(content_type).unwrap();
        let found = canonical(Some(&content_type), body.as_bytes())?;
        Some((String::from_utf8(found.content_type).unwrap(), found.parts))
    }

    #[test]
    fn a_form_is_its_parts() {
        let form = "--x\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n1\r\n--x\r\n\r\n\r\n--x--\r\n";
        let written = of("multipart/form-data; boundary=x", form).unwrap();
        assert_eq!(written.0, "multipart/form-data");
        assert_eq!(of("Multipart/Form-Data;boundary=\"yy\"", &form.replace("--x", "--yy")), Some(written));
        assert!(of("multipart/form-data; boundary=x", "--x--").unwrap().1.is_empty());
        let charset = of("multipart/mixed; charset=utf-8; boundary=x", form).unwrap();
        assert_eq!(charset.0, "multipart/mixed; charset=utf-8");
    }

    #[test]
    fn whatever_may_be_read_differently_is_none() {
        let good = "multipart/form-data; boundary=x";
        for body in [
            "",
            "--x",
            "preamble\r\n--x--",
            "--x--epilogue",
            "--x\r\na",
            "--x\r\na\r\n--xy\r\n--x--",
            "--x \r\na\r\n--x--",
        ] {
            assert_eq!(of(good, body), None, "{body:?}");
        }
        for content_type in [
            "multipart/form-data",
            "multipart/form-data; boundary=",
            "multipart/form-data; boundary=x; boundary=y",
            "multipart/form-data; boundary=x; other",
            "text/plain; boundary=x",
        ] {
            assert_eq!(of(content_type, "--x--"), None, "{content_type}");
        }
    }

    proptest! {
        #[test]
        fn other_parts_are_another_form_and_another_boundary_is_none(
            a in proptest::collection::vec("[a\r\n-]{0,6}", 0..4),
            b in proptest::collection::vec("[a\r\n-]{0,6}", 0..4),
            [first, second] in ["[xy]{1,3}", "[xy]{1,3}"],
        ) {
            let written = |parts: &[String], boundary: &str| {
                let parts: String = parts.iter().map(|part| format!("--{boundary}\r\n{part}\r\n")).collect();
                of(&format!("multipart/form-data; boundary={boundary}"), &format!("{parts}--{boundary}--\r\n"))
            };
            let [of_a, of_b] = [written(&a, &first), written(&b, &second)];
            prop_assert!(of_a.is_some() && of_b.is_some());
            prop_assert_eq!(of_a == of_b, a == b);
        }
    }
}
