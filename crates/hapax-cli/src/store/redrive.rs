//! `hapax store redrive`, and what consumers keep of the attempts at an id beside its record.

use super::{failed, open};
use crate::error::CommandError;
use crate::printable;
use hapax_store::attempt_count::AttemptCount;
use hapax_store::{Inspect, RecordKey, side_record_key};
use serde_json::json;

/// Returns what consumers keep of the attempts at these ids.
pub async fn attempts(store: &impl Inspect, keys: &[RecordKey]) -> Result<Vec<AttemptCount>, CommandError> {
    let notes: Vec<RecordKey> = keys.iter().map(side_record_key).collect();
    let answers = store.inspect(&notes).await.map_err(failed)?;
    let kept = answers.into_iter().map(|answer| Ok(answer.map_err(failed)?.and_then(|record| record.result)));
    kept.map(|kept| kept.map(AttemptCount::decode)).collect()
}

pub struct Redrive {
    pub keys: Vec<RecordKey>,
    pub json: bool,
}

impl open::Work for Redrive {
    async fn on(self, store: impl Inspect) -> Result<(), CommandError> {
        for (key, attempts) in self.keys.iter().zip(attempts(&store, &self.keys).await?) {
            let waits = attempts.waits_aside();
            if waits {
                for answer in store.forget(&[side_record_key(key)]).await.map_err(failed)? {
                    answer.map_err(failed)?;
                }
            }
            let line = match (self.json, waits) {
                (true, _) => printable::json_line(
                    &json!({ "scope": key.scope.as_str(), "id": key.id.to_string(), "redriven": waits }),
                ),
                (false, true) => format!("redriven   {key}\n"),
                (false, false) => format!("not aside  {key}\n"),
            };
            printable::page(&line)?;
        }
        Ok(())
    }
}
