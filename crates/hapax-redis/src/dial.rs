//! New connections: by TCP, by a Unix socket, encrypted; with a name and a password.

use super::commands::Commands;
use super::errors::{error, not_connected, not_introduced, refused};
use super::options::Timing;
use super::reply::Reply;
use super::wire::{Stream, Wire};
use ::redis::{ConnectionAddr, ConnectionInfo};
use hapax_store::{ErrorKind, StoreError};
use std::io;
use std::sync::Arc;
use tokio::net::TcpStream;

/// The way to a server, by its address, and the credentials to send there.
#[derive(Clone)]
pub(super) struct Dialer {
    info: ConnectionInfo,
    timing: Timing,
    #[cfg(feature = "tls")]
    encryption: Option<super::tls::Encryption>,
}

impl Dialer {
    #[cfg(feature = "tls")]
    pub(super) fn new(info: ConnectionInfo, timing: Timing, encryption: Option<super::tls::Encryption>) -> Self {
        Dialer { info, timing, encryption }
    }

    #[cfg(not(feature = "tls"))]
    pub(super) fn new(info: ConnectionInfo, timing: Timing) -> Self {
        Dialer { info, timing }
    }

    pub(super) fn address(&self) -> String {
        self.info.addr().to_string()
    }

    /// Connects and authenticates.
    pub(super) async fn dial(&self) -> Result<Wire, StoreError> {
        let address = self.address();
        let no_connection = |cause| not_connected(cause, format!("no connection to {address}"));
        let stream = tokio::time::timeout(self.timing.connect_timeout, self.connect()).await;
        let late = |_| io::Error::new(io::ErrorKind::TimedOut, format!("not within {:?}", self.timing.connect_timeout));
        let stream = stream.map_err(late).and_then(|connected| connected).map_err(no_connection)?;
        let wire = Wire::new(stream, self.timing.response_timeout);
        let greeting = self.greeting();
        if greeting.len() > 0 {
            let answered = wire.ask(Arc::new(greeting)).await.map_err(|why| not_introduced(why, &address))?;
            for reply in answered.replies() {
                match reply {
                    Reply::Word(b"OK") => {}
                    Reply::Refusal(refusal) => return Err(refused(refusal)),
                    other => return Err(super::answers::unexpected("AUTH or SELECT", other)),
                }
            }
        }
        Ok(wire)
    }

    async fn connect(&self) -> io::Result<Box<dyn Stream>> {
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
pub(super) fn check(info: &ConnectionInfo) -> Result<(), StoreError> {
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
    Ok(stream)
}

/// Returns an address with the same credentials and encryption at another host and port.
pub(super) fn moved(info: &ConnectionInfo, host: &str, port: u16) -> ConnectionInfo {
    let address = match info.addr().clone() {
        ConnectionAddr::TcpTls { insecure, tls_params, .. } => {
            ConnectionAddr::TcpTls { host: host.into(), port, insecure, tls_params }
        }
        _ => ConnectionAddr::Tcp(host.into(), port),
    };
    info.clone().set_addr(address)
}
