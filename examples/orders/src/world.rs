//! For the demonstration and the test: the servers, the steps as processes, and a client that posts
//! until it has an answer.

use std::collections::BTreeMap;
use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use testkit::brokers::Nats;
use testkit::directory::Directory;
use testkit::postgres_server::Server;
use testkit::processes::{Process, await_until, free_port};
use tokio::runtime::Runtime;

/// The number of things that can be killed: the three steps, and both servers.
pub const KINDS: usize = 5;

pub struct World {
    postgres: Server,
    nats: Nats,
    steps: Vec<Step>,
    address: String,
    directory: Directory,
    runtime: Runtime,
    pub kills: usize,
}

struct Step {
    name: &'static str,
    arguments: Vec<String>,
    program: PathBuf,
    process: Option<Process>,
}

impl World {
    /// Starts it all; none, loudly, if a server is not installed.
    pub fn start(program: PathBuf) -> Option<World> {
        let postgres = Server::start(&["synchronous_commit=on"])?;
        let nats = Nats::start("orders")?;
        let address = format!("127.0.0.1:{}", free_port());
        let steps = [("api", vec![address.clone()]), ("relay", vec![]), ("billing", vec![])];
        let steps = steps.map(|(name, mut arguments)| {
            arguments.insert(0, name.to_owned());
            Step { name, arguments, program: program.clone(), process: None }
        });
        let (directory, runtime) = (Directory::new("orders"), Runtime::new().expect("a runtime"));
        let mut world = World { postgres, nats, steps: steps.into(), address, directory, runtime, kills: 0 };
        let mut setup = Command::new(program);
        world.configure(setup.arg("setup"));
        assert!(setup.status().expect("setup").success());
        world.supervise();
        Some(world)
    }

    fn configure(&self, command: &mut Command) {
        command.env("DATABASE_URL", self.postgres.tcp_address("postgres")).env("NATS_URL", self.nats.url());
    }

    fn log(&self) -> PathBuf {
        self.directory.path().join("steps.log")
    }

    /// Starts the steps that do not run, as their supervisor would.
    pub fn supervise(&mut self) {
        let log = self.log();
        for at in 0..self.steps.len() {
            if self.steps[at].process.as_mut().is_none_or(Process::has_ended) {
                let mut command = Command::new(&self.steps[at].program);
                self.configure(command.args(&self.steps[at].arguments));
                self.steps[at].process = Some(Process::start(command, &log, self.directory.path()));
            }
        }
    }

    /// Kills a step or a server, as `kill -9`, and starts it again. Returns its name.
    pub fn kill_one(&mut self, which: usize) -> &'static str {
        self.kills += 1;
        match which % KINDS {
            3 => {
                self.postgres.kill();
                self.postgres.launch();
                "PostgreSQL"
            }
            4 => {
                self.nats.kill();
                self.nats.start_again();
                "NATS"
            }
            step => {
                self.steps[step].process = None; // which kills it
                self.supervise();
                self.steps[step].name
            }
        }
    }

    /// Posts an order until it has an answer that is for good. Returns its status.
    pub fn post(&mut self, key: &str, body: &str) -> u16 {
        let (log, mut last) = (self.log(), 0);
        await_until(&log, || {
            self.supervise();
            last = post_once(&self.address, key, body).unwrap_or(0);
            matches!(last, 200..=299 | 400 | 422)
        });
        last
    }

    /// Returns how often each order was billed.
    pub fn bills(&self) -> BTreeMap<String, usize> {
        let counted = self.query("SELECT order_id, count(*) FROM bills GROUP BY 1");
        let count = |row: &tokio_postgres::Row| (row.get(0), usize::try_from(row.get::<_, i64>(1)).unwrap_or(0));
        counted.iter().map(count).collect()
    }

    /// Waits until this many orders are billed.
    pub fn until_all_is_billed(&mut self, orders: usize) {
        let log = self.log();
        await_until(&log, || {
            self.supervise();
            self.bills().len() >= orders
        });
    }

    /// Asks the database, which runs.
    pub fn query(&self, text: &str) -> Vec<tokio_postgres::Row> {
        let address = self.postgres.tcp_address("postgres");
        let asked = async {
            let (client, connection) = tokio_postgres::connect(&address, tokio_postgres::NoTls).await?;
            tokio::spawn(connection);
            client.query(text, &[]).await
        };
        self.runtime.block_on(asked).expect("an answer")
    }

    pub fn said(&self) -> String {
        std::fs::read_to_string(self.log()).unwrap_or_default()
    }

    pub fn path(&self) -> &Path {
        self.directory.path()
    }
}

/// Sends one request. Returns the status of its answer.
fn post_once(address: &str, key: &str, body: &str) -> io::Result<u16> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    let (length, head) = (body.len(), format!("POST /orders HTTP/1.1\r\nhost: {address}\r\nconnection: close"));
    write!(stream, "{head}\r\nidempotency-key: \"{key}\"\r\ncontent-length: {length}\r\n\r\n{body}")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok());
    status.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, answer))
}
