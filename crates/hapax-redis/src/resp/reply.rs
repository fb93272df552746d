//! Answers as the server writes them (RESP2), read where they lie.
//!
//! [`Scanner`] finds the ends of answers, however they arrive, and rejects bytes that are no
//! answer. [`Reply`] reads a whole one.

use std::fmt;

/// An answer, or an element of one.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Reply<'b> {
    /// A word of the protocol, such as `OK`.
    Word(&'b [u8]),
    Refusal(Refusal<'b>),
    Int(i64),
    Bytes(&'b [u8]),
    Nil,
    Array(Replies<'b>),
}

/// A server's error: `CODE details`.
#[derive(Clone, Copy, PartialEq)]
pub(crate) struct Refusal<'b>(&'b [u8]);

/// Answers, one after the other.
#[derive(Clone, Copy, PartialEq)]
pub(crate) struct Replies<'b> {
    left: u64,
    bytes: &'b [u8],
}

/// Bytes that are no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed;

/// The length of the longest text that a server sends in one piece.
const BYTES_MAX: u64 = 512 << 20;
/// The largest accepted number of elements of an array: more than any requested answer has.
const ELEMENTS_MAX: u64 = 1 << 24;
/// The length of the longest line: a refusal may quote the request.
const LINE_MAX: usize = 64 << 10;

/// A scanner for the ends of answers in bytes that arrive little by little. Each byte is looked at
/// once, and nothing is kept of it: memory is the reader's.
#[derive(Debug, Default)]
pub(crate) struct Scanner {
    /// The first byte of a part that has not arrived in whole.
    at: usize,
    /// Elements of the answer that are still to come. 0 before an answer begins.
    pending: u64,
    has_refusals: bool,
}

impl Scanner {
    /// Continues in the available bytes. Returns the end of the next whole answer, if it has
    /// arrived.
    pub(crate) fn next_end(&mut self, bytes: &[u8]) -> Result<Option<usize>, Malformed> {
        self.pending = self.pending.max(1);
        while self.pending > 0 {
            let Some((head, len)) = head(&bytes[self.at..])? else { return Ok(None) };
            self.pending -= 1;
            match head {
                Reply::Array(elements) => self.pending += elements.left,
                Reply::Refusal(_) => self.has_refusals = true,
                _ => {}
            }
            if self.pending > ELEMENTS_MAX {
                return Err(Malformed);
            }
            self.at += len;
        }
        Ok(Some(self.at))
    }

    /// Returns true if the server refused a request since the last call.
    pub(crate) fn take_refusals(&mut self) -> bool {
        std::mem::take(&mut self.has_refusals)
    }

    /// Notes that this many bytes were taken off the front.
    pub(crate) fn taken(&mut self, bytes: usize) {
        self.at -= bytes;
    }
}

/// Returns the answer that begins here, and its length, if it has arrived in whole. Of an array it
/// is the beginning: the elements come after it.
fn head(bytes: &[u8]) -> Result<Option<(Reply<'_>, usize)>, Malformed> {
    let Some((sort, rest)) = bytes.split_first() else { return Ok(None) };
    let Some(line) = line(rest)? else { return Ok(None) };
    let len = 1 + line.len() + 2;
    let head = match sort {
        b'+' => Reply::Word(line),
        b'-' => Reply::Refusal(Refusal(line)),
        b':' => Reply::Int(integer(line)?),
        b'$' => match integer(line)? {
            -1 => Reply::Nil,
            size => {
                let size = u64::try_from(size).ok().filter(|size| *size <= BYTES_MAX).ok_or(Malformed)? as usize;
                let Some(text) = bytes.get(len..len + size + 2) else { return Ok(None) };
                let text = text.strip_suffix(b"\r\n").ok_or(Malformed)?;
                return Ok(Some((Reply::Bytes(text), len + size + 2)));
            }
        },
        b'*' => match integer(line)? {
            -1 => Reply::Nil,
            elements => {
                let left = u64::try_from(elements).ok().filter(|n| *n <= ELEMENTS_MAX).ok_or(Malformed)?;
                Reply::Array(Replies { left, bytes: &[] })
            }
        },
        _ => return Err(Malformed),
    };
    Ok(Some((head, len)))
}

/// Returns the bytes before the end of the line, if that has arrived.
fn line(bytes: &[u8]) -> Result<Option<&[u8]>, Malformed> {
    match bytes.iter().take(LINE_MAX).position(|&byte| byte == b'\r') {
        Some(end) => match bytes.get(end + 1) {
            Some(b'\n') => Ok(Some(&bytes[..end])),
            Some(_) => Err(Malformed),
            None => Ok(None),
        },
        None if bytes.len() >= LINE_MAX => Err(Malformed),
        None => Ok(None),
    }
}

fn integer(line: &[u8]) -> Result<i64, Malformed> {
    let (is_negative, digits) = match line.split_first() {
        Some((b'-', digits)) => (true, digits),
        _ => (false, line),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return Err(Malformed);
    }
    let add = |number: i64, digit: &u8| {
        let digit = i64::from(digit - b'0');
        number.checked_mul(10)?.checked_add(if is_negative { -digit } else { digit })
    };
    digits.iter().try_fold(0, add).ok_or(Malformed)
}

impl<'b> Replies<'b> {
    /// Creates an iterator over this many answers, which a [`Scanner`] has found whole.
    pub(crate) fn new(count: usize, bytes: &'b [u8]) -> Self {
        Replies { left: count as u64, bytes }
    }

    pub(crate) fn len(&self) -> usize {
        self.left as usize
    }

    /// Returns all answers, if they are as many as expected.
    pub(crate) fn all<const N: usize>(mut self) -> Option<[Reply<'b>; N]> {
        let mut all = [Reply::Nil; N];
        if self.len() != N {
            return None;
        }
        for reply in &mut all {
            *reply = self.next()?;
        }
        Some(all)
    }
}

impl<'b> Iterator for Replies<'b> {
    type Item = Reply<'b>;

    fn next(&mut self) -> Option<Reply<'b>> {
        self.left = self.left.checked_sub(1)?;
        // The scanner has found them whole; if they were not, there would be fewer.
        let (mut reply, len) = head(self.bytes).ok()??;
        let mut rest = &self.bytes[len..];
        if let Reply::Array(elements) = &mut reply
            && elements.left > 0
        {
            let mut scanner = Scanner { at: 0, pending: elements.left, has_refusals: false };
            let end = scanner.next_end(rest).ok()??;
            (elements.bytes, rest) = rest.split_at(end);
        }
        self.bytes = rest;
        Some(reply)
    }
}

