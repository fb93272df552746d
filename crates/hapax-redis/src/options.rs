//! The address of the server, and the time limits for it.

use crate::resp::errors::{BACKEND, error};
use crate::transport::endpoint::{self, Timing};
#[cfg(feature = "tls")]
use crate::transport::tls::Certificates;
use hapax_store::{ErrorKind, StoreError};
use redis::{ConnectionInfo, IntoConnectionInfo};
use std::fmt;
use std::time::Duration;

/// Options for a [`RedisStore`](super::RedisStore): the servers, and the names of the keys.
///
/// ```
/// use hapax_redis::RedisOptions;
/// use std::time::Duration;
///
/// let options = RedisOptions::single("redis://:password@127.0.0.1:6379/0", "billing")
///     .response_timeout(Duration::from_secs(1));
/// # assert!(!format!("{options:?}").contains("password@"));
/// let cluster = RedisOptions::cluster(["redis://10.0.0.1:7000", "redis://10.0.0.2:7000"], "billing");
/// let sentinels = ["redis://10.0.0.1:26379", "redis://10.0.0.2:26379", "redis://10.0.0.3:26379"];
/// let master = RedisOptions::sentinel("redis://:password@mymaster/0", sentinels, "billing");
/// ```
///
/// The *namespace* is the beginning of the names of all keys, before a colon: 1 to 32 of `A-Z a-z
/// 0-9 _ . -`. Two services on one server have different ones, or each would take the other's ids
/// for its own. All instances of a service have the same one, from one version to the next: a
/// service whose namespace changes knows no ids.
///
/// Nothing is checked before a store connects.
///
/// With the feature `serde` they are read and written, with the passwords that their URLs have;
/// only `urls` and `namespace` must be there. Certificates are left out: set them afterwards.
#[derive(Clone)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
pub struct RedisOptions {
    pub(super) urls: Vec<String>,
    #[cfg_attr(feature = "serde", serde(default, rename = "cluster"))]
    pub(super) in_cluster: bool,
    #[cfg_attr(feature = "serde", serde(default))]
    sentinels: Option<Vec<String>>,
    pub(super) namespace: String,
    #[cfg_attr(feature = "serde", serde(default))]
    pub(super) timing: Timing,
    #[cfg_attr(feature = "serde", serde(default, rename = "require_durable"))]
    pub(super) is_durable: bool,
    #[cfg(feature = "tls")]
    #[cfg_attr(feature = "serde", serde(skip))]
    pub(super) certificates: Certificates,
}

impl RedisOptions {
    /// Creates options for one server: `redis://[[user]:password@]host[:port][/database]`,
    /// `redis+unix:///path[?db=…&pass=…&user=…]`, and with the feature `tls` `rediss://…`.
    pub fn single(url: impl Into<String>, namespace: impl Into<String>) -> Self {
        Self::new(vec![url.into()], false, namespace.into())
    }

    /// Creates options for a cluster, by some of its nodes, which name the others. User, password
    /// and TLS are those of the first one.
    pub fn cluster(urls: impl IntoIterator<Item = impl Into<String>>, namespace: impl Into<String>) -> Self {
        Self::new(hapax::seam::collect(urls.into_iter().map(Into::into)), true, namespace.into())
    }

    /// Creates options for the master that Sentinels watch, wherever it is: they are asked each
    /// time that a connection is made.
    ///
    /// The URL is the master's, as for [`single`](RedisOptions::single), with the name that the
    /// Sentinels have for it in place of a host: `redis://:password@mymaster/0`. Name all
    /// Sentinels, each by its URL: they are asked at once, and one answer suffices. It is accepted
    /// only if the server itself reports that it is the master.
    pub fn sentinel(
        master: impl Into<String>,
        sentinels: impl IntoIterator<Item = impl Into<String>>,
        namespace: impl Into<String>,
    ) -> Self {
        let sentinels = Some(sentinels.into_iter().map(Into::into).collect());
        RedisOptions { sentinels, ..Self::single(master, namespace) }
    }

    fn new(urls: Vec<String>, in_cluster: bool, namespace: String) -> Self {
        RedisOptions {
            urls,
            in_cluster,
            sentinels: None,
            namespace,
            timing: Timing::default(),
            is_durable: false,
            #[cfg(feature = "tls")]
            certificates: Certificates::default(),
        }
    }

    /// Sets the time limit for a connection. Default: two seconds.
    pub fn connect_timeout(mut self, wait: Duration) -> Self {
        self.timing.connect_timeout = wait;
        self
    }

    /// Sets the time limit for the answers to a batch. Then the batch has failed with
    /// [`ErrorKind::Timeout`], and its connection is made anew, also if the caller has given up
    /// before. In a cluster, parts of a batch fail, too, when their nodes are silent for a quarter
    /// of that time longer than another node. Default: two seconds.
    pub fn response_timeout(mut self, wait: Duration) -> Self {
        self.timing.response_timeout = wait;
        self
    }

