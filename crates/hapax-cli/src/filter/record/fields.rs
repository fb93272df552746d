//! Fields of a record. Pure.

use csv_core::{ReadFieldResult, Reader, ReaderBuilder, Terminator};
use std::borrow::Cow;
use std::cell::RefCell;

/// The rules by which a line is divided into fields.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Dialect {
    pub delimiter: u8,
    pub quote: Option<u8>,
}

/// Splits records into fields.
#[derive(Debug)]
pub struct Splitter {
    dialect: Dialect,
    /// Reads quoted fields, each from its beginning. (Its clones are no working readers: csv-core
    /// 0.1.13 forgets half of their state.)
    reader: Option<RefCell<Reader>>,
}

/// A line whose quotes do not match.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Unbalanced {
    /// The number of the field, counted from 1, and its offset.
    pub field: usize,
    pub at: usize,
    pub problem: &'static str,
}

impl Clone for Splitter {
    fn clone(&self) -> Self {
        Splitter::new(self.dialect)
    }
}

/// A field, and the text after its delimiter, if it has one.
type Split<'a> = (Cow<'a, [u8]>, Option<&'a [u8]>);

impl Dialect {
    /// Returns the quote of fields with this delimiter, unless an option says another one.
    pub fn quote_of(delimiter: u8) -> Option<u8> {
        matches!(delimiter, b',' | b';').then_some(b'"')
    }

    /// Creates a reader of fields with these quotes by RFC 4180; none without quotes.
    pub fn reader(self) -> Option<Reader> {
        let quote = self.quote?;
        // Fields without quotes cannot contain an end of a line.
        let end = Terminator::Any(b'\n');
        Some(ReaderBuilder::new().delimiter(self.delimiter).quote(quote).terminator(end).build())
    }
}

impl Splitter {
    pub fn new(dialect: Dialect) -> Self {
        Splitter { dialect, reader: dialect.reader().map(RefCell::new) }
    }

    /// Returns the fields of a line, in order.
    pub fn split<'a>(&self, line: &'a [u8]) -> impl Iterator<Item = Result<Cow<'a, [u8]>, Unbalanced>> {
        self.parts(line).map(|part| part.map(|(_, content)| content))
    }

    /// Returns the fields of a line as they are written, in this order; none if there are not as
    /// many.
    pub fn ordered(&self, line: &[u8], order: &[usize]) -> Result<Option<Vec<u8>>, Unbalanced> {
        let written: Vec<_> =
            self.parts(line).map(|part| part.map(|(written, _)| written)).collect::<Result<_, _>>()?;
        let ordered = || order.iter().map(|&field| written[field]).collect::<Vec<_>>().join(&self.dialect.delimiter);
        Ok((written.len() == order.len()).then(ordered))
    }

    /// Returns the fields of a line, each as it is written and what it contains.
    fn parts<'a>(&self, record: &'a [u8]) -> impl Iterator<Item = Result<(&'a [u8], Cow<'a, [u8]>), Unbalanced>> {
        let mut rest = Some(record);
        (1..).map_while(move |field| {
            let line = rest.take()?;
            let (content, after) = match self.first(line) {
                Ok(split) => split,
                Err(problem) => return Some(Err(Unbalanced { field, at: record.len() - line.len(), problem })),
            };
            rest = after;
            Some(Ok((&line[..line.len() - after.map_or(0, |after| after.len() + 1)], content)))
        })
    }

    /// Returns the field of this number, counted from 1, if the line has that many.
    pub fn nth<'a>(&self, line: &'a [u8], n: usize) -> Result<Option<Cow<'a, [u8]>>, Unbalanced> {
        if self.reader.is_none() {
            // Nothing has to be checked in the fields before.
            let mut rest = line;
            for _ in 1..n {
                match memchr::memchr(self.dialect.delimiter, rest) {
                    Some(end) => rest = &rest[end + 1..],
                    None => return Ok(None),
                }
            }
            return Ok(Some(self.unquoted(rest).0));
        }
        // All fields are read: quotes that do not match make the whole line doubtful.
        let (mut found, mut rest, mut field) = (None, Some(line), 0);
        while let Some(begun) = rest {
            field += 1;
            let split = self.first(begun);
            let split = split.map_err(|problem| Unbalanced { field, at: line.len() - begun.len(), problem });
            let (content, after) = split?;
            if field == n {
                found = Some(content);
            }
            rest = after;
        }
        Ok(found)
    }

    /// Splits off the first field. (Called for each: it costs a tenth of a line of CSV.)
    #[inline(always)]
    fn first<'a>(&self, line: &'a [u8]) -> Result<Split<'a>, &'static str> {
        match (self.dialect.quote, &self.reader) {
            (Some(quote), Some(reader)) if line.first() == Some(&quote) => {
                self.quoted(line, quote, &mut reader.borrow_mut())
            }
            _ => Ok(self.unquoted(line)),
        }
    }

    /// Returns a record with no more quotes than it needs: the same text for the same fields.
    pub fn plain<'a>(&self, record: &'a [u8]) -> Result<Cow<'a, [u8]>, Unbalanced> {
        let Some(quote) = self.dialect.quote.filter(|quote| memchr::memchr(*quote, record).is_some()) else {
            return Ok(Cow::Borrowed(record));
        };
        let mut plain = Vec::with_capacity(record.len());
        for field in self.split(record) {
            let field = field?;
            let is_quoted = memchr::memchr3(quote, self.dialect.delimiter, b'\n', &field).is_some();
            plain.extend(is_quoted.then_some(quote));
            field.iter().for_each(|&byte| plain.extend(std::iter::repeat_n(byte, 1 + usize::from(byte == quote))));
            plain.extend(is_quoted.then_some(quote));
            plain.push(self.dialect.delimiter);
        }
        plain.pop();
        Ok(Cow::Owned(plain))
    }

    fn unquoted<'a>(&self, line: &'a [u8]) -> Split<'a> {
        match memchr::memchr(self.dialect.delimiter, line) {
            Some(end) => (Cow::Borrowed(&line[..end]), Some(&line[end + 1..])),
            None => (Cow::Borrowed(line), None),
        }
    }

    /// Splits off a field that begins with a quote.
    fn quoted<'a>(&self, line: &'a [u8], quote: u8, reader: &mut Reader) -> Result<Split<'a>, &'static str> {
        let Extent { raw, content, quotes, has_ended, is_last } = extent(line, quote, reader);
        if !has_ended {
            return Err("a quoted field does not end");
        }
        let field = &line[..raw];
        // The reader's content may be more than the quoted part: it includes text after a closing
        // quote, too.
        if !field.ends_with(&[quote]) || raw != 2 + content + quotes {
            return Err("there is something between a closing quote and the delimiter");
        }
        let after = (!is_last).then(|| &line[raw + 1..]);
        if quotes == 0 {
            return Ok((Cow::Borrowed(&field[1..raw - 1]), after));
        }
        let mut unescaped = vec![0; content];
        reader.reset();
        let _ = reader.read_field(field, &mut unescaped);
        Ok((Cow::Owned(unescaped), after))
    }
}

