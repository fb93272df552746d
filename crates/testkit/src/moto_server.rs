//! A server of a test's own that behaves as AWS's services do: moto's, on loopback.

use crate::directory::Directory;
use crate::processes::{Process, await_port, free_port};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// The program: moto's server, on a port, with threads or without. (What a queue has is a list that
/// a deletion makes anew: two at once, and one has not happened; nor has a message that is sent
/// meanwhile. A queue of AWS loses neither.)
const PROGRAM: &str = "
import sys
from threading import RLock
from moto.sqs.models import Queue
from werkzeug.serving import run_simple
one_at_a_time = RLock()
def locked(function):
    def call(*arguments):
        with one_at_a_time:
            return function(*arguments)
    return call
Queue.delete_message = locked(Queue.delete_message)
Queue.add_message = locked(Queue.add_message)
from moto.server import DomainDispatcherApplication, create_backend_app
application = DomainDispatcherApplication(create_backend_app)
run_simple('127.0.0.1', int(sys.argv[1]), application, threaded=sys.argv[2] == 'threads')
";

/// A server that ends with this.
pub struct MotoServer {
    _process: Process,
    _directory: Directory,
    port: u16,
}

impl MotoServer {
    /// Starts a server; none, loudly, if there is no Python or no moto.
    pub fn start() -> Option<Self> {
        Self::start_with("threads")
    }

    /// Starts a server that answers one request after the other: moto's threads interrupt one
    /// another between a condition and the write that depends on it. None, loudly, if there is no
    /// Python or no moto.
    pub fn start_without_threads() -> Option<Self> {
        Self::start_with("one")
    }

    fn start_with(threads: &str) -> Option<Self> {
        // To ask takes a second of a processor's time.
        static IS_INSTALLED: OnceLock<bool> = OnceLock::new();
        let is_installed = IS_INSTALLED.get_or_init(|| {
            let import = ["-c", "import moto.server, flask"];
            let python = Command::new("python3").args(import).stdout(Stdio::null()).stderr(Stdio::null()).status();
            python.is_ok_and(|status| status.success())
        });
        if !is_installed {
            crate::skipped("tests with moto: it is not installed (PyPI: moto[server])");
            return None;
        }
        let (directory, port) = (Directory::new("moto"), free_port());
        let mut command = Command::new("python3");
        command.args(["-c", PROGRAM, &port.to_string(), threads]);
        let log = directory.path().join("log");
        let process = Process::start(command, &log, directory.path());
        await_port(port, &log);
        Some(MotoServer { _process: process, _directory: directory, port })
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }
}
