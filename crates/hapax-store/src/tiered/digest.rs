//! The digests of ids, as memory knows them.

use crate::{RecordKey, StoredId};
use hapax::seam::{Digest, Digester, Memory};

/// Returns the digest of an id as stores have it, so that what was read from a store has the same.
#[inline]
pub(crate) fn digest(digester: &Digester, id: &StoredId) -> Digest {
    digester.digest(id.as_bytes())
}

/// Returns memory's digest of a record's id.
pub(crate) fn digest_of(memory: &Memory, key: &RecordKey) -> Digest {
    digest(&memory.digester(key.scope.as_str()), &key.id)
}
