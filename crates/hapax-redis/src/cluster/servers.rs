//! Distribution of commands: to one server, or to the nodes of a cluster.
//!
//! This is a client for clusters of our own, since the keys of a batch lie in many slots: commands
//! are sorted by the node that owns their keys' slots, each node gets one pipeline, and all of them
//! at once. A command that a node redirects is sent to the other node: it has not been done. A
//! silent node does not delay the answers of the others.

mod refresh;

use super::node::{Connector, Node};
use super::slot_map::SlotMap;
use super::stragglers::join_without_stragglers;
use super::topology;
use crate::options::RedisOptions;
use crate::resp::commands::Commands;
use crate::resp::errors::{error, refused};
use crate::resp::reply::Reply;
use crate::resp::scripts::Script;
use crate::server::warning::RedisWarning;
use crate::server::watch::Losses;
use crate::transport::endpoint::{Timing, moved};
use crate::transport::wire::Answered;
use ::redis::ConnectionInfo;
use hapax::seam::random;
use hapax_store::back_off::BackOff;
use hapax_store::sync::{Mutex, Ordering, StdAtomicBool, StdAtomicU64, lock};
use hapax_store::{Answers, ErrorKind, StoreError};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// The number of times that a redirected command is sent elsewhere.
const REDIRECTIONS: usize = 4;

