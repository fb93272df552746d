//! Inputs, decompressed and decoded.

use super::elements::{Elements, is_array};
use super::encoding::{Content, decode};
use crate::closed;
use crate::error::CommandError;
#[cfg(not(feature = "zstd"))]
use crate::error::left_out;
use crate::filter::compressed::compression::Compression;
#[cfg(feature = "zstd")]
use crate::filter::compressed::frames::Frames;
use crate::filter::compressed::gzip::Members;
use std::fs::{File, Metadata};
use std::io::{self, BufRead, BufReader, Read, Seek};
#[cfg(unix)]
use std::os::fd::AsFd as Standard;
#[cfg(windows)]
use std::os::windows::io::AsHandle as Standard;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};

/// A file of the command line.
#[derive(Clone, Debug)]
pub struct Source {
    path: PathBuf,
    /// True if it was found to be an array; none if there is no such thing.
    array: Option<Arc<AtomicBool>>,
}

impl Source {
    pub fn new(path: PathBuf) -> Self {
        Source { path, array: None }
    }

    /// Returns the file's name in messages.
    pub fn name(&self) -> &Path {
        if self.is_stdin() { Path::new("standard input") } else { &self.path }
    }

    pub fn is_stdin(&self) -> bool {
        ["-", "/dev/stdin", "/dev/fd/0"].iter().any(|name| self.path == Path::new(name))
    }

    /// Returns true if it is an ordinary file, which can be opened twice. The writer of a named
    /// pipe would take it for the end when a first reader closes it.
    pub fn is_file(&self) -> bool {
        self.is_stdin() || self.path.is_file()
    }

    /// Returns an error if nothing of it may be read at all: a closed descriptor, or the file that
    /// is written to.
    pub fn check(&self, output: &File) -> Result<(), CommandError> {
        if self.is_stdin() {
            closed::input()?;
        }
        let input = if self.is_stdin() {
            unbuffered(&io::stdin()).and_then(|input| input.metadata())
        } else {
            self.path.metadata()
        };
        // A file without metadata cannot be read either, and reading it will say why.
        let (Ok(input), Ok(output)) = (input, output.metadata()) else { return Ok(()) };
        if identity(&input).is_some_and(|input| Some(input) == identity(&output)) {
            Err(CommandError::input(self.name(), "input file is output file"))
        } else {
            Ok(())
        }
    }

    /// Opens the file as it is, without decompressing.
    pub fn open(&self) -> Result<File, CommandError> {
        if self.is_stdin() {
            closed::input()?;
        }
        let file = if self.is_stdin() { unbuffered(&io::stdin()) } else { File::open(&self.path) };
        let file = file.map_err(|e| CommandError::input(self.name(), e))?;
        if file.metadata().is_ok_and(|meta| meta.is_dir()) {
            return Err(CommandError::input(self.name(), "it is a directory"));
        }
        enlarge_pipe(&file);
        Ok(file)
    }

    /// Opens the file, and counts what is read of it before decompressing.
    pub fn read(&self, bytes_read: Arc<AtomicU64>) -> Result<Content, CommandError> {
        self.decompress(Counted::new(self.open()?, bytes_read)).map_err(|e| CommandError::input(self.name(), e))
    }

    /// Decompresses its content, and divides it into elements if it is an array.
    pub fn decompress(&self, input: impl Read + Send + 'static) -> io::Result<Content> {
        let Content { bytes, encoding } = decompress(input)?;
        let Some(array) = &self.array else { return Ok(Content { bytes, encoding }) };
        let (found, whole) = begin(bytes, |beginning| Ok(is_array(beginning)))?;
        let found = found.unwrap_or_default();
        array.store(found, Relaxed);
        let bytes: Box<dyn Read + Send> =
            if found { Box::new(Elements::new(whole, self.name())) } else { Box::new(whole) };
        Ok(Content { bytes, encoding })
    }

    /// Returns true if this file, which is the one of the source, is an array.
    pub fn is_array(&self, file: &File) -> bool {
        let is_read = |beginning| self.decompress(io::Cursor::new(beginning)).is_ok();
        self.array.is_some() && read_at(file, 0, 64 << 10).is_some_and(is_read) && self.record() == "element"
    }

    /// Returns the word for a record in messages.
    pub fn record(&self) -> &'static str {
        if self.array.as_ref().is_some_and(|array| array.load(Relaxed)) { "element" } else { "line" }
    }
}

/// Returns the file's identity, by device and inode, if it is an ordinary one.
#[cfg(unix)]
pub fn identity(meta: &Metadata) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt;
    meta.is_file().then(|| (meta.dev(), meta.ino()))
}

/// Returns none: there is no identity on this system.
#[cfg(not(unix))]
pub fn identity(_: &Metadata) -> Option<(u64, u64)> {
    None
}

/// Returns the files of a command line, or standard input if there are none.
pub fn sources(files: &[PathBuf], may_be_arrays: bool) -> Vec<Source> {
    let files = if files.is_empty() { vec!["-".into()] } else { files.to_vec() };
    let array = || may_be_arrays.then(Arc::default);
    files.into_iter().map(|path| Source { array: array(), ..Source::new(path) }).collect()
}

/// Makes room for some blocks in a pipe: with the 64 KiB of a new one, its two ends spend half of
/// their time waking each other. Does nothing where there is no pipe, or more room is not allowed.
pub fn enlarge_pipe(file: &File) {
    #[cfg(target_os = "linux")]
    let _ = rustix::pipe::fcntl_setpipe_size(file, 1 << 20);
    #[cfg(not(target_os = "linux"))]
    let _ = file;
}

