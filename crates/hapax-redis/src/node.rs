//! A server, reached by two connections.

use super::commands::Commands;
use super::connection::{Link, Reach, Terms};
use super::dial::Dialer;
use super::errors::error;
use super::introduction::{Introduction, questions};
use super::met::{Losses, Met};
use super::options::{RedisOptions, Timing};
use super::risk::RedisWarning;
use super::sentinel::Sentinels;
use super::wire::Answered;
use ::redis::{ConnectionAddr, ConnectionInfo};
use hapax_store::sync::{Mutex, Ordering, StdAtomicU64};
use hapax_store::{ErrorKind, StoreError};
use std::sync::{Arc, Weak};

/// The number of connections to each server. One would do for the server; the client is faster with
/// two.
const CONNECTIONS: usize = 2;

pub(super) struct Node {
    address: String,
    number: Arc<u32>,
    links: Vec<Link>,
    turn: StdAtomicU64,
    met: Arc<Met>,
}

impl Node {
    pub(super) fn address(&self) -> &str {
        &self.address
    }

    /// Returns the node's number, which is the same as long as a node of this address is known:
    /// from 1 in a cluster, otherwise 0.
    pub(super) fn number(&self) -> u32 {
        *self.number
    }

    /// Returns the noticed losses of the servers at this address.
    pub(super) fn losses(&self) -> &Losses {
        self.met.losses()
    }

    pub(super) fn warnings(&self) -> Vec<RedisWarning> {
        self.met.warnings(&self.address)
    }

    pub(super) async fn ask(&self, commands: Arc<Commands>) -> Result<Answered, StoreError> {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed) as usize;
        self.links[turn % self.links.len()].send(commands).await
    }

    /// Connects, and reads the server's introduction.
    pub(super) async fn meet(&self) -> Result<(), StoreError> {
        self.links[0].connected().await.map(drop)
    }

    /// Reads the server's introduction again.
    pub(super) async fn look_after(&self) -> Result<(), StoreError> {
        let answered = self.ask(Arc::new(questions())).await?;
        self.met.meet(&self.address, &Introduction::read(answered.replies(), &self.address)?);
        Ok(())
    }
}

/// The way to reach a node, given its address.
pub(super) struct Connector {
    timing: Timing,
    terms: Terms,
    /// Addresses of a cluster's nodes and their numbers.
    numbers: Mutex<Vec<(String, Weak<u32>)>>,
    #[cfg(feature = "tls")]
    encryption: Option<super::tls::Encryption>,
}

impl Connector {
    #[cfg_attr(not(feature = "tls"), allow(unused_variables, reason = "only encryption depends on the address"))]
    pub(super) fn new(options: &RedisOptions, seeds: &[ConnectionInfo]) -> Result<Self, StoreError> {
        Ok(Connector {
            timing: options.timing,
            terms: Terms { in_cluster: options.in_cluster, is_durable: options.is_durable },
            numbers: Mutex::default(),
            #[cfg(feature = "tls")]
            encryption: {
                let sentinels = options.sentinels()?.unwrap_or_default();
                let is_encrypted = |info: &ConnectionInfo| matches!(info.addr(), ConnectionAddr::TcpTls { .. });
                let is_needed = seeds.iter().chain(&sentinels).any(is_encrypted);
                is_needed.then(|| super::tls::Encryption::new(&options.certificates)).transpose()?
            },
        })
    }

    pub(super) fn node(&self, info: &ConnectionInfo) -> Arc<Node> {
        let dialer = self.dialer(info.clone());
        self.linked(info.addr().to_string(), || Reach::At(Box::new(dialer.clone())))
    }

    /// Returns the master that Sentinels know by the host's name of this address.
    pub(super) fn master(
        self: &Arc<Self>,
        like: &ConnectionInfo,
        sentinels: &[ConnectionInfo],
    ) -> Result<Arc<Node>, StoreError> {
        let master = match like.addr() {
            ConnectionAddr::Tcp(host, _) | ConnectionAddr::TcpTls { host, .. } => host.clone(),
            _ => {
                let wrong = "a master is named by the host in its URL, as in redis://mymaster/0: a path names none";
                return Err(error(ErrorKind::Misconfigured, wrong));
            }
        };
        if sentinels.is_empty() {
            return Err(error(ErrorKind::Misconfigured, "a master is found by at least one Sentinel, there is none"));
        }
        let dialers = sentinels.iter().map(|sentinel| self.dialer(sentinel.clone())).collect();
        let sentinels = Sentinels { master: master.clone(), dialers };
        let reach = || Reach::By(Arc::clone(self), Box::new(sentinels.clone()), Box::new(like.clone()));
        Ok(self.linked(format!("{master}, by Sentinels"), reach))
    }

    fn linked(&self, address: String, reach: impl Fn() -> Reach) -> Arc<Node> {
        let met = Arc::<Met>::default();
        let link = |_| Link::new(reach(), self.timing, self.terms, Arc::clone(&met));
        let links = (0..CONNECTIONS).map(link).collect();
        let number = if self.terms.in_cluster { self.number(&address) } else { Arc::default() };
        Arc::new(Node { address, number, links, turn: StdAtomicU64::new(0), met })
    }

    /// Returns a number that no other address has. Numbers stay small: those of nodes that are gone
    /// are used again.
    fn number(&self, address: &str) -> Arc<u32> {
        let mut numbers = self.numbers.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(number) = numbers.iter().find(|known| known.0 == address).and_then(|known| known.1.upgrade()) {
            return number;
        }
        let place = numbers.iter().position(|known| known.1.strong_count() == 0).unwrap_or(numbers.len());
        let number = Arc::new(place as u32 + 1);
        let entry = (address.to_owned(), Arc::downgrade(&number));
        match numbers.get_mut(place) {
            Some(unused) => *unused = entry,
            None => numbers.push(entry),
        }
        number
    }

    pub(super) fn dialer(&self, info: ConnectionInfo) -> Dialer {
        #[cfg(feature = "tls")]
        return Dialer::new(info, self.timing, self.encryption.clone());
        #[cfg(not(feature = "tls"))]
        Dialer::new(info, self.timing)
    }
}