/// One server, or those of a cluster.
pub(crate) struct Servers {
    /// The connection parameters of a node, besides its address.
    like: ConnectionInfo,
    in_cluster: bool,
    /// The time that a silent node may take longer than another node.
    patience: Duration,
    connector: Arc<Connector>,
    map: Mutex<Arc<SlotMap>>,
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
struct Batch<C = Arc<Commands>> {
    node: Option<Arc<Node>>,
    commands: C,
    /// The place of each command in the request, if it has one.
    places: Vec<Option<usize>>,
}

impl Servers {
    /// Connects to the servers, one of which must answer.
    pub(crate) async fn connect(options: &RedisOptions) -> Result<Arc<Self>, StoreError> {
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
            map: Mutex::new(Arc::new(SlotMap::of_all(nodes))),
            seeds: named,
            is_stale: StdAtomicBool::new(false),
            refreshing: Arc::default(),
        });
        servers.reach(options.timing).await?;
        Ok(servers)
    }

    /// Reaches the servers, and tries again for as long as one connection may take: one that is
    /// reset, or a server that is just starting, ends no program. What is wrong is told at once.
    async fn reach(&self, timing: Timing) -> Result<(), StoreError> {
        let back_off = BackOff { first: Duration::from_millis(10), max: timing.reconnect_wait_max };
        let (began, mut failures) = (Instant::now(), 0);
        loop {
            let reached = if self.in_cluster { self.refresh(failures as usize).await } else { Ok(()) };
            let why = match reached {
                Ok(()) => self.connect_to_owners().await.err(),
                Err(why) => Some(why),
            };
            let Some(why) = why else { return Ok(()) };
            failures += 1;
            let pause = back_off.after(failures, random::any());
            if !why.kind().is_transient() || began.elapsed() + pause >= timing.connect_timeout {
                return Err(why);
            }
            tokio::time::sleep(pause).await;
        }
    }

    /// Connects to the owners of slots: one of them must answer, and none refuse us. Others are
    /// connected to when they are first asked.
    async fn connect_to_owners(&self) -> Result<(), StoreError> {
        let nodes = self.nodes();
        let connect = |node: &Arc<Node>| {
            let node = Arc::clone(node);
            async move { node.connect().await }
        };
        let connected = join_without_stragglers(nodes.iter().map(connect), self.patience).await;
        let (mut is_there, mut failure) = (false, None);
        for (node, connected) in nodes.iter().zip(connected) {
            match connected.unwrap_or_else(|| Err(self.silent(node))) {
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

    pub(crate) fn in_cluster(&self) -> bool {
        self.in_cluster
    }

    /// Returns the owners of slots, by address.
    pub(crate) fn nodes(&self) -> Vec<Arc<Node>> {
        self.map().nodes.clone()
    }

    /// Returns the number of the node that owns a slot; 0 if there is one server, or no node owns
    /// it.
    pub(crate) fn number_of(&self, slot: u16) -> u32 {
        self.map().owner(slot).map_or(0, |node| node.number())
    }

    /// Returns the ways in which the servers may forget, as they were last read.
    pub(crate) fn warnings(&self) -> Vec<RedisWarning> {
        self.nodes().iter().flat_map(|node| node.warnings()).collect()
    }

    /// Returns the sum of a count over all servers.
    pub(crate) fn lost(&self, count: impl Fn(&Losses) -> &StdAtomicU64) -> u64 {
        // Relaxed: counts.
        self.nodes().iter().map(|node| count(node.losses()).load(Ordering::Relaxed)).sum()
    }

    /// Reads all servers' information again, so that losses are noticed. Servers that do not answer
    /// are left out.
    pub(crate) async fn check(&self) {
        let check = |node: Arc<Node>| async move { node.check().await };
        join_without_stragglers(self.nodes().into_iter().map(check), self.patience).await;
    }

    fn map(&self) -> Arc<SlotMap> {
        // A panic elsewhere leaves a whole map: it is replaced in one step.
        Arc::clone(&lock(&self.map))
    }

    /// Sends each command to its server, once, and again only if the server reported that it has
    /// not done it: because the slot is elsewhere, or it does not know the script. Each answer that
    /// is no refusal is read.
    pub(crate) async fn ask<A: Send>(
        self: &Arc<Self>,
        commands: Commands,
        script: Option<&Script>,
        mut read: impl FnMut(usize, Reply<'_>) -> Result<A, StoreError> + Send,
    ) -> Answers<A> {
        self.refresh_if_stale();
        let mut answers: Vec<Option<Result<A, StoreError>>> = (0..commands.len()).map(|_| None).collect();
        let commands = Arc::new(commands);
        let mut batches = if self.in_cluster {
            self.share_out(&commands, (0..commands.len()).map(|place| Asked { place, to: To::Owner }), None)?
        } else {
            vec![Batch {
                node: self.map().owner(0).cloned(),
                commands: Arc::clone(&commands),
                places: (0..commands.len()).map(Some).collect(),
            }]
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
                let sent = join_without_stragglers(parts, self.patience).await.into_iter().zip(several.iter());
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
        let mut shares: Vec<Batch<Commands>> = Vec::new();
        for Asked { place, to } in asked {
            let node = match &to {
                To::Owner => map.owner(commands.slot(place)).cloned(),
                To::Node(address) | To::Importer(address) => Some(self.named(&map, address)?),
            };
            let address = node.as_ref().map(|node| node.address());
            let is_its = |share: &Batch<Commands>| share.node.as_ref().map(|node| node.address()) == address;
            let i = shares.iter().position(is_its).unwrap_or_else(|| {
                let (mut commands, mut places) = (Commands::default(), Vec::new());
                if let Some(script) = load {
                    script.load(&mut commands);
                    places.push(None);
                }
                shares.push(Batch { node, commands, places });
                shares.len() - 1
            });
            let Batch { commands: share, places, .. } = &mut shares[i];
            if let To::Importer(_) = to {
                share.add(&["ASKING"]);
                places.push(None);
            }
            share.copy(commands, place);
            places.push(Some(place));
        }
        let batch = |Batch { node, commands, places }: Batch<Commands>| {
            debug_assert_eq!(commands.len(), places.len(), "each answer has a place, or is of no request");
            Batch { node, commands: Arc::new(commands), places }
        };
        Ok(shares.into_iter().map(batch).collect())
    }

    /// Returns a node that another one has named.
    fn named(&self, map: &SlotMap, address: &str) -> Result<Arc<Node>, StoreError> {
        match map.nodes.iter().find(|node| node.address() == address) {
            Some(node) => Ok(Arc::clone(node)),
            None => {
                let (host, port) = topology::host_and_port(address)?;
                Ok(self.connector.node(&moved(&self.like, host, port)))
            }
        }
    }
}
