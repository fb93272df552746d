//! Who is asked what: one server, or the nodes of a cluster.
//!
//! A cluster's client of our own, since what a batch asks for lies in many slots: commands are sorted by the node that owns their keys' slots,
//! each node gets one pipeline, and all of them at once. Whatever a node says is elsewhere is asked for there: it has not been done.

use super::connection::{Link, Met, Reach};
use super::errors::{error, refused};
use super::keys::SLOTS;
use super::options::{RedisOptions, Timing};
use super::scripts::Script;
use super::sentinel::Sentinels;
use super::topology::{self, Owned};
use crate::store::{Answers, ErrorKind, StoreError};
use crate::sync::{Mutex, Ordering, StdAtomicBool, StdAtomicU64};
use redis::{Client, Cmd, ConnectionAddr, ConnectionInfo, Pipeline, Value, cmd};
use std::sync::Arc;
use tokio::task::JoinSet;

/// How often what was redirected is asked for elsewhere.
const REDIRECTIONS: usize = 4;
/// Connections to each server. One would do for the server; the client is faster with two.
const CONNECTIONS: usize = 2;

/// A command, and the slot of its key.
pub(super) struct Command {
    pub(super) slot: u16,
    pub(super) cmd: Cmd,
}

/// One server, or those of a cluster.
pub(super) struct Servers {
    seeds: Vec<ConnectionInfo>,
    in_cluster: bool,
    connector: Arc<Connector>,
    map: Mutex<Arc<Map>>,
    /// A node could not be reached: the slots may have moved.
    is_stale: StdAtomicBool,
    refreshing: tokio::sync::Mutex<()>,
}

struct Map {
    /// By address.
    nodes: Vec<Arc<Node>>,
    /// The node of each slot, if it has any. Of a single server: empty.
    owners: Vec<Option<u16>>,
}

pub(super) struct Node {
    address: String,
    links: Vec<Link>,
    turn: StdAtomicU64,
    met: Arc<Met>,
}

impl Node {
    pub(super) fn address(&self) -> &str {
        &self.address
    }

    /// The number of times that another server was met here that had no key.
    pub(super) fn emptied(&self) -> u64 {
        self.met.emptied()
    }

    pub(super) async fn send(&self, pipeline: &Pipeline) -> Result<Vec<Value>, StoreError> {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed) as usize;
        self.links[turn % self.links.len()].send(pipeline).await
    }
}

/// How to reach a node, given its address.
pub(super) struct Connector {
    timing: Timing,
    in_cluster: bool,
    #[cfg(feature = "tls")]
    certificates: super::options::Certificates,
}

impl Connector {
    fn node(&self, info: &ConnectionInfo) -> Result<Arc<Node>, StoreError> {
        let client = self.client(info.clone())?;
        Ok(self.linked(info.addr().to_string(), || Reach::At(Box::new(client.clone()))))
    }

    /// The master that Sentinels know by the host's name of this address.
    fn master(self: &Arc<Self>, like: &ConnectionInfo, sentinels: &[ConnectionInfo]) -> Result<Arc<Node>, StoreError> {
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
        let clients = sentinels.iter().map(|sentinel| self.client(sentinel.clone()));
        let sentinels = Sentinels { master: master.clone(), clients: clients.collect::<Result<_, _>>()? };
        let reach = || Reach::By(Arc::clone(self), Box::new(sentinels.clone()), Box::new(like.clone()));
        Ok(self.linked(format!("{master}, by Sentinels"), reach))
    }

    fn linked(&self, address: String, reach: impl Fn() -> Reach) -> Arc<Node> {
        let met = Arc::<Met>::default();
        let link = |_| Link::new(reach(), self.timing, self.in_cluster, Arc::clone(&met));
        let links = (0..CONNECTIONS).map(link).collect();
        Arc::new(Node { address, links, turn: StdAtomicU64::new(0), met })
    }

