//! Decides where reading an input begins: at its beginning, or behind the part that an earlier run
//! has printed.

use super::blocks::Blocks;
use super::checkpoint::{BEGINNING_BYTES, Beginning, Checkpoint, is_same};
use super::encoding::{Content, Encoding};
use super::input::{Counted, Source, identity, read_at};
use super::lines::Lines;
use super::reading::{Inputs, Reading};
use crate::error::CommandError;
use crate::filter::compressed::compression::Compression;
use crate::printable::tell;
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Cursor, Read, Seek, SeekFrom};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// The inputs that earlier runs have printed, and how much of each.
#[derive(Default)]
pub struct Resume {
    pub places: HashMap<String, Checkpoint>,
    /// A hash of the options that say what events are, and which are printed.
    pub options: u64,
    /// The number of the run that begins.
    pub run: u64,
    /// True if this run is remembered.
    pub is_remembered: bool,
    /// True if a stream that was read to its end is finished: one that begins the same is a new
    /// stream that repeats it.
    pub streams_end: bool,
    /// Counts what is read, before decompressing.
    pub bytes_read: Arc<AtomicU64>,
    /// The number of times that each input was read by this run.
    pub times: HashMap<String, u32>,
}

/// An open input.
struct Opened {
    file: File,
    /// The name by which it is remembered.
    name: String,
    is_file: bool,
    /// The lengths of its mark and of its content, if it can be read from any offset.
    lengths: Option<(u64, u64)>,
}

impl Resume {
    /// Returns what is known of an input, if it may be the same one.
    fn known(&self, input: &str, opened: &Opened, source: &Source) -> Option<Checkpoint> {
        let known = self.places.get(input)?;
        if known.options != self.options {
            tell(format_args!(
                "hapax: {}: an earlier run has read it with other options for what its events are, or which are printed: it is read \
                 from its beginning",
                source.name().display()
            ));
            return None;
        }
        let is_shorter = opened.lengths.is_some_and(|(_, length)| length < known.offset);
        let is_done_with = !opened.is_file && known.ended && self.streams_end;
        (!is_shorter && !is_done_with).then(|| known.clone())
    }
}

impl Inputs for Resume {
    /// Opens an input, behind the part that an earlier run has printed. If `anew`, opens it at its
    /// beginning, as an input that was cut short.
    fn read(&mut self, source: &Source, lines: &mut Lines, anew: bool) -> Result<Reading, CommandError> {
        let failed = |error| CommandError::reading(source.name(), error);
        let opened = open(source)?;
        let times = self.times.entry(opened.name.clone()).or_default();
        *times += u32::from(!anew);
        let input = format!("{}#{times}", opened.name);
        let known = self.known(&input, &opened, source).filter(|_| !anew);
        let place = Checkpoint { input, options: self.options, run: self.run, ..Checkpoint::default() };
        let content = Counted::new(opened.file.try_clone().map_err(failed)?, self.bytes_read.clone());
        let mut content = source.decompress(content).map_err(failed)?;
        if self.is_remembered && content.encoding.is_utf16() {
            return Err(CommandError::Usage(format!(
                "--state: {} is UTF-16, in which it cannot mend a line that a killed run has left: give \
                 `iconv -f {} -t UTF-8 FILE | hapax filter …`",
                source.name().display(),
                content.encoding.name()
            )));
        }
        let Some(known) = known else {
            let blocks = Blocks::new(content, lines.cutter(), lines.line_bytes_max());
            return Ok(Reading { blocks, place, may_be_short: false, header: None });
        };
        let (beginning, is_same) = compare(&mut content.bytes, &known).map_err(failed)?;
        let content = Content { bytes: Box::new(Cursor::new(beginning).chain(content.bytes)), ..content };
        let blocks = Blocks::new(content, lines.cutter(), lines.line_bytes_max());
        if !is_same {
            return Ok(Reading { blocks, place, may_be_short: false, header: None });
        }
        if !opened.is_file && known.offset > 0 {
            tell(format_args!(
                "hapax: {}: it begins like the one of an earlier run, which has printed what is to be printed of its first {} lines \
                 ({} bytes): these are skipped",
                source.name().display(),
                known.lines,
                known.offset
            ));
        }
        let place = Checkpoint { offset: known.offset, unended: known.unended, ..place };
        let mut reading = Reading { blocks, place, may_be_short: opened.is_file, header: None };
        let is_known = known.offset > 0 && known.beginning.bytes == BEGINNING_BYTES as u64;
        if let Some((mark, _)) = opened.lengths.filter(|_| is_known) {
            seek(&mut reading, mark, opened.file, self.bytes_read.clone(), &known, lines, source)?;
        }
        Ok(reading)
    }
}

