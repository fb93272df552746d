//! Distribution of commands: to one server, or to the nodes of a cluster.
//!
//! This is a client for clusters of our own, since the keys of a batch lie in many slots: commands
//! are sorted by the node that owns their keys' slots, each node gets one pipeline, and all of them
//! at once. A command that a node redirects is sent to the other node: it has not been done. A
//! silent node does not delay the answers of the others.

use super::commands::Commands;
use super::dial::moved;
use super::errors::{error, refused};
use super::keys::SLOTS;
use super::map::Map;
use super::node::{Connector, Node};
use super::options::RedisOptions;
use super::parts::in_parts;
use super::reply::Reply;
use super::scripts::Script;
use super::topology::{self, Owned};
use super::wire::Answered;
use ::redis::ConnectionInfo;
use hapax::tier::random;
use hapax_store::sync::{Mutex, Ordering, StdAtomicBool};
use hapax_store::{Answers, ErrorKind, StoreError};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

/// The number of times that a redirected command is sent elsewhere.
const REDIRECTIONS: usize = 4;
/// The wait before another node, too, is asked for the owners of slots.
const HEDGE: Duration = Duration::from_millis(100);
/// The shortest time between two requests for the map.
const REFRESH_EVERY: Duration = Duration::from_millis(100);

/// One server, or those of a cluster.
pub(super) struct Servers {
    /// The connection parameters of a node, besides its address.
    like: ConnectionInfo,
    in_cluster: bool,
    /// The time that a silent node may take longer than another node.
    patience: Duration,
    connector: Arc<Connector>,
    map: Mutex<Arc<Map>>,
    /// The nodes of a cluster that were named in the options.
    seeds: Vec<Arc<Node>>,
    /// True if a node could not be reached, or has redirected: the slots may have moved.
    is_stale: StdAtomicBool,
    /// The time at which the map was last requested.
    refreshing: Arc<tokio::sync::Mutex<Option<Instant>>>,
}

/// A command that is still to be sent: its place in the batch, and its destination.
struct Asked {
    place: usize,
    to: To,
}

#[derive(Clone, PartialEq)]
enum To {
    /// The owner of its slot.
    Owner,
    /// The node that owns it, as reported by another one.
    Node(String),
    /// A node that is about to own it.
    Importer(String),
}

/// The commands for one server; without a server if no node owns the slots.
struct Batch {
    node: Option<Arc<Node>>,
    commands: Arc<Commands>,
    /// The place of each command in the request, if it has one.
    places: Vec<Option<usize>>,
}

/// A batch in the making.
struct Share {
    node: Option<Arc<Node>>,
    commands: Commands,
    places: Vec<Option<usize>>,
}

impl Servers {
    /// Connects to the servers, one of which must answer.
    pub(super) async fn connect(options: &RedisOptions) -> Result<Arc<Self>, StoreError> {
        let seeds = options.addresses()?;
        let connector = Arc::new(Connector::new(options, &seeds)?);
        let (mut nodes, mut named) = (vec![], vec![]);
        match options.sentinels()? {
            _ if options.in_cluster => named = seeds.iter().map(|seed| connector.node(seed)).collect(),
            Some(sentinels) => nodes = vec![connector.master(&seeds[0], &sentinels)?],
            None => nodes = vec![connector.node(&seeds[0])],
        }
        let servers = Arc::new(Servers {
            like: seeds[0].clone(),
            in_cluster: options.in_cluster,
            patience: options.timing.response_timeout / 4,
            connector,
            map: Mutex::new(Arc::new(Map::of_all(nodes))),
            seeds: named,
            is_stale: StdAtomicBool::new(false),
            refreshing: Arc::default(),
        });
        if options.in_cluster {
            servers.refresh(0).await?;
        }
        servers.meet().await?;
        Ok(servers)
    }

