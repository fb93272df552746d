//! `hapax store redrive`, and what consumers keep of the attempts at an id beside its record.

use super::{failed, show};
use crate::args::Format;
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

pub async fn redrive(store: &impl Inspect, keys: &[RecordKey], format: Format) -> Result<(), CommandError> {
    for (key, attempts) in keys.iter().zip(attempts(store, keys).await?) {
        let waits = attempts.waits_aside();
        if waits {
            for answer in store.forget(&[side_record_key(key)]).await.map_err(failed)? {
                answer.map_err(failed)?;
            }
        }
        let mut object = show::named(key);
        object["redriven"] = waits.into();
        let name = show::name(key);
        printable::page(&match (format, waits) {
            (Format::Json, _) => printable::json_line(&object),
            (Format::Text, true) => format!("redriven   {name}\n"),
            (Format::Text, false) => format!("not aside  {name}\n"),
        })?;
    }
    Ok(())
}
