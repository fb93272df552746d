//! Broker and ledger, which processes ask and tell on a socket.

use super::ledger::{Ledger, Side};
use super::plan::Plan;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::sleep;

/// The mood of a broker, for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mood {
    Well,
    Refuses,
    /// Accepts nothing and answers nothing.
    Silent,
    /// Answers after so many milliseconds.
    Late(u64),
    /// Publishes, and says that it has not.
    Lies,
    /// Publishes, and closes the connection.
    Vanishes,
}

/// A time at which a part that all need was away.
#[derive(Clone, Copy, Debug)]
pub struct Outage {
    /// The side that it affects, or both if none: an outage of the broker affects no worker.
    pub of: Option<Side>,
    pub from: Duration,
    /// The end; none, as long as it lasts.
    pub until: Option<Duration>,
}

pub struct Parent {
    pub plan: Plan,
    began: Instant,
    ledger: Mutex<Ledger>,
    mood: Mutex<Mood>,
    outages: Mutex<Vec<Outage>>,
    worst: Mutex<Worst>,
    /// The failovers: each with its outage, and the time from which on commits may be lost.
    failovers: Mutex<Vec<(usize, Duration)>>,
}

/// The oldest innocent message that was seen to wait, and the part of its wait that no outage
/// explains.
#[derive(Clone, Copy, Debug, Default)]
pub struct Worst {
    pub age: Duration,
    pub own: Duration,
}

impl Parent {
    pub async fn listen(plan: Plan) -> io::Result<(Arc<Self>, SocketAddr)> {
        let parent = Arc::new(Parent {
            plan,
            began: Instant::now(),
            ledger: Mutex::default(),
            mood: Mutex::new(Mood::Well),
            outages: Mutex::default(),
            worst: Mutex::default(),
            failovers: Mutex::default(),
        });
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let accepting = Arc::clone(&parent);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let parent = Arc::clone(&accepting);
                // An error is a process that was killed.
                tokio::spawn(async move { parent.serve(stream).await });
            }
        });
        Ok((parent, address))
    }

    pub fn now(&self) -> Duration {
        self.began.elapsed()
    }

    pub fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().expect("nobody has panicked with it")
    }

    pub fn worst(&self) -> Worst {
        *self.worst.lock().expect("nobody has panicked with it")
    }

    async fn serve(&self, stream: TcpStream) -> io::Result<()> {
        stream.set_nodelay(true)?;
        let mut stream = BufReader::new(stream);
        loop {
            let mut line = String::new();
            if stream.read_line(&mut line).await? == 0 {
                return Ok(());
            }
            let Some(answer) = self.answer(line.trim_end()).await else { return Ok(()) };
            stream.get_mut().write_all(format!("{answer}\n").as_bytes()).await?;
        }
    }

    /// Answers a request. None: the connection is closed.
    async fn answer(&self, line: &str) -> Option<String> {
        let (what, about) = line.split_once(' ').unwrap_or((line, ""));
        match what {
            "begin" => Some(self.ledger().begun(about.parse().ok()?).to_string()),
            "publish" => self.publish(about.parse().ok()?).await,
            _ => {
                self.ledger().violated(format!("a process has {line}"));
                Some(String::new())
            }
        }
    }

    async fn publish(&self, id: u64) -> Option<String> {
        let mood = *self.mood.lock().expect("nobody has panicked with it");
        match mood {
            Mood::Refuses => return Some("the broker is away".to_owned()),
            Mood::Silent => std::future::pending::<()>().await,
            Mood::Late(ms) => sleep(Duration::from_millis(ms)).await,
            Mood::Well | Mood::Lies | Mood::Vanishes => {}
        }
        let now = self.now();
        self.ledger().done(id, now);
        match mood {
            Mood::Vanishes => None,
            Mood::Lies => Some("it could not be published".to_owned()),
            _ => Some("ok".to_owned()),
        }
    }

    /// Sets the broker's mood for a while.
    pub async fn be(&self, mood: Mood, length: Duration) {
        let outage = self.begin_outage(Some(Side::Outbox));
        *self.mood.lock().expect("nobody has panicked with it") = mood;
        sleep(length).await;
        *self.mood.lock().expect("nobody has panicked with it") = Mood::Well;
        self.end_outage(outage);
    }

    pub fn begin_outage(&self, of: Option<Side>) -> usize {
        let from = self.now();
        let mut outages = self.outages.lock().expect("nobody has panicked with it");
        outages.push(Outage { of, from, until: None });
        outages.len() - 1
    }

    pub fn end_outage(&self, outage: usize) {
        self.outages.lock().expect("nobody has panicked with it")[outage].until = Some(self.now());
    }

    pub fn failed_over(&self, outage: usize, cut: Duration) {
        self.failovers.lock().expect("nobody has panicked with it").push((outage, cut));
    }

    /// Returns a failover by its number, if there was one.
    pub fn failover(&self, number: usize) -> Option<(usize, Duration)> {
        self.failovers.lock().expect("nobody has panicked with it").get(number).copied()
    }

    /// Checks that no innocent message has waited for too long.
    pub fn look(&self) {
        let now = self.now();
        let outages = self.outages.lock().expect("nobody has panicked with it").clone();
        let mut ledger = self.ledger();
        let mut late = Vec::new();
        for head in ledger.heads() {
            let (age, own) = (now.saturating_sub(head.since), own(&outages, head.side, head.since, now));
            let mut worst = self.worst.lock().expect("nobody has panicked with it");
            let is_said = worst.own > self.plan.age_max();
            worst.age = worst.age.max(age);
            worst.own = worst.own.max(own);
            if own > self.plan.age_max() && !is_said {
                late.push((head, age, own));
            }
        }
        for (head, age, own) in late {
            let said = ledger.said(head.id);
            ledger.violated(format!("at {now:?}: {head:?} has waited for {age:?}, {own:?} of it for nothing: {said}"));
        }
    }
}

/// Returns the part of a wait that no outage explains. An outage explains its length, and as much
/// again, in which clients that found the server away wait before they ask again.
fn own(outages: &[Outage], side: Side, since: Duration, now: Duration) -> Duration {
    let of_side = outages.iter().filter(|outage| outage.of.is_none_or(|of| of == side));
    let explained: Duration = of_side
        .map(|outage| {
            let until = outage.until.map_or(now, |until| until + (until - outage.from)).min(now);
            until.saturating_sub(outage.from.max(since))
        })
        .sum();
    now.saturating_sub(since).saturating_sub(explained)
}

#[test]
fn an_outage_explains_itself_and_the_wait_behind_it() {
    let second = Duration::from_secs(1);
    let outages = [Outage { of: Some(Side::Outbox), from: 3 * second, until: Some(5 * second) }];
    for (side, since, now, expected) in [
        (Side::Outbox, 0, 10, 6),
        (Side::Outbox, 4, 10, 3),
        (Side::Outbox, 4, 5, 0),
        (Side::Outbox, 8, 10, 2),
        (Side::Inbox, 0, 10, 10),
    ] {
        assert_eq!(own(&outages, side, since * second, now * second), expected * second, "{side:?} {since} {now}");
    }
    let lasting = [Outage { of: None, from: 3 * second, until: None }];
    assert_eq!(own(&lasting, Side::Inbox, second, 9 * second), 2 * second);
}
