//! The output: its kind, how much was written to it, and how much of that its reader has taken.

use super::pieces;
use crate::error::CommandError;
use crate::filter::source::input::{enlarge_pipe, identity, unbuffered};
use crate::target::Target;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::time::Duration;

/// Standard output, without std's buffer, which would write line by line; or a file.
pub struct Output {
    file: File,
    kind: Kind,
    written: u64,
    /// The byte that ends a record.
    pub last_byte: u8,
    /// The file, if it is not standard output.
    target: Option<Target>,
}

/// The kind of the output.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// An ordinary file, by device and inode.
    File((u64, u64)),
    Pipe,
    /// A terminal, a socket, a device.
    Other,
}

impl Output {
    /// Opens a file, or standard output without one, for records that end with this byte.
    pub fn open(path: Option<&Path>, last_byte: u8) -> Result<Self, CommandError> {
        let (file, target) = match path {
            Some(path) => Target::open(path).map(|(file, target)| (file, Some(target))),
            None => unbuffered(&io::stdout()).map(|file| (file, None)).map_err(CommandError::output),
        }?;
        let meta = file.metadata().map_err(CommandError::output)?;
        let kind = match identity(&meta) {
            Some(identity) => Kind::File(identity),
            None if is_pipe(&meta) => Kind::Pipe,
            None => Kind::Other,
        };
        enlarge_pipe(&file);
        Ok(Output { file, kind, written: 0, last_byte, target })
    }

    /// Ends the output of a run that has succeeded: puts the file in its place.
    pub fn end(self) -> Result<(), CommandError> {
        self.target.map_or(Ok(()), |target| target.replace(&self.file))
    }

    /// Returns the failure to write to it.
    pub fn failed(&self, error: io::Error) -> CommandError {
        match &self.target {
            Some(target) if error.kind() != io::ErrorKind::BrokenPipe => CommandError::input(&target.path, error),
            _ => CommandError::output(error),
        }
    }

    /// Returns true if a file is the output, or in the place where it will be.
    pub fn is(&self, file: &File) -> bool {
        let Some(here) = file.metadata().ok().and_then(|meta| identity(&meta)) else { return false };
        let place = self.target.as_ref().and_then(|target| target.path.metadata().ok());
        self.file.metadata().into_iter().chain(place).any(|meta| identity(&meta) == Some(here))
    }

    pub fn kind(&self) -> Kind {
        self.kind
    }

    pub fn file(&self) -> &File {
        &self.file
    }

    /// Returns the number of bytes that were written.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// Returns the offset at which a file ends for us, after what was written.
    pub fn position(&mut self) -> io::Result<u64> {
        self.file.stream_position()
    }

    /// Returns the offset at which a file will be written to next: at its end if it is appended to.
    pub fn position_at_end(&mut self) -> io::Result<u64> {
        if appends(&self.file) { self.file.metadata().map(|meta| meta.len()) } else { self.file.stream_position() }
    }

    /// Returns true if there is something in a file before what will be written.
    pub fn is_continued(&mut self) -> io::Result<bool> {
        Ok(matches!(self.kind, Kind::File(_)) && self.position_at_end()? > 0)
    }

    /// Returns the number of written bytes that a reader has taken: all of them but those that are
    /// unread in a pipe. If others write to it, too, their bytes count as ours.
    pub fn taken(&self) -> u64 {
        match self.kind {
            Kind::Pipe => self.written.saturating_sub(unread(&self.file).unwrap_or(0)),
            Kind::File(_) | Kind::Other => self.written,
        }
    }

    /// Returns true if it is a pipe that nobody reads any more.
    pub fn is_closed(&self) -> bool {
        self.kind == Kind::Pipe && self.wait(Duration::ZERO)
    }

    /// Waits this long, or until a pipe has lost its reader: then it returns true.
    pub fn wait(&self, pause: Duration) -> bool {
        has_lost_its_reader(&self.file, pause)
    }

    /// Goes to the end of a file that is appended to, and cuts off half a line that an earlier run
    /// has left there. That run has recorded the end as `length`: the bytes after the last end of a
    /// line are cut off, but none before `length`. Begins a new line if that is not possible, or if
    /// it is unknown which run left the half line.
    pub fn mend_end(&mut self, length: Option<u64>) -> io::Result<()> {
        let end = self.file.metadata()?.len();
        if end == 0 || self.position_at_end()? != end {
            return Ok(());
        }
        let ours = length.filter(|length| *length <= end);
        match self.half_line(ours.unwrap_or(end - 1), end) {
            Some(0) => Ok(()),
            Some(half) if ours.is_some() => {
                self.file.set_len(end - half)?;
                self.file.seek(SeekFrom::Start(end - half)).map(drop)
            }
            None if ours == Some(end) => Ok(()),
            // Whose it is is unknown, or it may be written to and not read: an extra empty line is
            // better than two lines in one.
            _ => self.write_all(&[self.last_byte]),
        }
    }

