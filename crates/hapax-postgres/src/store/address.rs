//! The words of an address that are about TLS, in libpq's meaning or a stricter one. The driver has
//! another: it verifies nothing by itself, and goes on without TLS where `prefer` allows it.

use super::BACKEND;
use hapax_store::{ErrorKind, StoreError};
use std::ops::Range;
use tokio_postgres::Config;
use tokio_postgres::config::SslMode;

/// The name of the word for certificates that says: those of the platform.
const PLATFORM: &str = "system";

/// Returns the driver's configuration, and the file of certificates if the address names one.
pub(super) fn parse(address: &str) -> Result<(Config, Option<String>), StoreError> {
    let misconfigured = |what: String| StoreError::new(ErrorKind::Misconfigured, BACKEND, what);
    let (mut rest, mut mode, mut file) = (address.to_owned(), None, None);
    for word in words(address).into_iter().rev() {
        match word.name {
            "sslmode" => mode = mode.or(Some(word.value)),
            "sslrootcert" => file = file.or(Some(word.value)),
            _ => continue,
        }
        rest.replace_range(word.place, "");
    }
    let mode = match (mode.as_deref(), &file) {
        (None, None) => SslMode::Prefer,
        (Some("disable"), None) => SslMode::Disable,
        // Stricter than libpq in the first two: a certificate is verified, with the server's name.
        (Some("require" | "verify-ca" | "verify-full"), _) => SslMode::Require,
        (None | Some("disable"), Some(_)) => {
            return Err(misconfigured("sslrootcert: expected sslmode=verify-full beside it".into()));
        }
        (Some("allow" | "prefer"), _) => {
            let why = "whoever is on the way could turn TLS off";
            return Err(misconfigured(format!("sslmode: expected disable or verify-full, got allow or prefer: {why}")));
        }
        (Some(_), _) => return Err(misconfigured("sslmode: expected disable or verify-full, got another word".into())),
    };
    let mut config = rest
        .parse::<Config>()
        .map_err(|error| StoreError::caused(ErrorKind::Misconfigured, BACKEND, "expected an address", error))?;
    config.ssl_mode(mode);
    Ok((config, file.filter(|file| file != PLATFORM)))
}

/// A word of an address, with its place: that of all of it, and of what separates it from the next.
#[derive(Debug, PartialEq)]
struct Word<'a> {
    name: &'a str,
    value: String,
    place: Range<usize>,
}

/// Returns the words of an address up to the first that makes no sense, which the driver reports.
fn words(address: &str) -> Vec<Word<'_>> {
    let is_url = ["postgres://", "postgresql://"].iter().any(|scheme| address.starts_with(scheme));
    if is_url { of_url(address) } else { of_text(address) }
}

fn of_url(address: &str) -> Vec<Word<'_>> {
    let behind_user = address.find('@').map_or(0, |at| at + 1);
    let Some(query) = address[behind_user..].find('?').map(|at| behind_user + at + 1) else { return vec![] };
    let mut begin = query;
    let word = |part: &'_ str| {
        let place = begin..(begin + part.len() + 1).min(address.len());
        begin = place.end;
        (&address[place.start..place.start + part.len()], place)
    };
    let words = address[query..].split('&').map(word);
    let valued = words.filter_map(|(part, place)| {
        let (name, value) = part.split_once('=')?;
        Some(Word { name, value: decoded(value), place })
    });
    valued.collect()
}

/// Decodes `%2F` and the like. What is no such code stays.
fn decoded(value: &str) -> String {
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let code = after.get(..2).filter(|_| first == b'%').and_then(|code| std::str::from_utf8(code).ok());
        let byte = code.and_then(|code| u8::from_str_radix(code, 16).ok());
        bytes.push(byte.unwrap_or(first));
        rest = if byte.is_some() { &after[2..] } else { after };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn of_text(address: &str) -> Vec<Word<'_>> {
    let (mut words, mut at) = (vec![], 0);
    let blank = |at: usize| at + address[at..].len() - address[at..].trim_start().len();
    loop {
        let begin = blank(at);
        let name = &address[begin..begin + address[begin..].find(|c: char| c == '=' || c.is_whitespace()).unwrap_or(0)];
        let equals = blank(begin + name.len());
        if name.is_empty() || !address[equals..].starts_with('=') {
            return words;
        }
        let value = blank(equals + 1);
        let (text, length) = quoted(&address[value..]);
        at = value + length;
        words.push(Word { name, value: text, place: begin..at });
    }
}