/// The extent of a field, as the CSV reader sees it.
struct Extent {
    /// Bytes of the field as it is written.
    raw: usize,
    /// Bytes of its content, and how many of these are quotes.
    content: usize,
    quotes: usize,
    /// Its quotes are closed.
    has_ended: bool,
    is_last: bool,
}

fn extent(line: &[u8], quote: u8, reader: &mut Reader) -> Extent {
    let mut extent = Extent { raw: 0, content: 0, quotes: 0, has_ended: true, is_last: true };
    let mut scratch = [0; 256];
    reader.reset();
    loop {
        let rest = &line[extent.raw..];
        // An end of the line distinguishes a field that has ended from one that would continue.
        let (result, read, written) = reader.read_field(if rest.is_empty() { b"\n" } else { rest }, &mut scratch);
        extent.content += written;
        extent.quotes += memchr::memchr_iter(quote, &scratch[..written]).count();
        match result {
            ReadFieldResult::Field { .. } if rest.is_empty() => return extent,
            ReadFieldResult::Field { record_end } => {
                extent.raw += read - 1;
                extent.is_last = record_end;
                return extent;
            }
            ReadFieldResult::InputEmpty if rest.is_empty() => {
                extent.has_ended = false;
                return extent;
            }
            ReadFieldResult::InputEmpty | ReadFieldResult::OutputFull | ReadFieldResult::End => extent.raw += read,
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
        Splitter::new(dialect).split(line.as_bytes()).map(|field| field.map(text)).collect()
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
        assert_eq!(split(CSV, "\"a\nb\r\n\",c").unwrap(), ["a\nb\r\n", "c"]);
        let long = format!("{}\"\"{}", "x".repeat(255), "y\n".repeat(1_000));
        assert_eq!(split(CSV, &format!("\"{long}\",z")).unwrap(), [long.replace("\"\"", "\""), "z".to_string()]);
    }

    #[test]
    fn quotes_that_do_not_match_are_found() {
        for (line, field) in [
            (r#""a"#, 1),
            (r#"a,"b"c,d"#, 2),
            (r#"a,b,"c"" "#, 3),
            (r#"""""#, 1),
            (r#""a"b""#, 1),
            (r#"x,"a""b"c"",y"#, 2),
        ] {
            assert_eq!(split(CSV, line).unwrap_err().field, field, "{line}");
            assert!(
                Splitter::new(CSV).nth(line.as_bytes(), 1).is_err(),
                "{line}: also when another field was asked for"
            );
        }
    }

    #[test]
    fn the_nth_field() {
        let nth = |dialect: Dialect, line: &str, n| {
            Splitter::new(dialect).nth(line.as_bytes(), n).unwrap().map(Cow::into_owned)
        };
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
