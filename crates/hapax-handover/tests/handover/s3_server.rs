//! An S3 server of a test's own, with a bucket.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;
use testkit::moto_server::MotoServer;

pub(crate) struct Server(MotoServer);

impl Server {
    /// Starts a server; none, loudly, if there is no Python or no moto.
    pub(crate) fn start() -> Option<Self> {
        let server = Server(MotoServer::start()?);
        server.make_bucket().expect("a bucket");
        Some(server)
    }

    pub(crate) fn url(&self) -> String {
        self.0.url()
    }

    fn make_bucket(&self) -> std::io::Result<()> {
        let port = self.0.port();
        let mut stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_read_timeout(Some(Duration::from_secs(60)))?;
        let request = format!("PUT /hapax HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Length: 0\r\n\r\n");
        stream.write_all(request.as_bytes())?;
        let mut answer = [0; 12];
        stream.read_exact(&mut answer)?;
        assert!(answer.ends_with(b"200"), "{}", answer.escape_ascii());
        Ok(())
    }
}