impl<'b> Reply<'b> {
    /// Returns the text of an answer, if it has one.
    pub(crate) fn text(self) -> Option<&'b str> {
        match self {
            Reply::Word(text) | Reply::Bytes(text) => std::str::from_utf8(text).ok(),
            _ => None,
        }
    }
}

impl<'b> Refusal<'b> {
    /// Returns the first word, the kind of refusal, in capitals: that of what a script ran into,
    /// also where the server puts it into a text of its own.
    pub(crate) fn code(self) -> &'b str {
        self.split().0
    }

    /// Returns the text after the first word.
    pub(crate) fn details(self) -> &'b str {
        self.split().1
    }

    fn split(self) -> (&'b str, &'b str) {
        // Bytes that are not text are worth no more than the text before them.
        let text = match std::str::from_utf8(self.0) {
            Ok(text) => text,
            Err(wrong) => std::str::from_utf8(&self.0[..wrong.valid_up_to()]).unwrap_or_default(),
        };
        let text = in_script(text);
        let (code, details) = text.split_once(' ').unwrap_or((text, ""));
        if code.bytes().all(|byte| byte.is_ascii_uppercase()) { (code, details) } else { ("ERR", text) }
    }
}

/// Returns what a script ran into, if this is how a server before Redis 7 reports it. For a script:
/// `ERR Error running script (call to f_…): @user_script:12: @user_script: 12: -OOM …`; for one of
/// its keys: `@user_script: 12: -OOM …`.
fn in_script(text: &str) -> &str {
    const PLACE: &str = "@user_script:";
    let raised = text.strip_prefix("ERR Error running script (call to f_").and_then(|rest| rest.split_once("): "));
    let mut inner = raised.map_or(text, |(_, inner)| inner);
    if !inner.starts_with(PLACE) {
        return text;
    }
    while let Some(rest) = inner.strip_prefix(PLACE) {
        inner = rest.trim_start_matches(|byte: char| byte.is_ascii_digit() || matches!(byte, ' ' | ':'));
    }
    inner.strip_prefix('-').unwrap_or(inner)
}

impl fmt::Display for Refusal<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = &self.0[..self.0.len().min(300)];
        f.write_str(&String::from_utf8_lossy(shown))
    }
}

