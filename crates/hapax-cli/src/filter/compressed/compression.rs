//! The compression of content, recognized by its beginning.

use std::io;

/// The compression of a file's content.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Compression {
    None,
    Gzip,
    Zstd,
}

/// The beginning of a kind of content: the least and the greatest value of each byte.
type Signature = (Result<Compression, &'static str>, &'static [u8], &'static [u8]);

const SIGNATURES: [Signature; 7] = [
    (Ok(Compression::Gzip), b"\x1f\x8b", b"\x1f\x8b"),
    (Ok(Compression::Zstd), b"\x28\xb5\x2f\xfd", b"\x28\xb5\x2f\xfd"),
    // A skippable frame.
    (Ok(Compression::Zstd), b"\x50\x2a\x4d\x18", b"\x5f\x2a\x4d\x18"),
    (Err("xz"), b"\xfd7zXZ\0", b"\xfd7zXZ\0"),
    (Err("zip"), b"PK\x03\x04", b"PK\x03\x04"),
    (Err("zip"), b"PK\x05\x06", b"PK\x05\x06"),
    (Err("bzip2"), b"BZh11AY", b"BZh91AY"),
];

impl Compression {
    /// Returns the name of the compression of content with this beginning, or none if it has none
    /// that we know; nothing if it takes more bytes to tell.
    pub fn name_of(beginning: &[u8]) -> Option<Option<&'static str>> {
        let name = |compression| match compression {
            Ok(Compression::None) => None,
            Ok(Compression::Gzip) => Some("gzip"),
            Ok(Compression::Zstd) => Some("zstd"),
            Err(name) => Some(name),
        };
        Self::told(beginning).map(name)
    }

    /// Returns the compression of content with this beginning; none if it takes more bytes to tell.
    pub fn of(beginning: &[u8]) -> io::Result<Option<Self>> {
        Self::told(beginning).transpose().map_err(|name| {
            let unpack = if name == "zip" { "unzip -p".to_string() } else { format!("{name} -dc") };
            let why = "which is not read here";
            io::Error::other(format!("it is compressed with {name}, {why}: `{unpack} FILE | hapax filter …`"))
        })
    }

    fn told(beginning: &[u8]) -> Option<Result<Self, &'static str>> {
        let mut told = Some(Ok(Compression::None));
        for (compression, least, greatest) in SIGNATURES {
            let bounds = least.iter().zip(greatest);
            if !beginning.iter().zip(bounds).all(|(byte, (least, greatest))| (least..=greatest).contains(&byte)) {
                continue;
            }
            if beginning.len() < least.len() {
                told = None;
                continue;
            }
            return Some(compression);
        }
        told
    }
}
