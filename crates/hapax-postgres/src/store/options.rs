//! The address of the server, and the layout of records.

use super::BACKEND;
use super::errors::misconfigured;
#[cfg(feature = "tls")]
pub(crate) use super::tls::Connector;
#[cfg(any(doc, test, feature = "tls"))]
use hapax_store::ErrorKind;
use hapax_store::StoreError;
use hapax_store::backend::option;
use std::fmt;
use std::ops::RangeInclusive;
use std::time::Duration;
use tokio_postgres::Config;
#[cfg(not(feature = "tls"))]
pub(crate) use tokio_postgres::NoTls as Connector;
use tokio_postgres::config::SslMode;

/// The assignment of scopes to tables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
pub enum Layout {
    /// One table for all: any number of scopes.
    #[default]
    Shared,
    /// One table a scope, made when the scope is first written to: for few scopes that are large,
    /// or that are dropped as a whole.
    PerScope,
}

impl Layout {
    pub(super) fn name(self) -> &'static str {
        match self {
            Layout::Shared => "shared",
            Layout::PerScope => "per scope",
        }
    }
}

/// Options for the connections of a [`PostgresStore`](super::PostgresStore), a
/// [`Worker`](crate::Worker) or a [`Relay`](crate::Relay).
///
/// ```
/// use hapax_postgres::{Layout, PostgresOptions};
/// use std::time::Duration;
///
/// let options = PostgresOptions::parse("postgres://hapax@db.internal/app?connect_timeout=3")?
///     .layout(Layout::PerScope)
///     .partition(Duration::from_secs(6 * 3600))?         // with a retention of a day, four or five partitions
///     .connections(8)?
///     .timeout(Duration::from_secs(2))?;
/// # let _ = options;
/// # Ok::<(), hapax_store::StoreError>(())
/// ```
#[derive(Clone)]
pub struct PostgresOptions {
    pub(crate) config: Config,
    pub(super) layout: Layout,
    pub(super) partition: Duration,
    pub(crate) connections: Option<usize>,
    pub(crate) pooled: bool,
    pub(crate) timeout: Duration,
    #[cfg(feature = "tls")]
    pub(crate) tls: Option<super::tls::Roots>,
}

/// The time for which the kernel sends again what a server does not acknowledge: less than the
/// shortest default of `in_doubt`, since what it has is carried out whenever it arrives.
const USER_TIMEOUT: Duration = Duration::from_secs(5);

impl PostgresOptions {
    /// Creates options from an address of server, database and user: a URL, or words like
    /// `host=/run/postgresql user=app`. It may name a Unix socket's directory, several hosts, and
    /// `target_session_attrs=read-write`.
    ///
    /// `sslmode=verify-full` connects by TLS only, and verifies the server's certificate and name,
    /// by the platform's certificates or those in the file of `sslrootcert`. `require` and
    /// `verify-ca` do the same, which is more than libpq does. `disable`, or nothing, connects
    /// without TLS. `allow` and `prefer` are refused: whoever is on the way could turn TLS off.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Misconfigured`] if it is no such address, or asks for TLS without the feature
    /// `tls`, or if the file of `sslrootcert` cannot be read.
    pub fn parse(address: &str) -> Result<Self, StoreError> {
        let (config, roots) = super::address::parse(address)?;
        let options = Self::new(config)?;
        #[cfg(feature = "tls")]
        if let Some(file) = roots {
            let unreadable = |error| {
                let what = format!("sslrootcert: expected a file of certificates, {file:?}");
                StoreError::caused(ErrorKind::Misconfigured, BACKEND, what, error)
            };
            return options.tls(Some(&std::fs::read_to_string(&file).map_err(unreadable)?));
        }
        // (Without TLS, `new` has refused all that could have named a file.)
        #[cfg(not(feature = "tls"))]
        drop(roots);
        Ok(options)
    }

