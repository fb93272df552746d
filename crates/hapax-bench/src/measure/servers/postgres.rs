//! Starts a PostgreSQL server of its own, with the default durability: a transaction that is
//! committed is on the disk.

use super::watched::{self, Watched};
use super::{PATIENCE, programs};
use crate::strategy::Failure;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The programs that are needed.
pub(super) struct Programs {
    /// The folder of `initdb`, `postgres` and `pg_isready`.
    folder: PathBuf,
    /// The user and the group to run as instead of root, which the server refuses to be.
    unprivileged: Option<(u32, u32)>,
}

/// Returns the server's programs, or why there are none.
pub(super) fn programs() -> Result<Programs, String> {
    let on_path = which::which("initdb").ok().and_then(|path| Some(path.parent()?.to_owned()));
    // Debian keeps them off the PATH; the newest version is taken.
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut versions: Vec<(u32, PathBuf)> = versions
        .filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path().join("bin"))))
        .collect();
    versions.sort();
    let has_all =
        |folder: &PathBuf| ["initdb", "postgres", "pg_isready"].iter().all(|name| folder.join(name).is_file());
    let folder = on_path.into_iter().chain(versions.into_iter().rev().map(|version| version.1)).find(has_all);
    let folder = folder.ok_or("initdb and postgres are neither on the PATH nor in /usr/lib/postgresql/*/bin")?;
    // The owner of this entry is the process that reads it.
    let is_root = fs::metadata("/proc/self").is_ok_and(|us| us.uid() == 0);
    let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let nobody = || nobody_of(&users).ok_or("PostgreSQL refuses to be root, and /etc/passwd has no user `nobody`");
    Ok(Programs { folder, unprivileged: is_root.then(nobody).transpose()? })
}

/// Returns the numbers of a user and its group: `nobody:x:65534:65534:…`.
fn nobody_of(users: &str) -> Option<(u32, u32)> {
    let mut fields = users.lines().find_map(|line| line.strip_prefix("nobody:"))?.split(':').skip(1);
    Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
}

pub(super) fn version() -> Option<String> {
    parsed_version(&programs::printed(&programs().ok()?.folder.join("postgres"), "--version")?)
}

/// Reads a version: `postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)`.
fn parsed_version(text: &str) -> Option<String> {
    let version = text.split_once("(PostgreSQL) ")?.1.split_whitespace().next()?;
    Some(format!("PostgreSQL {version}"))
}

/// Starts the server on a Unix socket only, with its default settings.
pub(super) fn start() -> Result<Watched, Failure> {
    let programs = programs()?;
    // At this signal it ends at once, its children first, and leaves no shared memory behind.
    let mut watched = Watched::for_server("postgres", "QUIT")?;
    let directory = watched.path().to_owned();
    if let Some((user, group)) = programs.unprivileged {
        std::os::unix::fs::chown(&directory, Some(user), Some(group))?;
    }
    let mut initdb = programs.command("initdb", &directory);
    initdb.args(["--no-locale", "--encoding=UTF8", "--username=postgres", "--no-sync", "-A", "trust", "-D", "data"]);
    programs::run(initdb, &watched.log(), PATIENCE)?;
    let mut postgres = programs.command("postgres", &directory);
    postgres.args(["-D", "data", "-c", "listen_addresses="]).arg("-k").arg(&directory);
    let answers = || {
        let mut ready = programs.command("pg_isready", &directory);
        ready.args(["-q", "-d", "postgres", "-U", "postgres"]).arg("-h").arg(&directory);
        ready.stdin(Stdio::null()).status().is_ok_and(|status| status.success())
    };
    watched.serve(postgres, PATIENCE, answers)?;
    Ok(watched)
}

/// Returns the address for the `tokio-postgres` crate.
pub(super) fn address(directory: &Path) -> String {
    let quoted = directory.display().to_string().replace('\\', r"\\").replace('\'', r"\'");
    format!("host='{quoted}' user=postgres dbname=postgres")
}

/// Returns the bytes of tables and indexes. The log does not count: parts of it are made ahead and
/// used again.
pub(super) fn used_bytes(directory: &Path) -> u64 {
    watched::bytes_on_disk(&directory.join("data/base"))
}

impl Programs {
    fn command(&self, name: &str, directory: &Path) -> Command {
        let mut command = Command::new(self.folder.join(name));
        if let Some((user, group)) = self.unprivileged {
            command.uid(user).gid(group);
        }
        // Environment variables with this prefix would be options.
        std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("PG")).for_each(|(name, _)| {
            command.env_remove(name);
        });
        command.current_dir(directory);
        command
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_read() {
        let users = "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65533:nobody:/nonexistent:/usr/sbin/nologin\n";
        assert_eq!(nobody_of(users), Some((65534, 65533)));
        assert_eq!(nobody_of("root:x:0:0::/root:/bin/sh\nnobody:x:\n"), None);
    }

    #[test]
    fn versions_are_read() {
        let text = "postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)\n";
        assert_eq!(parsed_version(text).as_deref(), Some("PostgreSQL 15.18"));
        assert_eq!(parsed_version("postgres 15"), None);
    }
}
