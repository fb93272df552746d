//! Commands as the server reads them (RESP): all of a batch in one piece of memory.

use std::ops::Range;

/// Commands, one after the other, each with the slot of its key.
#[derive(Debug, Default)]
pub(crate) struct Commands {
    bytes: Vec<u8>,
    commands: Vec<Written>,
}

#[derive(Clone, Copy, Debug)]
struct Written {
    end: usize,
    slot: u16,
}

impl Commands {
    /// Creates an empty list, with room for some commands.
    pub(crate) fn with_capacity(commands: usize, bytes: usize) -> Self {
        Commands { bytes: Vec::with_capacity(bytes), commands: Vec::with_capacity(commands) }
    }

    /// Creates one command, whose words are texts.
    pub(crate) fn of(words: &[&str]) -> Self {
        let mut commands = Self::default();
        commands.add(words);
        commands
    }

    /// Adds a command whose words are texts, for any node.
    pub(crate) fn add(&mut self, words: &[&str]) {
        self.begin(words.len());
        words.iter().for_each(|word| self.text(word));
        self.end(0);
    }

    pub(crate) fn len(&self) -> usize {
        self.commands.len()
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Begins a command of this many words, which are to follow.
    pub(crate) fn begin(&mut self, words: usize) {
        self.header(b'*', words as u64);
    }

    /// Writes the constant beginning of a command, as [`begin`](Self::begin) and the words after it
    /// would.
    pub(crate) fn written(&mut self, bytes: &'static [u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    pub(crate) fn word(&mut self, word: &[u8]) {
        self.header(b'$', word.len() as u64);
        self.bytes.extend_from_slice(word);
        self.bytes.extend_from_slice(b"\r\n");
    }

    pub(crate) fn text(&mut self, word: &str) {
        self.word(word.as_bytes());
    }

    /// Writes a word that is made of parts, and returns its position.
    pub(crate) fn parts<const N: usize>(&mut self, parts: [&[u8]; N]) -> Range<usize> {
        self.header(b'$', parts.iter().map(|part| part.len() as u64).sum());
        let start = self.bytes.len();
        parts.iter().for_each(|part| self.bytes.extend_from_slice(part));
        let written = start..self.bytes.len();
        self.bytes.extend_from_slice(b"\r\n");
        written
    }

    pub(crate) fn number(&mut self, number: u64) {
        let mut digits = [0; DIGITS_MAX];
        self.word(decimal(number, &mut digits));
    }

    pub(crate) fn signed(&mut self, number: i64) {
        match number {
            0.. => self.number(number as u64),
            _ => {
                let mut digits = [0; DIGITS_MAX];
                self.parts([b"-", decimal(number.unsigned_abs(), &mut digits)]);
            }
        }
    }

    /// Ends a command, whose key is in this slot.
    pub(crate) fn end(&mut self, slot: u16) {
        self.commands.push(Written { end: self.bytes.len(), slot });
    }

    /// Returns a part of the written bytes.
    pub(crate) fn part(&self, range: Range<usize>) -> &[u8] {
        &self.bytes[range]
    }

    /// Returns the slot of a command's key.
    pub(crate) fn slot(&self, place: usize) -> u16 {
        self.commands[place].slot
    }

    /// Adds a command from another list.
    pub(crate) fn copy(&mut self, others: &Commands, place: usize) {
        let start = place.checked_sub(1).map_or(0, |before| others.commands[before].end);
        self.bytes.extend_from_slice(&others.bytes[start..others.commands[place].end]);
        self.end(others.commands[place].slot);
    }

    fn header(&mut self, sort: u8, number: u64) {
        let mut digits = [0; DIGITS_MAX];
        let digits = decimal(number, &mut digits);
        self.bytes.push(sort);
        self.bytes.extend_from_slice(digits);
        self.bytes.extend_from_slice(b"\r\n");
    }
}

const DIGITS_MAX: usize = 20;

/// Writes two digits at a time: a mark has a number of nineteen.
fn decimal(mut number: u64, digits: &mut [u8; DIGITS_MAX]) -> &[u8] {
    let mut start = DIGITS_MAX;
    while number >= 10 {
        let pair = 2 * (number % 100) as usize;
        number /= 100;
        start -= 2;
        digits[start..start + 2].copy_from_slice(&PAIRS[pair..pair + 2]);
    }
    // The remainder is one digit, unless the last pair was the number's first.
    if number > 0 || start == DIGITS_MAX {
        start -= 1;
        digits[start] = b'0' + number as u8;
    }
    &digits[start..]
}

/// The pairs of digits from `00` to `99`.
const PAIRS: [u8; 200] = {
    let mut pairs = [b'0'; 200];
    let mut number = 0;
    while number < 100 {
        pairs[2 * number] += (number / 10) as u8;
        pairs[2 * number + 1] += (number % 10) as u8;
        number += 1;
    }
    pairs
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_everybody_writes_them() {
        let powers = (0..20).map(|power| 10_u64.pow(power));
        let near = powers.flat_map(|power| [power - 1, power, power + 1, power / 10 * 9 + 7]);
        for number in near.chain(0..=1_001).chain([u64::MAX, u64::MAX - 1]) {
            assert_eq!(decimal(number, &mut [0; DIGITS_MAX]), number.to_string().as_bytes());
        }
    }

    #[test]
    fn commands_are_written_as_the_protocol_has_them() {
        let mut commands = Commands::with_capacity(2, 0);
        commands.begin(5);
        commands.text("SET");
        let key = commands.parts([b"h:", b"", b"\0a"]);
        assert_eq!(commands.part(key), b"h:\0a");
        commands.number(u64::MAX);
        commands.signed(i64::MIN);
        commands.number(0);
        commands.end(7);
        let first = b"*5\r\n$3\r\nSET\r\n$4\r\nh:\0a\r\n$20\r\n18446744073709551615\r\n$20\r\n-9223372036854775808\r\n\
                      $1\r\n0\r\n";
        assert_eq!(commands.bytes(), first);
        commands.add(&["ROLE"]);
        commands.written(b"*1\r\n$4\r\nPING\r\n");
        commands.end(9);
        assert_eq!((commands.len(), commands.slot(0), commands.slot(2)), (3, 7, 9));

        let mut others = Commands::default();
        for place in [1, 0, 2] {
            others.copy(&commands, place);
        }
        assert_eq!(others.bytes(), [b"*1\r\n$4\r\nROLE\r\n", &first[..], b"*1\r\n$4\r\nPING\r\n"].concat());
        assert_eq!((others.slot(1), others.slot(2)), (7, 9));
    }
}
