//! The encoding of content, told by its mark. UTF-16 is decoded here, and encoded again where it is
//! printed; a mark is no part of the content.

use std::io::{self, BufRead, BufReader, Cursor, Read};

/// The encoding of an input.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Encoding {
    /// Bytes without a mark: UTF-8, or whatever.
    #[default]
    Bytes,
    /// UTF-8 with a mark.
    Utf8,
    Utf16Le,
    Utf16Be,
}

/// Content without its mark, as UTF-8 if it was UTF-16.
pub struct Content {
    pub bytes: Box<dyn Read + Send>,
    pub encoding: Encoding,
}

/// The marks, and what they say; none for UTF-32.
const MARKS: [(&[u8], Option<Encoding>); 5] = [
    (b"\xef\xbb\xbf", Some(Encoding::Utf8)),
    (b"\xff\xfe\0\0", None),
    (b"\0\0\xfe\xff", None),
    (b"\xff\xfe", Some(Encoding::Utf16Le)),
    (b"\xfe\xff", Some(Encoding::Utf16Be)),
];

/// The number of bytes that are read at a time, and of the beginning that is looked at.
const PIECE_BYTES: usize = 64 << 10;

impl Encoding {
    /// Returns the encoding of content with this beginning, if it is read here, and the length of
    /// its mark.
    pub fn of(beginning: &[u8]) -> (Option<Self>, usize) {
        let found = MARKS.iter().find(|(mark, _)| beginning.starts_with(mark));
        found.map_or((Some(Encoding::Bytes), 0), |(mark, encoding)| (*encoding, mark.len()))
    }

    /// Returns the encoding that content without a mark seems to have, if that is UTF-16: at every
    /// other place there are many zeros and at the others hardly any, and the ends of lines are
    /// beside one.
    pub fn seeming(content: &[u8]) -> Option<Self> {
        let content = &content[..content.len().min(PIECE_BYTES)];
        let zeros = |from: usize| content.iter().skip(from).step_by(2).filter(|byte| **byte == 0).count();
        let (at_even, at_odd) = (zeros(0), zeros(1));
        let (encoding, low) = if at_odd > at_even { (Encoding::Utf16Le, 0) } else { (Encoding::Utf16Be, 1) };
        let (many, few) = (at_odd.max(at_even), at_odd.min(at_even));
        if many * 16 <= content.len() || few * 16 > many {
            return None;
        }
        let mut ends = memchr::memchr_iter(b'\n', content).filter(|end| end ^ 1 < content.len()).peekable();
        let is_so = ends.peek().is_some() && ends.all(|end| end % 2 == low && content[end ^ 1] == 0);
        is_so.then_some(encoding)
    }

    /// Returns true if content of both may be in one file.
    pub fn goes_with(self, other: Self) -> bool {
        self == other || !self.is_utf16() && !other.is_utf16()
    }

    pub fn is_utf16(self) -> bool {
        matches!(self, Encoding::Utf16Le | Encoding::Utf16Be)
    }

    /// Returns its name, as `iconv` has it.
    pub fn name(self) -> &'static str {
        match self {
            Encoding::Bytes | Encoding::Utf8 => "UTF-8",
            Encoding::Utf16Le => "UTF-16LE",
            Encoding::Utf16Be => "UTF-16BE",
        }
    }

    /// Encodes content again; at the beginning of an output, with its mark.
    pub fn encode(self, content: &mut Vec<u8>, is_at_beginning: bool) {
        if is_at_beginning && self != Encoding::Bytes {
            content.splice(..0, MARKS[0].0.iter().copied());
        }
        let bytes_of = match self {
            Encoding::Bytes | Encoding::Utf8 => return,
            Encoding::Utf16Le => u16::to_le_bytes,
            Encoding::Utf16Be => u16::to_be_bytes,
        };
        *content = String::from_utf8_lossy(content).encode_utf16().flat_map(bytes_of).collect();
    }
}

