//! `hapax marks`: who handled what, as the inbox in PostgreSQL has it.

mod report;

use crate::error::CommandError;
use hapax_postgres::inbox::{self, Handled, HandledQuery};
use hapax_postgres::{PostgresOptions, Tables};
use std::path::PathBuf;
use std::time::Duration;

pub const ABOUT: &str = "Prints who handled the events of an order, or of another subject, and when.\n\n\
    It reads what `inbox::mark` and workers of hapax-postgres have written down beside their marks, for as long as \
    those are kept. Nothing is changed.";

const HELP: &str = "\
The address is a URL, or words like `host=/run/postgresql user=app`. Without --url it is that of the
environment variable DATABASE_URL, where other users of this machine do not see a password.

Exit codes:
  0    all is printed, if only that there is nothing
  1    the server cannot be reached, or does not answer
  2    the options make no sense, or there are no such tables

Examples:
  hapax marks --url postgres://reader@db.internal/app --subject order-17
  hapax marks --subject order-17 --consumer billing --json | jq '.events[].handled_at'";

/// The longest time that the server may take.
const LIMIT: Duration = Duration::from_secs(30);

#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub struct MarksArgs {
    /// Address of the server, the user and the database
    #[arg(long)]
    url: Option<String>,

    /// Connect by TLS only, and trust the certificates of this platform
    #[arg(long)]
    tls: bool,

    /// Connect by TLS only, and trust the certificates in this file (PEM)
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,

    /// Schema and prefix of the tables
    #[arg(long, value_name = "SCHEMA.PREFIX", default_value = "public.hapax")]
    tables: String,

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
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    behind: i64,

    /// Events of a page
    #[arg(long, value_name = "EVENTS", default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    limit: u16,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub fn run(args: MarksArgs) -> Result<(), CommandError> {
    let options = options(&args)?;
    let tables = tables(&args.tables)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| CommandError::Io(format!("no runtime: {error}")))?;
    let mut page = runtime.block_on(ask(&options, &tables, &args))?;
    // One more was asked for, so that this is known.
    let has_more = page.len() > usize::from(args.limit);
    page.truncate(args.limit.into());
    let next = page.last().filter(|_| has_more).map(|last| last.number);
    let text = if args.json { report::json(&page, next) } else { report::table(&page, next) };
    crate::print(text.as_bytes())
}

async fn ask(options: &PostgresOptions, tables: &Tables, args: &MarksArgs) -> Result<Vec<Handled>, CommandError> {
    let mut query = HandledQuery::all().behind(args.behind).limit(args.limit.saturating_add(1));
    if let Some(subject) = &args.subject {
        query = HandledQuery::of_subject(subject).behind(args.behind).limit(args.limit.saturating_add(1));
    }
    query = args.consumer.as_deref().map_or(query, |consumer| query.consumer(consumer));
    query = args.kind.as_deref().map_or(query, |kind| query.kind(kind));
    query = args.processor.as_deref().map_or(query, |processor| query.processor(processor));
    let asked = async {
        let client = options.connect().await?;
        inbox::handled(&client, tables, query).await
    };
    match tokio::time::timeout(LIMIT, asked).await {
        Ok(answer) => answer.map_err(|error| refused(&error)),
        Err(_) => Err(CommandError::Io(format!("the server did not answer within {LIMIT:?}"))),
    }
}

fn options(args: &MarksArgs) -> Result<PostgresOptions, CommandError> {
    let from_environment = || std::env::var("DATABASE_URL").ok();
    let Some(url) = args.url.clone().or_else(from_environment) else {
        return Err(CommandError::Usage("there is no address: give --url, or set DATABASE_URL".into()));
    };
    let options = PostgresOptions::parse(&url).map_err(|error| refused(&error))?;
    let roots = match &args.ca {
        Some(file) => Some(std::fs::read_to_string(file).map_err(|error| CommandError::input(file, error))?),
        None => None,
    };
    match args.tls || roots.is_some() {
        true => options.tls(roots.as_deref()).map_err(|error| refused(&error)),
        false => Ok(options),
    }
}

fn tables(names: &str) -> Result<Tables, CommandError> {
    let Some((schema, prefix)) = names.split_once('.') else {
        return Err(CommandError::Usage(format!("--tables: expected a schema, a dot and a prefix, got {names:?}")));
    };
    Tables::new(schema, prefix).map_err(|error| refused(&error))
}

/// Returns the error with its causes: a driver's says little without them.
fn refused(error: &hapax_store::StoreError) -> CommandError {
    let causes = std::iter::successors(std::error::Error::source(error), |&cause| cause.source());
    let text = causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"));
    match error.kind() {
        hapax_store::ErrorKind::Misconfigured => CommandError::Usage(text),
        _ => CommandError::Io(text),
    }
}
