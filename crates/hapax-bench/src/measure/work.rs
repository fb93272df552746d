//! Work between two checks, as a consumer has it: a message is decoded.

use hapax::seam::random::mix;
use std::hint::black_box;

/// The bytes of all messages: more than inner caches hold, as in a consumer that reads from
/// sockets.
const ALL_BYTES: usize = 8 << 20;

/// The digit of each character; what is none is 0.
const DIGITS: [u8; 256] = {
    let (mut digits, mut digit) = ([0; 256], 0);
    while digit < 16 {
        digits[b"0123456789abcdef"[digit] as usize] = digit as u8;
        digit += 1;
    }
    digits
};

/// Messages in hexadecimal digits, one after the other, and the buffer into which one is decoded.
pub(super) struct Work {
    messages: Vec<u8>,
    bytes: usize,
    next: usize,
    decoded: Vec<u8>,
}

impl Work {
    /// Makes messages of so many bytes.
    pub fn new(bytes: usize) -> Work {
        let count = (ALL_BYTES / bytes).max(1);
        let digit = |n: usize| b"0123456789abcdef"[(mix(n as u64) % 16) as usize];
        let messages = (0..count * bytes).map(digit).collect();
        Work { messages, bytes, next: 0, decoded: Vec::with_capacity(bytes) }
    }

    /// Decodes the next message.
    #[inline(never)]
    pub fn decode(&mut self) {
        let message = &self.messages[self.next..self.next + self.bytes];
        let byte = |pair: &[u8]| DIGITS[usize::from(pair[0])] << 4 | DIGITS[usize::from(pair[1])];
        self.decoded.clear();
        self.decoded.extend(message.chunks_exact(2).map(byte));
        black_box(&mut self.decoded);
        self.next = (self.next + self.bytes) % self.messages.len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_message_is_decoded_in_turn() {
        let mut work = Work::new(ALL_BYTES / 3);
        for message in [0, 1, 2, 0] {
            work.decode();
            let text: String = work.decoded.iter().map(|byte| format!("{byte:02x}")).collect();
            let from = message * work.bytes;
            assert_eq!(text.as_bytes(), &work.messages[from..from + work.bytes / 2 * 2], "message {message}");
        }
    }
}
