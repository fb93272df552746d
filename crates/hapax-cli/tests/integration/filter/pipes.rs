//! Pipes: that which a reader has got when its writer is killed while the pipe is full: whole
//! lines, if none is longer than a pipe takes at once.

use crate::filter::inputs::Directory;
use crate::filter::{filter, send, until};
use std::io::Read;
use std::os::fd::AsRawFd;
use std::process::ChildStdout;
use std::time::{Duration, Instant};
use testkit::random::Random;

/// The longest line, with its end, that a pipe takes at once.
const PIPE_BUF: usize = libc::PIPE_BUF;

/// Makes different lines of up to this many bytes with their ends, more than a pipe has room for.
fn content(random: &mut Random, longest: usize) -> Vec<u8> {
    let mut text = Vec::new();
    for number in 0.. {
        let length = if random.percent(20) { longest } else { random.within(8, longest as u64) as usize };
        text.extend(format!("{number:.<width$}\n", width = length - 1).bytes());
        if text.len() > 4 << 20 {
            break;
        }
    }
    text
}

fn unread(pipe: &ChildStdout) -> usize {
    let mut unread: libc::c_int = 0;
    // SAFETY: the descriptor is open as long as `pipe` is, and FIONREAD writes one c_int, to where
    // there is one.
    assert_eq!(unsafe { libc::ioctl(pipe.as_raw_fd(), libc::FIONREAD as _, &raw mut unread) }, 0);
    unread as usize
}

/// Waits until the writer of a pipe has filled it, and waits for room.
fn until_full(pipe: &ChildStdout) {
    let (mut before, mut since) = (0, Instant::now());
    until("the pipe is full", || {
        let now = unread(pipe);
        if now != before {
            (before, since) = (now, Instant::now());
        }
        now > 32 << 10 && since.elapsed() > Duration::from_millis(30)
    });
}

#[test]
fn a_writer_that_is_ended_at_once_leaves_whole_lines_in_a_full_pipe() {
    let directory = Directory::new("full-pipes");
    let mut random = Random(u64::from(std::process::id()));
    println!("seed {}", random.0);
    for longest in [9, 60, 700, PIPE_BUF / 2 + 1, PIPE_BUF] {
        let text = content(&mut random, longest);
        let path = directory.file("in", &text);
        for signals in [&[libc::SIGKILL][..], &[libc::SIGTERM, libc::SIGTERM]] {
            let mut child = filter(&[&path]).spawn().unwrap();
            let mut pipe = child.stdout.take().unwrap();
            let mut taken = Vec::new();
            // Its reader takes some of it, and stops in the midst of a line.
            for _ in 0..random.below(4) {
                until_full(&pipe);
                let mut piece = vec![0; random.within(1, 300 << 10) as usize];
                let read = pipe.read(&mut piece).unwrap();
                taken.extend_from_slice(&piece[..read]);
            }
            until_full(&pipe);
            signals.iter().for_each(|signal| send(*signal, &child));
            pipe.read_to_end(&mut taken).unwrap();
            assert!(!child.wait().unwrap().success());
            assert!(taken.len() < text.len() && text.starts_with(&taken), "up to {longest} bytes");
            let end = &taken[taken.len() - 40.min(taken.len())..];
            assert!(taken.ends_with(b"\n"), "lines of up to {longest} bytes: {}", end.escape_ascii());
        }
    }
}
