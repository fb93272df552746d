//! The records of a store as rows: the notes that consumers keep beside ids are rows of these ids.

use super::{failed, show};
use crate::error::CommandError;
use crate::printable::json_line;
use hapax_plan::rough;
use hapax_store::attempt_count::AttemptCount;
use hapax_store::{Cursor, Inspect, Listed, RecordKey, noted_key};

/// The number of records in one request for a list.
const PAGE: usize = 500;

/// A record, or the note beside one.
pub struct Row {
    pub listed: Listed,
    /// The name of the state, which options have, too.
    pub state: &'static str,
    /// The record that is named: of a note, the one that it is about.
    pub named: RecordKey,
}

impl Row {
    pub fn of(listed: Listed) -> Self {
        let state = if listed.key.scope.is_reserved() { "own" } else { show::state(listed.state) };
        Row { state, named: listed.key.clone(), listed }
    }

    /// Returns the line of a record.
    pub fn text(&self) -> String {
        let in_doubt = self.listed.in_doubt.as_ref();
        let doubted = in_doubt.map_or(String::new(), |before| format!("  {}", show::doubted(before)));
        format!("{:<10} {:>10}  {}{doubted}\n", self.state, rough(self.listed.expires_in), show::name(&self.named))
    }

    /// Returns the line of a record, for programs.
    pub fn json(&self) -> String {
        let mut object = show::named(&self.named);
        object["state"] = self.state.into();
        show::timed(&mut object, self.listed.expires_in);
        show::doubtful(&mut object, self.listed.in_doubt.as_ref());
        json_line(&object)
    }
}

/// All records of a store, page by page.
pub struct Rows<'s, S> {
    store: &'s S,
    from: Option<Cursor>,
    is_over: bool,
}

impl<'s, S: Inspect> Rows<'s, S> {
    pub fn new(store: &'s S) -> Self {
        Rows { store, from: None, is_over: false }
    }

    pub async fn next(&mut self) -> Result<Option<Vec<Row>>, CommandError> {
        if self.is_over {
            return Ok(None);
        }
        let listing = self.store.list(self.from.as_ref(), PAGE).await.map_err(failed)?;
        self.is_over = listing.next.is_none();
        self.from = listing.next;
        let mut rows: Vec<Row> = listing.listed.into_iter().map(Row::of).collect();
        let mut noted: Vec<(&mut Row, RecordKey)> =
            rows.iter_mut().filter_map(|row| noted_key(&row.listed.key).map(|key| (row, key))).collect();
        let notes: Vec<RecordKey> = noted.iter().map(|(row, _)| row.listed.key.clone()).collect();
        let read = if notes.is_empty() { Vec::new() } else { self.store.inspect(&notes).await.map_err(failed)? };
        for ((row, key), note) in noted.iter_mut().zip(read) {
            let count = AttemptCount::decode(note.map_err(failed)?.and_then(|note| note.result));
            row.state = if count.waits_aside() { "aside" } else { "tried" };
            row.named = key.clone();
        }
        Ok(Some(rows))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hapax_store::{Before, HeldBy, RecordState, Scope};
    use std::time::{Duration, SystemTime};

    #[test]
    fn what_is_in_doubt_has_its_age_and_holder() {
        let begun = SystemTime::now() - Duration::from_secs(3_600 * 5);
        let token = begun.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_micros() as u64;
        let before = Some(Before::new(token, Some(HeldBy::of("worker-7"))));
        let key = RecordKey::new(&Scope::new("orders").unwrap(), "17");
        let row = Row::of(Listed::new(key, RecordState::InDoubt, Duration::from_secs(60)).in_doubt(before));
        assert_eq!(row.text(), "in-doubt         60 s  17 (scope orders)  begun 5 h ago by worker-7\n");
        assert!(row.json().contains(r#""held_by":"worker-7""#));
    }
}
