//! Information about a server, which is read with each connection and from time to time.

use super::role::Role;
use super::warning::RedisRisk;
use crate::resp::commands::Commands;
use crate::resp::errors::{error, refused};
use crate::resp::reply::{Replies, Reply};
use hapax_store::{ErrorKind, StoreError};

/// A server's information about itself. A value that the server does not report, or that this user
/// may not read, is absent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServerInfo {
    pub(crate) role: Role,
    /// The run id, which is another one each time that a server starts.
    pub(crate) run_id: Option<String>,
    /// The number that it has given to the connection over which it was asked.
    pub(crate) client_id: Option<u64>,
    pub(crate) is_empty: bool,
    /// The number of keys that it removed before their time since it started, for lack of memory.
    pub(crate) evicted: Option<u64>,
    /// The number of times that all keys were removed since it started.
    pub(crate) flushed: Option<u64>,
    pub(crate) risks: Vec<RedisRisk>,
}

/// The commands whose answers are the information.
const COMMANDS: [&[&str]; 9] = [
    &["ROLE"],
    &["INFO", "server"],
    &["INFO", "memory"],
    &["INFO", "persistence"],
    &["INFO", "stats"],
    &["INFO", "commandstats"],
    &["CONFIG", "GET", "save"],
    &["DBSIZE"],
    &["CLIENT", "ID"],
];

/// Returns the commands that ask a server for its information: one round trip.
pub(crate) fn info_commands() -> Commands {
    let mut commands = Commands::default();
    COMMANDS.iter().for_each(|words| commands.add(words));
    commands
}

impl ServerInfo {
    /// Reads the answers to [`info_commands`].
    ///
    /// # Errors
    ///
    /// The server is too old, or does not let us in.
    pub(crate) fn read(answers: Replies<'_>, address: &str) -> Result<Self, StoreError> {
        let wrong = || error(ErrorKind::Corrupt, format!("{address} does not introduce itself, but says {answers:?}"));
        let [role, server, memory, persistence, stats, commands, save, keys, client] =
            answers.all().ok_or_else(wrong)?;
        match server {
            // The user may lack the permission for a question; without that for a mark, the first
            // mark fails.
            Reply::Refusal(refusal) if refusal.code() != "NOPERM" => return Err(refused(refusal)),
            _ => {}
        }
        if let Some(..6) = field(server, "redis_version").and_then(|it| it.split('.').next()?.parse::<u64>().ok()) {
            return Err(error(ErrorKind::Misconfigured, format!("Redis 6.0 or later is needed; {address} is older")));
        }
        let calls = |command| Some(call_count(commands.text()?, command));
        Ok(ServerInfo {
            role: Role::of(role),
            run_id: field(server, "run_id").filter(|id| !id.is_empty()).map(Into::into),
            client_id: if let Reply::Int(id) = client { id.try_into().ok() } else { None },
            is_empty: keys == Reply::Int(0),
            evicted: field(stats, "evicted_keys").and_then(|count| count.parse().ok()),
            flushed: calls("flushall").zip(calls("flushdb")).map(|(all, one)| all + one),
            risks: [eviction(memory), persisted(persistence, save)].into_iter().flatten().collect(),
        })
    }
}

/// Returns the risk that keys disappear when memory is full.
fn eviction(memory: Reply<'_>) -> Option<RedisRisk> {
    let (policy, limit) = (field(memory, "maxmemory_policy"), field(memory, "maxmemory"));
    match policy.zip(limit) {
        None => Some(RedisRisk::UnknownEviction),
        Some(("noeviction", _) | (_, "0")) => None,
        Some((policy, _)) => Some(RedisRisk::Evicts { policy: policy.into() }),
    }
}

/// Returns the risk that a restart forgets.
fn persisted(persistence: Reply<'_>, save: Reply<'_>) -> Option<RedisRisk> {
    let is_saved = |mut parts: Replies<'_>| Some(!parts.nth(1)?.text()?.is_empty());
    match (field(persistence, "aof_enabled"), save) {
        (None, _) => Some(RedisRisk::UnknownPersistence),
        (Some("0"), Reply::Array(parts)) if is_saved(parts) == Some(false) => Some(RedisRisk::NotPersisted),
        (Some("0"), _) => Some(RedisRisk::NoLog),
        (Some(_), _) => None,
    }
}

