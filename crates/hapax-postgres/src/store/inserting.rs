//! Inserts ids without a record: the usual case for marks and claims.

use super::PostgresStore;
use super::batches::Batch;
use super::entries::Entry;
use super::errors::corrupt;
use super::keys::{Keys, is_key_of};
use super::operations::Creation;
use super::partitions::one;
use super::rows::{Fresh, column, micros};
use super::session::{Session, Values};
use super::statements::{self, Insertion};
use hapax_store::StoreError;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

impl PostgresStore {
    /// Inserts ids without a record, in one round trip. The remaining entries had a record, or have
    /// more than one request.
    pub(super) async fn insert<R, A>(
        &self,
        session: &Session<'_>,
        family: i32,
        batch: &mut Batch<'_, R, A>,
        creation: &Creation<R, A>,
        mut entries: Vec<Entry>,
    ) -> Result<Vec<Entry>, StoreError> {
        let rows = {
            let fresh: Vec<Fresh> = entries.iter().map(|entry| (creation.fresh)(batch.first(entry))).collect();
            let (Creation { state, has_token, .. }, is_plain) = (creation, are_plain(&fresh));
            let has_result = is_plain && fresh.first().is_some_and(|fresh| fresh.result.is_some());
            let insertion = Insertion { state: *state, has_token: *has_token, is_plain, has_result };
            self.ask_to_insert(session, batch.operation.name, (family, insertion), &Keys::of(&entries), &fresh).await?
        };
        let row = one(&rows)?;
        let token = u64::try_from(column::<Option<i64>>(row, "token")?.unwrap_or(0)).unwrap_or(0);
        let inserted: usize = column::<i64>(row, "inserted")?.try_into().unwrap_or(0);
        // Both are in the order of keys.
        let mut rest = entries.iter_mut();
        match column::<Option<Vec<&[u8]>>>(row, "keys")? {
            Some(keys) => {
                for key in keys {
                    let inserted = rest.find(|entry| is_key_of(key, entry));
                    let inserted = inserted.ok_or_else(|| corrupt("inserted what was not asked for"))?;
                    batch.answer_first(inserted, (creation.answer)(token));
                }
            }
            // All were inserted, or none.
            None => rest.take(inserted).for_each(|entry| batch.answer_first(entry, (creation.answer)(token))),
        }
        entries.retain(|entry| !entry.asking.is_empty());
        Ok(entries)
    }

    async fn ask_to_insert(
        &self,
        session: &Session<'_>,
        doing: &str,
        (family, insertion): (i32, Insertion),
        keys: &Keys<'_>,
        fresh: &[Fresh<'_>],
    ) -> Result<Vec<Row>, StoreError> {
        let begin = statements::begin(session.settings(), &self.names, family);
        let insert = statements::insert(&self.names, family, insertion);
        let attempts: Vec<Option<i64>> = fresh.iter().map(|fresh| fresh.attempt.map(u64::cast_signed)).collect();
        if insertion.is_plain {
            let all_last = fresh.first().map_or(0.0, |fresh| micros(fresh.lasts));
            let result = fresh.first().and_then(|fresh| fresh.result.as_deref());
            let values: Values<'_> = &[
                (keys, Type::BYTEA_ARRAY),
                (&attempts, Type::INT8_ARRAY),
                (&all_last, Type::FLOAT8),
                (&result, Type::BYTEA),
            ];
            let values = if insertion.has_result { values } else { &values[..3] };
            return session.between(doing, &begin, (&insert, values), "COMMIT").await;
        }
        let lasts: Vec<f64> = fresh.iter().map(|fresh| micros(fresh.lasts)).collect();
        let fingerprints: Vec<Option<&[u8]>> =
            fresh.iter().map(|fresh| fresh.fingerprint.as_ref().map(|fingerprint| &fingerprint.0[..])).collect();
        let results: Vec<Option<&[u8]>> = fresh.iter().map(|fresh| fresh.result.as_deref()).collect();
        let values: Values<'_> = &[
            (keys, Type::BYTEA_ARRAY),
            (&attempts, Type::INT8_ARRAY),
            (&lasts, Type::FLOAT8_ARRAY),
            (&fingerprints, Type::BYTEA_ARRAY),
            (&results, Type::BYTEA_ARRAY),
        ];
        session.between(doing, &begin, (&insert, values), "COMMIT").await
    }
}

/// Returns true if all records last equally long, have the same result or none, and no fingerprint.
fn are_plain(fresh: &[Fresh]) -> bool {
    let Some(first) = fresh.first() else { return true };
    let is_like = |fresh: &Fresh| fresh.lasts == first.lasts && fresh.result == first.result;
    fresh.iter().all(|fresh| fresh.fingerprint.is_none() && is_like(fresh))
}
