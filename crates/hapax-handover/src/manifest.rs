//! The manifest: what a partition's owner has published, and its bytes. Pure.
//!
//! ```text
//! magic 8 | epoch 8 | version 8 | attempt 8 | positions | mark | files | segments | checksum 8
//! positions  count 4, then each: source, position
//! segments   their own manifest, then files: of a long memory; both empty without one
//! files      count 4, then each: name, closed 1, parts: count 4, then each: epoch 8 | number 8 | random 8
//!            | bytes 8 | checksum 16
//! ```
//!
//! Numbers are little-endian; a name, source, position, mark or manifest is its length in 4 bytes,
//! and itself.

use std::collections::BTreeSet;
use xxhash_rust::xxh3::xxh3_64;

const MAGIC: &[u8; 8] = b"HPXMANI1";

/// The largest epoch, version and sum of bytes: what is added to them never overflows.
const NUMBER_MAX: u64 = i64::MAX as u64;

/// The name of an object: the owner's epoch, its number in that, and a random number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Object {
    pub(crate) epoch: u64,
    pub(crate) number: u64,
    pub(crate) random: u64,
}

impl Object {
    /// Returns the name in the store: two segments of a path.
    pub(crate) fn path(&self) -> String {
        format!("{:020}/{:010}-{:016x}", self.epoch, self.number, self.random)
    }

    /// Returns the object with this name.
    pub(crate) fn named(path: &str) -> Option<Self> {
        let (epoch, rest) = path.split_once('/')?;
        let (number, random) = rest.split_once('-')?;
        let random = u64::from_str_radix(random, 16).ok()?;
        let object = Object { epoch: epoch.parse().ok()?, number: number.parse().ok()?, random };
        (object.path() == path).then_some(object)
    }
}

/// A stretch of a file, as an object that never changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Part {
    pub(crate) object: Object,
    pub(crate) bytes: u64,
    pub(crate) checksum: u128,
}

/// A file: its parts, one after another. One that is not closed is the tail, and may grow.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct File {
    pub(crate) name: String,
    pub(crate) is_closed: bool,
    pub(crate) parts: Vec<Part>,
}

impl File {
    pub(crate) fn bytes(&self) -> u64 {
        self.parts.iter().map(|part| part.bytes).sum()
    }
}

/// The published content: files, and the positions of the sources that they cover.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Content {
    pub(crate) positions: Vec<(Vec<u8>, Vec<u8>)>,
    /// The journal's mark, a file of some bytes.
    pub(crate) mark: Vec<u8>,
    pub(crate) files: Vec<File>,
    pub(crate) segments: Segments,
}

/// The segments of a long memory: none, and no manifest, without one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Segments {
    /// Their own manifest, a file of some bytes.
    pub(crate) manifest: Vec<u8>,
    pub(crate) files: Vec<File>,
}

impl Content {
    /// Returns the objects that it names.
    pub(crate) fn objects(&self) -> BTreeSet<Object> {
        let files = self.files.iter().chain(&self.segments.files);
        files.flat_map(|file| &file.parts).map(|part| part.object).collect()
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.files.iter().chain(&self.segments.files).map(File::bytes).sum()
    }

