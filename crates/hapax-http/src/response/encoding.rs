//! The encodings that a request asks for. Pure.

use http::HeaderMap;
use http::header::{ACCEPT_ENCODING, CONTENT_ENCODING};

/// Returns the encoding of a stored response, if the request does not ask for it. (RFC 9110,
/// section 12.5.3, except for a request without the header: it has asked for none.)
pub(crate) fn unasked<'r>(request: &HeaderMap, stored: &'r HeaderMap) -> Option<&'r str> {
    let values = stored.get_all(CONTENT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    let mut codings = values.flat_map(|value| value.split(',')).map(str::trim);
    codings.find(|coding| !coding.is_empty() && !coding.eq_ignore_ascii_case("identity") && !asks_for(request, coding))
}

fn asks_for(request: &HeaderMap, coding: &str) -> bool {
    let values = request.get_all(ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    let mut wildcard = false;
    for item in values.flat_map(|value| value.split(',')) {
        let (name, weight) = item.split_once(';').unwrap_or((item, ""));
        let weight = weight.trim().strip_prefix(['q', 'Q']).and_then(|rest| rest.trim_start().strip_prefix('='));
        let is_wanted = weight.is_none_or(|weight| weight.trim().parse::<f32>().is_ok_and(|weight| weight > 0.0));
        if same(name.trim(), coding) {
            return is_wanted;
        }
        wildcard |= name.trim() == "*" && is_wanted;
    }
    wildcard
}

fn same(asked: &str, stored: &str) -> bool {
    let plain = |name: &str| name.to_ascii_lowercase().trim_start_matches("x-").to_owned();
    plain(asked) == plain(stored)
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    #[test]
    fn an_encoding_is_asked_for_by_its_name_or_by_a_star_and_not_with_weight_zero() {
        for (asked, stored, expected) in [
            (None, "gzip", Some("gzip")),
            (None, "identity", None),
            (Some("gzip"), "gzip", None),
            (Some("br, X-GZIP;q=0.5"), "gzip", None),
            (Some("br"), "gzip", Some("gzip")),
            (Some("gzip;q=0, *"), "gzip", Some("gzip")),
            (Some("*"), "gzip", None),
            (Some("*;q=0"), "gzip", Some("gzip")),
            (Some("gzip"), "gzip, br", Some("br")),
            (Some("gzip;q=x"), "gzip", Some("gzip")),
        ] {
            let (mut request, mut response) = (HeaderMap::new(), HeaderMap::new());
            if let Some(asked) = asked {
                request.insert(ACCEPT_ENCODING, HeaderValue::from_static(asked));
            }
            response.insert(CONTENT_ENCODING, HeaderValue::from_static(stored));
            assert_eq!(unasked(&request, &response), expected, "{asked:?} for {stored}");
        }
        assert_eq!(unasked(&HeaderMap::new(), &HeaderMap::new()), None);
    }
}
