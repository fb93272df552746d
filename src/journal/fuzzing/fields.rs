//! Numbers from a fuzzer's bytes: mostly small ones, and those at which arithmetic breaks.

/// Bytes that are taken one after another; when they have ended, all are zero.
pub(crate) struct Fields<'b>(&'b [u8]);

impl<'b> Fields<'b> {
    pub(crate) fn new(bytes: &'b [u8]) -> Self {
        Fields(bytes)
    }

    pub(crate) fn byte(&mut self) -> u8 {
        let Some((byte, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *byte
    }

    /// Returns a number below `end`.
    pub(crate) fn below(&mut self, end: u8) -> u8 {
        self.byte() % end
    }

    pub(crate) fn take(&mut self, bytes: usize) -> &'b [u8] {
        let (taken, rest) = self.0.split_at(bytes.min(self.0.len()));
        self.0 = rest;
        taken
    }

    fn word(&mut self) -> u64 {
        self.take(8).iter().rfold(0, |word, &byte| word << 8 | u64::from(byte))
    }

    /// Returns the expected number, one near it, or any.
    pub(crate) fn number(&mut self, expected: u64) -> u64 {
        const ODD: [u64; 8] = [0, 1, u32::MAX as u64, 1 << 32, i64::MAX as u64 - 1, i64::MAX as u64, 1 << 63, u64::MAX];
        match self.byte() {
            0 => expected,
            near @ 1..=100 => expected.wrapping_add(u64::from(near)),
            near @ 101..=200 => expected.wrapping_sub(u64::from(near) - 100),
            odd @ 201..=240 => ODD[usize::from(odd) % ODD.len()],
            _ => self.word(),
        }
    }
}
