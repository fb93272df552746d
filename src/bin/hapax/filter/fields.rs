//! Fields of a line. Pure.

use std::borrow::Cow;

/// How a line is divided into fields.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Dialect {
    pub delimiter: u8,
    pub quote: Option<u8>,
}

/// A line whose quotes do not match.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Unbalanced {
    /// Which field, counted from 1.
    pub field: usize,
    pub problem: &'static str,
}

/// A field, and what follows its delimiter, if one does.
type Split<'a> = (Cow<'a, [u8]>, Option<&'a [u8]>);

impl Dialect {
    /// The fields of a line, in order.
    pub fn split<'a>(self, line: &'a [u8]) -> impl Iterator<Item = Result<Cow<'a, [u8]>, Unbalanced>> {
        let mut rest = Some(line);
        (1..).map_while(move |field| {
            let line = rest.take()?;
            let split = match self.quote {
                Some(quote) if line.first() == Some(&quote) => self.quoted(&line[1..], quote),
                _ => Ok(self.unquoted(line)),
            };
            let (content, after) = match split {
                Ok(split) => split,
                Err(problem) => return Some(Err(Unbalanced { field, problem })),
            };
            rest = after;
            Some(Ok(content))
        })
    }

    /// The field of this number, counted from 1, if the line has so many.
    pub fn nth(self, line: &[u8], n: usize) -> Result<Option<Cow<'_, [u8]>>, Unbalanced> {
        if self.quote.is_none() {
            // Nothing to be checked in the fields before.
            let mut rest = line;
            for _ in 1..n {
                match memchr::memchr(self.delimiter, rest) {
                    Some(end) => rest = &rest[end + 1..],
                    None => return Ok(None),
                }
            }
            return Ok(Some(self.unquoted(rest).0));
        }
        // All of them: quotes that do not match make the whole line doubtful.
        self.split(line)
            .enumerate()
            .try_fold(None, |found, (i, field)| field.map(|field| found.or((i + 1 == n).then_some(field))))
    }

    fn unquoted(self, line: &[u8]) -> Split<'_> {
        match memchr::memchr(self.delimiter, line) {
            Some(end) => (Cow::Borrowed(&line[..end]), Some(&line[end + 1..])),
            None => (Cow::Borrowed(line), None),
        }
    }

    /// A field whose opening quote has been read.
    fn quoted<'a>(self, line: &'a [u8], quote: u8) -> Result<Split<'a>, &'static str> {
        let mut content: Cow<'a, [u8]> = Cow::Borrowed(b"");
        let mut rest = line;
        loop {
            let end = memchr::memchr(quote, rest).ok_or("a quoted field does not end on its line")?;
            let (part, after) = (&rest[..end], &rest[end + 1..]);
            match content.is_empty() {
                true => content = Cow::Borrowed(part),
                false => content.to_mut().extend_from_slice(part),
            }
            match after.first() {
                None => return Ok((content, None)),
                Some(byte) if *byte == self.delimiter => return Ok((content, Some(&after[1..]))),
                Some(byte) if *byte == quote => {
                    content.to_mut().push(quote);
                    rest = &after[1..];
                }
                Some(_) => return Err("there is something between a closing quote and the delimiter"),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TSV: Dialect = Dialect { delimiter: b'\t', quote: None };
    const CSV: Dialect = Dialect { delimiter: b',', quote: Some(b'"') };

    fn split(dialect: Dialect, line: &str) -> Result<Vec<String>, Unbalanced> {
        let text = |field: Cow<[u8]>| String::from_utf8(field.into_owned()).unwrap();
        dialect.split(line.as_bytes()).map(|field| field.map(text)).collect()
    }

    #[test]
    fn fields_are_what_is_between_delimiters() {
        assert_eq!(split(TSV, "a\tb\t\tc").unwrap(), ["a", "b", "", "c"]);
        assert_eq!(split(TSV, "").unwrap(), [""]);
        assert_eq!(split(TSV, "\t").unwrap(), ["", ""]);
        assert_eq!(split(TSV, "\"a\t\"b").unwrap(), ["\"a", "\"b"]);
        assert_eq!(split(CSV, r#"a,"b,c",d"#).unwrap(), ["a", "b,c", "d"]);
        assert_eq!(split(CSV, r#""a ""b"" c","",x"y"#).unwrap(), [r#"a "b" c"#, "", r#"x"y"#]);
        assert_eq!(split(CSV, r#""""#).unwrap(), [""]);
        assert_eq!(split(CSV, r#""""""#).unwrap(), [r#"""#]);
        assert_eq!(split(CSV, r#""a","#).unwrap(), ["a", ""]);
    }

    #[test]
    fn quotes_that_do_not_match_are_found() {
        for (line, field) in [(r#""a"#, 1), (r#"a,"b"c,d"#, 2), (r#"a,b,"c"" "#, 3), (r#"""""#, 1)] {
            assert_eq!(split(CSV, line).unwrap_err().field, field, "{line}");
            assert!(CSV.nth(line.as_bytes(), 1).is_err(), "{line}: also when another field was asked for");
        }
    }

    #[test]
    fn the_nth_field() {
        let nth = |dialect: Dialect, line: &str, n| dialect.nth(line.as_bytes(), n).unwrap().map(Cow::into_owned);
        for dialect in [TSV, CSV] {
            let line = ["a", "b", ""].join(std::str::from_utf8(&[dialect.delimiter]).unwrap());
            assert_eq!(nth(dialect, &line, 1), Some(b"a".to_vec()));
            assert_eq!(nth(dialect, &line, 2), Some(b"b".to_vec()));
            assert_eq!(nth(dialect, &line, 3), Some(b"".to_vec()));
            assert_eq!(nth(dialect, &line, 4), None);
        }
        assert_eq!(nth(CSV, r#"x,"a ""b"",c",y"#, 2), Some(br#"a "b",c"#.to_vec()));
    }
}
