//! A server of a test's own that behaves as AWS's services do: moto's, on loopback.

use crate::children;
use crate::processes::{PATIENCE, free_port};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

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
    child: Child,
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
        let port = free_port();
        let mut command = Command::new("python3");
        command.args(["-c", PROGRAM, &port.to_string(), threads]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let server = MotoServer { child: children::started(command), port };
        let began = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(began.elapsed() < PATIENCE, "moto does not answer");
            std::thread::sleep(Duration::from_millis(50));
        }
        Some(server)
    }

    /// Returns the port on loopback.
    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }
}

impl Drop for MotoServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
