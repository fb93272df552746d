//! `hapax store forget`: ids that are named, or all that options choose.

use super::rows::{Row, Rows};
use super::{Filter, failed, keys, show};
use crate::args::Format;
use crate::error::CommandError;
use crate::printable;
use hapax_store::{Inspect, Listed, RecordKey, RecordState};

pub struct Forget {
    /// The ids, or none for all that the filter takes.
    named: Vec<RecordKey>,
    filter: Filter,
    yes: bool,
}

impl Forget {
    pub fn new(ids: &[String], filter: Filter, yes: bool) -> Result<Self, CommandError> {
        let chooses = filter.prefix.is_some() || filter.state.is_some();
        if !ids.is_empty() && chooses {
            return Err(CommandError::Usage(
                "ids are given: --prefix and --state are for forgetting without them".into(),
            ));
        }
        if ids.is_empty() && !chooses && filter.scope.is_none() {
            let what = "say which ids: by themselves, or by --scope, --prefix or --state";
            return Err(CommandError::Usage(what.into()));
        }
        if let Some(state @ ("aside" | "tried")) = filter.state.as_deref() {
            return Err(CommandError::Usage(format!(
                "--state {state}: such ids have no record to forget (`hapax store redrive` has what is aside handled again)"
            )));
        }
        let named = keys(ids, filter.scope.as_deref().unwrap_or_default())?;
        Ok(Forget { named, filter, yes })
    }

    /// Returns true if a record is among those that the options choose. None of hapax's own is: if
    /// an exclusive engine's record were forgotten, another one would own the ids at the same time.
    fn takes(&self, row: &Row) -> bool {
        !row.listed.key.scope.is_reserved() && self.filter.takes(row)
    }

    /// Returns the records of the named ids that are there.
    async fn found(&self, store: &impl Inspect, format: Format) -> Result<Vec<Listed>, CommandError> {
        let answers = store.inspect(&self.named).await.map_err(failed)?;
        let mut found = Vec::new();
        for (key, answer) in self.named.iter().zip(answers) {
            match answer.map_err(failed)? {
                Some(record) => found.push(Listed::new(key.clone(), record.state, record.expires_in)),
                None => printable::page(&line(key, "no record", format))?,
            }
        }
        Ok(found)
    }

    async fn all(&self, store: &impl Inspect, listed: &[Listed], format: Format) -> Result<usize, CommandError> {
        let mut forgotten = 0;
        for some in listed.chunks(store.limits().batch.max(1)) {
            let keys: Vec<RecordKey> = some.iter().map(|listed| listed.key.clone()).collect();
            let answers = store.forget(&keys).await.map_err(failed)?;
            for (listed, answer) in some.iter().zip(answers) {
                let was_there = answer.map_err(failed)?;
                let was = if was_there { show::state(listed.state) } else { "no record" };
                forgotten += usize::from(was_there);
                printable::page(&line(&listed.key, was, format))?;
            }
        }
        Ok(forgotten)
    }

    /// Does it on this store.
    pub async fn of(self, store: &impl Inspect, format: Format) -> Result<(), CommandError> {
        if !self.named.is_empty() {
            let found = self.found(store, format).await?;
            let claimed = found.iter().find(|listed| listed.state == RecordState::Claimed);
            if let (Some(listed), false) = (claimed, self.yes) {
                return Err(CommandError::Usage(format!(
                    "{} is claimed: somebody works on it, and another one would get it as well; nothing was forgotten \
                     (--yes forgets it all the same)",
                    show::name(&listed.key)
                )));
            }
            return self.all(store, &found, format).await.map(drop);
        }
        let (mut forgotten, mut chosen, mut rows) = (0, 0, Rows::new(store));
        while let Some(page) = rows.next().await? {
            let page: Vec<Listed> = page.into_iter().filter(|row| self.takes(row)).map(|row| row.listed).collect();
            chosen += page.len();
            if self.yes {
                forgotten += self.all(store, &page, format).await?;
            }
        }
        if !self.yes {
            return Err(CommandError::Usage(format!(
                "that would forget {chosen} records, whose ids would be new to whoever sees them next; nothing was \
                 forgotten (--yes forgets them)"
            )));
        }
        match format {
            Format::Json => Ok(()),
            Format::Text => printable::page(&format!("{forgotten} records forgotten\n")),
        }
    }
}

/// Returns the line of an id that was to be forgotten.
fn line(key: &RecordKey, was: &str, format: Format) -> String {
    let (name, is_forgotten) = (show::name(key), was != "no record");
    match (format, is_forgotten) {
        (Format::Json, _) => {
            let mut object = show::named(key);
            (object["forgotten"], object["was"]) = (is_forgotten.into(), was.into());
            printable::json_line(&object)
        }
        (Format::Text, true) => format!("forgotten  {name} (it was {was})\n"),
        (Format::Text, false) => format!("unknown    {name}\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hapax_store::Scope;
    use std::time::Duration;

    #[test]
    fn the_owner_of_an_exclusive_engine_is_not_forgotten() {
        let filter = Filter { scope: None, prefix: None, state: Some("claimed".to_owned()) };
        let forget = Forget::new(&[], filter, true).unwrap();
        let claimed = |scope: &str| {
            let key = RecordKey::new(&Scope::from_stored(scope).unwrap(), "orders");
            Row {
                state: "claimed",
                named: key.clone(),
                listed: Listed::new(key, RecordState::Claimed, Duration::from_secs(1)),
            }
        };
        assert!(forget.takes(&claimed("")) && forget.takes(&claimed("orders")));
        assert!(!forget.takes(&claimed("\u{1}owner")));
    }
}
