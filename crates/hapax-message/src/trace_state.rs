//! The header `tracestate`: what each vendor adds to a trace.

/// The largest number of entries.
const MAX_ENTRIES: usize = 32;

/// Reads a list of entries. Returns it without blanks and empty entries; none if it breaks a rule,
/// and nothing of it may be used.
pub(crate) fn parse(header: &str) -> Option<String> {
    let mut entries: Vec<(&str, &str)> = Vec::new();
    for entry in header.split(',').map(trim).filter(|entry| !entry.is_empty()) {
        let (key, value) = entry.split_once('=')?;
        let is_new = entries.iter().all(|(known, _)| *known != key);
        if !is_new || !is_key(key) || !is_value(value) || entries.len() == MAX_ENTRIES {
            return None;
        }
        entries.push((key, value));
    }
    let entries: Vec<String> = entries.into_iter().map(|(key, value)| format!("{key}={value}")).collect();
    Some(entries.join(","))
}

fn trim(entry: &str) -> &str {
    entry.trim_matches([' ', '\t'])
}

fn is_key(key: &str) -> bool {
    let is_first = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_next = |byte: u8| is_first(byte) || b"_-*/@".contains(&byte);
    (1..=256).contains(&key.len()) && key.bytes().next().is_some_and(is_first) && key.bytes().all(is_next)
}

fn is_value(value: &str) -> bool {
    let is_valid = |byte: u8| (b' '..=b'~').contains(&byte) && byte != b',' && byte != b'=';
    (1..=256).contains(&value.len()) && value.bytes().all(is_valid) && !value.ends_with(' ')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn valid_lists_are_read_and_invalid_ones_dropped() {
        let valid = [
            ("", ""),
            ("congo=t61rcWkgMzE", "congo=t61rcWkgMzE"),
            (" rojo=00f067aa0ba902b7 ,\tcongo=t6 1,,", "rojo=00f067aa0ba902b7,congo=t6 1"),
            ("0tenant@vendor=1,a_-*/@b=2", "0tenant@vendor=1,a_-*/@b=2"),
        ];
        for (header, expected) in valid {
            assert_eq!(parse(header).as_deref(), Some(expected), "{header}");
        }
        let long = |n: usize| "x".repeat(n);
        assert!(parse(&format!("{}={}", long(256), long(256))).is_some());
        let too_many: Vec<String> = (0..33).map(|n| format!("k{n}=v")).collect();
        assert!(parse(&too_many[..32].join(",")).is_some());
        let invalid = [
            "a".to_owned(),
            "=1".to_owned(),
            "a=".to_owned(),
            "A=1".to_owned(),
            "@a=1".to_owned(),
            "a=1=2".to_owned(),
            "a=ü".to_owned(),
            "a=1,a=2".to_owned(),
            "a b=1".to_owned(),
            format!("{}=1", long(257)),
            format!("a={}", long(257)),
            too_many.join(","),
        ];
        for header in invalid {
            assert_eq!(parse(&header), None, "{header}");
        }
    }
}
