//! Opens the store that an address names, and makes none.

use super::{Work, failed};
use crate::args::Format;
use crate::error::CommandError;
use clap::Args;
use hapax_fjall::FjallOptions;
use hapax_postgres::{Layout, PostgresOptions, PostgresStore};
use hapax_redis::{RedisOptions, RedisStore};
use hapax_sqlite::SqliteOptions;
use std::fmt;
use std::path::Path;

/// The store.
#[derive(Debug, Args)]
pub struct Place {
    /// Address: redis://HOST, postgres://HOST/DATABASE, or words like `host=db user=app`, the
    /// directory of fjall, or the file of SQLite; env:NAME for the one in an environment variable,
    /// where other users of this machine do not see a password; by TLS: rediss://HOST,
    /// postgres://HOST/DATABASE?sslmode=verify-full
    #[arg(value_name = "ADDRESS", value_parser = Address::parse)]
    url: Address,
    /// Namespace of the keys (Redis) or tables (PostgreSQL), as the service names it
    #[arg(long, value_name = "NAME", help_heading = "Store")]
    namespace: Option<String>,
    /// The address is that of a node of a cluster (Redis)
    #[arg(long, help_heading = "Store")]
    cluster: bool,
    /// Table (SQLite)
    #[arg(long, value_name = "NAME", help_heading = "Store")]
    table: Option<String>,
    /// Each scope has a table of its own (PostgreSQL)
    #[arg(long, help_heading = "Store")]
    per_scope: bool,
}

/// An address. It may contain a password, so it is not shown unless it is a path.
#[derive(Clone)]
struct Address {
    text: String,
    /// The environment variable that it comes from.
    variable: Option<String>,
}

impl Address {
    fn parse(given: &str) -> Result<Self, String> {
        let Some(name) = given.strip_prefix("env:") else {
            return Ok(Address { text: given.to_owned(), variable: None });
        };
        let text = std::env::var(name).map_err(|_| format!("no text is in the environment variable {name}"))?;
        Ok(Address { text, variable: Some(name.to_owned()) })
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_string())
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.variable {
            Some(name) => write!(f, "the address in {name}"),
            None if self.text.contains(['@', '=', ':']) => f.write_str("the address"),
            None => f.write_str(&self.text),
        }
    }
}

/// The kind of store that an address names.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Redis,
    Postgres,
    Fjall,
    Sqlite,
}

/// Opens the store, and does the work.
pub async fn with(place: &Place, work: Work, format: Format) -> Result<(), CommandError> {
    let kind = place.kind()?;
    place.check(kind)?;
    match kind {
        Kind::Redis => {
            let namespace = place.namespace();
            let options = if place.cluster {
                RedisOptions::cluster([place.url.text.as_str()], namespace)
            } else {
                RedisOptions::single(place.url.text.as_str(), namespace)
            };
            work.on(RedisStore::connect(options).await.map_err(failed)?, format).await
        }
        Kind::Postgres => {
            let mut options = place.postgres()?;
            if place.per_scope {
                options = options.layout(Layout::PerScope);
            }
            work.on(PostgresStore::new(options, place.namespace()).map_err(failed)?, format).await
        }
        Kind::Fjall => {
            let store = FjallOptions::new().must_exist(true).open(&place.url.text).await.map_err(failed)?;
            work.on(store, format).await
        }
        Kind::Sqlite => {
            let mut options = SqliteOptions::new().must_exist(true);
            if let Some(table) = &place.table {
                options = options.table(table);
            }
            work.on(options.open(&place.url.text).await.map_err(failed)?, format).await
        }
    }
}

impl Place {
    /// Returns options for the address of a PostgreSQL.
    pub fn postgres(&self) -> Result<PostgresOptions, CommandError> {
        self.check(Kind::Postgres)?;
        match self.kind()? {
            Kind::Postgres => PostgresOptions::parse(&self.url.text).map_err(failed),
            _ => Err(CommandError::Usage(format!("{}: expected the address of a PostgreSQL", self.url))),
        }
    }

    fn namespace(&self) -> &str {
        self.namespace.as_deref().unwrap_or_default()
    }

    /// Returns the schema of the tables, and the name that they begin with.
    pub fn names(&self) -> (&str, &str) {
        self.namespace().split_once('.').unwrap_or(("public", self.namespace()))
    }

    fn kind(&self) -> Result<Kind, CommandError> {
        let path = Path::new(&self.url.text);
        match self.url.text.split_once("://").map(|(scheme, _)| scheme) {
            Some("redis" | "rediss" | "redis+unix" | "rediss+unix" | "unix") => Ok(Kind::Redis),
            Some("postgres" | "postgresql") => Ok(Kind::Postgres),
            Some(_) => Err(CommandError::Usage(format!(
                "{}: expected redis://, rediss:// or postgres:// at its beginning, or the path of a directory or a file",
                self.url
            ))),
            None => match std::fs::metadata(path) {
                Ok(metadata) if metadata.is_dir() => Ok(Kind::Fjall),
                Ok(_) => Ok(Kind::Sqlite),
                Err(_) if self.url.text.contains('=') => Ok(Kind::Postgres),
                Err(error) => Err(CommandError::Io(format!("{}: {error}", self.url))),
            },
        }
    }

