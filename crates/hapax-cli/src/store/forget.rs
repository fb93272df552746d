//! `hapax store forget`: ids that are named, or all that options choose.

use super::{Filter, Records, failed, keys, show};
use crate::error::CommandError;
use crate::printable;
use hapax_store::{Inspect, Listed, RecordKey, RecordState};

pub struct Forget {
    /// The ids, or none for all that the filter takes.
    named: Vec<RecordKey>,
    filter: Filter,
    yes: bool,
    json: bool,
}

impl Forget {
    pub fn new(ids: &[String], filter: Filter, yes: bool, json: bool) -> Result<Self, CommandError> {
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
        let named = keys(ids, filter.scope.as_deref().unwrap_or_default())?;
        Ok(Forget { named, filter, yes, json })
    }

    /// Returns true if a record is among those that the options choose. None of hapax's own is: if
    /// an exclusive engine's record were forgotten, another one would own the ids at the same time.
    fn takes(&self, listed: &Listed) -> bool {
        !listed.key.scope.is_reserved() && self.filter.takes(listed)
    }

    /// Returns the records of the named ids that are there.
    async fn found(&self, store: &impl Inspect) -> Result<Vec<Listed>, CommandError> {
        let answers = store.inspect(&self.named).await.map_err(failed)?;
        let mut found = Vec::new();
        for (key, answer) in self.named.iter().zip(answers) {
            match answer.map_err(failed)? {
                Some(record) => found.push(Listed::new(key.clone(), record.state, record.expires_in)),
                None => printable::page(&self.line(key, "no record"))?,
            }
        }
        Ok(found)
    }

    fn line(&self, key: &RecordKey, was: &str) -> String {
        let is_forgotten = was != "no record";
        if self.json {
            let mut object = show::named(key);
            (object["forgotten"], object["was"]) = (is_forgotten.into(), was.into());
            printable::json_line(&object)
        } else if is_forgotten {
            format!("forgotten  {key} (it was {was})\n")
        } else {
            format!("unknown    {key}\n")
        }
    }

    async fn all(&self, store: &impl Inspect, listed: &[Listed]) -> Result<usize, CommandError> {
        let mut forgotten = 0;
        for some in listed.chunks(store.limits().batch.max(1)) {
            let keys: Vec<RecordKey> = some.iter().map(|listed| listed.key.clone()).collect();
            let answers = store.forget(&keys).await.map_err(failed)?;
            for (listed, answer) in some.iter().zip(answers) {
                let was_there = answer.map_err(failed)?;
                let was = if was_there { show::state(listed.state) } else { "no record" };
                forgotten += usize::from(was_there);
                printable::page(&self.line(&listed.key, was))?;
            }
        }
        Ok(forgotten)
    }

    /// Does it on this store.
    pub async fn of(self, store: &impl Inspect) -> Result<(), CommandError> {
        if !self.named.is_empty() {
            let found = self.found(store).await?;
            let claimed = found.iter().find(|listed| listed.state == RecordState::Claimed);
            if let (Some(listed), false) = (claimed, self.yes) {
                return Err(CommandError::Usage(format!(
                    "{} is claimed: somebody works on it, and another one would get it as well; nothing was forgotten \
                     (--yes forgets it all the same)",
                    listed.key
                )));
            }
            return self.all(store, &found).await.map(drop);
        }
        let (mut forgotten, mut chosen, mut records) = (0, 0, Records::new(store));
        while let Some(page) = records.next().await? {
            let page: Vec<Listed> = page.into_iter().filter(|listed| self.takes(listed)).collect();
            chosen += page.len();
            if self.yes {
                forgotten += self.all(store, &page).await?;
            }
        }
        if !self.yes {
            return Err(CommandError::Usage(format!(
                "that would forget {chosen} records, whose ids would be new to whoever sees them next; nothing was \
                 forgotten (--yes forgets them)"
            )));
        }
        if self.json { Ok(()) } else { printable::page(&format!("{forgotten} records forgotten\n")) }
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
        let forget = Forget::new(&[], filter, true, false).unwrap();
        let claimed = |scope: &str| {
            let key = RecordKey::new(&Scope::from_stored(scope).unwrap(), "orders");
            Listed::new(key, RecordState::Claimed, Duration::from_secs(1))
        };
        assert!(forget.takes(&claimed("")) && forget.takes(&claimed("orders")));
        assert!(!forget.takes(&claimed("\u{1}owner")));
    }
}