    pub(super) fn client(&self, info: ConnectionInfo) -> Result<Client, StoreError> {
        let address = info.addr().to_string();
        #[cfg(feature = "tls")]
        let client = super::tls::client(info, &self.certificates);
        #[cfg(not(feature = "tls"))]
        let client = Client::open(info);
        client.map_err(|cause| super::errors::not_connected(cause, format!("{address} cannot be connected to")))
    }
}

/// What is still to be asked for: its place in the batch, and where.
struct Asked {
    place: usize,
    command: Command,
    to: To,
}

#[derive(Clone, PartialEq)]
enum To {
    /// Whoever owns its slot.
    Owner,
    /// A node that is about to own it.
    Importer(String),
}

impl Servers {
    /// The servers, one of which must answer.
    pub(super) async fn connect(options: &RedisOptions) -> Result<Self, StoreError> {
        let protocol = if options.speaks_resp3 { redis::ProtocolVersion::RESP3 } else { redis::ProtocolVersion::RESP2 };
        let with_protocol = |info: ConnectionInfo| {
            let settings = info.redis_settings().clone().set_protocol(protocol);
            info.set_redis_settings(settings)
        };
        let seeds: Vec<ConnectionInfo> = options.addresses()?.into_iter().map(with_protocol).collect();
        let connector = Arc::new(Connector {
            timing: options.timing,
            in_cluster: options.in_cluster,
            #[cfg(feature = "tls")]
            certificates: options.certificates.clone(),
        });
        let nodes = match options.sentinels()? {
            _ if options.in_cluster => vec![],
            // RESP2 does for the one question that they are asked.
            Some(sentinels) => vec![connector.master(&seeds[0], &sentinels)?],
            None => vec![connector.node(&seeds[0])?],
        };
        let servers = Servers {
            seeds,
            in_cluster: options.in_cluster,
            connector,
            map: Mutex::new(Arc::new(Map { nodes, owners: vec![] })),
            is_stale: StdAtomicBool::new(false),
            refreshing: tokio::sync::Mutex::default(),
        };
        if options.in_cluster {
            servers.refresh().await?;
        }
        Ok(servers)
    }

    pub(super) fn in_cluster(&self) -> bool {
        self.in_cluster
    }

    /// Those that own slots, by address.
    pub(super) fn nodes(&self) -> Vec<Arc<Node>> {
        self.map().nodes.clone()
    }

    fn map(&self) -> Arc<Map> {
        // A panic elsewhere leaves a whole map: it is replaced in one step.
        Arc::clone(&self.map.lock().unwrap_or_else(|poisoned| poisoned.into_inner()))
    }

    /// Asks each command's server, once, and again only if it said that it has not done it: because the slot is elsewhere, or it does not know
    /// the script.
    pub(super) async fn ask(&self, commands: Vec<Command>, script: Option<&Script>) -> Answers<Value> {
        if self.is_stale.swap(false, Ordering::Relaxed) {
            self.refresh().await?;
        }
        let mut answers: Vec<Option<Result<Value, StoreError>>> = commands.iter().map(|_| None).collect();
        let mut asked: Vec<Asked> =
            (0..).zip(commands).map(|(place, command)| Asked { place, command, to: To::Owner }).collect();
        let mut load = None;
        for round in 0..=REDIRECTIONS {
            let mut again = Vec::new();
            for (batch, sent) in self.send(asked, load).await? {
                self.sort(batch, sent, round < REDIRECTIONS, &mut answers, &mut again)?;
            }
            if again.is_empty() {
                break;
            }
            // Also after a redirection: another node may not know the script.
            load = script;
            if self.in_cluster && again.iter().any(|asked| asked.to == To::Owner) {
                self.refresh().await?;
            }
            again.sort_by_key(|asked| asked.place);
            asked = again;
        }
        let unanswered = || Err(error(ErrorKind::Unavailable, "the cluster sends whoever asks from node to node"));
        Ok(answers.into_iter().map(|answer| answer.unwrap_or_else(unanswered)).collect())
    }

