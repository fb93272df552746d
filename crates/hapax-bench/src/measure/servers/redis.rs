//! Starts a Redis or Valkey server of its own.

use super::watched::Watched;
use super::{PATIENCE, programs};
use crate::strategy::Failure;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// The names of the program, which its version line begins with, too.
const NAMES: [&str; 2] = ["redis-server", "valkey-server"];

/// Returns the server's program, or why there is none.
pub(super) fn program() -> Result<PathBuf, String> {
    NAMES
        .iter()
        .find_map(|name| which::which(name).ok())
        .ok_or_else(|| "neither redis-server nor valkey-server is on the PATH".to_owned())
}

pub(super) fn version() -> Option<String> {
    parsed_version(&programs::printed(&program().ok()?, "--version")?)
}

/// Reads a version: `Redis server v=7.0.15 sha=…`.
fn parsed_version(text: &str) -> Option<String> {
    let name = text.split_whitespace().next()?;
    let version = text.split_whitespace().find_map(|word| word.strip_prefix("v="))?;
    Some(format!("{name} {version}"))
}

/// Starts the server on a Unix socket only, and in memory only: it keeps neither snapshots nor a
/// log, so no persistence slows it down.
pub(super) fn start() -> Result<Watched, Failure> {
    let program = program()?;
    let mut watched = Watched::for_server("redis", "KILL")?;
    let mut command = Command::new(program);
    command.args(["--port", "0", "--save", "", "--appendonly", "no", "--daemonize", "no", "--dir", "."]);
    command.arg("--unixsocket").arg("socket").current_dir(watched.path());
    let directory = watched.path().to_owned();
    watched.serve(command, PATIENCE, || used_bytes(&directory).is_ok())?;
    Ok(watched)
}

/// Returns the address for the `redis` crate.
pub(super) fn address(directory: &Path) -> String {
    format!("redis+unix://{}", directory.join("socket").display())
}

/// Returns the bytes that its allocator has given out, `used_memory`.
pub(super) fn used_bytes(directory: &Path) -> io::Result<u64> {
    let socket = UnixStream::connect(directory.join("socket"))?;
    socket.set_read_timeout(Some(Duration::from_secs(5)))?;
    (&socket).write_all(b"INFO memory\r\n")?;
    let mut reader = BufReader::new(&socket);
    let text = bulk_string(&mut reader)?;
    let value = text.lines().find_map(|line| line.strip_prefix("used_memory:"));
    let value = value.and_then(|value| value.trim().parse().ok());
    value.ok_or_else(|| io::Error::other(format!("expected a line `used_memory:BYTES`, got {text:?}")))
}

/// Reads `$LENGTH\r\n…`: an answer of any length below that of a server's description of itself.
fn bulk_string(reader: &mut impl BufRead) -> io::Result<String> {
    const MAX: u64 = 1 << 20;
    let mut head = String::new();
    reader.take(64).read_line(&mut head)?;
    let length = head.trim_end().strip_prefix('$').and_then(|length| length.parse().ok());
    let length = length.filter(|&length: &u64| length <= MAX);
    let length =
        length.ok_or_else(|| io::Error::other(format!("expected a string of up to {MAX} bytes, got {head:?}")))?;
    let mut text = String::new();
    reader.take(length).read_to_string(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_to_their_length() {
        let read = |mut bytes: &[u8]| bulk_string(&mut bytes).map_err(|error| error.to_string());
        assert_eq!(read(b"$5\r\na\r\nbc\r\n"), Ok("a\r\nbc".to_owned()));
        for wrong in [&b""[..], b"-LOADING it is not ready\r\n", b"$-1\r\n", b"$99999999\r\n"] {
            assert!(read(wrong).unwrap_err().contains("expected a string of up to"), "{wrong:?}");
        }
    }

    #[test]
    fn versions_are_read() {
        let redis = "Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64 build=ae4d7c971a948f0";
        assert_eq!(parsed_version(redis).as_deref(), Some("Redis 7.0.15"));
        assert_eq!(parsed_version("Valkey server v=8.1.0 sha=0").as_deref(), Some("Valkey 8.1.0"));
        assert_eq!(parsed_version("what?"), None);
    }
}
