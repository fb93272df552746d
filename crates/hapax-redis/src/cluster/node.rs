//! A server, reached by two connections.

use crate::options::RedisOptions;
use crate::resp::commands::Commands;
use crate::resp::errors::error;
use crate::server::info::{ServerInfo, info_commands};
use crate::server::warning::RedisWarning;
use crate::server::watch::{Losses, Watch};
use crate::transport::connection::{Connection, Requirements, Target};
use crate::transport::endpoint::{Endpoint, Timing};
use crate::transport::sentinel::Sentinels;
use crate::transport::wire::Answered;
use ::redis::{ConnectionAddr, ConnectionInfo};
use hapax_store::sync::{Mutex, Ordering, StdAtomicU64, lock};
use hapax_store::{ErrorKind, StoreError};
use std::sync::{Arc, Weak};

/// The number of connections to each server. One would do for the server; the client is faster with
/// two.
const CONNECTIONS: usize = 2;

pub(crate) struct Node {
    address: String,
    number: Arc<u32>,
    connections: Vec<Connection>,
    turn: StdAtomicU64,
    watch: Arc<Watch>,
}

impl Node {
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// Returns the node's number, which is the same as long as a node of this address is known:
    /// from 1 in a cluster, otherwise 0.
    pub(crate) fn number(&self) -> u32 {
        *self.number
    }

    /// Returns the noticed losses of the servers at this address.
    pub(crate) fn losses(&self) -> &Losses {
        self.watch.losses()
    }

    pub(crate) fn warnings(&self) -> Vec<RedisWarning> {
        self.watch.warnings(&self.address)
    }

    pub(crate) async fn ask(&self, commands: Arc<Commands>) -> Result<Answered, StoreError> {
        self.connections.iter().for_each(Connection::mend);
        let turn = self.turn.fetch_add(1, Ordering::Relaxed) as usize;
        self.connections[turn % self.connections.len()].send(commands).await
    }

    /// Connects, and reads the server's information about itself.
    pub(crate) async fn connect(&self) -> Result<(), StoreError> {
        self.connections[0].connected().await.map(drop)
    }

    /// Reads the server's information about itself again.
    pub(crate) async fn check(&self) -> Result<(), StoreError> {
        let answered = self.ask(Arc::new(info_commands())).await?;
        self.watch.observe(&self.address, &ServerInfo::read(answered.replies(), &self.address)?);
        Ok(())
    }
}

/// The way to reach a node, given its address.
pub(crate) struct Connector {
    timing: Timing,
    requirements: Requirements,
    /// Addresses of a cluster's nodes and their numbers.
    numbers: Mutex<Vec<(String, Weak<u32>)>>,
    #[cfg(feature = "tls")]
    encryption: Option<crate::transport::tls::Encryption>,
}

impl Connector {
    #[cfg_attr(not(feature = "tls"), allow(unused_variables, reason = "only encryption depends on the address"))]
    pub(crate) fn new(options: &RedisOptions, seeds: &[ConnectionInfo]) -> Result<Self, StoreError> {
        Ok(Connector {
            timing: options.timing,
            requirements: Requirements { in_cluster: options.in_cluster, is_durable: options.is_durable },
            numbers: Mutex::default(),
            #[cfg(feature = "tls")]
            encryption: {
                let sentinels = options.sentinels()?.unwrap_or_default();
                let is_encrypted = |info: &ConnectionInfo| matches!(info.addr(), ConnectionAddr::TcpTls { .. });
                let is_needed = seeds.iter().chain(&sentinels).any(is_encrypted);
                is_needed.then(|| crate::transport::tls::Encryption::new(&options.certificates)).transpose()?
            },
        })
    }

    pub(crate) fn node(&self, info: &ConnectionInfo) -> Arc<Node> {
        let endpoint = self.endpoint(info.clone());
        self.linked(info.addr().to_string(), || Target::At(Box::new(endpoint.clone())))
    }

    /// Returns the master that Sentinels know by the host's name of this address.
    pub(crate) fn master(&self, like: &ConnectionInfo, sentinels: &[ConnectionInfo]) -> Result<Arc<Node>, StoreError> {
        let name = match like.addr() {
            ConnectionAddr::Tcp(host, _) | ConnectionAddr::TcpTls { host, .. } => host.clone(),
            _ => {
                let wrong = "a master is named by the host in its URL, as in redis://mymaster/0: a path names none";
                return Err(error(ErrorKind::Misconfigured, wrong));
            }
        };
        if sentinels.is_empty() {
            return Err(error(ErrorKind::Misconfigured, "a master is found by at least one Sentinel, there is none"));
        }
        let endpoints = sentinels.iter().map(|sentinel| self.endpoint(sentinel.clone())).collect();
        let sentinels = Sentinels { master: name.clone(), endpoints };
        let master = self.endpoint(like.clone());
        let target = || Target::Master(Box::new(master.clone()), Box::new(sentinels.clone()));
        Ok(self.linked(format!("{name}, by Sentinels"), target))
    }

    fn linked(&self, address: String, target: impl Fn() -> Target) -> Arc<Node> {
        let watch = Arc::<Watch>::default();
        let connection = |_| Connection::new(target(), self.timing, self.requirements, Arc::clone(&watch));
        let connections = (0..CONNECTIONS).map(connection).collect();
        let number = if self.requirements.in_cluster { self.number(&address) } else { Arc::default() };
        Arc::new(Node { address, number, connections, turn: StdAtomicU64::new(0), watch })
    }

    /// Returns a number that no other address has. Numbers stay small: those of nodes that are gone
    /// are used again.
    fn number(&self, address: &str) -> Arc<u32> {
        let mut numbers = lock(&self.numbers);
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

    pub(crate) fn endpoint(&self, info: ConnectionInfo) -> Endpoint {
        #[cfg(feature = "tls")]
        return Endpoint::new(info, self.timing, self.encryption.clone());
        #[cfg(not(feature = "tls"))]
        Endpoint::new(info, self.timing)
    }
}
