//! Encrypted connections: rustls with *ring*.

use crate::resp::errors::error;
use hapax_store::{ErrorKind, StoreError};
use std::io;
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

/// Certificates in PEM.
#[derive(Clone, Default)]
pub(crate) struct Certificates {
    /// The trusted ones; `None` for the system's.
    pub(crate) root: Option<Vec<u8>>,
    /// Our certificate and its key.
    pub(crate) client: Option<(Vec<u8>, Vec<u8>)>,
}

/// The trusted certificates, and our own.
#[derive(Clone)]
pub(crate) struct Encryption(TlsConnector);

impl Encryption {
    pub(crate) fn new(certificates: &Certificates) -> Result<Self, StoreError> {
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|cause| wrong("expected TLS versions", cause))?
            .with_root_certificates(roots(certificates.root.as_deref())?);
        let config = match &certificates.client {
            None => config.with_no_client_auth(),
            Some((chain, key)) => {
                let chain = CertificateDer::pem_slice_iter(chain).collect::<Result<Vec<_>, _>>();
                let chain = chain.map_err(|cause| wrong("expected the client's certificate as PEM", cause))?;
                let key = PrivateKeyDer::from_pem_slice(key);
                let key = key.map_err(|cause| wrong("expected the client's key as PEM", cause))?;
                let config = config.with_client_auth_cert(chain, key);
                config.map_err(|cause| wrong("expected a certificate and its key", cause))?
            }
        };
        Ok(Encryption(TlsConnector::from(Arc::new(config))))
    }

    /// Encrypts a connection to this host.
    pub(crate) async fn over(&self, stream: TcpStream, host: &str) -> io::Result<TlsStream<TcpStream>> {
        let name = ServerName::try_from(host.to_owned());
        let name = name.map_err(|cause| io::Error::new(io::ErrorKind::InvalidInput, cause))?;
        self.0.connect(name, stream).await
    }
}

/// Reads the certificates in this text, or the platform's.
fn roots(pem: Option<&[u8]>) -> Result<RootCertStore, StoreError> {
    let mut roots = RootCertStore::empty();
    match pem {
        Some(pem) => {
            for certificate in CertificateDer::pem_slice_iter(pem) {
                let certificate = certificate.map_err(|cause| wrong("expected certificates as PEM", cause))?;
                roots.add(certificate).map_err(|cause| wrong("expected a root certificate", cause))?;
            }
        }
        None => {
            // Some of a platform's certificates are usually of a kind that no library reads any
            // more.
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
    }
    if roots.is_empty() {
        return Err(error(ErrorKind::Misconfigured, "expected at least one root certificate, there is none"));
    }
    Ok(roots)
}

fn wrong(what: &str, cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> StoreError {
    StoreError::caused(ErrorKind::Misconfigured, crate::resp::errors::BACKEND, what, cause)
}