/// Returns a field of an answer to `INFO`.
fn field<'b>(info: Reply<'b>, name: &str) -> Option<&'b str> {
    let line = info.text()?.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    Some(line.trim())
}

/// Returns the number of times that a command was called, in an answer to `INFO commandstats`.
fn call_count(info: &str, command: &str) -> u64 {
    let calls = info.lines().find_map(|line| {
        let rest = line.strip_prefix("cmdstat_")?.strip_prefix(command)?.strip_prefix(":calls=")?;
        rest.split(',').next()?.parse().ok()
    });
    calls.unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const VERSION: &str = "# Server\r\nredis_version:7.0.15\r\nrun_id:0123abc\r\n";

    fn info(answers: [&str; 8]) -> Result<ServerInfo, StoreError> {
        let bytes = |answer: &str| match answer.as_bytes().first() {
            Some(b'*' | b':' | b'-' | b'$') => answer.to_owned(),
            _ => format!("${}\r\n{answer}\r\n", answer.len()),
        };
        let answers = answers.map(bytes).concat() + ":42\r\n";
        ServerInfo::read(Replies::new(9, answers.as_bytes()), "here")
    }

    #[test]
    fn servers_say_who_they_are_and_what_they_keep() {
        let [role, stats] = ["*1\r\n$6\r\nmaster\r\n", "evicted_keys:17\r\n"];
        let calls = "# Commandstats\r\ncmdstat_flushall:calls=2,usec=1\r\ncmdstat_flushdb:calls=3,usec=2\r\n";
        let safe = ["maxmemory:100\r\nmaxmemory_policy:noeviction\r\n", "aof_enabled:1\r\n"];
        let snapshots = "*2\r\n$4\r\nsave\r\n$6\r\n3600 1\r\n";
        let said = info([role, VERSION, safe[0], safe[1], stats, calls, snapshots, ":0\r\n"]).unwrap();
        let expected = ServerInfo {
            role: Role::Master,
            run_id: Some("0123abc".into()),
            client_id: Some(42),
            is_empty: true,
            evicted: Some(17),
            flushed: Some(5),
            risks: vec![],
        };
        assert_eq!(said, expected);

        let nothing = "*2\r\n$4\r\nsave\r\n$0\r\n\r\n";
        for (memory, persistence, save, risks) in [
            (
                "maxmemory:0\r\nmaxmemory_policy:allkeys-lru\r\n",
                "aof_enabled:0\r\n",
                nothing,
                vec![RedisRisk::NotPersisted],
            ),
            (
                "maxmemory:9\r\nmaxmemory_policy:allkeys-lru\r\n",
                "aof_enabled:0\r\n",
                snapshots,
                vec![RedisRisk::Evicts { policy: "allkeys-lru".into() }, RedisRisk::NoLog],
            ),
            (safe[0], "aof_enabled:0\r\n", "-NOPERM no\r\n", vec![RedisRisk::NoLog]),
            (
                "-NOPERM no\r\n",
                "-NOPERM no\r\n",
                nothing,
                vec![RedisRisk::UnknownEviction, RedisRisk::UnknownPersistence],
            ),
        ] {
            let said = info([role, VERSION, memory, persistence, stats, "", save, ":3\r\n"]).unwrap();
            assert_eq!((said.risks, said.flushed, said.is_empty), (risks, Some(0), false));
        }
    }

    #[test]
    fn who_says_nothing_is_unknown_and_who_is_too_old_or_lets_nobody_in_is_refused() {
        let said = info(["-NOPERM no\r\n"; 8]).unwrap();
        assert_eq!((&said.role, &said.run_id, said.is_empty), (&Role::Unknown, &None, false));
        assert_eq!((said.evicted, said.flushed), (None, None));
        for wrong in ["redis_version:5.0.7\r\n", "-NOAUTH Authentication required.\r\n"] {
            let refusal = info(["-NOPERM no\r\n", wrong, "", "", "", "", "", ":0\r\n"]).unwrap_err();
            assert_eq!(refusal.kind(), ErrorKind::Misconfigured, "{refusal}");
        }
        let valkey = "redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:8.0.1\r\nrun_id:\r\n";
        assert_eq!(info(["$-1\r\n", valkey, "", "", "", "", "", ":0\r\n"]).unwrap().run_id, None);
        let one = ServerInfo::read(Replies::new(1, b"+OK\r\n"), "here").unwrap_err();
        assert_eq!(one.kind(), ErrorKind::Corrupt);
    }
}
