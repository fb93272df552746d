//! `hapax store redrive`, and what consumers keep of the attempts at an id beside its record.

use super::{failed, show};
use crate::error::CommandError;
use crate::printable;
use hapax_store::attempt_count::AttemptCount;
use hapax_store::{Inspect, RecordKey, side_record_key};

/// Returns what consumers keep of the attempts at these ids.
pub async fn attempts(store: &impl Inspect, keys: &[RecordKey]) -> Result<Vec<AttemptCount>, CommandError> {
    let notes: Vec<RecordKey> = keys.iter().map(side_record_key).collect();
    let answers = store.inspect(&notes).await.map_err(failed)?;
    let kept = answers.into_iter().map(|answer| Ok(answer.map_err(failed)?.and_then(|record| record.result)));
    kept.map(|kept| kept.map(AttemptCount::decode)).collect()
}

pub async fn redrive(store: &impl Inspect, keys: &[RecordKey], json: bool) -> Result<(), CommandError> {
    for (key, attempts) in keys.iter().zip(attempts(store, keys).await?) {
        let waits = attempts.waits_aside();
        if waits {
            for answer in store.forget(&[side_record_key(key)]).await.map_err(failed)? {
                answer.map_err(failed)?;
            }
        }
        let mut object = show::named(key);
        object["redriven"] = waits.into();
        printable::page(&match (json, waits) {
            (true, _) => printable::json_line(&object),
            (false, true) => format!("redriven   {key}\n"),
            (false, false) => format!("not aside  {key}\n"),
        })?;
    }
    Ok(())
}
