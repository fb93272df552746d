//! Servers of a test's own: on loopback or a Unix socket, in a temporary directory. They end with
//! their test.

use crate::directory::Directory;
use crate::processes::{Process, await_until, is_missing};
use std::process::Command;

/// A Redis server on a Unix socket.
pub struct Redis {
    _process: Process,
    directory: Directory,
}

impl Redis {
    /// Starts a server; `None` if it is not installed.
    pub fn start(test: &str) -> Option<Self> {
        if is_missing("redis-server") {
            return None;
        }
        let directory = Directory::new(&format!("{test}-redis"));
        let mut command = Command::new("redis-server");
        command.args(["--port", "0", "--unixsocket", "redis.sock", "--dir", ".", "--save", "", "--appendonly", "no"]);
        let log = directory.path().join("redis.log");
        let redis = Redis { _process: Process::start(command, &log, directory.path()), directory };
        await_until(&log, || redis.connection().is_ok());
        Some(redis)
    }

    pub fn url(&self) -> String {
        format!("redis+unix://{}", self.directory.file("redis.sock"))
    }

    pub fn connection(&self) -> redis::RedisResult<redis::Connection> {
        redis::Client::open(self.url())?.get_connection()
    }
}
