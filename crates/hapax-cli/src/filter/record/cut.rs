//! Finds where records end: at the end of a line, or, where fields are quoted, at one outside of
//! quotes. Pure.

use super::fields::Dialect;
use csv_core::{ReadFieldResult, Reader};

/// Finds the ends of records in content that comes in pieces.
pub enum Cutter {
    /// Records that end with this byte, wherever it is.
    Ended(u8),
    Quoted {
        reader: Box<Reader>,
        quote: u8,
        /// True if the record under way was given to the CSV reader: it may be within quotes.
        inside: bool,
    },
}

impl Cutter {
    /// Creates a cutter of records that end with a byte, or of those of a dialect with quotes.
    pub fn new(dialect: Option<Dialect>, end: u8) -> Self {
        match dialect.and_then(|dialect| Some((dialect.quote?, dialect.reader()?))) {
            Some((quote, reader)) => Cutter::Quoted { reader: Box::new(reader), quote, inside: false },
            None => Cutter::Ended(end),
        }
    }

    /// Returns the byte that ends a record.
    pub fn last_byte(&self) -> u8 {
        if let Cutter::Ended(end) = self { *end } else { b'\n' }
    }

    /// Returns the end of the record under way in the next piece, or none if the record continues
    /// behind it.
    #[inline]
    pub fn end(&mut self, piece: &[u8]) -> Option<usize> {
        let (reader, quote, inside) = match self {
            Cutter::Ended(end) => return memchr::memchr(*end, piece).map(|end| end + 1),
            Cutter::Quoted { reader, quote, inside } => (reader, quote, inside),
        };
        // Most records have no quotes.
        if !*inside
            && let Some(end) = memchr::memchr2(*quote, b'\n', piece)
            && piece[end] == b'\n'
        {
            return Some(end + 1);
        }
        let mut scratch = [0; 512];
        let mut at = 0;
        while at < piece.len() {
            let (result, read, _) = reader.read_field(&piece[at..], &mut scratch);
            at += read;
            if result == (ReadFieldResult::Field { record_end: true }) {
                *inside = false;
                return Some(at);
            }
        }
        *inside |= !piece.is_empty();
        None
    }

    /// Returns true if the record under way would not end with its line, at the end of the content.
    pub fn is_within_quotes(&mut self) -> bool {
        matches!(self, Cutter::Quoted { .. }) && self.end(b"\n").is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::fuzzing::cut;

    #[test]
    fn records_end_outside_of_quotes_however_they_come() {
        let csv = Some(Dialect { delimiter: b',', quote: Some(b'"') });
        let all: [&[u8]; 11] = [
            b"a,b\n",
            b"\n",
            b"\r\n",
            b"\"a\nb\",c\r\n",
            b"a,\"x\n\n\"\"\n\"\"\",\"\n\"\n",
            b"a\"b\n",
            b"\"\"\n",
            b"x,\"a\"b\n",
            b"\xef\xbb\xbfx\n",
            b"\"\r\n\"\r\n",
            b"no end",
        ];
        let text = all.concat();
        for at_once in 1..=text.len() {
            assert_eq!(cut(&text, at_once, csv), all, "{at_once}");
            let lines: Vec<_> = text.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
            assert_eq!(cut(&text, at_once, None), lines, "{at_once}");
        }
        assert_eq!(cut(b"a,\"b\nc\nd", 1 << 20, csv), [b"a,\"b\nc\nd"]);
        let long = [&b"\""[..], &[b'x'; 5_000], b"\n", &[b'y'; 5_000], b"\"\n"].concat();
        for at_once in [1, 511, 512, 513, 1 << 20] {
            assert_eq!(cut(&long, at_once, csv), [&long[..]]);
        }
    }
}
