//! Redis servers of a test's own, which end with it.

use crate::directory::{Directory, copy};
pub use crate::processes::free_port;
use crate::processes::{self, Process, await_that, await_until};
use hapax_store::sync::lock;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

/// A server in a temporary directory: on a Unix socket, and on loopback if asked. Killed when it is
/// dropped, also by a panic.
pub struct Server {
    running: Mutex<Option<Process>>,
    directory: Directory,
    arguments: Vec<String>,
    port: u16,
    is_sentinel: bool,
}

/// Returns true if no server is available; says that the test is skipped.
pub fn is_missing() -> bool {
    processes::is_missing("redis-server")
}

impl Server {
    /// Starts a server on a Unix socket only.
    pub fn start(arguments: &[&str]) -> Server {
        Self::start_on(0, arguments)
    }

    /// Starts a server on loopback, too.
    pub fn start_on_loopback(arguments: &[&str]) -> Server {
        Self::start_on(free_port(), arguments)
    }

    /// Starts a Sentinel, which knows no master yet.
    pub fn start_sentinel() -> Server {
        // It keeps what it learns in its configuration, and so takes nothing else from the command
        // line.
        let port = free_port();
        let config = format!("port {port}\nbind 127.0.0.1\nunixsocket redis.sock\ndir .\n");
        Self::start_with(port, &[], Some(&config))
    }

    fn start_on(port: u16, arguments: &[&str]) -> Server {
        Self::start_with(port, arguments, None)
    }

    fn start_with(port: u16, arguments: &[&str], sentinel: Option<&str>) -> Server {
        let directory = Directory::new("redis");
        let arguments = arguments.iter().map(|argument| argument.to_string()).collect();
        let is_sentinel = sentinel.is_some();
        let server = Server { running: Mutex::new(None), directory, arguments, port, is_sentinel };
        std::fs::create_dir(server.files()).expect("a directory");
        if let Some(config) = sentinel {
            std::fs::write(server.files().join("sentinel.conf"), config).expect("a file");
        }
        server.start_again();
        server
    }

    /// Starts an encrypted server on loopback; none, if this one knows no encryption.
    pub fn start_encrypted(certificate: &Certificate) -> Option<Server> {
        let knows = ["--tls-auth-clients", "no", "--port", "0", "--unixsocket", "/nowhere/at/all"];
        let refusal = Command::new("redis-server").args(knows).output().ok()?.stdout;
        if String::from_utf8_lossy(&refusal).contains("Bad directive") {
            return None;
        }
        let (port, file) = (free_port().to_string(), |name| certificate.0.file(name));
        let files = [file("leaf.pem"), file("leaf.key"), file("root.pem")];
        let mut arguments = vec!["--tls-port", &port, "--tls-auth-clients", "no", "--tls-cert-file", &files[0]];
        arguments.extend(["--tls-key-file", &files[1], "--tls-ca-cert-file", &files[2]]);
        Some(Self::start(&arguments))
    }

    pub fn encrypted_url(&self) -> String {
        format!("rediss://127.0.0.1:{}", self.arguments[1])
    }

    /// Starts it on its kept data, and waits until it answers.
    pub fn start_again(&self) {
        let mut command = Command::new("redis-server");
        if self.is_sentinel {
            command.args(["sentinel.conf", "--sentinel"]);
        } else {
            command.args(["--port", &self.port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]);
            command.args(["--unixsocket", "redis.sock", "--dir", ".", "--daemonize", "no"]).args(&self.arguments);
        }
        let log = self.directory.path().join("log");
        *self.running() = Some(Process::start(command, &log, &self.files()));
        await_until(&log, || self.answers());
    }

    /// Returns true if it answers, also if it wants a password.
    fn answers(&self) -> bool {
        let ping = |mut connection| ::redis::cmd("PING").query::<String>(&mut connection);
        match ::redis::Client::open(self.url()).and_then(|client| client.get_connection()).and_then(ping) {
            Ok(_) => true,
            Err(error) => error.code() == Some("NOAUTH"),
        }
    }

    /// Returns its process, while it runs.
    pub fn pid(&self) -> Option<u32> {
        self.running().as_ref().map(Process::id)
    }

    /// Kills it, as `kill -9`.
    pub fn kill(&self) {
        drop(self.running().take());
    }

    /// Keeps a copy of its files, for [`restore`](Self::restore). Nobody may write meanwhile.
    pub fn back_up(&self) {
        self.ask::<()>(&["SAVE"]);
        copy(&self.files(), &self.backup()).expect("a copy");
    }

