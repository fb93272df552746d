//! Encrypted connections.

use super::options::Certificates;
use redis::{Client, ClientTlsConfig, ConnectionAddr, ConnectionInfo, RedisResult, TlsCertificates};

/// A client of a server that may be encrypted.
pub(super) fn client(info: ConnectionInfo, certificates: &Certificates) -> RedisResult<Client> {
    if !matches!(info.addr(), ConnectionAddr::TcpTls { .. }) {
        return Client::open(info);
    }
    // The client takes the process's cryptography. If the program has chosen one, that one stays.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client_tls = certificates
        .client
        .as_ref()
        .map(|(pem, key_pem)| ClientTlsConfig { client_cert: pem.clone(), client_key: key_pem.clone() });
    Client::build_with_tls(info, TlsCertificates { client_tls, root_cert: certificates.root.clone() })
}