    /// Meets the owners of slots: one of them must answer, and none refuse us. Others are met when
    /// they are first reached.
    async fn meet(&self) -> Result<(), StoreError> {
        let nodes = self.nodes();
        let greet = |node: &Arc<Node>| {
            let node = Arc::clone(node);
            async move { node.meet().await }
        };
        let met = in_parts(nodes.iter().map(greet), self.patience).await;
        let (mut is_there, mut failure) = (false, None);
        for (node, met) in nodes.iter().zip(met) {
            match met.unwrap_or_else(|| Err(self.silent(node))) {
                Ok(()) => is_there = true,
                Err(refusal) if refusal.kind() == ErrorKind::Misconfigured => return Err(refusal),
                Err(why) => {
                    #[cfg(feature = "tracing")]
                    tracing::warn!(backend = "redis", address = node.address(), "not reached yet: {why}");
                    failure = Some(why);
                }
            }
        }
        match failure {
            Some(why) if !is_there => Err(why),
            _ => Ok(()),
        }
    }

    pub(super) fn in_cluster(&self) -> bool {
        self.in_cluster
    }

    /// Returns the owners of slots, by address.
    pub(super) fn nodes(&self) -> Vec<Arc<Node>> {
        self.map().nodes.clone()
    }

    /// Returns the number of the node that owns a slot; 0 if there is one server, or no node owns
    /// it.
    pub(super) fn number_of(&self, slot: u16) -> u32 {
        self.map().owner(slot).map_or(0, |node| node.number())
    }

    /// Reads the introductions of all servers again, so that losses are noticed. Servers that do
    /// not answer are left out.
    pub(super) async fn look_after(&self) {
        let look = |node: Arc<Node>| async move { node.look_after().await };
        in_parts(self.nodes().into_iter().map(look), self.patience).await;
    }

    fn map(&self) -> Arc<Map> {
        // A panic elsewhere leaves a whole map: it is replaced in one step.
        Arc::clone(&self.map.lock().unwrap_or_else(|poisoned| poisoned.into_inner()))
    }

