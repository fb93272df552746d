//! Ways in which a server forgets acknowledged ids, by its configuration.

use std::fmt;

/// A way in which a server may forget ids that it has acknowledged, by its configuration.
///
/// See [`RedisStore::warnings`](crate::RedisStore::warnings), and
/// [`RedisOptions::require_durable`](crate::RedisOptions::require_durable), which refuses them all.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RedisRisk {
    /// There is a `maxmemory`, and a policy other than `noeviction`: when memory is full, ids
    /// disappear silently, and are fresh again.
    Evicts {
        /// The setting `maxmemory-policy`.
        policy: String,
    },
    /// Neither a log nor snapshots: a restart forgets everything.
    NotPersisted,
    /// No append-only file, at most snapshots: a restart forgets everything after the last one.
    NoLog,
    /// The server does not report whether it evicts.
    UnknownEviction,
    /// The server does not report its persistence.
    UnknownPersistence,
    /// The server has not answered yet. It is checked when it is first reached.
    Unreached,
}

impl fmt::Display for RedisRisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RedisRisk::Evicts { policy } => {
                return write!(
                    f,
                    "it evicts ids when its memory is full (maxmemory-policy {policy}), which are fresh again then: \
                     set noeviction"
                );
            }
            RedisRisk::NotPersisted => {
                "it keeps nothing on disk (appendonly no, no save), so a restart forgets all ids: set appendonly yes"
            }
            RedisRisk::NoLog => {
                "it keeps no log on disk (appendonly no), so a restart forgets what no snapshot has: set appendonly yes"
            }
            RedisRisk::UnknownEviction => "it does not say whether it evicts (INFO memory): allow it for this user",
            RedisRisk::UnknownPersistence => "it does not say what is kept (INFO persistence): allow it for this user",
            RedisRisk::Unreached => "it has not answered yet, and is asked when it is first reached",
        })
    }
}

/// A server, and a way in which it may forget.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RedisWarning {
    /// The server's address, as it was connected to.
    pub address: String,
    /// The way in which it may forget.
    pub risk: RedisRisk,
}

impl fmt::Display for RedisWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.address, self.risk)
    }
}
