//! `hapax store stats`: records by scope and state, counted by reading them all.

use super::rows::{Row, Rows};
use crate::args::Format;
use crate::error::CommandError;
use crate::printable;
use hapax_store::Inspect;
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

pub async fn stats(store: &impl Inspect, limit: usize, format: Format) -> Result<(), CommandError> {
    let (mut counts, mut rows) = (Counts::default(), Rows::new(store));
    while let Some(page) = rows.next().await? {
        page.iter().for_each(|row| counts.add(row, limit));
        if counts.is_cut {
            break;
        }
    }
    printable::page(&match format {
        Format::Text => counts.text(),
        Format::Json => counts.json(),
    })
}

impl Counts {
    fn add(&mut self, row: &Row, limit: usize) {
        if self.records == limit {
            self.is_cut = true;
            return;
        }
        self.records += 1;
        let scope = row.named.scope.as_str().to_owned();
        *self.by_scope.entry(scope).or_default().entry(row.state).or_default() += 1;
    }

    fn text(&self) -> String {
        let mut text = format!("{:<10} {:>10}  scope\n", "state", "records");
        for (scope, states) in &self.by_scope {
            for (state, records) in states {
                let scope = if scope.is_empty() { "(none)" } else { scope };
                text += &format!("{state:<10} {records:>10}  {}\n", scope.replace('\u{1}', "of hapax itself: "));
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
    use hapax_store::{Listed, RecordKey, RecordState, Scope};
    use std::time::Duration;

    #[test]
    fn records_are_counted_by_scope_and_state_up_to_a_limit() {
        let mut counts = Counts::default();
        for (scope, state) in [("b", RecordState::Claimed), ("a", RecordState::Marked), ("b", RecordState::Claimed)] {
            let key = RecordKey::new(&Scope::new(scope).unwrap(), "x");
            counts.add(&Row::of(Listed::new(key, state, Duration::from_secs(1))), 2);
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