/// Takes the mark off content, and decodes it. No more is read than it takes to tell.
pub fn decode(mut content: Box<dyn Read + Send>) -> io::Result<Content> {
    let mut beginning = Vec::new();
    let may_begin = |begun: &[u8]| MARKS.iter().any(|(mark, _)| mark.len() > begun.len() && mark.starts_with(begun));
    while may_begin(&beginning) && content.by_ref().take(1).read_to_end(&mut beginning)? > 0 {}
    let (encoding, mark) = Encoding::of(&beginning);
    let rest = Cursor::new(beginning.split_off(mark)).chain(content);
    let unit = match encoding {
        Some(encoding @ (Encoding::Bytes | Encoding::Utf8)) => return Ok(Content { bytes: Box::new(rest), encoding }),
        Some(Encoding::Utf16Le) => u16::from_le_bytes,
        Some(Encoding::Utf16Be) => u16::from_be_bytes,
        None => return Err(io::Error::other("it is UTF-32: give `iconv -f UTF-32 -t UTF-8 FILE | hapax filter …`")),
    };
    let input = BufReader::with_capacity(PIECE_BYTES, rest);
    let decoding = Decoding { input, unit, begun: Vec::new(), text: Cursor::default(), offset: mark as u64 };
    Ok(Content { bytes: Box::new(decoding), encoding: encoding.unwrap_or_default() })
}

/// Decodes UTF-16.
struct Decoding<R> {
    input: R,
    unit: fn([u8; 2]) -> u16,
    /// Bytes that are not decoded yet, and their offset in the content.
    begun: Vec<u8>,
    offset: u64,
    /// Decoded text that is not read yet.
    text: Cursor<String>,
}

impl<R: BufRead> Read for Decoding<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.text.position() == self.text.get_ref().len() as u64 {
            let piece = self.input.fill_buf()?;
            let length = piece.len();
            if length == 0 && self.begun.is_empty() {
                return Ok(0);
            }
            if length == 0 {
                return Err(io::Error::other(format!("it is {NAME}, and it ends within a character")));
            }
            self.begun.extend_from_slice(piece);
            self.input.consume(length);
            self.decode()?;
        }
        self.text.read(buffer)
    }
}

const NAME: &str = "UTF-16 by its mark";

impl<R> Decoding<R> {
    /// Decodes whole characters.
    fn decode(&mut self) -> io::Result<()> {
        self.text = Cursor::default();
        let mut decoded = 0;
        let units = self.begun.chunks_exact(2).map(|pair| (self.unit)([pair[0], pair[1]]));
        for character in char::decode_utf16(units) {
            match character {
                Ok(character) => {
                    self.text.get_mut().push(character);
                    decoded += 2 * character.len_utf16();
                }
                // The other half of it is not read yet.
                Err(half) if half.unpaired_surrogate() < 0xdc00 && self.begun.len() - decoded < 4 => break,
                Err(_) => {
                    let at = self.offset + decoded as u64;
                    return Err(io::Error::other(format!("it is {NAME}, but from offset {at} on it is no UTF-16")));
                }
            }
        }
        self.begun.drain(..decoded);
        self.offset += decoded as u64;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::fuzzing::Trickle;

    #[test]
    fn utf16_is_the_same_in_whatever_pieces_it_comes() {
        let text = "a\r\n\u{feff}\u{a0a}ü😀\0\n😀";
        for (encoding, bytes_of) in
            [(Encoding::Utf16Le, u16::to_le_bytes as fn(u16) -> [u8; 2]), (Encoding::Utf16Be, u16::to_be_bytes)]
        {
            let bytes: Vec<u8> = format!("\u{feff}{text}").encode_utf16().flat_map(bytes_of).collect();
            for at_once in 1..bytes.len() {
                let trickle = Box::new(Trickle(Cursor::new(bytes.clone()), at_once));
                let mut content = decode(trickle).unwrap();
                let mut read = Vec::new();
                content.bytes.read_to_end(&mut read).unwrap();
                assert_eq!((content.encoding, &read[..]), (encoding, text.as_bytes()), "{at_once}");
                encoding.encode(&mut read, true);
                assert_eq!(read, bytes);
            }
        }
    }
}