    /// Sends each command to its server, once, and again only if the server reported that it has
    /// not done it: because the slot is elsewhere, or it does not know the script. Each answer that
    /// is no refusal is read.
    pub(super) async fn ask<A: Send>(
        self: &Arc<Self>,
        commands: Commands,
        script: Option<&Script>,
        mut read: impl FnMut(usize, Reply<'_>) -> Result<A, StoreError> + Send,
    ) -> Answers<A> {
        self.refresh_if_stale();
        let mut answers: Vec<Option<Result<A, StoreError>>> = (0..commands.len()).map(|_| None).collect();
        let commands = Arc::new(commands);
        let mut batches = match self.in_cluster {
            true => self.share_out(&commands, (0..commands.len()).map(|place| Asked { place, to: To::Owner }), None)?,
            false => vec![Batch {
                node: self.map().owner(0).cloned(),
                commands: Arc::clone(&commands),
                places: (0..commands.len()).map(Some).collect(),
            }],
        };
        for round in 0..=REDIRECTIONS {
            let mut again = Vec::new();
            for (batch, sent) in self.send(batches).await? {
                let may_ask_again = round < REDIRECTIONS;
                self.sort(batch, sent, may_ask_again.then_some(script.is_some()), &mut read, &mut answers, &mut again)?;
            }
            if again.is_empty() {
                break;
            }
            again.sort_by_key(|asked| asked.place);
            // The script is passed also after a redirection: another node may not know it.
            batches = self.share_out(&commands, again.into_iter(), script)?;
        }
        let unanswered = || Err(error(ErrorKind::Unavailable, "the cluster sends whoever asks from node to node"));
        Ok(answers.into_iter().map(|answer| answer.unwrap_or_else(unanswered)).collect())
    }

    /// Sends each server its share. If none of them answers, the whole request fails.
    async fn send(&self, mut batches: Vec<Batch>) -> Result<Vec<(Batch, Result<Answered, StoreError>)>, StoreError> {
        let ask = |node: Option<Arc<Node>>, commands: Arc<Commands>| async move {
            match node {
                Some(node) => node.ask(commands).await,
                None => Err(topology::no_owner()),
            }
        };
        let sent: Vec<Result<Answered, StoreError>> = match &mut batches[..] {
            [only] => vec![ask(only.node.clone(), Arc::clone(&only.commands)).await],
            several => {
                let parts = several.iter().map(|batch| ask(batch.node.clone(), Arc::clone(&batch.commands)));
                let sent = in_parts(parts, self.patience).await.into_iter().zip(several.iter());
                let silent =
                    |batch: &Batch| Err(batch.node.as_ref().map_or_else(topology::no_owner, |it| self.silent(it)));
                sent.map(|(sent, batch)| sent.unwrap_or_else(|| silent(batch))).collect()
            }
        };
        if sent.iter().any(Result::is_err) {
            self.is_stale.store(self.in_cluster, Ordering::Relaxed);
            if let (true, Some(Err(why))) = (sent.iter().all(Result::is_err), sent.first()) {
                return Err(why.clone());
            }
        }
        Ok(batches.into_iter().zip(sent).collect())
    }

    fn silent(&self, node: &Node) -> StoreError {
        let late = format!("{} is silent for {:?} longer than another node", node.address(), self.patience);
        error(ErrorKind::Timeout, late)
    }

    /// Puts answers in their places, and commands that were not done and may be repeated on the
    /// list of commands to send again, also those whose script was not known.
    fn sort<A>(
        &self,
        batch: Batch,
        sent: Result<Answered, StoreError>,
        may_ask_again: Option<bool>,
        read: &mut impl FnMut(usize, Reply<'_>) -> Result<A, StoreError>,
        answers: &mut [Option<Result<A, StoreError>>],
        again: &mut Vec<Asked>,
    ) -> Result<(), StoreError> {
        let places = batch.places.into_iter();
        let answered = match sent {
            Ok(answered) => answered,
            Err(failure) => {
                places.flatten().for_each(|place| answers[place] = Some(Err(failure.clone())));
                return Ok(());
            }
        };
        for (place, reply) in places.zip(answered.replies()) {
            let Some(place) = place else { continue };
            let Reply::Refusal(refusal) = reply else {
                answers[place] = Some(read(place, reply));
                continue;
            };
            let (elsewhere, has_script) = (may_ask_again.is_some() && self.in_cluster, may_ask_again == Some(true));
            let to = match refusal.code() {
                "NOSCRIPT" if has_script => Some(To::Owner),
                "MOVED" if !self.in_cluster => {
                    let wrong = "this server is a node of a cluster: connect to it as such";
                    return Err(error(ErrorKind::Misconfigured, wrong));
                }
                "MOVED" if elsewhere => {
                    self.is_stale.store(true, Ordering::Relaxed);
                    topology::redirection(refusal.details()).map(To::Node)
                }
                "ASK" if elsewhere => topology::redirection(refusal.details()).map(To::Importer),
                _ => None,
            };
            match to {
                Some(to) => again.push(Asked { place, to }),
                None => answers[place] = Some(Err(refused(refusal))),
            }
        }
        Ok(())
    }

    /// Sorts commands by server, in their order; after the script that they call, if it is to be
    /// loaded.
    fn share_out(
        &self,
        commands: &Commands,
        asked: impl Iterator<Item = Asked>,
        load: Option<&Script>,
    ) -> Result<Vec<Batch>, StoreError> {
        let map = self.map();
        let mut shares: Vec<Share> = Vec::new();
        for Asked { place, to } in asked {
            let node = match &to {
                To::Owner => map.owner(commands.slot(place)).cloned(),
                To::Node(address) | To::Importer(address) => Some(self.named(&map, address)?),
            };
            let i = shares.iter().position(|share| is_same(&share.node, &node)).unwrap_or_else(|| {
                let (mut commands, mut places) = (Commands::default(), Vec::new());
                if let Some(script) = load {
                    script.load(&mut commands);
                    places.push(None);
                }
                shares.push(Share { node, commands, places });
                shares.len() - 1
            });
            let Share { commands: share, places, .. } = &mut shares[i];
            if let To::Importer(_) = to {
                share.add(&["ASKING"]);
                places.push(None);
            }
            share.copy(commands, place);
            places.push(Some(place));
        }
        let batch = |Share { node, commands, places }| Batch { node, commands: Arc::new(commands), places };
        Ok(shares.into_iter().map(batch).collect())
    }

    /// Returns a node that another one has named.
    fn named(&self, map: &Map, address: &str) -> Result<Arc<Node>, StoreError> {
        match map.nodes.iter().find(|node| node.address() == address) {
            Some(node) => Ok(Arc::clone(node)),
            None => {
                let (host, port) = topology::host_and_port(address)?;
                Ok(self.connector.node(&moved(&self.like, host, port)))
            }
        }
    }

    /// Requests the owners of slots in the background, if they may have changed.
    fn refresh_if_stale(self: &Arc<Self>) {
        if !self.is_stale.load(Ordering::Relaxed) {
            return;
        }
        // Another caller is doing so, or has just done so: the next caller finds the map stale.
        let Ok(mut last) = Arc::clone(&self.refreshing).try_lock_owned() else { return };
        if last.is_some_and(|last| last.elapsed() < REFRESH_EVERY) {
            return;
        }
        self.is_stale.store(false, Ordering::Relaxed);
        let servers = Arc::clone(self);
        tokio::spawn(async move {
            if servers.refresh(random::any() as usize).await.is_err() {
                servers.is_stale.store(true, Ordering::Relaxed);
            }
            *last = Some(Instant::now());
        });
    }

    /// Asks the nodes for the owners of slots: one, and if it does not answer soon another one as
    /// well, until one has answered.
    async fn refresh(&self, first: usize) -> Result<(), StoreError> {
        let mut known = self.nodes();
        let is_new = |seed: &&Arc<Node>| !self.nodes().iter().any(|node| node.address() == seed.address());
        known.extend(self.seeds.iter().filter(is_new).cloned());
        let first = first % known.len().max(1);
        known.rotate_left(first);
        let (mut nodes, mut asked) = (known.into_iter(), JoinSet::new());
        let mut failure = error(ErrorKind::Unavailable, "the cluster has no nodes");
        loop {
            let wait = match nodes.next() {
                Some(node) => {
                    asked.spawn(async move { owned(&node).await });
                    HEDGE
                }
                // Each answers, or fails, within its own time limit.
                None => Duration::MAX,
            };
            match timeout(wait, asked.join_next()).await {
                Ok(Some(Ok(Ok(owned)))) => {
                    self.adopt(owned);
                    return Ok(());
                }
                Ok(Some(Ok(Err(why)))) => failure = why,
                Ok(None) => return Err(failure),
                // It has panicked, or has not answered yet.
                Ok(Some(Err(_))) | Err(_) => {}
            }
        }
    }

    /// Makes a map of the owners. Known nodes keep their connections.
    fn adopt(&self, owned: Vec<Owned>) {
        let known = [self.nodes(), self.seeds.clone()].concat();
        let mut nodes: Vec<Arc<Node>> = Vec::new();
        let mut owners = vec![None; SLOTS.into()];
        for Owned { slots, host, port } in owned {
            let info = moved(&self.like, &host, port);
            let address = info.addr().to_string();
            let is_here = |node: &Arc<Node>| node.address() == address;
            let owner = nodes.iter().position(is_here).unwrap_or_else(|| {
                let node = known.iter().find(|node| is_here(node)).cloned();
                nodes.push(node.unwrap_or_else(|| self.connector.node(&info)));
                nodes.len() - 1
            });
            owners[usize::from(*slots.start())..=usize::from(*slots.end())].fill(Some(owner as u16));
        }
        *self.map.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = Arc::new(Map::sorted(nodes, owners));
    }
}

/// Asks a node for the owners of slots.
async fn owned(node: &Node) -> Result<Vec<Owned>, StoreError> {
    let answered = node.ask(Arc::new(Commands::of(&["CLUSTER", "SLOTS"]))).await?;
    match answered.replies().next() {
        Some(Reply::Refusal(refusal)) => Err(refused(refusal)),
        slots => topology::owned(slots.unwrap_or(Reply::Nil), topology::host_and_port(node.address())?.0),
    }
}

fn is_same(one: &Option<Arc<Node>>, other: &Option<Arc<Node>>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => Arc::ptr_eq(one, other) || one.address() == other.address(),
        (None, None) => true,
        _ => false,
    }
}
