//! The pieces in which lines are written to a pipe, so that no kill leaves part of a line there.
//!
//! A kill ends a write that waits for room in a pipe, and what was written by then stays. So a
//! piece ends where a line ends, and is written by one call which does not wait in its midst: one
//! of at most [`PIPE_BUF`] bytes, which a pipe takes all at once or not at all (POSIX), or one for
//! which there is room, since Linux waits only when a pipe is full. The second kind is for speed:
//! with the first one alone, a run over lines of 400 bytes would take half as long again.

/// The most bytes that a pipe takes all at once, whether there is room or not.
#[cfg(unix)]
pub const PIPE_BUF: usize = libc::PIPE_BUF;
#[cfg(not(unix))]
pub const PIPE_BUF: usize = 512; // the least that POSIX allows

/// Returns the part of the text that is to be written next, given the room in the pipe: whole
/// lines, each of which ends with this byte, or the first one if it is longer than what is certain
/// to be taken at once.
pub fn next(text: &[u8], room: usize, last_byte: u8) -> &[u8] {
    let most = room.max(PIPE_BUF);
    if text.len() <= most {
        return text;
    }
    let whole = memchr::memrchr(last_byte, &text[..most]);
    let end = whole.or_else(|| memchr::memchr(last_byte, text));
    end.map_or(text, |end| &text[..=end])
}

/// Returns the number of bytes for which there is certainly room in a pipe of this size with this
/// many unread ones, as long as nobody else writes to it.
///
/// A pipe consists of pages, and a page need not be full. But what is written goes into the last
/// page if it fits in, so any two neighbours have more than a page of bytes together, except for
/// the first page, of which a part may have been read. So `unread` bytes are on at most twice the
/// pages that they would fill, rounded up.
#[cfg(any(target_os = "linux", test))]
pub fn room(size: usize, unread: usize, page: usize) -> usize {
    let used = 2 * unread.div_ceil(page);
    (size / page).saturating_sub(used) * page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_whole_lines_where_they_can_be() {
        let line = |bytes: usize| [vec![b'x'; bytes - 1], b"\n".to_vec()].concat();
        let lengths = |text: &[u8], room: usize| {
            let (mut rest, mut lengths) = (text, Vec::new());
            while !rest.is_empty() {
                let piece = next(rest, room, b'\n');
                assert!(piece.ends_with(b"\n") && !piece.is_empty());
                lengths.push(piece.len());
                rest = &rest[piece.len()..];
            }
            lengths
        };
        let short = line(100).repeat(PIPE_BUF / 100 * 3);
        let full = PIPE_BUF / 100 * 100;
        for room in [0, 1, PIPE_BUF] {
            assert_eq!(lengths(&short, room), [full; 3]);
        }
        assert_eq!(lengths(&short, short.len()), [short.len()]);
        assert_eq!(lengths(&short, short.len() - 1), [short.len() - 100, 100]);
        assert_eq!(lengths(&line(PIPE_BUF).repeat(2), 0), [PIPE_BUF; 2]);
        // One that is too long has no other lines with it.
        let mixed = [line(7), line(3 * PIPE_BUF), line(8), line(9)].concat();
        assert_eq!(lengths(&mixed, 0), [7, 3 * PIPE_BUF, 17]);
        assert_eq!(lengths(&mixed, 4 * PIPE_BUF), [mixed.len()]);
        // A line without an end goes as it is.
        assert_eq!(next(&vec![b'x'; 2 * PIPE_BUF], 0, b'\n').len(), 2 * PIPE_BUF);
        assert_eq!(next(b"", 0, b'\n'), b"");
    }

    #[test]
    fn room_is_whole_pages() {
        assert_eq!([0, 1, 4096, 4097].map(|unread| room(1 << 16, unread, 4096) >> 12), [16, 14, 14, 12]);
        assert_eq!([1 << 15, 1 << 16, 1 << 20].map(|unread| room(1 << 16, unread, 4096)), [0; 3]);
        assert_eq!(room(1 << 16, 1, 1 << 16), 0);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_pipe_takes_at_once_what_there_is_room_for() {
        use rustix::pipe::{PipeFlags, fcntl_getpipe_size, pipe_with};
        use std::fs::File;
        use std::io::{Read, Write};
        use testkit::random::Random;

        let page = super::super::output::page_size();
        let (mut least_room, mut large) = (usize::MAX, 0);
        for seed in 1..=20 {
            let mut random = Random(seed);
            let (reader, writer) = pipe_with(PipeFlags::NONBLOCK).unwrap();
            let (mut reader, mut writer) = (File::from(reader), File::from(writer));
            let size = fcntl_getpipe_size(&writer).unwrap();
            let longest = [10, 5_000, 20_000][random.below(3) as usize];
            let (mut unread, mut bytes) = (0, vec![0; size]);
            for _ in 0..2_000 {
                if random.percent(50) {
                    // Whatever others have written before us: this one may be taken in part.
                    let some = random.within(1, longest) as usize;
                    unread += writer.write(&bytes[..some]).unwrap_or(0);
                }
                let room = room(size, unread, page);
                least_room = least_room.min(room);
                if room > 0 {
                    let some = if random.percent(50) { room } else { random.within(1, room as u64) as usize };
                    large = large.max(some);
                    assert_eq!(writer.write(&bytes[..some]).unwrap(), some, "seed {seed}: {unread} of {size} unread");
                    unread += some;
                }
                let some = random.within(1, longest.max(unread as u64)) as usize;
                unread -= reader.read(&mut bytes[..some]).unwrap_or(0);
            }
        }
        assert!(least_room == 0 && large > 32 << 10, "{least_room} {large}");
    }
}
