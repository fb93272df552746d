//! Made-up snapshots, with checksums that are right, for the fuzz targets `hostile` and `journal`.

use super::reading::{parse, take_sections};
use super::writing::put_section;
use super::{Kind, MAGIC};
use crate::journal::format::{BlockHeader, HEADER_BYTES, Header};
use crate::journal::fuzzing::{Fields, damage};
use crate::{Builder, Dedup, Error, Int};
use std::path::PathBuf;
use std::sync::OnceLock;

/// Checks a whole file with any contents.
pub(crate) fn whole(bytes: &[u8]) -> bool {
    let Ok((_, _, sections)) = parse(bytes) else { return false };
    assert!(sections.len() <= bytes.len() / super::SECTION_BYTES);
    true
}

/// Checks a block's sections, whose lengths say where the next one begins.
pub(crate) fn sections(payload: &[u8]) -> bool {
    let mut sections = Vec::new();
    let is_whole = take_sections(payload, 0, &mut sections).is_some();
    assert!(sections.len() <= payload.len() / super::SECTION_BYTES);
    is_whole && !sections.is_empty()
}

/// Restores an engine from what the bytes say.
pub(crate) fn restored(builder: Builder, fields: &mut Fields<'_>) -> Result<Dedup, Error> {
    let path = path();
    std::fs::write(&path, made_up(fields)).expect("there is room for a snapshot");
    builder.restore(path).build()
}

/// Returns the path of one file of this process and thread, written again and again; in memory,
/// where there is such a file system.
fn path() -> PathBuf {
    let base = Some(PathBuf::from("/dev/shm")).filter(|path| path.is_dir()).unwrap_or_else(std::env::temp_dir);
    base.join(format!("hapax-hostile-{}-{:?}", std::process::id(), std::thread::current().id()))
}

/// Returns the header of a snapshot that an engine has written, once.
fn genuine() -> (Header, Vec<u8>) {
    static GENUINE: OnceLock<(Header, Vec<u8>)> = OnceLock::new();
    let (header, bytes) = GENUINE.get_or_init(|| {
        let path = path().with_extension("genuine");
        let dedup = Dedup::builder().seed(7).capacity(1).build().expect("the options are valid");
        dedup.check(Int::from(1_u64));
        dedup.snapshot(&path).expect("there is room for a snapshot");
        let bytes = std::fs::read(&path).expect("it was written");
        std::fs::remove_file(path).expect("it is there");
        let header = bytes.first_chunk::<HEADER_BYTES>().expect("it has a header");
        (Header::decode_as(header, MAGIC).expect("it is ours"), bytes)
    });
    (*header, bytes.clone())
}

fn made_up(fields: &mut Fields<'_>) -> Vec<u8> {
    let (genuine, _) = genuine();
    let header = Header {
        boot: fields.number(genuine.boot),
        time: crate::clock::TimeBase { offset_nanos: fields.number(0) as i64, kind: fields.number(0) },
        ..genuine
    };
    let mut file = header.encode_as(MAGIC).to_vec();
    let mut count = 0;
    let blocks = 1 + fields.below(3);
    for number in 0..blocks {
        let mut payload = Vec::new();
        for _ in 0..fields.below(12) {
            section(fields, &mut payload);
            count += 1;
        }
        if number + 1 == blocks {
            put_section(&mut payload, Kind::End as u32, [0, fields.number(count)], &[]);
        }
        damage(fields, &mut payload);
        let number = fields.number(number.into());
        let header = BlockHeader { number, ..BlockHeader::default() }.seal(&payload, header.salt);
        file.extend_from_slice(&header.encode());
        file.extend_from_slice(&payload);
    }
    file
}

/// Adds one section: its kind, its header, and its words.
fn section(fields: &mut Fields<'_>, payload: &mut Vec<u8>) {
    /// The tick of a window of 100 s.
    const TICK_NANOS: u64 = 1_000_000_000;
    let usual = 1 + u64::from(fields.below(7));
    let kind = fields.number(usual) as u32;
    let a = match kind {
        1 => fields.number(TICK_NANOS),
        2 => fields.number(64),
        3 => fields.number(1_795_305_600),
        _ => fields.number(0),
    };
    let b = fields.number(0);
    let words: Vec<u64> = (0..fields.below(24)).map(|_| fields.number(0)).collect();
    put_section(payload, kind, [a, b], &words);
}
