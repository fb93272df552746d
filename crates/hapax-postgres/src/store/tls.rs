//! Connections by TLS: rustls with *ring*.

use super::BACKEND;
use super::errors::misconfigured;
use hapax_store::{ErrorKind, StoreError};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

/// The certificate authorities that we trust.
#[derive(Clone, Debug)]
pub(crate) struct Roots(Arc<RootCertStore>);

impl Roots {
    /// Reads the certificates in this text, or the platform's.
    pub(super) fn new(pem: Option<&str>) -> Result<Self, StoreError> {
        let mut roots = RootCertStore::empty();
        match pem {
            Some(pem) => {
                for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
                    let certificate = certificate.map_err(|error| wrong("expected certificates as PEM", error))?;
                    roots.add(certificate).map_err(|error| wrong("expected a root certificate", error))?;
                }
            }
            None => {
                // Some of a platform's certificates are usually of a kind that no library reads any
                // more.
                roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            }
        }
        if roots.is_empty() {
            Err(misconfigured("expected at least one root certificate"))
        } else {
            Ok(Roots(Arc::new(roots)))
        }
    }
}

fn wrong(what: &str, error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> StoreError {
    StoreError::caused(ErrorKind::Misconfigured, BACKEND, what, error)
}

/// A connector to any server.
#[derive(Clone)]
pub(crate) struct Connector(TlsConnector);

impl Connector {
    pub(crate) fn new(roots: Option<&Roots>) -> Result<Self, StoreError> {
        let roots = roots.map_or_else(|| Arc::new(RootCertStore::empty()), |roots| Arc::clone(&roots.0));
        let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| wrong("expected TLS versions", error))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        // Servers that speak TLS from the first byte want to know that the connection is for them.
        config.alpn_protocols = vec![b"postgresql".to_vec()];
        Ok(Connector(TlsConnector::from(Arc::new(config))))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> MakeTlsConnect<S> for Connector {
    type Stream = Encrypted<S>;
    type TlsConnect = ConnectorTo;
    type Error = io::Error;

    fn make_tls_connect(&mut self, host: &str) -> io::Result<ConnectorTo> {
        Ok(ConnectorTo { connector: self.0.clone(), host: host.to_owned() })
    }
}

/// A connector to one server.
pub(crate) struct ConnectorTo {
    connector: TlsConnector,
    host: String,
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> TlsConnect<S> for ConnectorTo {
    type Stream = Encrypted<S>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Encrypted<S>>> + Send>>;

    fn connect(self, stream: S) -> Self::Future {
        Box::pin(async move {
            let name = ServerName::try_from(self.host);
            let name = name.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
            self.connector.connect(name, stream).await.map(|stream| Encrypted(Box::new(stream)))
        })
    }
}

/// An encrypted connection. Passwords are not bound to it: the certificate alone identifies the
/// server.
pub(crate) struct Encrypted<S>(Box<TlsStream<S>>);

impl<S: AsyncRead + AsyncWrite + Unpin> tokio_postgres::tls::TlsStream for Encrypted<S> {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Encrypted<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, into)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Encrypted<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}