    /// Refuses options of other stores, and stores of several services without a namespace.
    fn check(&self, kind: Kind) -> Result<(), CommandError> {
        let is_shared = matches!(kind, Kind::Redis | Kind::Postgres);
        let options = [
            ("--namespace", self.namespace.is_some(), is_shared, "Redis and PostgreSQL"),
            ("--cluster", self.cluster, kind == Kind::Redis, "Redis"),
            ("--table", self.table.is_some(), kind == Kind::Sqlite, "SQLite"),
            ("--per-scope", self.per_scope, kind == Kind::Postgres, "PostgreSQL"),
        ];
        if is_shared && self.namespace.is_none() {
            let why = "--namespace NAME is needed for Redis and PostgreSQL: the one that the service gives its \
                 `RedisOptions`, `PostgresStore` or `Tables`";
            return Err(CommandError::Usage(why.to_owned()));
        }
        match options.iter().find(|(_, is_given, is_for_it, _)| *is_given && !is_for_it) {
            None => Ok(()),
            Some((name, _, _, of)) => Err(CommandError::Usage(format!("{name} is for {of} only"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(url: &str) -> Place {
        let url = Address::parse(url).unwrap();
        Place { url, namespace: None, cluster: false, table: None, per_scope: false }
    }

    #[test]
    fn an_address_says_the_kind_of_store() {
        assert_eq!(place("redis://localhost").kind().unwrap(), Kind::Redis);
        assert_eq!(place("rediss://localhost").kind().unwrap(), Kind::Redis);
        assert_eq!(place("postgres://localhost/app").kind().unwrap(), Kind::Postgres);
        assert_eq!(place("host=/run/postgresql user=app").kind().unwrap(), Kind::Postgres);
        assert_eq!(place("src").kind().unwrap(), Kind::Fjall);
        assert_eq!(place("Cargo.toml").kind().unwrap(), Kind::Sqlite);
        assert!(
            matches!(place("mysql://localhost").kind(), Err(CommandError::Usage(why)) if why.contains("postgres://"))
        );
        assert!(matches!(place("nowhere").kind(), Err(CommandError::Io(why)) if why.starts_with("nowhere: ")));
        assert!(place("redis://localhost").postgres().is_err() && place("src").postgres().is_err());
    }

    #[test]
    fn an_address_comes_from_the_environment_too_and_is_never_shown() {
        let path = std::env::var("PATH").unwrap();
        assert_eq!(place("env:PATH").url.text, path);
        assert_eq!(Address::parse("env:HAPAX_NONE").unwrap_err(), "no text is in the environment variable HAPAX_NONE");
        for secret in ["mysql://u:secret@db", "redis:/u:secret@db", "postgres//u:secret@db", "secret://x"] {
            let place = place(secret);
            let error = place.kind().unwrap_err();
            assert!(!format!("{error} {place:?}").contains("secret"), "{error}");
        }
        let of_variable = Place { url: Address { text: "secret".into(), variable: Some("URL".into()) }, ..place("") };
        assert!(of_variable.kind().unwrap_err().to_string().starts_with("the address in URL: "));
    }

    #[test]
    fn tables_have_a_schema_and_a_name() {
        assert_eq!(Place { namespace: Some("seen".into()), ..place("") }.names(), ("public", "seen"));
        assert_eq!(Place { namespace: Some("app.seen".into()), ..place("") }.names(), ("app", "seen"));
    }

    #[test]
    fn options_of_other_stores_are_refused() {
        let table = Place { table: Some("a".into()), ..place("") };
        let cluster = Place { cluster: true, namespace: Some("billing".into()), ..place("") };
        assert!(table.check(Kind::Sqlite).is_ok());
        assert!([Kind::Redis, Kind::Postgres, Kind::Fjall].into_iter().all(|kind| table.check(kind).is_err()));
        assert!(cluster.check(Kind::Redis).is_ok() && cluster.check(Kind::Postgres).is_err());
        for kind in [Kind::Redis, Kind::Postgres] {
            assert!(Place { namespace: Some("billing".into()), ..place("") }.check(kind).is_ok());
            let error = place("").check(kind).unwrap_err();
            assert!(error.to_string().starts_with("--namespace NAME is needed for Redis and PostgreSQL"), "{error}");
        }
        let error = Place { per_scope: true, ..place("") }.check(Kind::Sqlite).unwrap_err();
        assert_eq!(error.to_string(), "--per-scope is for PostgreSQL only");
    }
}
