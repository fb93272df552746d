//! A server of a test's own that behaves as AWS's services do: moto's, on loopback.

use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The program: moto's server, on a port, with threads or without.
const PROGRAM: &str = "
import sys
from werkzeug.serving import run_simple
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
    pub fn start(test: &str) -> Option<Self> {
        Self::start_with(test, "threads")
    }

    /// Starts a server that answers one request after the other: moto's threads interrupt one
    /// another between a condition and the write that depends on it. None, loudly, if there is no
    /// Python or no moto.
    pub fn start_without_threads(test: &str) -> Option<Self> {
        Self::start_with(test, "one")
    }

    fn start_with(test: &str, threads: &str) -> Option<Self> {
        let has_moto = ["-c", "import moto.server, flask"];
        let python = Command::new("python3").args(has_moto).stdout(Stdio::null()).stderr(Stdio::null()).status();
        if !python.is_ok_and(|status| status.success()) {
            println!("SKIPPED: {test}: there is no moto (python3 -m pip install 'moto[server]')");
            return None;
        }
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port on loopback");
        let port = listener.local_addr().expect("the address that was bound").port();
        drop(listener);
        let mut command = Command::new("python3");
        command.args(["-c", PROGRAM, &port.to_string(), threads]);
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let server = MotoServer { child: child.expect("moto starts"), port };
        let began = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(began.elapsed() < Duration::from_secs(60), "moto does not answer");
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