    /// Returns the file of a name, which no two have.
    pub(crate) fn file(&self, name: &str) -> Option<&File> {
        self.files.iter().chain(&self.segments.files).find(|file| file.name == name)
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Manifest {
    pub(crate) epoch: u64,
    pub(crate) version: u64,
    /// The random number of the attempt that has written it.
    pub(crate) attempt: u64,
    pub(crate) content: Content,
}

impl Manifest {
    #[cfg(any(fuzzing, test))]
    pub(crate) const BEGINNING: &[u8] = MAGIC;

    /// Returns true if this is what that attempt has written.
    pub(crate) fn is(&self, other: &Manifest) -> bool {
        (self.epoch, self.version, self.attempt) == (other.epoch, other.version, other.attempt)
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut to = Vec::from(*MAGIC);
        [self.epoch, self.version, self.attempt].iter().for_each(|n| to.extend(n.to_le_bytes()));
        put_count(&mut to, self.content.positions.len());
        for (source, position) in &self.content.positions {
            put_bytes(&mut to, source);
            put_bytes(&mut to, position);
        }
        put_bytes(&mut to, &self.content.mark);
        put_files(&mut to, &self.content.files);
        put_bytes(&mut to, &self.content.segments.manifest);
        put_files(&mut to, &self.content.segments.files);
        let checksum = xxh3_64(&to);
        to.extend(checksum.to_le_bytes());
        to
    }

    /// Decodes a manifest, or says what is wrong with it.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, &'static str> {
        let (bytes, checksum) = bytes.split_last_chunk::<8>().ok_or("it is too short")?;
        if !bytes.starts_with(MAGIC) {
            return Err("it is no manifest, or one of another version");
        }
        if xxh3_64(bytes) != u64::from_le_bytes(*checksum) {
            return Err("its checksum is wrong");
        }
        let mut from = Reader(&bytes[MAGIC.len()..]);
        let read = from.manifest().filter(|_| from.0.is_empty()).ok_or("it has what no manifest has")?;
        read.is_within_reach().then_some(read).ok_or("it has numbers that nobody reaches")
    }

    /// Returns true if additions to its numbers, and sums of its bytes, do not overflow. (The
    /// number of an object is only compared.)
    fn is_within_reach(&self) -> bool {
        let files = self.content.files.iter().chain(&self.content.segments.files);
        let bytes = files.flat_map(|file| &file.parts).try_fold(0_u64, |sum, part| sum.checked_add(part.bytes));
        [Some(self.epoch), Some(self.version), bytes].iter().all(|number| number.is_some_and(|n| n <= NUMBER_MAX))
    }
}

#[expect(clippy::cast_possible_truncation, reason = "a count of files and bytes of names")]
fn put_count(to: &mut Vec<u8>, count: usize) {
    debug_assert!(u32::try_from(count).is_ok());
    to.extend((count as u32).to_le_bytes());
}

fn put_bytes(to: &mut Vec<u8>, bytes: &[u8]) {
    put_count(to, bytes.len());
    to.extend(bytes);
}

fn put_files(to: &mut Vec<u8>, files: &[File]) {
    put_count(to, files.len());
    for file in files {
        put_bytes(to, file.name.as_bytes());
        to.push(file.is_closed.into());
        put_count(to, file.parts.len());
        for Part { object, bytes, checksum } in &file.parts {
            [object.epoch, object.number, object.random, *bytes].iter().for_each(|n| to.extend(n.to_le_bytes()));
            to.extend(checksum.to_le_bytes());
        }
    }
}

struct Reader<'b>(&'b [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*taken)
    }

    fn number(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }

    fn count(&mut self) -> Option<usize> {
        let count = usize::try_from(u32::from_le_bytes(self.take()?)).ok()?;
        // Each item has at least a byte, so no memory is taken for more.
        (count <= self.0.len()).then_some(count)
    }

    fn bytes(&mut self) -> Option<Vec<u8>> {
        let (taken, rest) = { self.count().map(|count| self.0.split_at(count))? };
        self.0 = rest;
        Some(taken.into())
    }

    fn manifest(&mut self) -> Option<Manifest> {
        let (epoch, version, attempt) = (self.number()?, self.number()?, self.number()?);
        let count = self.count()?;
        let positions = (0..count).map(|_| Some((self.bytes()?, self.bytes()?))).collect::<Option<_>>()?;
        let (mark, files) = (self.bytes()?, self.files()?);
        let segments = Segments { manifest: self.bytes()?, files: self.files()? };
        Some(Manifest { epoch, version, attempt, content: Content { positions, mark, files, segments } })
    }

    fn files(&mut self) -> Option<Vec<File>> {
        let count = self.count()?;
        (0..count).map(|_| self.file()).collect()
    }

    fn file(&mut self) -> Option<File> {
        let name = String::from_utf8(self.bytes()?).ok().filter(|name| is_plain(name))?;
        let [is_closed @ (0 | 1)] = self.take()? else { return None };
        let count = self.count()?;
        let parts = (0..count).map(|_| self.part()).collect::<Option<_>>()?;
        Some(File { name, is_closed: is_closed == 1, parts })
    }

    fn part(&mut self) -> Option<Part> {
        let object = Object { epoch: self.number()?, number: self.number()?, random: self.number()? };
        Some(Part { object, bytes: self.number()?, checksum: u128::from_le_bytes(self.take()?) })
    }
}

