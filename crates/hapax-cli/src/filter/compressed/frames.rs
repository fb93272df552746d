//! Reads zstd: frames one after the other.

use super::content_end::{Positioned, unexpected};
use std::io::{self, BufRead, Read};

/// Decompresses frames one after the other.
pub struct Frames<R: BufRead>(zstd::Decoder<'static, Positioned<R>>);

/// The library's text for input that is no frame where one should begin. It has no other way to
/// tell this error.
const NO_FRAME: &str = "Unknown frame descriptor";

impl<R: BufRead> Frames<R> {
    /// Creates a reader of input that begins with a frame.
    pub fn new(input: R) -> io::Result<Self> {
        zstd::Decoder::with_buffer(Positioned::new(input)).map(Frames)
    }
}

impl<R: BufRead> Read for Frames<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer).map_err(|error| {
            if error.to_string() == NO_FRAME { unexpected("zstd", Vec::new(), self.0.get_mut()) } else { error }
        })
    }
}
