//! Faults, at random.

use super::parent::{Mood, Parent};
use super::plan::{Part, Role};
use super::producer::connect;
use super::servers::Servers;
use crate::{Place, Random, ms};
use std::collections::BTreeMap;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use tokio::time::sleep;

pub const CHILD: &str = "HAPAX_INBOX_CAMPAIGN_CHILD";

/// Relays and workers, which are restarted when they are killed; all are killed when this is
/// dropped.
pub struct Processes {
    part: Part,
    children: Vec<(Role, Child)>,
}

impl Processes {
    pub fn start(part: Part) -> Self {
        let mut processes = Processes { part, children: Vec::new() };
        for role in [Role::Relay, Role::Worker] {
            for _ in 0..processes.part.plan.processes() {
                let child = processes.spawn(role);
                processes.children.push((role, child));
            }
        }
        processes
    }

    fn spawn(&self, role: Role) -> Child {
        let part = Part { role, ..self.part.clone() };
        let mut child = Command::new(std::env::current_exe().expect("this program has a path"));
        child
            .args(["--exact", "campaign::child", "--nocapture", "--test-threads=1"])
            .env(CHILD, part.to_text())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        testkit::children::started(child)
    }

    fn kill(&mut self, at: usize) -> Role {
        let (role, child) = &mut self.children[at];
        let role = *role;
        // It may have ended by itself, which is reported elsewhere.
        let _ = child.kill();
        let _ = child.wait();
        self.children[at].1 = self.spawn(role);
        role
    }

