//! The role that a server says it has, asked once for each connection.

use super::errors::error;
use crate::store::{ErrorKind, StoreError};
use redis::{Pipeline, Value, cmd};

/// The role of a server in its group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Master,
    /// It takes no writes, and follows the server at this address.
    Replica {
        of: String,
    },
    Sentinel,
    /// It does not say, or this user may not ask.
    Unknown,
}

/// A server's words about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Introduction {
    pub(super) role: Role,
    /// Another one each time that a server starts.
    pub(super) run_id: Option<String>,
    pub(super) is_empty: bool,
}

/// Asks a server to introduce itself: one round trip.
pub(super) fn question() -> Pipeline {
    let mut pipeline = Pipeline::new();
    pipeline.add_command(cmd("ROLE"));
    pipeline.add_command(cmd("INFO").arg("server").take());
    pipeline.add_command(cmd("DBSIZE"));
    pipeline
}

/// Reads the answers to [`question`].
pub(super) fn introduction(answers: &[Value]) -> Introduction {
    let [role, info, keys] = answers else {
        return Introduction { role: Role::Unknown, run_id: None, is_empty: false };
    };
    let run_id = text(info).and_then(|info| {
        let id = info.lines().find_map(|line| line.strip_prefix("run_id:"))?.trim();
        (!id.is_empty()).then(|| id.to_owned())
    });
    Introduction { role: role_of(role), run_id, is_empty: *keys == Value::Int(0) }
}

fn role_of(answer: &Value) -> Role {
    let Value::Array(parts) = answer else { return Role::Unknown };
    match parts.first().and_then(text) {
        Some("master") => Role::Master,
        Some("slave" | "replica") => {
            let host = parts.get(1).and_then(text).unwrap_or("?");
            let port = parts.get(2).map_or(0, |port| if let Value::Int(port) = port { *port } else { 0 });
            Role::Replica { of: format!("{host}:{port}") }
        }
        Some("sentinel") => Role::Sentinel,
        _ => Role::Unknown,
    }
}

/// The text of an answer, in whichever protocol.
pub(super) fn text(answer: &Value) -> Option<&str> {
    match answer {
        Value::BulkString(bytes) => std::str::from_utf8(bytes).ok(),
        Value::SimpleString(text) | Value::VerbatimString { text, .. } => Some(text),
        _ => None,
    }
}

impl Role {
    /// Refuses to keep records in a server that is none for them.
    ///
    /// A cluster's replica sends whoever writes to its master by itself, and may be asked who owns
    /// what.
    pub(super) fn refuse(&self, address: &str, in_cluster: bool) -> Result<(), StoreError> {
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

/// Returns true if a refusal says that its server is the master no more.
pub(super) fn is_demotion(answer: &Value) -> bool {
    match answer {
        // Redis 6 wraps what a script is refused.
        Value::ServerError(refusal) => {
            matches!(refusal.code(), "READONLY" | "MASTERDOWN")
                || refusal.code() == "ERR" && refusal.details().is_some_and(|details| details.contains("-READONLY"))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bulk(text: &str) -> Value {
        Value::BulkString(text.as_bytes().to_vec())
    }

    #[test]
    fn servers_say_what_they_are() {
        let info = bulk("# Server\r\nredis_version:7.0.15\r\nrun_id:0123abc\r\n");
        let master = Value::Array(vec![bulk("master"), Value::Int(17), Value::Array(vec![])]);
        let said = introduction(&[master, info.clone(), Value::Int(0)]);
        assert_eq!(said, Introduction { role: Role::Master, run_id: Some("0123abc".into()), is_empty: true });

        let replica = [bulk("slave"), bulk("10.0.0.1"), Value::Int(6_379), bulk("connected"), Value::Int(17)];
        let said = introduction(&[Value::Array(replica.into()), info, Value::Int(3)]);
        assert_eq!(said.role, Role::Replica { of: "10.0.0.1:6379".into() });
        assert!(!said.is_empty);
        let refusal = said.role.refuse("10.0.0.2:6379", false).unwrap_err();
        assert_eq!(refusal.kind(), ErrorKind::Unavailable, "{refusal}");
        assert!(said.role.refuse("10.0.0.2:6379", true).is_ok());

        let sentinel = Value::Array(vec![bulk("sentinel"), Value::Array(vec![bulk("mymaster")])]);
        let said = introduction(&[sentinel, Value::Nil, Value::Nil]);
        assert_eq!(said, Introduction { role: Role::Sentinel, run_id: None, is_empty: false });
        for in_cluster in [false, true] {
            assert_eq!(said.role.refuse("s", in_cluster).unwrap_err().kind(), ErrorKind::Misconfigured);
        }
    }

    #[test]
    fn who_does_not_say_is_believed() {
        for answers in [vec![], vec![Value::Nil; 3], vec![Value::Array(vec![]), Value::Nil, Value::Nil]] {
            let said = introduction(&answers);
            assert_eq!(said, Introduction { role: Role::Unknown, run_id: None, is_empty: false });
            assert!(said.role.refuse("s", false).is_ok());
        }
    }
}
