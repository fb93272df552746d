//! `hapax store stats`: records by scope and state, counted by reading them all.

use super::{Records, show};
use crate::error::CommandError;
use crate::printable;
use hapax::Key;
use hapax_store::{Inspect, Listed};
use serde_json::json;
use std::collections::BTreeMap;

/// The number of records of each scope, by state.
#[derive(Debug, Default, PartialEq)]
struct Counts {
    by_scope: BTreeMap<String, BTreeMap<&'static str, usize>>,
    records: usize,
    /// True if there are more, which were not counted.
    is_cut: bool,
}

pub async fn stats(store: &impl Inspect, limit: usize, json: bool) -> Result<(), CommandError> {
    let (mut counts, mut records) = (Counts::default(), Records::new(store));
    while let Some(page) = records.next().await? {
        page.iter().for_each(|listed| counts.add(listed, limit));
        if counts.is_cut {
            break;
        }
    }
    let page = if json { counts.json() } else { counts.text() };
    printable::page(&page)
}

impl Counts {
    fn add(&mut self, listed: &Listed, limit: usize) {
        if self.records == limit {
            self.is_cut = true;
            return;
        }
        self.records += 1;
        let scope = listed.key.scope.as_str().to_owned();
        *self.by_scope.entry(scope).or_default().entry(show::state(listed.state)).or_default() += 1;
    }

    fn text(&self) -> String {
        let mut text = format!("{:<10} {:>10}  scope\n", "state", "records");
        for (scope, states) in &self.by_scope {
            for (state, records) in states {
                text += &format!("{state:<10} {records:>10}  {}\n", Key::describe(scope));
            }
        }
        text += &format!("{:<10} {:>10}\n", "all", self.records);
        if self.is_cut {
            text += &format!(
                "these are the first {} that the store lists, and there are more: see --limit\n",
                self.records
            );
        }
        text
    }

    fn json(&self) -> String {
        printable::json_line(&json!({ "scopes": self.by_scope, "records": self.records, "complete": !self.is_cut }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hapax_store::{RecordKey, RecordState, Scope};
    use std::time::Duration;

    #[test]
    fn records_are_counted_by_scope_and_state_up_to_a_limit() {
        let mut counts = Counts::default();
        for (scope, state) in [("b", RecordState::Claimed), ("a", RecordState::Marked), ("b", RecordState::Claimed)] {
            let key = RecordKey::new(&Scope::new(scope).unwrap(), "x");
            counts.add(&Listed::new(key, state, Duration::from_secs(1)), 2);
        }
        assert_eq!(
            counts.text(),
            "state         records  scope\n\
             marked              1  a\n\
             claimed             1  b\n\
             all                 2\n\
             these are the first 2 that the store lists, and there are more: see --limit\n"
        );
        let json = r#"{"complete":false,"records":2,"scopes":{"a":{"marked":1},"b":{"claimed":1}}}"#;
        assert_eq!(counts.json().trim(), json);
    }
}
