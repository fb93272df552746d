//! Opens the store that an address names, and makes none.

use super::failed;
use crate::error::CommandError;
use clap::Args;
use hapax_fjall::FjallOptions;
use hapax_postgres::{Layout, PostgresOptions, PostgresStore};
use hapax_redis::{RedisOptions, RedisStore};
use hapax_sqlite::SqliteOptions;
use hapax_store::Inspect;
use std::path::Path;

/// The store.
#[derive(Debug, Args)]
pub struct Place {
    /// Address: redis://HOST, postgres://HOST/DATABASE, the directory of fjall, or the file of
    /// SQLite; by TLS: rediss://HOST, postgres://HOST/DATABASE?sslmode=require
    url: String,
    /// Namespace of the keys (Redis), without which none is read: that of `RedisOptions`
    #[arg(long, value_name = "NAME", help_heading = "Store")]
    namespace: Option<String>,
    /// The address is that of a node of a cluster (Redis)
    #[arg(long, help_heading = "Store")]
    cluster: bool,
    /// Table (SQLite), or SCHEMA.NAME that the tables begin with (PostgreSQL)
    #[arg(long, value_name = "NAME", help_heading = "Store")]
    table: Option<String>,
    /// Each scope has a table of its own (PostgreSQL)
    #[arg(long, help_heading = "Store")]
    per_scope: bool,
}

/// The kind of store that an address names.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Redis,
    Postgres,
    Fjall,
    Sqlite,
}

/// The work of a command on a store.
pub trait Work {
    async fn on(self, store: impl Inspect) -> Result<(), CommandError>;
}

/// Opens the store, and does the work.
pub async fn with(place: &Place, work: impl Work) -> Result<(), CommandError> {
    let kind = place.kind()?;
    place.check(kind)?;
    match kind {
        Kind::Redis => {
            let namespace = place.namespace.as_deref().unwrap_or_default();
            let options = match place.cluster {
                true => RedisOptions::cluster([place.url.as_str()], namespace),
                false => RedisOptions::single(place.url.as_str(), namespace),
            };
            work.on(RedisStore::connect(options).await.map_err(failed)?).await
        }
        Kind::Postgres => {
            let mut options = PostgresOptions::parse(&place.url).map_err(failed)?;
            if is_encrypted(&place.url) {
                options = options.tls(None).map_err(failed)?;
            }
            if let Some(table) = &place.table {
                let (schema, name) = table.split_once('.').unwrap_or(("public", table));
                options = options.names(schema, name).map_err(failed)?;
            }
            if place.per_scope {
                options = options.layout(Layout::PerScope);
            }
            work.on(PostgresStore::new(options).map_err(failed)?).await
        }
        Kind::Fjall => work.on(FjallOptions::new().must_exist(true).open(&place.url).await.map_err(failed)?).await,
        Kind::Sqlite => {
            let mut options = SqliteOptions::new().must_exist(true);
            if let Some(table) = &place.table {
                options = options.table(table);
            }
            work.on(options.open(&place.url).await.map_err(failed)?).await
        }
    }
}

/// Returns true if the address of a PostgreSQL asks for TLS, as its own tools understand it.
fn is_encrypted(url: &str) -> bool {
    let options = url.split_once('?').map_or("", |(_, options)| options);
    options.split('&').any(|option| option == "sslmode=require")
}

impl Place {
    fn kind(&self) -> Result<Kind, CommandError> {
        let scheme = self.url.split_once("://").map(|(scheme, _)| scheme);
        match scheme {
            Some("redis" | "rediss" | "redis+unix" | "rediss+unix" | "unix") => Ok(Kind::Redis),
            Some("postgres" | "postgresql") => Ok(Kind::Postgres),
            Some(other) => Err(CommandError::Usage(format!(
                "an address begins with redis:// or postgres://, or is the path of a directory or a file; this one \
                 begins with {other}://"
            ))),
            None => match std::fs::metadata(Path::new(&self.url)) {
                Ok(metadata) if metadata.is_dir() => Ok(Kind::Fjall),
                Ok(_) => Ok(Kind::Sqlite),
                Err(error) => Err(CommandError::input(Path::new(&self.url), error)),
            },
        }
    }

    /// Refuses options of other stores, and Redis without a namespace.
    fn check(&self, kind: Kind) -> Result<(), CommandError> {
        let options = [
            ("--namespace", self.namespace.is_some(), kind == Kind::Redis, "Redis"),
            ("--cluster", self.cluster, kind == Kind::Redis, "Redis"),
            ("--table", self.table.is_some(), matches!(kind, Kind::Postgres | Kind::Sqlite), "PostgreSQL and SQLite"),
            ("--per-scope", self.per_scope, kind == Kind::Postgres, "PostgreSQL"),
        ];
        if kind == Kind::Redis && self.namespace.is_none() {
            let why = "--namespace NAME is needed for Redis: the one that the service gives its `RedisOptions`";
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
        Place { url: url.into(), namespace: None, cluster: false, table: None, per_scope: false }
    }

    #[test]
    fn an_address_says_the_kind_of_store() {
        assert_eq!(place("redis://localhost").kind().unwrap(), Kind::Redis);
        assert_eq!(place("rediss://localhost").kind().unwrap(), Kind::Redis);
        assert_eq!(place("postgres://localhost/app").kind().unwrap(), Kind::Postgres);
        assert_eq!(place("src").kind().unwrap(), Kind::Fjall);
        assert_eq!(place("Cargo.toml").kind().unwrap(), Kind::Sqlite);
        assert!(matches!(place("mysql://localhost").kind(), Err(CommandError::Usage(why)) if why.contains("mysql://")));
        assert!(matches!(place("nowhere").kind(), Err(CommandError::Io(why)) if why.starts_with("nowhere: ")));
    }

    #[test]
    fn an_address_asks_for_tls_in_the_usual_words() {
        assert!(is_encrypted("postgres://db/app?sslmode=require") && is_encrypted("postgres://db?a=b&sslmode=require"));
        assert!(!is_encrypted("postgres://db/app") && !is_encrypted("postgres://db/sslmode=require?sslmode=prefer"));
    }

    #[test]
    fn options_of_other_stores_are_refused() {
        let table = Place { table: Some("a".into()), ..place("") };
        let cluster = Place { cluster: true, namespace: Some("billing".into()), ..place("") };
        assert!(table.check(Kind::Sqlite).is_ok() && table.check(Kind::Postgres).is_ok());
        assert!(table.check(Kind::Redis).is_err() && table.check(Kind::Fjall).is_err());
        assert!(cluster.check(Kind::Redis).is_ok() && cluster.check(Kind::Postgres).is_err());
        let error = Place { namespace: None, ..cluster }.check(Kind::Redis).unwrap_err();
        assert!(error.to_string().starts_with("--namespace NAME is needed for Redis"), "{error}");
        let error = Place { per_scope: true, ..place("") }.check(Kind::Sqlite).unwrap_err();
        assert_eq!(error.to_string(), "--per-scope is for PostgreSQL only");
    }
}