/// Opens standard input or output without std's buffer and lock.
pub fn unbuffered(stream: &impl Standard) -> io::Result<File> {
    #[cfg(unix)]
    let stream = stream.as_fd();
    #[cfg(windows)]
    let stream = stream.as_handle();
    stream.try_clone_to_owned().map(File::from)
}

/// Counts bytes as they are read.
pub struct Counted {
    file: File,
    bytes_read: Arc<AtomicU64>,
    /// True if it is an ordinary file. (Some of the system say that they are empty.)
    has_length: bool,
}

impl Counted {
    pub fn new(file: File, bytes_read: Arc<AtomicU64>) -> Self {
        let has_length = file.metadata().is_ok_and(|meta| meta.is_file() && meta.len() > 0);
        Counted { file, bytes_read, has_length }
    }
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = self.file.read(buffer)?;
        // The end of the last record may be missing.
        if n == 0 && self.has_length && self.file.metadata()?.len() < self.file.stream_position()? {
            return Err(io::Error::other("it was cut short while it was read"));
        }
        self.bytes_read.fetch_add(n as u64, Relaxed);
        Ok(n)
    }
}

/// Reads up to `len` bytes at a place, without moving the file's position, which standard input
/// shares with its owner.
pub fn read_at(file: &File, at: u64, len: usize) -> Option<Vec<u8>> {
    let mut buffer = vec![0; len];
    let read = read_full_at(file, &mut buffer, at).ok()?;
    buffer.truncate(read);
    Some(buffer)
}

/// Fills a buffer with bytes from a place in a file, without moving its position. Returns less than
/// its length at the file's end only.
pub fn read_full_at(file: &File, buffer: &mut [u8], at: u64) -> io::Result<usize> {
    filled(buffer, |rest, filled| {
        #[cfg(unix)]
        return std::os::unix::fs::FileExt::read_at(file, rest, at + filled as u64);
        #[cfg(windows)]
        return std::os::windows::fs::FileExt::seek_read(file, rest, at + filled as u64);
    })
}

/// Fills a buffer. Returns less than its length at the end only.
pub fn read_full(input: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    filled(buffer, |rest, _| input.read(rest))
}

fn filled(buffer: &mut [u8], mut read: impl FnMut(&mut [u8], usize) -> io::Result<usize>) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match read(&mut buffer[filled..], filled) {
            Ok(0) => break,
            Ok(n) => filled += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// Decompresses compressed content, which it recognizes by its beginning, and decodes it.
pub fn decompress<R: Read + Send + 'static>(input: R) -> io::Result<Content> {
    let (compression, whole) = begin(input, Compression::of)?;
    decode(match compression {
        None | Some(Compression::None) => Box::new(whole),
        Some(Compression::Gzip) => Box::new(Members::new(buffered(whole))),
        Some(Compression::Zstd) => zstd(buffered(whole))?,
    })
}

/// An input of which the beginning was read.
type Whole<R> = io::Chain<io::Cursor<Vec<u8>>, R>;

/// Reads no more than it takes to tell: the first line of a pipe is not to wait for the second.
/// Returns what was told, and all of the input.
fn begin<R: Read, T>(mut input: R, told: impl Fn(&[u8]) -> io::Result<Option<T>>) -> io::Result<(Option<T>, Whole<R>)> {
    let mut beginning = Vec::new();
    let known = loop {
        match told(&beginning)? {
            None if input.by_ref().take(1).read_to_end(&mut beginning)? > 0 => {}
            known => break known,
        }
    };
    Ok((known, io::Cursor::new(beginning).chain(input)))
}

/// Decompresses zstd, in a command that is compiled with it.
#[cfg(feature = "zstd")]
fn zstd(input: impl BufRead + Send + 'static) -> io::Result<Box<dyn Read + Send>> {
    Ok(Box::new(Frames::new(input)?))
}

/// Returns an error that says how to get a command that decompresses zstd.
#[cfg(not(feature = "zstd"))]
fn zstd(_: impl BufRead) -> io::Result<Box<dyn Read + Send>> {
    Err(io::Error::other(left_out("decompression of zstd", "compiles a library in C", "zstd")))
}

fn buffered<R: Read>(input: R) -> impl BufRead {
    BufReader::with_capacity(256 << 10, input)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::fuzzing::Trickle;
    use std::io::Write;

    #[test]
    fn compression_is_recognized_by_content() {
        let text = b"a\nb\n".repeat(1_000);
        let gzip = |text: &[u8]| {
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
            encoder.write_all(text).unwrap();
            encoder.finish().unwrap()
        };
        let inputs = vec![text.clone(), gzip(&text), [gzip(&text[..100]), gzip(&text[100..])].concat()];
        #[cfg(feature = "zstd")]
        let inputs = {
            let zstd = |text: &[u8]| zstd::encode_all(text, 3).unwrap();
            let more = [zstd(&text), [zstd(&text[..100]), zstd(&text[100..])].concat()];
            [inputs, more.into()].concat()
        };
        for input in inputs {
            for at_once in [1, 1 << 20] {
                let mut output = Vec::new();
                let trickle = Trickle(io::Cursor::new(input.clone()), at_once);
                decompress(trickle).unwrap().bytes.read_to_end(&mut output).unwrap();
                assert!(output == text);
            }
        }
        assert!(decompress(&b"\xfd7zXZ\0..."[..]).err().unwrap().to_string().contains("xz"));
        assert!(decompress(&b"\x1f"[..]).is_ok() && decompress(&b""[..]).is_ok());
    }
}
