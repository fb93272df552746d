//! `hapax store`: prints what a store has of ids, for people, forgets ids, and has what was put
//! aside handled again.

mod counts;
mod forget;
mod handled;
mod open;
mod redrive;
mod rows;
mod show;

use crate::args::{Format, whole};
use crate::error::CommandError;
use crate::printable;
use clap::{Args, Subcommand};
use forget::Forget;
use hapax_store::{ErrorKind, Inspect, RecordKey, Scope, StoreError, StoredId};
use open::Place;
use rows::{Row, Rows};
use show::Shown;

#[derive(Debug, Subcommand)]
pub enum StoreCommand {
    /// Print what is stored of ids: state, time left, token, result
    Get(Named),
    /// Print ids with their state, in no particular order
    List {
        #[command(flatten)]
        place: Place,
        #[command(flatten)]
        filter: Filter,
        /// Print only ids whose work may be done and is not known to be: a lease is over, and no
        /// claim was completed since
        #[arg(long)]
        in_doubt: bool,
        /// Most records to print
        #[arg(long, value_name = "N", default_value_t = 100, value_parser = limit)]
        limit: usize,
        /// Form of the answer: of JSON an object a line
        #[arg(long, value_name = "FORMAT", default_value = "text")]
        format: Format,
    },
    /// Forget ids: whoever sees one next is told that it is new
    ///
    /// An engine that runs and has seen an id calls it a duplicate until its window and two ticks
    /// of it have passed since then: with the default, 10 minutes and 12 seconds.
    Forget {
        #[command(flatten)]
        place: Place,
        /// Ids, as `list` prints them; without any, all that the options choose
        ids: Vec<String>,
        #[command(flatten)]
        filter: Filter,
        /// Forget also ids that are claimed now, and all that the options choose
        #[arg(long)]
        yes: bool,
        /// Form of the answer: of JSON an object a line
        #[arg(long, value_name = "FORMAT", default_value = "text")]
        format: Format,
    },
    /// Have ids that a consumer has put aside handled again, whatever delivery of them comes next
    ///
    /// It is for messages that are moved back by hand, and reach their consumer as the same
    /// delivery once more: one that is sent anew is handled without this. Ids that are done are
    /// left alone.
    Redrive(Named),
    /// Print who handled the events of an order, or of another subject, and when (PostgreSQL)
    ///
    /// It reads what `inbox::mark` and workers of hapax-postgres have written down beside their
    /// marks, for as long as those are kept. Nothing is changed.
    Handled(Box<handled::HandledArgs>),
    /// Count records by scope and state
    Stats {
        #[command(flatten)]
        place: Place,
        /// Most records to count: each is read once
        #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = limit)]
        limit: usize,
        /// Form of the answer
        #[arg(long, value_name = "FORMAT", default_value = "text")]
        format: Format,
    },
}

/// Ids that are named.
#[derive(Debug, Args)]
pub struct Named {
    #[command(flatten)]
    place: Place,
    /// Ids, as `list` prints them: order-17, or orders/3/9017 for a key of several parts
    #[arg(required = true)]
    ids: Vec<String>,
    /// Scope of the ids: that of a consumer is its name, or SCOPE/NAME if its engine has a scope
    #[arg(long, default_value = "")]
    scope: String,
    /// Form of the answer: of JSON an object a line
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    format: Format,
}

/// The records that a command is about.
#[derive(Debug, Args)]
pub struct Filter {
    /// Scope: only its ids (for `forget` with ids: their scope); that of a consumer is its name, or
    /// SCOPE/NAME if its engine has a scope
    #[arg(long)]
    scope: Option<String>,
    /// Beginning of the ids, as they are printed
    #[arg(long)]
    prefix: Option<String>,
    /// State of the records; of ids that a consumer has put aside, or has tried, it is that
    #[arg(long, value_parser = ["claimed", "in-doubt", "failed", "marked", "completed", "aside", "tried"])]
    state: Option<String>,
}

impl Filter {
    fn takes(&self, row: &Row) -> bool {
        self.scope.as_ref().is_none_or(|scope| row.named.scope.as_str() == scope)
            && self.prefix.as_ref().is_none_or(|prefix| row.named.id.to_string().starts_with(prefix.as_str()))
            && self.state.as_ref().is_none_or(|state| row.state == state)
    }
}

/// The work of a command on a store.
enum Work {
    Get(Vec<RecordKey>),
    /// The filter, true for what is in doubt alone, and the most to print.
    List(Filter, bool, usize),
    Forget(Forget),
    Redrive(Vec<RecordKey>),
    Stats(usize),
}