    /// Kills it, and starts it on the copy in the place of its files, which know all.
    pub fn restore(&self) {
        self.ask::<()>(&["SAVE"]);
        self.kill();
        std::fs::remove_dir_all(self.files()).expect("its files");
        copy(&self.backup(), &self.files()).expect("a copy");
        self.start_again();
    }

    fn files(&self) -> PathBuf {
        self.directory.path().join("files")
    }

    fn backup(&self) -> PathBuf {
        self.directory.path().join("backup")
    }

    /// Pauses it, as if it hung: its connections stay, and it does not answer. (SIGSTOP.)
    pub fn pause(&self) {
        self.running().as_ref().expect("it runs").pause();
    }

    /// Resumes it.
    pub fn resume(&self) {
        self.running().as_ref().expect("it runs").resume();
    }

    fn running(&self) -> MutexGuard<'_, Option<Process>> {
        lock(&self.running)
    }

    /// Returns its Unix socket.
    pub fn url(&self) -> String {
        format!("redis+unix://{}", self.files().join("redis.sock").display())
    }

    pub fn address(&self) -> SocketAddr {
        ([127, 0, 0, 1], self.port).into()
    }

    pub fn loopback_url(&self) -> String {
        format!("redis://{}", self.address())
    }

    /// Sends it a command, without the store.
    pub fn ask<A: ::redis::FromRedisValue>(&self, words: &[&str]) -> A {
        self.try_ask(words).unwrap_or_else(|error| panic!("{words:?}: {error}"))
    }

    /// Sends a command to a server that may cut connections: a Sentinel makes it do so when roles
    /// change.
    pub fn try_ask<A: ::redis::FromRedisValue>(&self, words: &[&str]) -> ::redis::RedisResult<A> {
        let mut connection = ::redis::Client::open(self.url())?.get_connection()?;
        let mut command = ::redis::Cmd::new();
        for word in words {
            command.arg(word);
        }
        command.query(&mut connection)
    }

    /// Makes everything that it keeps older.
    pub fn age(&self, by: Duration) {
        const AGE: &str = "for _, key in ipairs(redis.call('KEYS', '*')) do
                local left = redis.call('PTTL', key) - ARGV[1]
                if left > 0 then redis.call('PEXPIRE', key, left) else redis.call('DEL', key) end
            end";
        self.ask::<()>(&["EVAL", AGE, "0", &by.as_millis().to_string()]);
    }
}

/// A master, a replica, and three Sentinels that watch both.
pub struct Watched {
    pub master: Server,
    pub replica: Server,
    pub sentinels: Vec<Server>,
}

impl Watched {
    pub const MASTER: &str = "my-master_1.x";

    pub fn start() -> Watched {
        let (master, replica) = pair();
        let sentinels: Vec<Server> = (0..3).map(|_| Server::start_sentinel()).collect();
        let port = master.address().port().to_string();
        for sentinel in &sentinels {
            sentinel.ask::<()>(&["SENTINEL", "MONITOR", Self::MASTER, "127.0.0.1", &port, "2"]);
            for (option, value) in [("down-after-milliseconds", "3000"), ("failover-timeout", "10000")] {
                sentinel.ask::<()>(&["SENTINEL", "SET", Self::MASTER, option, value]);
            }
        }
        let knows_all = |sentinel: &Server| {
            let master: std::collections::HashMap<String, String> = sentinel.ask(&["SENTINEL", "MASTER", Self::MASTER]);
            master.get("num-slaves").is_some_and(|n| n == "1")
                && master.get("num-other-sentinels").is_some_and(|n| n == "2")
        };
        await_that("the Sentinels find each other", || sentinels.iter().all(knows_all));
        Watched { master, replica, sentinels }
    }

    pub fn sentinel_urls(&self) -> Vec<String> {
        self.sentinels.iter().map(Server::loopback_url).collect()
    }
}

/// Starts a server, and a replica of it that has caught up.
pub fn pair() -> (Server, Server) {
    let (master, replica) = (Server::start_on_loopback(&[]), Server::start_on_loopback(&[]));
    follow(&replica, &master);
    (master, replica)
}

/// Makes a server the other's replica, and waits until it has all that the other one has.
pub fn follow(replica: &Server, master: &Server) {
    let port = master.address().port().to_string();
    master.ask::<()>(&["CONFIG", "SET", "repl-diskless-sync-delay", "0"]);
    replica.ask::<()>(&["REPLICAOF", "127.0.0.1", &port]);
    has_caught_up(replica);
}

