//! The role that a server reports.

use crate::resp::errors::error;
use crate::resp::reply::Reply;
use hapax_store::{ErrorKind, StoreError};

/// The role of a server in its group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Master,
    /// A replica: it takes no writes, and follows the server at this address.
    Replica {
        of: String,
    },
    Sentinel,
    /// The server does not report its role, or this user may not ask.
    Unknown,
}

impl Role {
    /// Reads the answer to `ROLE`.
    pub(crate) fn of(answer: Reply<'_>) -> Role {
        let Reply::Array(mut parts) = answer else { return Role::Unknown };
        match parts.next().and_then(Reply::text) {
            Some("master") => Role::Master,
            Some("slave" | "replica") => {
                let host = parts.next().and_then(Reply::text).unwrap_or("?").to_owned();
                let port = parts.next().map_or(0, |port| if let Reply::Int(port) = port { port } else { 0 });
                Role::Replica { of: format!("{host}:{port}") }
            }
            Some("sentinel") => Role::Sentinel,
            _ => Role::Unknown,
        }
    }

    /// Refuses a server whose role cannot keep records.
    ///
    /// A cluster's replica redirects writes to its master by itself, and may be asked for the
    /// owners of slots.
    pub(crate) fn refuse(&self, address: &str, in_cluster: bool) -> Result<(), StoreError> {
        match self {
            Role::Sentinel => Err(error(
                ErrorKind::Misconfigured,
                format!("{address} is a Sentinel, which keeps no records: use RedisOptions::sentinel"),
            )),
            Role::Replica { of } if !in_cluster => Err(error(
                ErrorKind::Unavailable,
                format!(
                    "{address} is a replica of {of}, which takes no writes: connect to the master, through its \
                     Sentinels (RedisOptions::sentinel) if it changes; if a fail-over is under way, try again"
                ),
            )),
            _ => Ok(()),
        }
    }
}

/// Returns true if a refusal means that its server is no longer the master.
pub(crate) fn is_demotion(answer: Reply<'_>) -> bool {
    match answer {
        Reply::Refusal(refusal) => matches!(refusal.code(), "READONLY" | "MASTERDOWN"),
        // The refusal for one of a script's keys.
        Reply::Array(mut parts) => parts.any(|part| matches!(part, Reply::Refusal(_)) && is_demotion(part)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resp::reply::read;

    #[test]
    fn servers_say_what_they_are() {
        let role = |answer: &str| Role::of(read(answer.as_bytes()).expect("an answer"));
        assert_eq!(role("*3\r\n$6\r\nmaster\r\n:17\r\n*0\r\n"), Role::Master);

        let replica = role("*5\r\n$5\r\nslave\r\n$8\r\n10.0.0.1\r\n:6379\r\n$9\r\nconnected\r\n:17\r\n");
        assert_eq!(replica, Role::Replica { of: "10.0.0.1:6379".into() });
        let refusal = replica.refuse("10.0.0.2:6379", false).unwrap_err();
        assert_eq!(refusal.kind(), ErrorKind::Unavailable, "{refusal}");
        assert!(replica.refuse("10.0.0.2:6379", true).is_ok());

        let sentinel = role("*2\r\n$8\r\nsentinel\r\n*1\r\n$8\r\nmymaster\r\n");
        assert_eq!(sentinel, Role::Sentinel);
        for in_cluster in [false, true] {
            assert_eq!(sentinel.refuse("s", in_cluster).unwrap_err().kind(), ErrorKind::Misconfigured);
        }
        for silent in ["$-1\r\n", "*0\r\n", "-NOPERM no\r\n", "*1\r\n:1\r\n"] {
            assert_eq!(role(silent), Role::Unknown);
            assert!(role(silent).refuse("s", false).is_ok(), "who does not say is believed");
        }
    }

    #[test]
    fn who_refuses_to_write_was_demoted() {
        let is_demotion = |answer: &str| is_demotion(read(answer.as_bytes()).expect("an answer"));
        assert!(is_demotion("-READONLY You can't write against a read only replica.\r\n"));
        assert!(is_demotion("*2\r\n:1\r\n-READONLY You can't write against a read only replica.\r\n"));
        assert!(is_demotion("*1\r\n-@user_script: 11: -READONLY You can't write against a read only replica.\r\n"));
        for other in ["+OK\r\n", "*1\r\n:1\r\n", "-ERR no\r\n", "$8\r\nREADONLY\r\n"] {
            assert!(!is_demotion(other), "{other:?}");
        }
    }
}
