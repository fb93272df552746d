//! The states of a search, and the ways in which they were reached.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};

/// A state: the words that change; for each caller its place; for each id its monitor.
#[derive(Clone)]
pub(super) struct State(pub(super) Vec<u64>);

/// The place of a caller.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub(super) node: usize,
    /// The number of its current operation; the number of all if it has finished.
    pub(super) op: usize,
    /// True if the operation has begun.
    pub(super) began: bool,
}

impl Place {
    pub(super) fn pack(self) -> u64 {
        (self.node as u64) << 32 | (self.op as u64) << 1 | u64::from(self.began)
    }

    pub(super) fn unpack(word: u64) -> Self {
        Place { node: (word >> 32) as usize, op: (word as u32 >> 1) as usize, began: word & 1 != 0 }
    }
}

impl State {
    /// Returns the state's fingerprint. Two states with one fingerprint count as one: by chance,
    /// with probability 2^-128 for each pair.
    pub(super) fn fingerprint(&self) -> u128 {
        let (mut a, mut b) = (0x243f_6a88_85a3_08d3_u64, 0x1319_8a2e_0370_7344_u64);
        for &word in &self.0 {
            a = (a.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            a ^= a >> 29;
            b = (b.rotate_left(23) ^ word.wrapping_mul(0xd6e8_feb8_6659_fd93)).wrapping_mul(0xc2b2_ae3d_27d4_eb4f);
            b ^= b >> 31;
        }
        u128::from(a) << 64 | u128::from(b)
    }
}

/// A hasher for maps of what nobody has chosen in order to make them slow.
#[derive(Default)]
pub(super) struct Mixed(u64);

pub(super) type MixedMap<K, V> = HashMap<K, V, BuildHasherDefault<Mixed>>;
pub(super) type MixedSet<K> = HashSet<K, BuildHasherDefault<Mixed>>;

impl Hasher for Mixed {
    fn finish(&self) -> u64 {
        self.0 ^ self.0 >> 32
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn write_usize(&mut self, word: usize) {
        self.write_u64(word as u64);
    }

    fn write_u128(&mut self, word: u128) {
        self.write_u64(word as u64);
    }
}

/// The ways in which states were reached.
#[derive(Default)]
pub(super) struct Paths {
    /// The state that each was reached from, and the end of its steps.
    all: Vec<(Option<u32>, u32)>,
    steps: Vec<u8>,
}

impl Paths {
    pub(super) fn add(&mut self, from: Option<u32>, steps: &[u8]) -> u32 {
        self.steps.extend(steps);
        self.all.push((from, self.steps.len() as u32));
        self.all.len() as u32 - 1
    }

    /// Returns all steps to a state, and some more.
    pub(super) fn schedule(&self, path: u32, more: &[u8]) -> Vec<u8> {
        let mut parts = vec![more];
        let mut path = Some(path);
        while let Some(i) = path.map(|path| path as usize) {
            let begin = if i == 0 { 0 } else { self.all[i - 1].1 };
            parts.push(&self.steps[begin as usize..self.all[i].1 as usize]);
            path = self.all[i].0;
        }
        parts.into_iter().rev().flatten().copied().collect()
    }
}