/// Moves to the place where reading must begin, past the header.
fn seek(
    reading: &mut Reading,
    mark: u64,
    mut file: File,
    bytes_read: Arc<AtomicU64>,
    known: &Checkpoint,
    lines: &mut Lines,
    source: &Source,
) -> Result<(), CommandError> {
    let failed = |error| CommandError::input(source.name(), error);
    lines.begin_file(source);
    if lines.is_at_header() {
        let (mut block, mut ends) = (Vec::new(), Vec::new());
        reading.blocks.next(&mut block, &mut ends).map_err(failed)?;
        let header = block[..ends.first().map_or(0, |end| *end as usize)].to_vec();
        let first = lines.next(super::lines::without_end(&header)).map_err(|bad| bad.of(source))?;
        reading.header = first.header(&header);
    }
    let from = known.read_from();
    file.seek(SeekFrom::Start(mark + from)).map_err(failed)?;
    bytes_read.fetch_add(from, std::sync::atomic::Ordering::Relaxed);
    lines.go_on_behind(known.lines - u64::from(known.unended > 0));
    let rest = Content { bytes: Box::new(Counted::new(file, bytes_read)), encoding: reading.blocks.encoding() };
    let beginning = Beginning::known(known.first, known.beginning);
    reading.blocks = Blocks::new(rest, lines.cutter(), lines.line_bytes_max()).from(from, beginning);
    Ok(())
}

/// Reads as much of an input as it takes to tell whether it is the one of a place.
fn compare(content: &mut Box<dyn Read + Send>, place: &Checkpoint) -> io::Result<(Vec<u8>, bool)> {
    let mut beginning = Vec::new();
    let mut piece = [0; 8 << 10];
    let mut has_ended = false;
    loop {
        if let Some(is_same) = is_same(place, &beginning, has_ended) {
            return Ok((beginning, is_same));
        }
        match content.read(&mut piece) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            read => {
                let read = read?;
                has_ended = read == 0;
                beginning.extend_from_slice(&piece[..read]);
            }
        }
    }
}

fn open(source: &Source) -> Result<Opened, CommandError> {
    let mut file = source.open()?;
    let meta = file.metadata().map_err(|error| CommandError::reading(source.name(), error))?;
    // Other programs may have read from standard input before us; then it is none of the files that
    // are known from their beginning.
    let at_beginning = !source.is_stdin() || file.stream_position().is_ok_and(|position| position == 0);
    let identity = identity(&meta).filter(|_| at_beginning);
    let plain = || {
        let beginning = read_at(&file, 0, 8)?;
        let mark = Encoding::of(&beginning).1 as u64;
        let is_plain = matches!(Compression::of(&beginning), Ok(None | Some(Compression::None)));
        is_plain.then_some((mark, meta.len() - mark))
    };
    let name = match identity {
        Some((device, inode)) => format!("file:{device}:{inode}"),
        None if source.is_stdin() => "standard input".to_string(),
        None => format!("stream:{}", source.name().display()),
    };
    let lengths = identity.filter(|_| !source.is_array(&file)).and_then(|_| plain());
    Ok(Opened { file, name, is_file: identity.is_some(), lengths })
}
