//! `hapax store handled`: who handled what, as the inbox in PostgreSQL has it.

mod report;

use super::failed;
use super::open::Place;
use crate::args::{Format, whole};
use crate::error::CommandError;
use crate::printable;
use hapax_postgres::Tables;
use hapax_postgres::inbox::{self, Handled, HandledQuery};
use std::time::Duration;

/// The longest time that the server may take.
const LIMIT: Duration = Duration::from_secs(30);

#[derive(Debug, clap::Args)]
pub struct HandledArgs {
    #[command(flatten)]
    place: Place,

    /// Thing that the events are about, such as `order-17`; for this there is an index
    #[arg(long)]
    subject: Option<String>,

    /// Consumer that has handled them
    #[arg(long)]
    consumer: Option<String>,

    /// Type of the events, such as `order.paid`
    #[arg(long)]
    kind: Option<String>,

    /// Process that has handled them
    #[arg(long)]
    processor: Option<String>,

    /// Number of the last event of the page before
    #[arg(long, value_name = "NUMBER", default_value_t = 0, value_parser = number)]
    behind: i64,

    /// Events of a page
    #[arg(long, value_name = "EVENTS", default_value_t = 100, value_parser = page)]
    limit: u16,

    /// Form of the answer
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    format: Format,
}

fn number(text: &str) -> Result<i64, String> {
    whole(text, 0..=i64::MAX)
}

fn page(text: &str) -> Result<u16, String> {
    whole(text, 1..=10_000)
}

pub async fn run(args: HandledArgs) -> Result<(), CommandError> {
    let answer = tokio::time::timeout(LIMIT, ask(&args)).await;
    let unanswered = || CommandError::Io(format!("the server did not answer within {LIMIT:?}"));
    let mut page = answer.map_err(|_| unanswered())??;
    // One more was asked for, so that this is known.
    let has_more = page.len() > usize::from(args.limit);
    page.truncate(args.limit.into());
    let next = page.last().filter(|_| has_more).map(|last| last.number);
    printable::page(&match args.format {
        Format::Json => report::json(&page, next),
        Format::Text => report::table(&page, next),
    })
}

async fn ask(args: &HandledArgs) -> Result<Vec<Handled>, CommandError> {
    let mut query = args.subject.as_deref().map_or_else(HandledQuery::all, HandledQuery::of_subject);
    query = query.behind(args.behind).limit(args.limit.saturating_add(1));
    query = args.consumer.as_deref().map_or(query, |consumer| query.consumer(consumer));
    query = args.kind.as_deref().map_or(query, |kind| query.kind(kind));
    query = args.processor.as_deref().map_or(query, |processor| query.processor(processor));
    let options = args.place.postgres()?;
    let (schema, prefix) = args.place.names();
    let tables = Tables::new(schema, prefix).map_err(failed)?;
    let client = options.connect().await.map_err(failed)?;
    inbox::handled(&client, &tables, query).await.map_err(failed)
}
