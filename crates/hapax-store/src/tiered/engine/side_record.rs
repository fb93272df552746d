//! Side records: a few bytes that the library keeps in the store beside an id, for the holder of
//! its claim. No id of a user names one.

use super::policy::PolicyState;
use crate::tiered::batching::{Client, Forgets, LookUps, Records};
use crate::tiered::digest::digest_of;
use crate::{Known, Record, RecordKey, Scope, StoreError, StoredId};
use hapax::seam::Digest;
use std::sync::Arc;
use std::time::Duration;

/// The scope of side records, which no user can name.
fn scope() -> Scope {
    Scope::reserved("note")
}

/// Returns the key of an id's side record: under its scope and id.
pub fn key_of(key: &RecordKey) -> RecordKey {
    RecordKey::new(&scope(), key.to_stored())
}

/// Returns the key that a side record is about; none if it is no such record. Of a long scope and
/// id only a digest is kept, which stands for the id then, in no scope.
pub fn noted_key(note: &RecordKey) -> Option<RecordKey> {
    let digest = || RecordKey { scope: Scope::default(), id: note.id };
    let is_whole = note.id.as_bytes().len() < StoredId::MAX_BYTES;
    let noted = is_whole.then(|| RecordKey::from_stored(note.id.as_bytes()).ok()).flatten();
    (note.scope == scope()).then(|| noted.unwrap_or_else(digest))
}

/// The side record of an id. It is read and written by the holder of the id's claim, so no other
/// process writes it meanwhile.
#[derive(Clone)]
pub struct SideRecord {
    client: Arc<Client>,
    policy: Arc<PolicyState>,
    name: (RecordKey, Digest),
}

impl SideRecord {
    pub(crate) fn new(client: &Arc<Client>, policy: &Arc<PolicyState>, key: &RecordKey) -> Self {
        let noted = key_of(key);
        let id = digest_of(&policy.memory, &noted);
        SideRecord { client: Arc::clone(client), policy: Arc::clone(policy), name: (noted, id) }
    }

    /// Returns the written text, if there is one that has not expired.
    pub async fn read(&self) -> Result<Option<Vec<u8>>, StoreError> {
        self.policy.ownership.admit()?;
        let (key, id) = self.name.clone();
        Ok(match self.client.ask_one::<LookUps>(&self.policy.memory, key, id).await? {
            Known::Completed(completed) => completed.result,
            Known::Unknown | Known::InProgress { .. } => None,
        })
    }

    /// Writes it anew, for as long as the store keeps completed ids, and for `at_least` at
    /// least.
    pub async fn write(&self, text: Vec<u8>, at_least: Duration) -> Result<(), StoreError> {
        self.policy.ownership.admit()?;
        let ((key, id), retention) = (self.name.clone(), self.policy.retention.max(at_least));
        let record = Record { key, retention, fingerprint: None, result: Some(text) };
        self.client.ask_one::<Records>(&self.policy.memory, record, id).await
    }

    pub(crate) async fn forgotten(self) -> Result<bool, StoreError> {
        let (key, id) = self.name;
        self.client.ask_one::<Forgets>(&self.policy.memory, key, id).await
    }

    /// Forgets side records of one engine. Those that the store cannot forget now expire.
    pub async fn forget(all: Vec<SideRecord>) {
        let Some(first) = all.first() else { return };
        let (client, memory) = (Arc::clone(&first.client), Arc::clone(&first.policy.memory));
        client.ask::<Forgets>(&memory, all.into_iter().map(|record| record.name).collect()).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_id_has_a_note_of_its_own_that_is_nobodys_id() {
        let scopes = ["", "a", "ab"].map(|scope| Scope::new(scope).unwrap());
        let ids = [b"".as_slice(), b"b", b"bc", b"c", &[7; 100], &[8; 100]];
        let keys = scopes.iter().flat_map(|scope| ids.map(|id| RecordKey::new(scope, id)));
        let notes: std::collections::BTreeSet<RecordKey> = keys.map(|key| key_of(&key)).collect();
        assert_eq!(notes.len(), scopes.len() * ids.len());
        assert!(notes.iter().all(|note| note.scope.is_reserved()));
        for key in scopes.iter().map(|scope| RecordKey::new(scope, [b'x'; 44])) {
            assert_eq!((noted_key(&key_of(&key)), noted_key(&key)), (Some(key), None));
        }
        let long = key_of(&RecordKey::new(&scopes[1], [7; 100]));
        assert_eq!(noted_key(&long), Some(RecordKey { scope: Scope::default(), id: long.id }));
    }
}