    /// Restarts those that have ended.
    pub fn look_after(&mut self) {
        for at in 0..self.children.len() {
            if self.children[at].1.try_wait().is_ok_and(|ended| ended.is_some()) {
                self.children[at].1 = self.spawn(self.children[at].0);
            }
        }
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        for (_, child) in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

pub struct Faults {
    pub parent: Arc<Parent>,
    pub processes: Processes,
    pub servers: Arc<Servers>,
    /// The making of a standby, after a failover.
    pub standby: Option<tokio::task::JoinHandle<()>>,
    pub random: Random,
    /// The number of faults of each kind.
    pub tally: BTreeMap<String, u64>,
}

impl Faults {
    /// Runs one fault; some last while the next ones come.
    pub async fn one(&mut self, place: &Arc<Place>, fails_over: bool) {
        let plan = self.parent.plan;
        let has_standby = self.standby.as_ref().is_none_or(tokio::task::JoinHandle::is_finished);
        let what = match self.random.below(100) {
            drawn if has_standby && (fails_over || drawn < 4 && !plan.is_short) => {
                self.fail_over(place).await;
                "failover".to_owned()
            }
            0..30 => {
                let at = self.random.below(2 * plan.processes() as u64) as usize;
                format!("kill -9 of a {:?}", self.processes.kill(at)).to_lowercase()
            }
            30..55 => {
                terminate(&self.servers.address(), self.random.within(1, 8)).await;
                "pg_terminate_backend".to_owned()
            }
            55..63 if has_standby => {
                self.stop_server().await;
                "immediate stop of the server".to_owned()
            }
            63..80 => self.broker(),
            80..85 => self.lock_rows(place),
            85..92 => {
                let sql = "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM {p}_committed";
                self.leave_open(place, sql);
                "long transaction".to_owned()
            }
            _ => {
                self.leave_open(place, "BEGIN; SELECT count(*) FROM {p}_marks");
                "open reader of the marks".to_owned()
            }
        };
        *self.tally.entry(what).or_default() += 1;
    }

    /// Ends the server, and lets its standby take its place, which lacks what came last.
    async fn fail_over(&mut self, place: &Arc<Place>) {
        if let Some(standby) = self.standby.take() {
            standby.await.expect("it follows");
        }
        let (cut, outage) = (self.parent.now(), self.parent.begin_outage(None));
        let lag = self.parent.plan.while_it_lasts(&mut self.random) / 4;
        self.servers.fail_over(place, lag).await;
        self.parent.failed_over(outage, cut);
        let (servers, is_short) = (Arc::clone(&self.servers), self.parent.plan.is_short);
        self.standby = (!is_short).then(|| tokio::task::spawn_blocking(move || servers.follow()));
    }

    async fn stop_server(&mut self) {
        let outage = self.parent.begin_outage(None);
        let (server, away) =
            (Arc::clone(self.servers.primary()), self.parent.plan.while_it_lasts(&mut self.random) / 4);
        let stopped = tokio::task::spawn_blocking(move || {
            server.kill();
            std::thread::sleep(away);
            server.launch();
        });
        stopped.await.expect("it starts again");
        self.parent.end_outage(outage);
    }

    fn broker(&mut self) -> String {
        let length = self.parent.plan.while_it_lasts(&mut self.random);
        let late = self.random.below(2 * self.parent.plan.publish_timeout().as_millis() as u64);
        let (mood, what) = match self.random.below(5) {
            0 => (Mood::Refuses, "refuses"),
            1 => (Mood::Silent, "is silent"),
            2 => (Mood::Late(late), "answers late"),
            3 => (Mood::Lies, "publishes and says no"),
            _ => (Mood::Vanishes, "publishes and says nothing"),
        };
        let parent = Arc::clone(&self.parent);
        tokio::spawn(async move { parent.be(mood, length).await });
        format!("broker {what}")
    }

    /// Lets an operator lock rows in a transaction that stays open: messages, keys, or what says
    /// that somebody is awake. What is locked waits, and nothing else.
    fn lock_rows(&mut self, place: &Arc<Place>) -> String {
        let queue = if self.random.below(2) == 0 { "inbox" } else { "outbox" };
        let (what, sql) = match self.random.below(5) {
            0 | 1 => {
                ("messages", format!("SELECT FROM {{p}}_{queue} ORDER BY random() LIMIT 20 FOR UPDATE SKIP LOCKED"))
            }
            2 | 3 => {
                ("keys", format!("SELECT FROM {{p}}_{queue}_keys ORDER BY random() LIMIT 20 FOR UPDATE SKIP LOCKED"))
            }
            _ => ("what rings", format!("SELECT FROM {{p}}_{queue}_bell FOR UPDATE SKIP LOCKED")),
        };
        let (sql, length) = (format!("BEGIN; {sql}"), self.parent.plan.while_it_lasts(&mut self.random));
        let (address, parent, sql) =
            (self.servers.address(), Arc::clone(&self.parent), sql.replace("{p}", &place.prefix));
        tokio::spawn(async move {
            if let Some(client) = connect(&address).await {
                // Messages that are locked wait for as long.
                let outage = parent.begin_outage(None);
                let _ = client.batch_execute(&sql).await;
                sleep(length).await;
                parent.end_outage(outage);
            }
        });
        format!("locks on {what}")
    }

    fn leave_open(&mut self, place: &Arc<Place>, sql: &str) {
        let (sql, length) = (sql.replace("{p}", &place.prefix), self.parent.plan.while_it_lasts(&mut self.random));
        let address = self.servers.address();
        tokio::spawn(async move {
            if let Some(client) = connect(&address).await {
                // An error is ignored: another fault may terminate this connection.
                let _ = client.batch_execute(&sql).await;
                sleep(length).await;
            }
        });
    }
}

async fn terminate(address: &str, how_many: u64) {
    if let Some(client) = connect(address).await {
        let sql = format!(
            "SELECT pg_terminate_backend(pid) FROM (SELECT pid FROM pg_stat_activity WHERE pid <> pg_backend_pid() \
             AND backend_type = 'client backend' ORDER BY random() LIMIT {how_many}) some"
        );
        let _ = client.batch_execute(&sql).await;
        // It takes a moment.
        sleep(ms(5)).await;
    }
}