/// Returns the value at the beginning of a text, perhaps in `'`, and how long it is there.
fn quoted(text: &str) -> (String, usize) {
    let is_quoted = text.starts_with('\'');
    let (mut value, mut is_escaped) = (String::new(), false);
    for (at, c) in text.char_indices().skip(usize::from(is_quoted)) {
        match c {
            _ if std::mem::take(&mut is_escaped) => value.push(c),
            '\\' => is_escaped = true,
            '\'' if is_quoted => return (value, at + 1),
            c if c.is_whitespace() && !is_quoted => return (value, at),
            c => value.push(c),
        }
    }
    (value, text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(address: &str) -> Result<(SslMode, Option<String>), String> {
        let parsed = parse(address).map_err(|error| error.to_string())?;
        Ok((parsed.0.get_ssl_mode(), parsed.1))
    }

    #[test]
    fn each_word_for_tls_does_at_least_what_libpq_says_or_is_refused() {
        for form in ["postgres://db/app?connect_timeout=3&{}", "postgres://u:p@db/app?{}&user=a", "host=db {} user=a"] {
            let mode = |words: &str| mode(&form.replace("{}", words));
            let and = if form.contains("://") { "&" } else { " " };
            assert_eq!(mode("sslmode=disable"), Ok((SslMode::Disable, None)), "{form}");
            for word in ["require", "verify-ca", "verify-full"] {
                assert_eq!(mode(&format!("sslmode={word}")), Ok((SslMode::Require, None)), "{form} {word}");
                let with_roots = format!("sslmode={word}{and}sslrootcert=/etc/ca.pem");
                assert_eq!(mode(&with_roots), Ok((SslMode::Require, Some("/etc/ca.pem".into()))), "{form}");
                let platform = format!("sslrootcert=system{and}sslmode={word}");
                assert_eq!(mode(&platform), Ok((SslMode::Require, None)), "{form}");
            }
            for word in ["allow", "prefer", "", "Require", "verify_full"] {
                let error = mode(&format!("sslmode={word}")).unwrap_err();
                assert!(error.contains("sslmode: expected disable or verify-full"), "{form} {word}: {error}");
            }
            for words in ["sslrootcert=/etc/ca.pem".to_owned(), format!("sslmode=disable{and}sslrootcert=/etc/ca.pem")]
            {
                assert!(mode(&words).unwrap_err().contains("expected sslmode=verify-full beside it"), "{form} {words}");
            }
        }
        assert_eq!(mode("postgres://db/app"), Ok((SslMode::Prefer, None)), "nothing is said: without TLS");
    }

    #[test]
    fn words_are_found_where_they_are_and_nowhere_else() {
        let text = r"host=db password = 'it\'s sslmode=disable' sslmode = 'verify-full' user=a\ b";
        let (config, _) = parse(text).unwrap();
        assert_eq!(config.get_password(), Some(&b"it's sslmode=disable"[..]));
        assert_eq!((config.get_ssl_mode(), config.get_user()), (SslMode::Require, Some("a b")));
        let (config, file) =
            parse("postgresql://u:a?sslmode=prefer@db/app?sslmode=verify-full&sslrootcert=%2Fa%20b&user=x").unwrap();
        assert_eq!(config.get_password(), Some(&b"a?sslmode=prefer"[..]));
        assert_eq!((config.get_ssl_mode(), file.as_deref()), (SslMode::Require, Some("/a b")));
        // The last one counts, as with libpq.
        assert_eq!(mode("host=db sslmode=disable sslmode=require"), Ok((SslMode::Require, None)));
        for wrong in [
            "host=db sslmode",
            "host=db =x",
            "host=db password='open",
            "sslmode=verify-full",
            "%",
            "postgres://?sslmode",
        ] {
            // The driver decides; nothing panics.
            let _ = parse(wrong);
        }
    }

    #[test]
    fn no_error_shows_an_address() {
        for wrong in [
            "postgres://u:secret@db/app?sslmode=secret",
            "host=db password=secret sslmode=secret",
            "host=db password=secret sslrootcert=secret",
            "host=db password=secret nonsense",
            "postgres://u:secret@db/app?nonsense=secret",
        ] {
            let error = parse(wrong).unwrap_err();
            assert!(!format!("{error} {error:?}").contains("secret"), "{error:?}");
        }
    }
}
