//! Endpoints: where a server is, and how a connection to it is made (TCP, a Unix socket, TLS, a
//! password).

use super::wire::{Stream, Wire};
use crate::resp::commands::Commands;
use crate::resp::errors::{error, handshake_failed, not_connected, refused};
use crate::resp::reply::Reply;
use ::redis::{ConnectionAddr, ConnectionInfo};
use hapax_store::{ErrorKind, StoreError};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;

/// The time limits of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default, deny_unknown_fields))]
pub(crate) struct Timing {
    pub(crate) connect_timeout: Duration,
    pub(crate) response_timeout: Duration,
    pub(crate) reconnect_wait_max: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        let two_seconds = Duration::from_secs(2);
        Timing { connect_timeout: two_seconds, response_timeout: two_seconds, reconnect_wait_max: two_seconds }
    }
}

/// The address of a server, with credentials, time limits and encryption.
#[derive(Clone)]
pub(crate) struct Endpoint {
    info: ConnectionInfo,
    timing: Timing,
    #[cfg(feature = "tls")]
    encryption: Option<super::tls::Encryption>,
}

impl Endpoint {
    #[cfg(feature = "tls")]
    pub(crate) fn new(info: ConnectionInfo, timing: Timing, encryption: Option<super::tls::Encryption>) -> Self {
        Endpoint { info, timing, encryption }
    }

    #[cfg(not(feature = "tls"))]
    pub(crate) fn new(info: ConnectionInfo, timing: Timing) -> Self {
        Endpoint { info, timing }
    }

    /// Returns the endpoint at another address, otherwise the same.
    pub(crate) fn moved(&self, host: &str, port: u16) -> Self {
        Endpoint { info: moved(&self.info, host, port), ..self.clone() }
    }

    pub(crate) fn address(&self) -> String {
        self.info.addr().to_string()
    }

    /// Connects and authenticates.
    pub(crate) async fn connect(&self) -> Result<Wire, StoreError> {
        let address = self.address();
        let no_connection = |cause| not_connected(cause, format!("no connection to {address}"));
        let stream = tokio::time::timeout(self.timing.connect_timeout, self.open()).await;
        let late = |_| io::Error::new(io::ErrorKind::TimedOut, format!("not within {:?}", self.timing.connect_timeout));
        let stream = stream.map_err(late).and_then(|connected| connected).map_err(no_connection)?;
        let wire = Wire::new(stream, self.timing.response_timeout);
        let greeting = self.greeting();
        if greeting.len() > 0 {
            let answered = wire.ask(Arc::new(greeting)).await.map_err(|why| handshake_failed(why, &address))?;
            for reply in answered.replies() {
                match reply {
                    Reply::Word(b"OK") => {}
                    Reply::Refusal(refusal) => return Err(refused(refusal)),
                    other => return Err(crate::resp::answers::unexpected("AUTH or SELECT", other)),
                }
            }
        }
        Ok(wire)
    }

    /// Opens the stream of bytes.
    async fn open(&self) -> io::Result<Box<dyn Stream>> {
        match self.info.addr() {
            ConnectionAddr::Tcp(host, port) => Ok(Box::new(tcp(host, *port).await?)),
            #[cfg(unix)]
            ConnectionAddr::Unix(path) => Ok(Box::new(tokio::net::UnixStream::connect(path).await?)),
            #[cfg(feature = "tls")]
            ConnectionAddr::TcpTls { host, port, .. } => match &self.encryption {
                Some(encryption) => Ok(Box::new(encryption.over(tcp(host, *port).await?, host).await?)),
                None => Err(io::ErrorKind::Unsupported.into()),
            },
            _ => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// Returns the commands that send the password and select the database.
    fn greeting(&self) -> Commands {
        let (settings, mut greeting) = (self.info.redis_settings(), Commands::default());
        match (settings.username(), settings.password()) {
            (Some(user), Some(password)) => greeting.add(&["AUTH", user, password]),
            (None, Some(password)) => greeting.add(&["AUTH", password]),
            (_, None) => {}
        }
        if settings.db() != 0 {
            greeting.add(&["SELECT", &settings.db().to_string()]);
        }
        greeting
    }
}

/// Refuses an address that this build cannot connect to.
pub(crate) fn check(info: &ConnectionInfo) -> Result<(), StoreError> {
    let wrong = |what: &str| Err(error(ErrorKind::Misconfigured, format!("{}: {what}", info.addr())));
    match info.addr() {
        ConnectionAddr::Tcp(..) => Ok(()),
        #[cfg(unix)]
        ConnectionAddr::Unix(_) => Ok(()),
        ConnectionAddr::TcpTls { insecure: true, .. } => wrong("connections whose server may be anybody are not made"),
        ConnectionAddr::TcpTls { .. } if cfg!(feature = "tls") => Ok(()),
        ConnectionAddr::TcpTls { .. } => wrong("encrypted connections take the feature `tls`"),
        _ => wrong("nobody knows the way there"),
    }
}

async fn tcp(host: &str, port: u16) -> io::Result<TcpStream> {
    let stream = TcpStream::connect((host, port)).await?;
    stream.set_nodelay(true)?;
    // A connection that is given up is reset: the kernel keeps nothing of it that it would send
    // again when the network is back. What was given up by then must not be carried out later.
    stream.set_zero_linger()?;
    Ok(stream)
}

/// Returns an address with the same credentials and encryption at another host and port.
pub(crate) fn moved(info: &ConnectionInfo, host: &str, port: u16) -> ConnectionInfo {
    let address = match info.addr().clone() {
        ConnectionAddr::TcpTls { insecure, tls_params, .. } => {
            ConnectionAddr::TcpTls { host: host.into(), port, insecure, tls_params }
        }
        _ => ConnectionAddr::Tcp(host.into(), port),
    };
    info.clone().set_addr(address)
}