    /// Sets the longest wait between two attempts to connect. The wait begins with 10 ms and
    /// doubles, each shortened at random by up to a half; meanwhile, requests fail at once.
    /// Default: two seconds.
    pub fn reconnect_wait_max(mut self, wait: Duration) -> Self {
        self.timing.reconnect_wait_max = wait;
        self
    }

    /// Refuses a server that may forget acknowledged ids (see [`RedisRisk`](super::RedisRisk)),
    /// with [`ErrorKind::Misconfigured`]. By default, such a server is used, and
    /// [`RedisStore::warnings`](super::RedisStore::warnings) reports it.
    ///
    /// This is checked with each connection. Managed services often keep no append-only file: they
    /// promise replication instead, and this option refuses them.
    pub fn require_durable(mut self, is_required: bool) -> Self {
        self.is_durable = is_required;
        self
    }

    /// Trusts servers whose certificates are signed by this one (PEM), instead of those that the
    /// system trusts.
    #[cfg(feature = "tls")]
    pub fn root_certificate(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.certificates.root = Some(pem.into());
        self
    }

    /// Presents this certificate (PEM) and its key to servers.
    #[cfg(feature = "tls")]
    pub fn client_certificate(mut self, pem: impl Into<Vec<u8>>, key_pem: impl Into<Vec<u8>>) -> Self {
        self.certificates.client = Some((pem.into(), key_pem.into()));
        self
    }

    /// Returns the servers' addresses, with credentials.
    pub(super) fn addresses(&self) -> Result<Vec<ConnectionInfo>, StoreError> {
        if self.urls.is_empty() {
            return Err(error(ErrorKind::Misconfigured, "a cluster is reached by at least one address, there is none"));
        }
        self.urls.iter().map(|url| address(url)).collect()
    }

    /// Returns the Sentinels' addresses, if Sentinels are to be asked.
    pub(super) fn sentinels(&self) -> Result<Option<Vec<ConnectionInfo>>, StoreError> {
        self.sentinels.as_ref().map(|urls| urls.iter().map(|url| address(url)).collect()).transpose()
    }
}

fn address(url: &str) -> Result<ConnectionInfo, StoreError> {
    let scheme = url.split_once("://").map_or("", |(scheme, _)| scheme);
    if scheme.contains("sentinel") {
        let wrong = format!("{scheme}:// is none: name the master and its Sentinels by RedisOptions::sentinel");
        return Err(error(ErrorKind::Misconfigured, wrong));
    }
    // (The message names the error, not the URL, which may have a password.)
    let wrong = "an address is no URL as in redis://127.0.0.1:6379/0";
    let info = url.into_connection_info();
    let info = info.map_err(|cause| StoreError::caused(ErrorKind::Misconfigured, BACKEND, wrong, cause))?;
    endpoint::check(&info)?;
    Ok(info)
}

impl fmt::Debug for RedisOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let addresses: Vec<String> = match self.addresses() {
            Ok(infos) => infos.iter().map(|info| info.addr().to_string()).collect(),
            Err(_) => vec!["invalid".into()],
        };
        f.debug_struct("RedisOptions")
            .field("addresses", &addresses)
            .field("in_cluster", &self.in_cluster)
            .field("sentinels", &self.sentinels.as_ref().map(Vec::len))
            .field("namespace", &self.namespace)
            .field("timing", &self.timing)
            .field("is_durable", &self.is_durable)
            .finish_non_exhaustive()
    }
}

#[cfg(all(test, feature = "serde"))]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_as_they_were_written() {
        let options = RedisOptions::sentinel("redis://:secret@mymaster/1", ["redis://a:26379"], "orders")
            .response_timeout(Duration::from_millis(500))
            .require_durable(true);
        let written = serde_json::to_value(&options).unwrap();
        let read: RedisOptions = serde_json::from_value(written.clone()).unwrap();
        assert_eq!(serde_json::to_value(&read).unwrap(), written);
        assert_eq!((&read.urls, &read.sentinels), (&options.urls, &options.sentinels));
        assert_eq!((&read.namespace, read.timing, read.is_durable), (&options.namespace, options.timing, true));

        let least: RedisOptions =
            serde_json::from_str(r#"{"urls": ["redis://a", "redis://b"], "cluster": true, "namespace": "orders"}"#)
                .unwrap();
        let same = RedisOptions::cluster(["redis://a", "redis://b"], "orders");
        assert_eq!(serde_json::to_value(&least).unwrap(), serde_json::to_value(&same).unwrap());
        for wrong in ["name", "timing", "urls", "namespace"] {
            let mut options = serde_json::to_value(&least).unwrap();
            options[wrong] = serde_json::json!({"x": 1});
            assert!(serde_json::from_value::<RedisOptions>(options.clone()).is_err(), "{options}");
            if wrong == "urls" || wrong == "namespace" {
                options.as_object_mut().unwrap().remove(wrong);
                let error = serde_json::from_value::<RedisOptions>(options).unwrap_err();
                assert!(error.to_string().contains(wrong), "{error}");
            }
        }
    }
}
