//! Look-ups, in batches of the service's, and scans. All are consistent reads.

use crate::DynamoDbStore;
use crate::calls::record_of;
use crate::errors::{self, Failure, error, failure};
use crate::item::{self, ATTEMPT, BEFORE, DOUBT, FINGERPRINT, HELD_BY, ID, Item, SCOPE, STATE, TOKEN, UNTIL};
use crate::tries::{Repeats, Tries};
use aws_sdk_dynamodb::types::KeysAndAttributes;
use futures_util::future::join_all;
use hapax_store::backend::record::{Moment, StoredRecord};
use hapax_store::*;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use tokio::time::Instant;

/// The number of keys of one `BatchGetItem`: the service's limit.
const KEYS_MAX: usize = 100;
/// The number of items of one page of a scan. Such a page has less than the service's 1 MiB, unless
/// there are large results, which it reads and does not send.
const PAGE_MAX: usize = 1_000;

type Found<'k> = BTreeMap<&'k RecordKey, Result<Option<StoredRecord>, StoreError>>;

impl DynamoDbStore {
    /// Looks at the record of each key.
    pub(crate) async fn look<A>(
        &self,
        keys: &[RecordKey],
        decide: fn(Option<&StoredRecord>, Moment) -> A,
    ) -> Answers<A> {
        let deadline = Instant::now() + self.options.timeout;
        // The service refuses a batch with one key twice.
        let different: Vec<&RecordKey> = keys.iter().collect::<BTreeSet<_>>().into_iter().collect();
        let found = join_all(different.chunks(KEYS_MAX).map(|keys| self.get(keys, deadline))).await;
        let found: Found<'_> = found.into_iter().flatten().collect();
        let at = Moment::of_server(self.clock.now());
        let answer = |key: &RecordKey| match found.get(key) {
            Some(Ok(stored)) => Ok(decide(stored.as_ref(), at)),
            Some(Err(error)) => Err(error.clone()),
            None => Err(errors::corrupt(format!("{key} was left without an answer"))),
        };
        Ok(keys.iter().map(answer).collect())
    }

    /// Gets the records of up to a hundred different keys.
    async fn get<'k>(&self, keys: &[&'k RecordKey], deadline: Instant) -> Found<'k> {
        let mut found = Found::new();
        let mut missing: BTreeSet<&RecordKey> = keys.iter().copied().collect();
        let mut tries = Tries::new(Repeats::Always);
        while !missing.is_empty() {
            let failed = match self.get_some(&missing, deadline).await {
                Ok((items, left_out)) => {
                    let asked = missing.len();
                    for key in std::mem::take(&mut missing) {
                        if left_out.contains(key) {
                            missing.insert(key);
                        } else {
                            let record = items.get(key).map(|item| record_of(item, key)).transpose();
                            found.insert(key, record);
                        }
                    }
                    match missing.len() {
                        0 => break,
                        // An answer has at most 16 MiB: the others are not throttled, but to come.
                        left if left < asked => {
                            tries.advanced();
                            continue;
                        }
                        _ => errors::left_out("look up", &self.options.table),
                    }
                }
                Err(failed) => failed,
            };
            if let Err(error) = self.pause(&mut tries, failed, deadline).await {
                found.extend(missing.into_iter().map(|key| (key, Err(error.clone()))));
                break;
            }
        }
        found
    }

    /// Returns the items of these keys, and the keys that the service has left out.
    async fn get_some(
        &self,
        keys: &BTreeSet<&RecordKey>,
        deadline: Instant,
    ) -> Result<(HashMap<RecordKey, Item>, BTreeSet<RecordKey>), Failure> {
        let table = &self.options.table;
        let keys = keys.iter().map(|key| item::key(key)).collect();
        let wanted = KeysAndAttributes::builder().set_keys(Some(keys)).consistent_read(true).build();
        let wanted = wanted.map_err(|wrong| Failure::of(error(ErrorKind::Misconfigured, wrong.to_string())))?;
        let request = self.client.batch_get_item().request_items(table, wanted);
        let answered = self.in_time("look up", deadline, request.send()).await?;
        let mut answer = answered.map_err(|error| failure(error, "look up", table))?;
        let left_out = answer.unprocessed_keys.take().unwrap_or_default().remove(table);
        let left_out = left_out.iter().flat_map(|left_out| left_out.keys()).map(item::key_of).collect::<Result<_, _>>();
        let items = answer.responses.take().unwrap_or_default().remove(table).unwrap_or_default();
        let items = items.into_iter().map(|item| Ok((item::key_of(&item)?, item))).collect::<Result<_, StoreError>>();
        Ok((items.map_err(Failure::of)?, left_out.map_err(Failure::of)?))
    }

    /// Returns a page of the table's records, without their results.
    pub(crate) async fn page(&self, from: Option<&Cursor>, limit: usize) -> Result<Listing, StoreError> {
        let deadline = Instant::now() + self.options.timeout;
        let from = from.map(|cursor| RecordKey::from_stored(&cursor.0)).transpose()?.map(|key| item::key(&key));
        let limit = limit.clamp(1, PAGE_MAX) as i32;
        let names = [ID, SCOPE, STATE, UNTIL, TOKEN, ATTEMPT, FINGERPRINT, HELD_BY, DOUBT, BEFORE]
            .map(|name| (format!("#{name}"), name.into()));
        let projection = names.clone().map(|(placeholder, _)| placeholder).join(", ");
        let table = &self.options.table;
        let mut tries = Tries::new(Repeats::Always);
        let answer = loop {
            let request = self
                .client
                .scan()
                .table_name(table)
                .consistent_read(true)
                .limit(limit)
                .projection_expression(&projection)
                .set_expression_attribute_names(Some(names.clone().into()))
                .set_exclusive_start_key(from.clone());
            let failed = match self.in_time("scan", deadline, request.send()).await {
                Ok(Ok(answer)) => break answer,
                Ok(Err(error)) => failure(error, "scan", table),
                Err(late) => late,
            };
            self.pause(&mut tries, failed, deadline).await?;
        };
        let now = self.clock.now();
        let mut listing = Listing::default();
        for item in answer.items() {
            let key = item::key_of(item)?;
            let stored = record_of(item, &key)?;
            listing.listed.extend(stored.listed(key, now));
        }
        let next = answer.last_evaluated_key().map(item::key_of).transpose()?;
        listing.next = next.map(|key| Cursor(key.to_stored()));
        Ok(listing)
    }
}
