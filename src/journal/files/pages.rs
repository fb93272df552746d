//! Files that several threads read at once, page by page. The call that asks for what is in memory
//! already is the unsafe part.

use super::full_read::read_all;
use std::fs::File;
use std::io;

/// A file that is read from anywhere in it, by any number of threads.
pub(crate) trait PageFile: Send + Sync {
    /// Reads bytes from an offset. Returns the number of bytes that were read; 0 at the end.
    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<usize>;

    /// Reads in the same way what the system has in memory; `None` if the disk is to be waited for,
    /// or if the system cannot tell.
    fn read_cached(&self, offset: u64, bytes: &mut [u8]) -> io::Result<Option<usize>>;
}

/// Reads as many of these bytes as there are, from an offset on: all, unless the file ends.
pub(crate) fn read_pages(file: &dyn PageFile, offset: u64, bytes: &mut [u8]) -> io::Result<usize> {
    read_all(|at, rest| file.read_at(at, rest), offset, bytes)
}

impl PageFile for File {
    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<usize> {
        #[cfg(unix)]
        return std::os::unix::fs::FileExt::read_at(self, bytes, offset);
        #[cfg(windows)]
        return std::os::windows::fs::FileExt::seek_read(self, bytes, offset);
        #[cfg(not(any(unix, windows)))]
        {
            let _ = (offset, bytes);
            Err(io::ErrorKind::Unsupported.into())
        }
    }

    fn read_cached(&self, offset: u64, bytes: &mut [u8]) -> io::Result<Option<usize>> {
        read_without_waiting(self, offset, bytes)
    }
}

#[cfg(all(target_os = "linux", not(miri)))]
fn read_without_waiting(file: &File, offset: u64, bytes: &mut [u8]) -> io::Result<Option<usize>> {
    use std::os::fd::AsRawFd;
    let Ok(at) = libc::off_t::try_from(offset) else { return Ok(None) };
    let part = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    // SAFETY: the descriptor is open as long as `file` is borrowed; `part` is one vector, of memory
    // that is borrowed for this call alone, and of its length.
    let read = unsafe { libc::preadv2(file.as_raw_fd(), &raw const part, 1, at, libc::RWF_NOWAIT) };
    if let Ok(read) = usize::try_from(read) {
        // A part of it may be all that is in memory.
        return Ok((read == bytes.len()).then_some(read));
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        // Not in memory; or a system, or a file system, that does not know the question.
        Some(libc::EAGAIN | libc::EINTR | libc::EOPNOTSUPP | libc::ENOSYS | libc::EINVAL) => Ok(None),
        _ => Err(error),
    }
}

#[cfg(not(all(target_os = "linux", not(miri))))]
fn read_without_waiting(_: &File, _: u64, _: &mut [u8]) -> io::Result<Option<usize>> {
    Ok(None)
}

#[cfg(all(test, not(any(modelled, alone))))]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn what_is_in_memory_is_read_at_once_and_anything_by_waiting() {
        let path = std::env::temp_dir().join(format!("hapax-pages-{}", std::process::id()));
        let mut file = File::options().read(true).write(true).create(true).truncate(true).open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        file.write_all(&[7; 10_000]).unwrap();
        let mut bytes = [0; 4096];
        assert_eq!(read_pages(&file, 4096, &mut bytes).unwrap(), 4096);
        assert_eq!(bytes, [7; 4096]);
        assert_eq!(read_pages(&file, 8192, &mut bytes).unwrap(), 10_000 - 8192);
        // It may say that it would wait; if not, it has all of it.
        bytes = [0; 4096];
        match read_without_waiting(&file, 4096, &mut bytes).unwrap() {
            Some(read) => assert_eq!((read, bytes), (4096, [7; 4096])),
            None => println!("the system cannot tell"),
        }
        assert_eq!(read_without_waiting(&file, 8192, &mut bytes).unwrap(), None, "only a part is there");
        assert_eq!(read_without_waiting(&file, u64::MAX, &mut bytes).unwrap(), None);
    }
}