fn has_caught_up(replica: &Server) {
    let is_up = || replica.ask::<String>(&["INFO", "replication"]).contains("master_link_status:up");
    await_that("the replica has caught up", is_up);
}

/// Three nodes that share the slots.
pub struct Cluster {
    pub nodes: Vec<Server>,
}

impl Cluster {
    pub fn start() -> Cluster {
        Self::start_with(&[])
    }

    /// Starts nodes, each with these arguments.
    pub fn start_with(arguments: &[&str]) -> Cluster {
        let bus_ports: Vec<String> = (0..3).map(|_| free_port().to_string()).collect();
        let start = |bus_port: &String| {
            let cluster = ["--cluster-enabled", "yes", "--cluster-port", bus_port];
            let patience = ["--cluster-node-timeout", "2000", "--cluster-require-full-coverage", "no"];
            Server::start_on_loopback(&[&cluster[..], &patience, arguments].concat())
        };
        let nodes: Vec<Server> = bus_ports.iter().map(start).collect();
        for ((node, bus_port), slots) in
            nodes.iter().zip(&bus_ports).zip([("0", "5460"), ("5461", "10922"), ("10923", "16383")])
        {
            node.ask::<()>(&["CLUSTER", "ADDSLOTSRANGE", slots.0, slots.1]);
            let port = node.address().port().to_string();
            nodes[0].ask::<()>(&["CLUSTER", "MEET", "127.0.0.1", &port, bus_port]);
        }
        let knows_all = |node: &Server| {
            let info: String = node.ask(&["CLUSTER", "INFO"]);
            ["cluster_state:ok", "cluster_slots_ok:16384", "cluster_known_nodes:3"]
                .iter()
                .all(|line| info.contains(line))
        };
        await_that("the nodes find each other", || nodes.iter().all(knows_all));
        Cluster { nodes }
    }

    pub fn urls(&self) -> Vec<String> {
        self.nodes.iter().map(Server::loopback_url).collect()
    }

    /// Starts a replica of the first master, which takes its place when that is silent for half a
    /// second.
    pub fn start_replica(&self) -> Server {
        let bus_port = free_port().to_string();
        let replica = Server::start_on_loopback(&["--cluster-enabled", "yes", "--cluster-port", &bus_port]);
        let port = replica.address().port().to_string();
        self.nodes[0].ask::<()>(&["CLUSTER", "MEET", "127.0.0.1", &port, &bus_port]);
        self.nodes[0].ask::<()>(&["CONFIG", "SET", "repl-diskless-sync-delay", "0"]);
        let master: String = self.nodes[0].ask(&["CLUSTER", "MYID"]);
        let knows_master = || replica.try_ask::<()>(&["CLUSTER", "REPLICATE", &master]).is_ok();
        await_that("the replica knows its master", knows_master);
        has_caught_up(&replica);
        let knows_it = |node: &Server| node.ask::<String>(&["CLUSTER", "NODES"]).contains("slave");
        await_that("the others know the replica", || self.nodes.iter().all(knows_it));
        for node in self.nodes.iter().chain([&replica]) {
            node.ask::<()>(&["CONFIG", "SET", "cluster-node-timeout", "500"]);
        }
        replica
    }
}

/// A certificate for loopback, and its issuer.
pub struct Certificate(Directory);

impl Certificate {
    /// Makes a certificate; none, if there is no openssl.
    pub fn make() -> Option<Certificate> {
        let made = Directory::new("redis-certificate");
        std::fs::write(made.path().join("config"), "[req]\ndistinguished_name = name\n[name]\n").expect("a file");
        let key = "req -x509 -config config -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2";
        let root = "-keyout root.key -out root.pem -subj /CN=root -addext basicConstraints=critical,CA:TRUE";
        let leaf = "-keyout leaf.key -out leaf.pem -subj /CN=leaf -addext basicConstraints=critical,CA:FALSE \
                    -addext subjectAltName=IP:127.0.0.1 -CA root.pem -CAkey root.key";
        for whose in [root, leaf] {
            let arguments = key.split_whitespace().chain(whose.split_whitespace());
            let output = Command::new("openssl").args(arguments).current_dir(made.path()).output().ok()?;
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        }
        Some(Certificate(made))
    }

    pub fn root_pem(&self) -> Vec<u8> {
        self.file("root.pem")
    }

    /// Returns the certificate and its key.
    pub fn leaf_pem(&self) -> [Vec<u8>; 2] {
        ["leaf.pem", "leaf.key"].map(|name| self.file(name))
    }

    fn file(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.0.file(name)).expect("a file that was made")
    }
}