    /// Puts answers in their places, and what was not done on the list of what to ask again.
    fn sort(
        &self,
        batch: Batch,
        sent: Result<Vec<Value>, StoreError>,
        may_ask_again: bool,
        answers: &mut [Option<Result<Value, StoreError>>],
        again: &mut Vec<Asked>,
    ) -> Result<(), StoreError> {
        let values = match sent {
            Ok(values) => values,
            // The only server: nothing came of the batch.
            Err(failure) if !self.in_cluster => return Err(failure),
            Err(failure) => {
                self.is_stale.store(true, Ordering::Relaxed);
                for &(place, _, _) in &batch.asked {
                    answers[place] = Some(Err(failure.clone()));
                }
                return Ok(());
            }
        };
        let replies = batch.pipeline.cmd_iter().zip(values).skip(batch.preamble);
        let replies = replies.filter(|(cmd, _)| !is_asking(cmd));
        for ((place, slot, to), (cmd, value)) in batch.asked.into_iter().zip(replies) {
            let to = match &value {
                Value::ServerError(refusal) if may_ask_again => match (refusal.code(), self.in_cluster) {
                    ("NOSCRIPT", _) => Some(to),
                    ("MOVED", true) => Some(To::Owner),
                    ("ASK", true) => topology::redirection(refusal.details()).map(To::Importer),
                    _ => None,
                },
                _ => None,
            };
            match (to, value) {
                (Some(to), _) => again.push(Asked { place, command: Command { slot, cmd: cmd.clone() }, to }),
                (None, Value::ServerError(refusal)) if refusal.code() == "MOVED" && !self.in_cluster => {
                    let wrong = "this server is a node of a cluster: connect to it as such";
                    return Err(error(ErrorKind::Misconfigured, wrong));
                }
                (None, Value::ServerError(refusal)) => answers[place] = Some(Err(refused(&refusal))),
                (None, value) => answers[place] = Some(Ok(value)),
            }
        }
        Ok(())
    }

    /// Sends each server its share.
    async fn send(&self, asked: Vec<Asked>, load: Option<&Script>) -> Result<Sent, StoreError> {
        let mut batches = self.share_out(asked, load)?;
        if batches.len() == 1 {
            let (node, batch) = batches.remove(0);
            let sent = match node {
                Some(node) => node.send(&batch.pipeline).await,
                None => Err(topology::no_owner()),
            };
            return Ok(vec![(batch, sent)]);
        }
        let mut under_way = JoinSet::new();
        for (node, batch) in batches {
            under_way.spawn(async move {
                let sent = match node {
                    Some(node) => node.send(&batch.pipeline).await,
                    None => Err(topology::no_owner()),
                };
                (batch, sent)
            });
        }
        Ok(under_way.join_all().await)
    }

    /// Who gets which commands, in their order.
    fn share_out(&self, asked: Vec<Asked>, load: Option<&Script>) -> Result<Vec<Share>, StoreError> {
        let map = self.map();
        let mut batches: Vec<Share> = Vec::new();
        for Asked { place, command, to } in asked {
            let node = match &to {
                To::Owner => map.owner(command.slot),
                To::Importer(address) => Some(self.importer(&map, address)?),
            };
            let address = node.as_ref().map(|node| node.address());
            let known = batches.iter().position(|(other, _)| other.as_ref().map(|other| other.address()) == address);
            let i = known.unwrap_or_else(|| {
                batches.push((node, Batch::new(load)));
                batches.len() - 1
            });
            batches[i].1.push(place, command, to);
        }
        Ok(batches)
    }

    /// A node that nobody has told us about but another one.
    fn importer(&self, map: &Map, address: &str) -> Result<Arc<Node>, StoreError> {
        match map.nodes.iter().find(|node| node.address() == address) {
            Some(node) => Ok(Arc::clone(node)),
            None => {
                let (host, port) = topology::host_and_port(address)?;
                self.connector.node(&self.at(host, port))
            }
        }
    }