/// Returns true if a name is one of a file, and leads nowhere else.
pub(crate) fn is_plain(name: &str) -> bool {
    let is_safe = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    !name.is_empty() && name.len() <= 255 && !name.starts_with('.') && name.chars().all(is_safe)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest() -> Manifest {
        let object = Object { epoch: 3, number: 7, random: 0xfeed };
        let part = Part { object, bytes: 99, checksum: 1 << 100 };
        let file = File { name: "00000000000000000000.hapax".into(), is_closed: true, parts: vec![part; 3] };
        let positions = vec![(b"orders/3".to_vec(), vec![0, 9]), (vec![], vec![])];
        let segments = Segments { manifest: vec![2; 80], files: vec![file.clone()] };
        let content = Content { positions, mark: vec![1; 96], files: vec![file; 2], segments };
        Manifest { epoch: 3, version: 12, attempt: 5, content }
    }

    #[test]
    fn a_manifest_is_read_as_it_was_written_and_no_other_bytes_are() {
        let bytes = manifest().encode();
        assert_eq!(Manifest::decode(&bytes), Ok(manifest()));
        for length in 0..bytes.len() {
            assert!(Manifest::decode(&bytes[..length]).is_err(), "cut at {length}");
        }
        for bit in 0..8 * bytes.len() {
            let mut wrong = bytes.clone();
            wrong[bit / 8] ^= 1 << (bit % 8);
            assert!(Manifest::decode(&wrong).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn bytes_with_a_right_checksum_are_a_manifest_that_is_written_alike_or_refused() {
        let bytes = manifest().encode();
        let body = &bytes[..bytes.len() - 8];
        for at in MAGIC.len()..body.len() {
            for with in [0, 1, 0x7f, 0xff] {
                let mut wrong = body.to_vec();
                wrong[at] = with;
                wrong.extend(xxh3_64(&wrong).to_le_bytes());
                if let Ok(read) = Manifest::decode(&wrong) {
                    assert_eq!(read.encode(), wrong);
                }
            }
        }
    }

    #[test]
    fn numbers_that_nobody_reaches_are_refused_with_a_right_checksum_too() {
        let with = |change: &dyn Fn(&mut Manifest)| {
            let mut manifest = manifest();
            change(&mut manifest);
            Manifest::decode(&manifest.encode()).map(|read| read.content.bytes())
        };
        let most = |manifest: &mut Manifest| {
            let parts = manifest.content.files.iter().chain(&manifest.content.segments.files);
            let others = parts.map(|file| file.parts.len() as u64).sum::<u64>() - 1;
            manifest.content.files[0].parts[0].bytes = NUMBER_MAX - 99 * others;
        };
        assert_eq!(with(&most), Ok(NUMBER_MAX));
        let cases: [&dyn Fn(&mut Manifest); 6] = [
            &|it| it.epoch = NUMBER_MAX + 1,
            &|it| it.version = u64::MAX,
            &|it| it.content.files[0].parts[0].bytes = u64::MAX,
            &|it| it.content.files.iter_mut().for_each(|file| file.parts[0].bytes = NUMBER_MAX),
            &|it| it.content.segments.files[0].parts[2].bytes = NUMBER_MAX,
            &|it| {
                most(it);
                it.content.segments.files[0].parts[0].bytes += 1;
            },
        ];
        for (n, case) in cases.iter().enumerate() {
            assert_eq!(with(case), Err("it has numbers that nobody reaches"), "case {n}");
        }
    }

    #[test]
    fn names_lead_to_nothing_but_a_file_of_the_directory() {
        for wrong in ["", ".", "..", "../a", "a/b", "/a", ".hidden", "a\\b", "a\0", "ü"] {
            assert!(!is_plain(wrong), "{wrong:?}");
        }
        assert!(is_plain("00000000000000000017.hapax") && is_plain("mark"));
        let object = Object { epoch: 1, number: u64::MAX, random: 3 };
        assert_eq!(Object::named(&object.path()), Some(object));
        assert_eq!(Object::named("1/2-3"), None);
    }
}
