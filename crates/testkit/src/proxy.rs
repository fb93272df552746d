//! A proxy between a store and its server, for networks that misbehave.

use std::net::SocketAddr;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// The treatment of bytes that are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// They arrive.
    Pass,
    /// They wait, in both directions, and arrive when the mode changes: a network that stands
    /// still, or sockets half open.
    Stall,
    /// Requests arrive, answers are lost.
    Mute,
    /// Connections are cut, and new ones closed at once.
    Refuse,
}

#[derive(Clone, Copy)]
struct Rules {
    mode: Mode,
    /// The place that connections made from now on lead to.
    upstream: SocketAddr,
    /// The number of cuts so far, each of which ends all connections that were made before.
    cuts: u64,
    /// The number of silences so far, after each of which all connections that were made before
    /// forward nothing more.
    silences: u64,
}

/// A proxy that forwards TCP connections on loopback to a server, or does not. It ends when it is
/// dropped.
pub struct Proxy {
    address: SocketAddr,
    rules: watch::Sender<Rules>,
    accepting: JoinHandle<()>,
}

impl Proxy {
    /// Starts a proxy that lets everything pass, on a free port.
    pub async fn to(upstream: SocketAddr) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port on loopback");
        let address = listener.local_addr().expect("the address that was bound");
        let (rules, receiver) = watch::channel(Rules { mode: Mode::Pass, upstream, cuts: 0, silences: 0 });
        let accepting = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let Rules { mode, upstream, .. } = *receiver.borrow();
                if mode != Mode::Refuse {
                    tokio::spawn(forward(client, upstream, receiver.clone()));
                }
            }
        });
        Proxy { address, rules, accepting }
    }

    /// Returns the address for clients.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sets the mode from now on.
    pub fn set(&self, mode: Mode) {
        self.rules.send_modify(|rules| rules.mode = mode);
    }

    /// Leads connections that are made from now on elsewhere; those that are there stay.
    pub fn lead_to(&self, upstream: SocketAddr) {
        self.rules.send_modify(|rules| rules.upstream = upstream);
    }

    /// Forwards nothing more on the open connections, without notice to either end: a node has
    /// vanished, or a firewall has forgotten them. New ones work.
    pub fn silence(&self) {
        self.rules.send_modify(|rules| rules.silences += 1);
    }

    /// Cuts all connections.
    pub fn cut(&self) {
        self.rules.send_modify(|rules| rules.cuts += 1);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
        self.cut();
    }
}

async fn forward(client: TcpStream, upstream: SocketAddr, rules: watch::Receiver<Rules>) {
    // Nobody answers: neither does the proxy.
    let Ok(server) = TcpStream::connect(upstream).await else { return };
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    tokio::join!(
        pump(from_client, to_server, rules.clone(), Sends::Requests),
        pump(from_server, to_client, rules, Sends::Answers)
    );
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Sends {
    Requests,
    Answers,
}

/// Copies one direction until it ends or is cut. Both directions of a connection see the same
/// rules, and so end together.
async fn pump(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mut rules: watch::Receiver<Rules>, sends: Sends) {
    let Rules { cuts, silences, .. } = *rules.borrow();
    let mut buffer = vec![0; 64 << 10];
    loop {
        let now = *rules.borrow_and_update();
        if now.cuts != cuts || now.mode == Mode::Refuse {
            return;
        }
        tokio::select! {
            biased; // what comes after a change is treated as changed, also if this task is late
            changed = rules.changed() => {
                if changed.is_err() {
                    return;
                }
            }
            read = from.read(&mut buffer), if now.mode != Mode::Stall && now.silences == silences => {
                let Ok(len @ 1..) = read else { return };
                if now.mode == Mode::Mute && sends == Sends::Answers {
                    continue;
                }
                if to.write_all(&buffer[..len]).await.is_err() {
                    return;
                }
            }
        }
    }
}
