//! The server and its asynchronous standby, which take turns.

use super::producer::connect;
use crate::{Place, ms, until};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;
use testkit::postgres_server::Server;
use tokio::time::sleep;
use tokio_postgres::Client;

pub struct Servers {
    servers: [Arc<Server>; 2],
    /// The one that is no standby.
    primary: AtomicUsize,
    /// The number of standbys that were promoted.
    epoch: AtomicU64,
}

impl Servers {
    /// Starts a standby beside a server.
    pub fn start(place: &Place) -> Arc<Self> {
        let servers = [Arc::clone(&place.server), Arc::new(place.server.standby())];
        Arc::new(Servers { servers, primary: AtomicUsize::new(0), epoch: AtomicU64::new(0) })
    }

    /// Returns an address that leads to whichever of them writes.
    pub fn address(&self) -> String {
        let ports = self.servers.each_ref().map(|server| server.port);
        let user = "user=postgres dbname=postgres target_session_attrs=read-write";
        format!("host=127.0.0.1,127.0.0.1 port={},{} {user}", ports[0], ports[1])
    }

    /// Connects to the one that writes, and waits for it.
    pub async fn client(&self) -> Client {
        loop {
            match connect(&self.address()).await {
                Some(client) => return client,
                None => sleep(ms(20)).await,
            }
        }
    }

    pub fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::SeqCst)
    }

    pub fn primary(&self) -> &Arc<Server> {
        &self.servers[self.primary.load(Ordering::SeqCst)]
    }

    fn standby(&self) -> &Arc<Server> {
        &self.servers[1 - self.primary.load(Ordering::SeqCst)]
    }

    /// Lets the standby have all that is committed by now, and nothing of what is committed for a
    /// while after that; then ends the server, and promotes the standby.
    pub async fn fail_over(&self, place: &Place, lag: Duration) {
        let there = crate::client(&self.standby().address()).await;
        let marker = format!("{{p}}_marker_{}", self.epoch());
        place.execute(&self.client().await, &format!("CREATE TABLE {marker} ()")).await;
        let is_there = format!("SELECT count(*) FROM pg_class WHERE relname = '{marker}'");
        until("it is replicated", async || place.count(&there, &is_there).await == 1).await;
        place.execute(&there, "ALTER SYSTEM SET primary_conninfo = ''").await;
        place.execute(&there, "SELECT pg_reload_conf()").await;
        let receives = "SELECT count(*) FROM pg_stat_wal_receiver";
        until("it is cut off", async || place.count(&there, receives).await == 0).await;
        sleep(lag).await;
        self.primary().kill();
        self.primary.fetch_xor(1, Ordering::SeqCst);
        place.execute(&there, "SELECT pg_promote()").await;
        self.epoch.fetch_add(1, Ordering::SeqCst);
    }

    /// Makes the server that was killed the standby of the one that was promoted.
    pub fn follow(&self) {
        self.standby().follow(self.primary());
    }
}
