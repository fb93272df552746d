//! Reading in full.

use std::io;

/// Reads as many of these bytes as there are, by a function that reads what comes at once.
pub(in crate::journal) fn read_all(
    mut read_at: impl FnMut(u64, &mut [u8]) -> io::Result<usize>,
    offset: u64,
    bytes: &mut [u8],
) -> io::Result<usize> {
    let mut done = 0;
    while done < bytes.len() {
        match read_at(offset + done as u64, &mut bytes[done..]) {
            Ok(0) => break,
            Ok(n) => done += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}
