//! Who is asked what: one server, or the nodes of a cluster.
//!
//! A cluster's client of our own, since what a batch asks for lies in many slots: commands are
//! sorted by the node that owns their keys' slots, each node gets one pipeline, and all of them at
//! once. Whatever a node says is elsewhere is asked for there: it has not been done. A node that is
//! silent keeps nobody waiting for the others.

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

/// How often what was redirected is asked for elsewhere.
const REDIRECTIONS: usize = 4;
/// Whoever asks who owns which slots asks another node, too, after so long.
const HEDGE: Duration = Duration::from_millis(100);
/// It is not asked more often than that.
const REFRESH_EVERY: Duration = Duration::from_millis(100);

/// One server, or those of a cluster.
pub(super) struct Servers {
    /// How to reach a node, but for its address.
    like: ConnectionInfo,
    in_cluster: bool,
    /// Longer than another node, which a silent one is waited for.
    patience: Duration,
    connector: Arc<Connector>,
    map: Mutex<Arc<Map>>,
    /// Those of a cluster that were named.
    seeds: Vec<Arc<Node>>,
    /// A node could not be reached, or has sent elsewhere: the slots may have moved.
    is_stale: StdAtomicBool,
    /// When the map was last asked for.
    refreshing: Arc<tokio::sync::Mutex<Option<Instant>>>,
}

/// What is still to be asked for: its place in the batch, and where.
struct Asked {
    place: usize,
    to: To,
}

#[derive(Clone, PartialEq)]
enum To {
    /// Whoever owns its slot.
    Owner,
    /// The node that owns it, as another one says.
    Node(String),
    /// A node that is about to own it.
    Importer(String),
}

/// What one server is sent; nobody is, if no node owns the slots.
struct Batch {
    node: Option<Arc<Node>>,
    commands: Arc<Commands>,
    /// The place of each command in what was asked for, if it has one.
    places: Vec<Option<usize>>,
}

/// A batch in the making.
struct Share {
    node: Option<Arc<Node>>,
    commands: Commands,
    places: Vec<Option<usize>>,
}

impl Servers {
    /// The servers, one of which must answer.
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

    /// Meets those that own slots: one of them must answer, and none refuse us. Others are met when
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

    /// Those that own slots, by address.
    pub(super) fn nodes(&self) -> Vec<Arc<Node>> {
        self.map().nodes.clone()
    }

    /// The number of the node that owns a slot; 0 if there is one server, or no node owns it.
    pub(super) fn number_of(&self, slot: u16) -> u32 {
        self.map().owner(slot).map_or(0, |node| node.number())
    }

    /// Has all servers introduce themselves again, so that what they have lost is noticed. Those
    /// that do not answer are left out.
    pub(super) async fn look_after(&self) {
        let look = |node: Arc<Node>| async move { node.look_after().await };
        in_parts(self.nodes().into_iter().map(look), self.patience).await;
    }

    fn map(&self) -> Arc<Map> {
        // A panic elsewhere leaves a whole map: it is replaced in one step.
        Arc::clone(&self.map.lock().unwrap_or_else(|poisoned| poisoned.into_inner()))
    }

    /// Asks each command's server, once, and again only if it said that it has not done it: because the slot is elsewhere, or it does not know
    /// the script. Each answer that is no refusal is read.
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
            // Also after a redirection: another node may not know the script.
            batches = self.share_out(&commands, again.into_iter(), script)?;
        }
        let unanswered = || Err(error(ErrorKind::Unavailable, "the cluster sends whoever asks from node to node"));
        Ok(answers.into_iter().map(|answer| answer.unwrap_or_else(unanswered)).collect())
    }

    /// Sends each server its share. If none of them answers, nothing came of it.
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

    /// Puts answers in their places, and what was not done on the list of what to ask again: if it
    /// may be, be it because a script was not known.
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

    /// Who gets which commands, in their order; after a script that they call, if it is to be
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

    /// A node that another one has named.
    fn named(&self, map: &Map, address: &str) -> Result<Arc<Node>, StoreError> {
        match map.nodes.iter().find(|node| node.address() == address) {
            Some(node) => Ok(Arc::clone(node)),
            None => {
                let (host, port) = topology::host_and_port(address)?;
                Ok(self.connector.node(&moved(&self.like, host, port)))
            }
        }
    }

    /// Asks in the background who owns which slots, if that may have changed.
    fn refresh_if_stale(self: &Arc<Self>) {
        if !self.is_stale.load(Ordering::Relaxed) {
            return;
        }
        // Somebody does, or has just done so: whoever comes next finds it stale.
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

    /// Asks the nodes who owns which slots: one, and if it does not say soon another one as well,
    /// until one has said so.
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
                // Each says something, or fails, within its own time.
                None => Duration::MAX,
            };
            match timeout(wait, asked.join_next()).await {
                Ok(Some(Ok(Ok(owned)))) => {
                    self.adopt(owned);
                    return Ok(());
                }
                Ok(Some(Ok(Err(why)))) => failure = why,
                Ok(None) => return Err(failure),
                // It has panicked, or says nothing yet.
                Ok(Some(Err(_))) | Err(_) => {}
            }
        }
    }

    /// Makes a map of who owns what. Nodes that are known keep their connections.
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

/// Who owns which slots, as a node says.
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
