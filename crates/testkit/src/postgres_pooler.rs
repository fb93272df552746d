//! A pgbouncer of a test's own, in front of a server of a test's own: on a port of the loopback,
//! ended with the test.

use super::postgres_server::{Server, unprivileged};
use crate::directory::Directory;
use crate::processes::{Process, await_port, free_port};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use tokio_postgres::{Client, NoTls, SimpleQueryMessage};

pub struct Pooler {
    _process: Process,
    _directory: Directory,
    port: u16,
}

impl Pooler {
    /// Starts a pooler of transactions with this many connections to the server, and with
    /// additional settings. None if there is no pgbouncer here, which is printed.
    pub fn start(server: &Server, connections: usize, settings: &[&str]) -> Option<Pooler> {
        let Some(binary) = binary() else {
            crate::skipped_without("pgbouncer", "pgbouncer");
            return None;
        };
        let (directory, port) = (Directory::new("pgbouncer"), free_port());
        let configuration = format!(
            "[databases]\npostgres = host=127.0.0.1 port={} dbname=postgres user=postgres\n\
             [pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\nauth_type = any\n\
             pool_mode = transaction\ndefault_pool_size = {connections}\nmax_client_conn = 200\n{}\n",
            server.port,
            settings.join("\n"),
        );
        let [file, log] = ["pgbouncer.ini", "log"].map(|name| directory.path().join(name));
        std::fs::write(&file, configuration).expect("a configuration");
        let mut command = unprivileged(&binary);
        command.arg(&file);
        let process = Process::start(command, &log, Path::new("/"));
        await_port(port, &log);
        Some(Pooler { _process: process, _directory: directory, port })
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns an address for the driver.
    pub fn address(&self) -> String {
        format!("host=127.0.0.1 port={} user=postgres dbname=postgres", self.port)
    }
}

fn binary() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let dirs = std::env::split_paths(&path).chain([PathBuf::from("/usr/sbin")]);
    dirs.map(|dir| dir.join("pgbouncer")).find(|binary| binary.exists())
}

/// Returns what was left on connections of the pooler and not there before: settings, prepared
/// statements, channels that are listened to. All its connections are looked at, each held by a
/// transaction of its own.
pub async fn left_behind(pooler: &Pooler, connections: usize, untouched: &BTreeMap<String, String>) -> Vec<String> {
    let (mut held, mut left) = (Vec::new(), Vec::new());
    for _ in 0..connections {
        let (client, connection) = tokio_postgres::connect(&pooler.address(), NoTls).await.expect("a connection");
        tokio::spawn(connection);
        client.batch_execute("BEGIN").await.expect("a transaction");
        let settings = settings_of(&client).await;
        let others = settings.into_iter().filter(|(name, value)| untouched.get(name) != Some(value));
        left.extend(others.map(|(name, value)| format!("{name} = {value}")));
        for what in ["name FROM pg_prepared_statements", "* FROM pg_listening_channels()"] {
            left.extend(asked(&client, &format!("SELECT {what}")).await.into_iter().flatten());
        }
        held.push(client);
    }
    left
}

/// Returns all settings of a connection but those that the pooler itself keeps with each client.
pub async fn settings_of(client: &Client) -> BTreeMap<String, String> {
    // (Those of PL/pgSQL are listed by sessions that have run something in it, as it is by
    // default.)
    let sql = "SELECT name, setting FROM pg_settings WHERE name NOT IN ('application_name', 'client_encoding') \
               AND name NOT LIKE 'plpgsql.%' ORDER BY name";
    let rows = asked(client, sql).await;
    rows.into_iter().map(|mut row| (row.remove(0), row.remove(0))).collect()
}

/// Returns the rows of a statement without values, as text.
async fn asked(client: &Client, sql: &str) -> Vec<Vec<String>> {
    let messages = client.simple_query(sql).await.expect("rows");
    let rows = messages.iter().filter_map(|message| match message {
        SimpleQueryMessage::Row(row) => Some(row),
        _ => None,
    });
    rows.map(|row| (0..row.len()).map(|at| row.get(at).unwrap_or_default().to_owned()).collect()).collect()
}
