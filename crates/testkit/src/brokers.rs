//! Servers of a test's own: on loopback, in a temporary directory. They end with their test.

use crate::directory::Directory;
use crate::processes::{Process, await_port, free_port, is_missing};
use std::process::Command;

/// A NATS server with JetStream.
pub struct Nats {
    process: Process,
    directory: Directory,
    port: u16,
}

impl Nats {
    pub fn start(test: &str) -> Option<Self> {
        if is_missing("nats-server") {
            return None;
        }
        let (directory, port) = (Directory::new(&format!("{test}-nats")), free_port());
        Some(Nats { process: Self::run(&directory, port), directory, port })
    }

    fn run(directory: &Directory, port: u16) -> Process {
        let mut command = Command::new("nats-server");
        command.args(["--addr", "127.0.0.1", "--port", &port.to_string(), "--jetstream", "--store_dir", "."]);
        let log = directory.path().join("nats.log");
        let process = Process::start(command, &log, directory.path());
        await_port(port, &log);
        process
    }

    /// Kills it, as `kill -9`.
    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// Starts it again, with what it had stored.
    pub fn start_again(&mut self) {
        self.process = Self::run(&self.directory, self.port);
    }

    pub fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }
}

/// A RabbitMQ node, and the port mapper that it would otherwise start and leave behind.
pub struct Rabbit {
    _node: Process,
    _mapper: Process,
    _directory: Directory,
    port: u16,
}

impl Rabbit {
    pub fn start(test: &str) -> Option<Self> {
        // The script of this name that is on the path insists on its own user and directories; this
        // one does not.
        let script = std::fs::read_dir("/usr/lib/rabbitmq/lib").into_iter().flatten().flatten();
        let script = script.map(|version| version.path().join("sbin/rabbitmq-server")).find(|path| path.exists());
        let Some(script) = script else {
            crate::skipped_without("rabbitmq-server", "rabbitmq-server");
            return None;
        };
        let directory = Directory::new(&format!("{test}-rabbit"));
        let [port, mapper_port, peer_port] = [free_port(), free_port(), free_port()];
        let mut mapper = Command::new("epmd");
        mapper.args(["-port", &mapper_port.to_string(), "-address", "127.0.0.1"]);
        let log = directory.path().join("mapper.log");
        let mapper = Process::start(mapper, &log, directory.path());
        await_port(mapper_port, &log);

        let mut node = Command::new(script);
        node.env("HOME", directory.path()).env("RABBITMQ_NODENAME", format!("hapax-{port}@localhost"));
        node.env("RABBITMQ_NODE_IP_ADDRESS", "127.0.0.1").env("RABBITMQ_NODE_PORT", port.to_string());
        node.env("ERL_EPMD_ADDRESS", "127.0.0.1").env("ERL_EPMD_PORT", mapper_port.to_string());
        // Other nodes may call on loopback only; no scheduler spins while it has nothing to do; two
        // are enough.
        let erlang = "-kernel inet_dist_use_interface {127,0,0,1} +sbwt none +sbwtdcpu none +sbwtdio none +S 2:2";
        node.env("RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS", erlang).env("RABBITMQ_DIST_PORT", peer_port.to_string());
        for (name, file) in
            [("MNESIA_BASE", "data"), ("LOG_BASE", "logs"), ("PID_FILE", "pid"), ("SCHEMA_DIR", "schema")]
        {
            node.env(format!("RABBITMQ_{name}"), directory.path().join(file));
        }
        for (name, file) in [("CONFIG_FILE", "none"), ("CONF_ENV_FILE", "none"), ("ENABLED_PLUGINS_FILE", "plugins")] {
            node.env(format!("RABBITMQ_{name}"), directory.path().join(file));
        }
        // The script becomes the node: one that waited for it would be killed, and the node would
        // stay.
        node.env("RUNNING_UNDER_SYSTEMD", "true");
        std::fs::write(directory.path().join("plugins"), "[].").expect("a list of no plugins");
        node.env("RABBITMQ_LOGS", "-");
        let log = directory.path().join("rabbit.log");
        let node = Process::start(node, &log, directory.path());
        await_port(port, &log);
        Some(Rabbit { _node: node, _mapper: mapper, _directory: directory, port })
    }

    pub fn url(&self) -> String {
        format!("amqp://127.0.0.1:{}/%2f", self.port)
    }
}
