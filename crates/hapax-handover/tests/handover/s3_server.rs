//! An S3 server of a test's own: moto's, on loopback, which ends with the test.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

pub(crate) struct Server {
    child: Child,
    port: u16,
}

impl Server {
    /// Starts a server; none, loudly, if there is no Python or no moto.
    pub(crate) fn start(test: &str) -> Option<Self> {
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
        command.args(["-m", "moto.server", "-H", "127.0.0.1", "-p", &port.to_string()]);
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let server = Server { child: child.expect("moto starts"), port };
        let began = Instant::now();
        while !server.makes_bucket() {
            assert!(began.elapsed() < Duration::from_secs(60), "moto does not answer");
            std::thread::sleep(Duration::from_millis(50));
        }
        Some(server)
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    fn makes_bucket(&self) -> bool {
        let Ok(mut stream) = TcpStream::connect(("127.0.0.1", self.port)) else { return false };
        let _ = stream.set_read_timeout(Some(Duration::from_secs(10)));
        let request = format!("PUT /hapax HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nContent-Length: 0\r\n\r\n", self.port);
        let mut answer = [0; 12];
        stream.write_all(request.as_bytes()).is_ok()
            && stream.read_exact(&mut answer).is_ok()
            && answer.ends_with(b"200")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