/// Runs the command.
pub fn run(command: StoreCommand) -> Result<(), CommandError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(CommandError::output)?;
    let (place, work, format) = match command {
        StoreCommand::Get(Named { place, ids, scope, format }) => (place, Work::Get(keys(&ids, &scope)?), format),
        StoreCommand::List { place, filter, in_doubt, limit, format } => {
            (place, Work::List(filter, in_doubt, limit), format)
        }
        StoreCommand::Forget { place, ids, filter, yes, format } => {
            (place, Work::Forget(Forget::new(&ids, filter, yes)?), format)
        }
        StoreCommand::Redrive(Named { place, ids, scope, format }) => {
            (place, Work::Redrive(keys(&ids, &scope)?), format)
        }
        StoreCommand::Handled(args) => return runtime.block_on(handled::run(*args)),
        StoreCommand::Stats { place, limit, format } => (place, Work::Stats(limit), format),
    };
    runtime.block_on(open::with(&place, work, format))
}

impl Work {
    async fn on(self, store: impl Inspect, format: Format) -> Result<(), CommandError> {
        match self {
            Work::Get(keys) => get(&store, &keys, format).await,
            Work::List(filter, in_doubt, limit) => {
                let takes = |row: &Row| filter.takes(row) && (!in_doubt || row.listed.in_doubt.is_some());
                list(&store, takes, limit, format).await
            }
            Work::Forget(forget) => forget.of(&store, format).await,
            Work::Redrive(keys) => redrive::redrive(&store, &keys, format).await,
            Work::Stats(limit) => counts::stats(&store, limit, format).await,
        }
    }
}

async fn get(store: &impl Inspect, keys: &[RecordKey], format: Format) -> Result<(), CommandError> {
    let answers = store.inspect(keys).await.map_err(failed)?;
    let attempts = redrive::attempts(store, keys).await?;
    let mut page = String::new();
    for ((key, answer), attempts) in keys.iter().zip(answers).zip(attempts) {
        let shown = Shown { key, record: answer.map_err(failed)?, attempts };
        page += &match format {
            Format::Text => shown.text(),
            Format::Json => shown.json(),
        };
    }
    printable::page(&page)
}

async fn list(
    store: &impl Inspect,
    takes: impl Fn(&Row) -> bool,
    limit: usize,
    format: Format,
) -> Result<(), CommandError> {
    let (mut printed, mut rows) = (0, Rows::new(store));
    while let Some(page) = rows.next().await? {
        for row in page.iter().filter(|row| takes(row)) {
            if printed == limit {
                printable::tell(format_args!("hapax: there are more than {limit}: see --limit, --scope, --prefix"));
                return Ok(());
            }
            printed += 1;
            printable::page(&match format {
                Format::Text => row.text(),
                Format::Json => row.json(),
            })?;
        }
    }
    Ok(())
}

fn limit(text: &str) -> Result<usize, String> {
    whole(text, 1..=usize::MAX)
}

/// Reads ids of a scope.
fn keys(ids: &[String], scope: &str) -> Result<Vec<RecordKey>, CommandError> {
    let scope = Scope::new(scope).map_err(failed)?;
    let key = |id: &String| Ok(RecordKey { scope: scope.clone(), id: id.parse::<StoredId>().map_err(failed)? });
    ids.iter().map(key).collect()
}

/// Returns the command's failure for a store's.
fn failed(error: StoreError) -> CommandError {
    match error.kind() {
        ErrorKind::Misconfigured => CommandError::Usage(error.to_string()),
        ErrorKind::Corrupt => CommandError::BadInput(error.to_string()),
        _ => CommandError::Io(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hapax_store::{Listed, RecordState};
    use std::time::Duration;

    #[test]
    fn a_filter_takes_what_is_of_all_that_is_asked_for() {
        let key = RecordKey::new(&Scope::new("orders").unwrap(), "order-17");
        let record = Row::of(Listed::new(key, RecordState::Claimed, Duration::from_secs(1)));
        for (taken, scope, prefix, state) in [
            (true, None, None, None),
            (true, Some("orders"), Some("order-"), Some("claimed")),
            (false, Some(""), None, None),
            (false, Some("order"), None, None),
            (false, None, Some("17"), None),
            (false, None, None, Some("completed")),
        ] {
            let [scope, prefix, state] = [scope, prefix, state].map(|word: Option<&str>| word.map(str::to_owned));
            let filter = Filter { scope, prefix, state };
            assert_eq!(filter.takes(&record), taken, "{filter:?}");
        }
    }

    #[test]
    fn the_code_says_whose_fault_it_was() {
        let kinds = [ErrorKind::Unavailable, ErrorKind::Conflict, ErrorKind::Misconfigured, ErrorKind::Corrupt];
        assert_eq!(kinds.map(|kind| failed(StoreError::new(kind, "test", "x")).code()), [1, 1, 2, 3]);
    }
}
