//! Bytes that an object store returns, as the fuzz target `manifest` gives them to its decoders: a
//! letter that selects the decoder, and bytes for it. It checks that nothing panics, and the
//! properties of each decoder.

use crate::manifest::{Manifest, Object};
use crate::plan::plan;
use crate::protocol::{Action, Answer, Event, State};
use xxhash_rust::xxh3::xxh3_64;

/// Runs the fuzz target `manifest` on its input. Returns true if the decoder accepted it.
pub fn fuzz(bytes: &[u8]) -> bool {
    let Some((which, bytes)) = bytes.split_first() else { return false };
    match which {
        b'm' => manifest(bytes),
        b'b' => Manifest::decode(bytes).is_ok_and(|read| read.encode() == bytes),
        b'n' => name(bytes),
        _ => false,
    }
}

/// Checks a manifest whose beginning and checksum are made right.
fn manifest(bytes: &[u8]) -> bool {
    let mut whole = [Manifest::BEGINNING, bytes].concat();
    whole.extend(xxh3_64(&whole).to_le_bytes());
    let Ok(manifest) = Manifest::decode(&whole) else { return false };
    assert_eq!(manifest.encode(), whole, "it is written as it was");
    let content = &manifest.content;
    let files = content.files.iter().chain(&content.segments.files);
    assert_eq!(content.bytes(), files.clone().map(|file| file.bytes()).sum::<u64>());
    let parts: usize = files.clone().map(|file| file.parts.len()).sum();
    assert!(content.objects().len() <= parts);
    for file in files {
        assert!(content.file(&file.name).is_some());
        let (kept, new) = plan(&file.parts, file.bytes(), u64::MAX);
        assert!(kept == file.parts.len() && new.is_empty(), "nothing of it is new");
    }
    acquired(manifest);
    true
}

/// Becomes the owner of what a manifest says, and publishes the same again.
fn acquired(found: Manifest) {
    let mut state = State::default();
    let content = found.content.clone();
    state.on(Event::Acquire { attempt: 1 });
    state.on(Event::Read(Some(found.clone())));
    state.on(Event::Put(Answer::Written));
    let owning = state.owning().expect("nobody else writes");
    assert!(owning.current.epoch > found.epoch && owning.current.version > found.version);
    let published = state.on(Event::Publish { attempt: 2, content, new: [].into() });
    assert!(published.iter().any(|action| matches!(action, Action::Put { .. })), "{published:?}");
}

/// Checks the name of an object.
fn name(bytes: &[u8]) -> bool {
    let Some(object) = std::str::from_utf8(bytes).ok().and_then(Object::named) else { return false };
    assert_eq!(object.path().as_bytes(), bytes, "it has one name");
    true
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_corpus_of_the_fuzz_target_manifest() {
        let mut taken = 0;
        let files = testkit::corpus::replay("manifest", |bytes| taken += usize::from(super::fuzz(bytes)));
        assert!(files == 0 || taken > 2, "of {files} only {taken} are anything");
    }
}
