//! Made-up files of a journal.

use super::Fields;
use crate::Timestamp;
use crate::clock::{Clocks, Stamp, TimeBase};
use crate::digest::Digest;
use crate::journal::encoding::format::{BlockHeader, Header, Mark};
use crate::journal::encoding::payload::{Kind, Payload};
use crate::journal::files::simulated::Simulated;
use crate::journal::write::mark;
use crate::journal::write::writer::name;
use std::path::Path;

/// Parts that an engine has written: the beginning of a segment, and the mark. Everything that is
/// not made up is taken from them.
#[derive(Clone, Copy)]
pub(super) struct Genuine {
    pub(super) header: Header,
    pub(super) mark: Mark,
    pub(super) now: Timestamp,
}

/// The end that the files have reached.
struct Course {
    number: u64,
    ids: u64,
}

/// Puts files into a directory, each as the bytes say. Returns their size in bytes.
pub(super) fn put(disk: &Simulated, directory: &Path, genuine: Genuine, fields: &mut Fields<'_>) -> usize {
    let mut course = Course { number: 0, ids: 0 };
    let mut bytes = 0;
    for _ in 0..=fields.below(4) {
        let begins = fields.number(course.number);
        course.number = begins;
        let file = segment(genuine, &mut course, fields);
        bytes += file.len();
        let called = if fields.below(16) == 0 { fields.number(begins) } else { begins };
        disk.put(&directory.join(name(called)), file);
    }
    if fields.below(8) != 0 {
        let Course { number, ids } = course;
        let mark = Mark {
            is_clean: fields.below(2) == 0,
            number: fields.number(number),
            ids: fields.number(ids),
            first: fields.number(0),
            first_ids: fields.number(0),
            ..genuine.mark
        };
        disk.put(&directory.join(mark::NAME), mark.encode().to_vec());
    }
    bytes
}

fn segment(genuine: Genuine, course: &mut Course, fields: &mut Fields<'_>) -> Vec<u8> {
    let header = Header {
        number: course.number,
        created: fields.number(genuine.header.created),
        ids: fields.number(course.ids),
        boot: fields.number(genuine.header.boot),
        time: time_base(genuine.header.time, fields),
        ..genuine.header
    };
    let mut file = header.encode().to_vec();
    for _ in 0..fields.below(8) {
        block(genuine, course, fields, &mut file);
    }
    if fields.below(8) == 0 {
        // Its end is replaced.
        let length = usize::from(fields.byte());
        file.extend_from_slice(fields.take(length));
    }
    file
}

fn block(genuine: Genuine, course: &mut Course, fields: &mut Fields<'_>, file: &mut Vec<u8>) {
    let mut payload = Payload::default();
    for _ in 0..fields.below(8) {
        run(genuine, fields, &mut payload);
    }
    let mut bytes = payload.bytes().to_vec();
    damage(fields, &mut bytes);
    let number = fields.number(course.number);
    let now = genuine.now.as_nanos();
    let header = BlockHeader {
        number,
        skipped: if fields.below(8) == 0 { fields.number(1) } else { 0 },
        ids: fields.number(course.ids),
        first: fields.number(0),
        first_ids: fields.number(0),
        latest: Timestamp::from_nanos(fields.number(payload.latest().as_nanos())),
        clocks: Clocks {
            engine: Timestamp::from_nanos(fields.number(now)),
            wall_nanos: fields.number(now),
            boot_nanos: fields.number(1),
        },
        ..BlockHeader::default()
    };
    file.extend_from_slice(&header.seal(&bytes, genuine.header.salt).encode());
    file.extend_from_slice(&bytes);
    course.number = number.wrapping_add(1);
    course.ids = header.ids.wrapping_add(payload.accepted());
}

fn run(genuine: Genuine, fields: &mut Fields<'_>, payload: &mut Payload) {
    let nanos = fields.number(genuine.now.as_nanos());
    let time = Timestamp::from_nanos(match fields.below(4) {
        // In seconds rather than nanoseconds.
        0 => genuine.now.as_nanos().wrapping_add(u64::from(fields.byte()) * 1_000_000_000),
        1 => genuine.now.as_nanos().wrapping_sub(u64::from(fields.byte()) * 1_000_000_000),
        _ => nanos,
    });
    let mut at = Stamp { reading: time.into(), tick: fields.number(0) };
    at.reading.lag_nanos = fields.number(0);
    let id = |fields: &mut Fields<'_>| Digest { place: fields.number(0) << 56, mark: fields.number(7) };
    let count = fields.below(5);
    match fields.below(8) {
        0 | 1 => payload.push(Kind::Accepted, at, (0..count).map(|_| id(fields))),
        2 => payload.push(Kind::Forgotten, at, (0..count).map(|_| id(fields))),
        3 => payload.push(Kind::Fingerprinted, at, (0..2 * (count / 2)).map(|_| id(fields))),
        4 => payload.push_event(Kind::Cleared, time),
        5 => payload.push_event(Kind::Time, time),
        6 => {
            let (source, position) = (usize::from(fields.below(8)), usize::from(fields.byte()));
            payload.push_position(fields.take(source), fields.take(position));
        }
        _ => payload.push_time_base(time_base(genuine.header.time, fields)),
    }
}

fn time_base(genuine: TimeBase, fields: &mut Fields<'_>) -> TimeBase {
    let offset_nanos = fields.number(genuine.offset_nanos as u64) as i64;
    TimeBase { offset_nanos, kind: fields.number(genuine.kind) }
}

/// Changes bytes before the checksum is made of them, so that kinds, counts and lengths are
/// arbitrary.
pub(crate) fn damage(fields: &mut Fields<'_>, bytes: &mut Vec<u8>) {
    for _ in 0..fields.byte().saturating_sub(240) {
        let at = usize::from(fields.byte()) << 8 | usize::from(fields.byte());
        match (fields.byte(), bytes.len()) {
            (0, length) if length > 0 => bytes.truncate(at % length),
            (to, length) if length > 0 => bytes[at % length] = to,
            _ => {}
        }
    }
}