impl fmt::Debug for Refusal<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Shown in brief, since an answer may be long and, from an unknown source, as deep as it likes.
impl fmt::Debug for Reply<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reply::Word(text) | Reply::Bytes(text) => write!(f, "\"{}\"", text[..text.len().min(100)].escape_ascii()),
            Reply::Refusal(refusal) => fmt::Debug::fmt(refusal, f),
            Reply::Int(number) => fmt::Debug::fmt(number, f),
            Reply::Nil => f.write_str("nil"),
            Reply::Array(replies) => fmt::Debug::fmt(replies, f),
        }
    }
}

impl fmt::Debug for Replies<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut list = f.debug_list();
        for reply in self.take(20) {
            match reply {
                Reply::Array(inner) => list.entry(&format_args!("[{} of them]", inner.len())),
                other => list.entry(&other),
            };
        }
        list.finish()
    }
}

/// Returns the only answer in these bytes, for tests.
#[cfg(test)]
pub(crate) fn read(bytes: &[u8]) -> Option<Reply<'_>> {
    let end = Scanner::default().next_end(bytes).ok()??;
    (end == bytes.len()).then(|| Replies::new(1, bytes).next())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_as_they_were_written() {
        assert_eq!(read(b"+OK\r\n"), Some(Reply::Word(b"OK")));
        assert_eq!(read(b":-17\r\n"), Some(Reply::Int(-17)));
        assert_eq!(read(b":-9223372036854775808\r\n"), Some(Reply::Int(i64::MIN)));
        assert_eq!(read(b"$4\r\na\r\nb\r\n"), Some(Reply::Bytes(b"a\r\nb")));
        assert_eq!((read(b"$-1\r\n"), read(b"*-1\r\n")), (Some(Reply::Nil), Some(Reply::Nil)));
        let Some(Reply::Refusal(refusal)) = read(b"-MOVED 3999 127.0.0.1:6381\r\n") else { panic!("a refusal") };
        assert_eq!((refusal.code(), refusal.details()), ("MOVED", "3999 127.0.0.1:6381"));

        let Some(Reply::Array(outer)) = read(b"*4\r\n*2\r\n$1\r\na\r\n*0\r\n:1\r\n*1\r\n-ERR x\r\n+last\r\n") else {
            panic!("an array")
        };
        let Some([Reply::Array(inner), Reply::Int(1), Reply::Array(refused), Reply::Word(b"last")]) = outer.all()
        else {
            panic!("{outer:?}")
        };
        assert_eq!(inner.all(), Some([Reply::Bytes(b"a"), Reply::Array(Replies::new(0, &[]))]));
        assert!(matches!(refused.all(), Some([Reply::Refusal(_)])));
        assert_eq!(outer.all::<3>(), None);
    }

    #[test]
    fn ends_are_found_however_answers_arrive() {
        let answers = b"+OK\r\n*2\r\n:1\r\n*1\r\n$2\r\n\r\n\r\n-ERR\r\n".as_slice();
        for step in 1..=answers.len() {
            let (mut scanner, mut ends, mut there) = (Scanner::default(), vec![], 0);
            while there < answers.len() {
                there = (there + step).min(answers.len());
                while let Some(end) = scanner.next_end(&answers[..there]).expect("answers") {
                    ends.push(end);
                    if end == there {
                        break;
                    }
                }
            }
            assert_eq!(ends, [5, 25, 31], "by {step}");
            assert!(scanner.take_refusals() && !scanner.take_refusals());
        }
    }

    #[test]
    fn what_is_no_answer_is_refused() {
        let too_many = format!("*{}\r\n", ELEMENTS_MAX + 1);
        let nested = format!("*{0}\r\n*{0}\r\n", ELEMENTS_MAX);
        let long = [b"+".as_slice(), &[b'a'; LINE_MAX]].concat();
        for wrong in [
            b"?\r\n".as_slice(),
            b"OK\r\n",
            b":\r\n",
            b":1x\r\n",
            b":+1\r\n",
            b":9223372036854775808\r\n",
            b"$-2\r\n",
            b"$536870913\r\n",
            b"$1\r\nab\r\n",
            b"+a\rb\r\n",
            b"_\r\n",
            too_many.as_bytes(),
            nested.as_bytes(),
            &long,
        ] {
            assert_eq!(Scanner::default().next_end(wrong), Err(Malformed), "{}", wrong.escape_ascii());
        }
        for unfinished in [b"".as_slice(), b"+", b"+OK", b"+OK\r", b"$3\r\nab", b"$1\r\na", b"*1\r\n", b"*2\r\n:1\r\n"]
        {
            assert_eq!(Scanner::default().next_end(unfinished), Ok(None), "{}", unfinished.escape_ascii());
        }
    }
}