    /// Asks the nodes, one after the other until one knows, who owns which slots.
    async fn refresh(&self) -> Result<(), StoreError> {
        let before = self.map();
        let _one_at_a_time = self.refreshing.lock().await;
        if !Arc::ptr_eq(&before, &self.map()) {
            return Ok(()); // somebody else just did
        }
        let mut known = self.nodes();
        for seed in &self.seeds {
            known.push(self.connector.node(seed)?);
        }
        let mut failure = error(ErrorKind::Unavailable, "the cluster has no nodes");
        let mut pipeline = Pipeline::new();
        pipeline.add_command(cmd("CLUSTER").arg("SLOTS").take());
        for node in known {
            let parsed = match node.send(&pipeline).await.map(|mut answers| answers.remove(0)) {
                Ok(Value::ServerError(refusal)) => Err(refused(&refusal)),
                Ok(slots) => topology::owned(&slots, topology::host_and_port(node.address())?.0),
                Err(unreachable) => Err(unreachable),
            };
            match parsed {
                Ok(owned) => return self.adopt(owned),
                Err(why) => failure = why,
            }
        }
        self.is_stale.store(true, Ordering::Relaxed);
        Err(failure)
    }

    /// Makes a map of who owns what. Nodes that are known keep their connections.
    fn adopt(&self, owned: Vec<Owned>) -> Result<(), StoreError> {
        let known = self.nodes();
        let mut nodes: Vec<Arc<Node>> = Vec::new();
        for Owned { host, port, .. } in &owned {
            let info = self.at(host, *port);
            let address = info.addr().to_string();
            if !nodes.iter().any(|node| node.address == address) {
                match known.iter().find(|node| node.address == address) {
                    Some(node) => nodes.push(Arc::clone(node)),
                    None => nodes.push(self.connector.node(&info)?),
                }
            }
        }
        nodes.sort_by(|a, b| a.address.cmp(&b.address));
        let mut owners = vec![None; SLOTS.into()];
        for Owned { slots, host, port } in owned {
            let address = self.at(&host, port).addr().to_string();
            let owner = nodes.iter().position(|node| node.address == address).map(|owner| owner as u16);
            for slot in slots {
                owners[usize::from(slot)] = owner;
            }
        }
        *self.map.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = Arc::new(Map { nodes, owners });
        Ok(())
    }

    /// How to reach a node: as the first one, but there.
    fn at(&self, host: &str, port: u16) -> ConnectionInfo {
        moved(&self.seeds[0], host, port)
    }
}

/// The same credentials and encryption at another address.
pub(super) fn moved(info: &ConnectionInfo, host: &str, port: u16) -> ConnectionInfo {
    let address = match info.addr().clone() {
        ConnectionAddr::TcpTls { insecure, tls_params, .. } => {
            ConnectionAddr::TcpTls { host: host.into(), port, insecure, tls_params }
        }
        _ => ConnectionAddr::Tcp(host.into(), port),
    };
    info.clone().set_addr(address)
}

impl Map {
    fn owner(&self, slot: u16) -> Option<Arc<Node>> {
        let owner = match self.owners.get(usize::from(slot)) {
            Some(owner) => usize::from((*owner)?),
            None => 0, // the only one
        };
        self.nodes.get(owner).cloned()
    }
}

/// What one server is sent.
struct Batch {
    pipeline: Pipeline,
    /// Commands before the first that was asked for.
    preamble: usize,
    /// Place, slot and whereto of each that was asked for.
    asked: Vec<(usize, u16, To)>,
}

/// What is for whom; for nobody, if no node owns the slots.
type Share = (Option<Arc<Node>>, Batch);
type Sent = Vec<(Batch, Result<Vec<Value>, StoreError>)>;

impl Batch {
    fn new(load: Option<&Script>) -> Self {
        let mut pipeline = Pipeline::new();
        if let Some(script) = load {
            pipeline.add_command(script.load());
        }
        Batch { preamble: pipeline.len(), pipeline, asked: Vec::new() }
    }

    fn push(&mut self, place: usize, command: Command, to: To) {
        if to != To::Owner {
            self.pipeline.cmd("ASKING");
        }
        self.pipeline.add_command(command.cmd);
        self.asked.push((place, command.slot, to));
    }
}

fn is_asking(cmd: &Cmd) -> bool {
    cmd.args_iter().next() == Some(redis::Arg::Simple(b"ASKING"))
}