    /// Creates options from the server, database and user in the driver's configuration.
    ///
    /// Unless the configuration says otherwise, a connection must be made within 5 seconds, and is
    /// broken when nothing that was sent has been acknowledged for 5 seconds: that is less than a
    /// mark is in doubt, so what was given up is not carried out when others believe it.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Misconfigured`] if there is no host, or if the configuration requires TLS and
    /// there is no feature `tls`.
    pub fn new(mut config: Config) -> Result<Self, StoreError> {
        if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
            let what = "expected a host, or the directory of a Unix socket";
            return Err(misconfigured(what));
        }
        if config.get_ssl_mode() != SslMode::Require {
            // Nobody on the way may turn TLS off: it is not tried, or it has to be.
            config.ssl_mode(SslMode::Disable);
        } else if cfg!(not(feature = "tls")) {
            let what = "sslmode: expected the feature `tls` of hapax-postgres, for a connection by TLS";
            return Err(misconfigured(what));
        }
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(Duration::from_secs(5));
        }
        if config.get_tcp_user_timeout().is_none() {
            config.tcp_user_timeout(USER_TIMEOUT);
        }
        if config.get_application_name().is_none() {
            config.application_name("hapax");
        }
        Ok(PostgresOptions {
            config,
            layout: Layout::Shared,
            partition: Duration::from_secs(24 * 3600),
            connections: None,
            pooled: false,
            timeout: Duration::from_secs(5),
            #[cfg(feature = "tls")]
            tls: None,
        })
    }

    /// Sets the assignment of scopes to tables. Tables that were made for one layout are refused by
    /// the other.
    pub fn layout(mut self, layout: Layout) -> Self {
        self.layout = layout;
        self
    }

    /// Sets the time for which rows go into a partition before the next one is begun. Default: 24
    /// hours.
    ///
    /// A partition is dropped as a whole once all of its records have expired, so it is kept for
    /// this time and the longest retention. But to find an id takes a look-up in each partition: an
    /// eighth to a half of the longest retention is a good length.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Misconfigured`] unless it is between a second and 10 years.
    pub fn partition(mut self, length: Duration) -> Result<Self, StoreError> {
        self.partition = within("partition", length, Duration::from_secs(1)..=Duration::from_secs(3_650 * 86_400))?;
        Ok(self)
    }

    /// Sets the largest number of connections. Default: 4, and for a worker as many as it needs.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Misconfigured`] unless it is between 1 and 1,024.
    pub fn connections(mut self, connections: usize) -> Result<Self, StoreError> {
        self.connections = Some(within("connections", connections, 1..=1_024)?);
        Ok(self)
    }

    /// Declares that a pooler of transactions is in between, as pgbouncer with `pool_mode =
    /// transaction`.
    ///
    /// This is not needed for a pooler that refuses or ignores the settings in a connection's first
    /// message (`options`), as pgbouncer does: the store detects it when the first connection is
    /// made, at the cost of one refused connection. It is needed for a pooler that obeys them.
    ///
    /// Then each transaction begins with its own settings and no statement is kept prepared:
    /// correct with any pooler of transactions or sessions, and without one, but each statement is
    /// planned anew.
    pub fn pooled(mut self) -> Self {
        self.pooled = true;
        self
    }

    /// Sets the time that a statement may take at the server, that a call may wait for a connection
    /// of the pool, and that a transaction may wait for its client. Default: 5 seconds. The store
    /// itself waits for an answer a second longer, for servers that can no longer report a timeout.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Misconfigured`] unless it is between 10 milliseconds and an hour.
    pub fn timeout(mut self, timeout: Duration) -> Result<Self, StoreError> {
        self.timeout = within("timeout", timeout, Duration::from_millis(10)..=Duration::from_secs(3_600))?;
        Ok(self)
    }

    /// Connects by TLS only, whatever the address says, and trusts the certificates in this text
    /// (PEM), or those of the platform if there is none. A server's name is verified, too.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Misconfigured`] if there is no certificate.
    #[cfg(feature = "tls")]
    pub fn tls(mut self, roots: Option<&str>) -> Result<Self, StoreError> {
        self.tls = Some(super::tls::Roots::new(roots)?);
        self.config.ssl_mode(SslMode::Require);
        Ok(self)
    }
}

impl PostgresOptions {
    /// Returns what connects: by TLS if that is asked for, by [`tls`](Self::tls) or by the address.
    #[cfg(feature = "tls")]
    pub(crate) fn connector(&self) -> Result<Connector, StoreError> {
        let by_tls = self.config.get_ssl_mode() == SslMode::Require;
        let of_platform = (by_tls && self.tls.is_none()).then(|| super::tls::Roots::new(None)).transpose()?;
        Connector::new(self.tls.as_ref().or(of_platform.as_ref()))
    }

    #[cfg(not(feature = "tls"))]
    pub(crate) fn connector(&self) -> Result<Connector, StoreError> {
        Ok(Connector)
    }

    /// Returns the number of connections of a store.
    pub(crate) fn connections_or_few(&self) -> usize {
        self.connections.unwrap_or(4)
    }
}

impl fmt::Debug for PostgresOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresOptions")
            .field("hosts", &self.config.get_hosts())
            .field("user", &self.config.get_user())
            .field("database", &self.config.get_dbname())
            .field("layout", &self.layout)
            .field("partition", &self.partition)
            .field("connections", &self.connections)
            .field("pooled", &self.pooled)
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}

/// Returns the value of an option, or an error unless it is in this range.
pub(crate) fn within<T: PartialOrd + fmt::Debug>(
    name: &str,
    got: T,
    range: RangeInclusive<T>,
) -> Result<T, StoreError> {
    option::within(BACKEND, name, got, range)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options() -> PostgresOptions {
        PostgresOptions::parse("host=/tmp user=a password=secret").unwrap()
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let refused = |result: Result<PostgresOptions, StoreError>| {
            assert_eq!(result.unwrap_err().kind(), ErrorKind::Misconfigured);
        };
        refused(PostgresOptions::parse("nonsense"));
        refused(PostgresOptions::parse("user=a"));
        refused(options().partition(Duration::ZERO));
        refused(options().partition(Duration::MAX));
        refused(options().connections(0));
        refused(options().connections(2_000));
        refused(options().timeout(Duration::ZERO));
        refused(options().timeout(Duration::MAX));
    }

    #[test]
    fn no_password_is_shown() {
        assert!(!format!("{:?}", options()).contains("secret"));
    }
}