    /// Returns the number of bytes after the last end of a line, up to the file's end and no
    /// further back than `from`. It opens a descriptor of its own, since this one may be for
    /// writing only; none if that is not possible.
    fn half_line(&self, from: u64, end: u64) -> Option<u64> {
        const STEP: u64 = 64 << 10;
        let mut file = File::open(OWN_PATH).ok()?;
        // Where that path does not lead to the same file, it leads to another one.
        if identity(&file.metadata().ok()?) != identity(&self.file.metadata().ok()?) {
            return None;
        }
        let mut until = end;
        while until > from {
            let start = until.saturating_sub(STEP).max(from);
            let mut piece = vec![0; (until - start) as usize];
            file.seek(SeekFrom::Start(start)).and_then(|_| file.read_exact(&mut piece)).ok()?;
            if let Some(newline) = memchr::memrchr(self.last_byte, &piece) {
                return Some(end - start - newline as u64 - 1);
            }
            until = start;
        }
        Some(end - from)
    }
}

#[cfg(target_os = "linux")]
const OWN_PATH: &str = "/proc/self/fd/1";
#[cfg(not(target_os = "linux"))]
const OWN_PATH: &str = "/dev/fd/1";

impl Write for Output {
    /// Writes lines; to a pipe so many at a time that a kill leaves whole ones there.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let is_divided = self.kind == Kind::Pipe && bytes.len() > pieces::PIPE_BUF;
        let piece = if is_divided { pieces::next(bytes, room(&self.file), self.last_byte) } else { bytes };
        let written = self.file.write(piece)?;
        self.written += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

#[cfg(all(target_os = "linux", test))]
pub use of_unix::page_size;
#[cfg(unix)]
use of_unix::{appends, has_lost_its_reader, is_pipe, room, unread};

#[cfg(unix)]
mod of_unix {
    use std::fs::{File, Metadata};
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::FileTypeExt;
    use std::time::Duration;

    pub fn is_pipe(meta: &Metadata) -> bool {
        meta.file_type().is_fifo()
    }

    /// Returns the unread bytes in a pipe; none if the system does not say.
    pub fn unread(pipe: &File) -> Option<u64> {
        let mut unread: libc::c_int = 0;
        // SAFETY: the descriptor is open as long as `pipe` is, and FIONREAD writes one c_int, to
        // where there is one.
        let result = unsafe { libc::ioctl(pipe.as_raw_fd(), libc::FIONREAD as _, &raw mut unread) };
        if result == 0 { u64::try_from(unread).ok() } else { None }
    }

    /// Returns the number of bytes that a pipe takes without waiting for its reader, as long as
    /// nobody else writes to it; zero if the system does not say.
    #[cfg(target_os = "linux")]
    pub fn room(pipe: &File) -> usize {
        let size = rustix::pipe::fcntl_getpipe_size(pipe).ok();
        size.zip(unread(pipe)).map_or(0, |(size, unread)| super::pieces::room(size, unread as usize, page_size()))
    }

    #[cfg(not(target_os = "linux"))]
    pub fn room(_: &File) -> usize {
        0
    }

    /// Returns the size of the pages that a pipe consists of.
    #[cfg(target_os = "linux")]
    pub fn page_size() -> usize {
        // SAFETY: asking for a constant of the system changes nothing.
        let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
        // A larger one than there is leaves less room.
        usize::try_from(size).unwrap_or(64 << 10)
    }

    /// Returns true as soon as a pipe has no reader; false after this time.
    pub fn has_lost_its_reader(pipe: &File, pause: Duration) -> bool {
        let mut asked = libc::pollfd { fd: pipe.as_raw_fd(), events: 0, revents: 0 };
        let pause_ms = libc::c_int::try_from(pause.as_millis()).unwrap_or(libc::c_int::MAX);
        // SAFETY: there is one pollfd, which lives until the call returns, with a descriptor that
        // is open as long as `pipe` is.
        let found = unsafe { libc::poll(&raw mut asked, 1, pause_ms) };
        found > 0 && asked.revents & (libc::POLLERR | libc::POLLNVAL) != 0
    }

    pub fn appends(file: &File) -> bool {
        // SAFETY: asking for the flags of a descriptor, which is open as long as `file` is, changes
        // nothing.
        let flags = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETFL) };
        flags != -1 && flags & libc::O_APPEND != 0
    }
}

#[cfg(not(unix))]
use elsewhere::{appends, has_lost_its_reader, is_pipe, room, unread};

/// A replacement for other systems: all that was written counts as taken, since nobody can ask.
#[cfg(not(unix))]
mod elsewhere {
    use std::fs::{File, Metadata};
    use std::time::Duration;

    pub fn is_pipe(_: &Metadata) -> bool {
        false
    }

    pub fn unread(_: &File) -> Option<u64> {
        None
    }

    pub fn room(_: &File) -> usize {
        0
    }

    pub fn has_lost_its_reader(_: &File, pause: Duration) -> bool {
        std::thread::sleep(pause);
        false
    }

    pub fn appends(_: &File) -> bool {
        false
    }
}
