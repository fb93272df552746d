//! A process of the campaign: a relay, or a worker.

use super::ours;
use super::plan::{Deed, Deeds, Part};
use hapax_postgres::{BoxError, Handler, Message, Publisher};
use std::io;
use std::net::SocketAddr;
use std::sync::Mutex;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

/// The connection to the parent, for questions and news: the broker and the ledger.
struct Parent {
    address: SocketAddr,
    idle: Mutex<Vec<BufReader<TcpStream>>>,
}

impl Parent {
    /// Asks on a connection that no other task uses meanwhile. If the caller does not wait, its
    /// connection is closed.
    async fn ask(&self, what: &str) -> io::Result<String> {
        let idle = self.idle.lock().expect("nobody has panicked with it").pop();
        let mut connection = match idle {
            Some(connection) => connection,
            None => BufReader::new(TcpStream::connect(self.address).await?),
        };
        connection.get_mut().write_all(format!("{what}\n").as_bytes()).await?;
        let mut answer = String::new();
        if connection.read_line(&mut answer).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.idle.lock().expect("nobody has panicked with it").push(connection);
        Ok(answer.trim_end().to_owned())
    }
}

pub struct Process {
    parent: Parent,
    effect: String,
}

/// Works until it is killed, or the process that has started it is gone.
pub async fn run(part: Part) {
    let parent = Parent { address: part.parent, idle: Mutex::default() };
    let effect = format!("INSERT INTO {}_effects (id) VALUES ($1)", part.prefix);
    let watched = TcpStream::connect(part.parent).await;
    tokio::spawn(async move {
        if let Ok(mut watched) = watched {
            let _ = watched.read_u8().await;
        }
        std::process::exit(1);
    });
    let ended = ours::work(&part, Process { parent, effect }).await;
    let why = format!("{ended:?}").replace('\n', " ");
    let parent = Parent { address: part.parent, idle: Mutex::default() };
    let _ = parent.ask(&format!("ended {:?} {why}", part.role)).await;
}

fn id(message: &Message) -> &str {
    std::str::from_utf8(&message.id).expect("ids are numbers")
}

/// Panics before there is a future, as long as the message says so.
fn panic_at_once(message: &Message) -> Deeds {
    let deeds = Deeds::parse(&message.payload).expect("deeds");
    let is_told_to = u64::from(message.attempts) < deeds.times;
    assert!(deeds.deed != Deed::PanicsAtOnce || !is_told_to, "{} panics at once", id(message));
    deeds
}

impl Process {
    /// Returns true if this is one of the attempts in which a message misbehaves.
    async fn is_told_to(&self, message: &Message, deeds: Deeds) -> io::Result<bool> {
        if deeds.is_innocent() {
            return Ok(false);
        }
        let before = self.parent.ask(&format!("begin {}", id(message))).await?;
        Ok(before.parse::<u64>().map_err(io::Error::other)? < deeds.times)
    }

    async fn misbehave(&self, message: &Message, deed: Deed) -> Result<(), BoxError> {
        match deed {
            Deed::Fine | Deed::PanicsAtOnce => Ok(()),
            Deed::Fails => Err(format!("{} fails", id(message)).into()),
            Deed::GivesUp => Err(ours::hopeless(&format!("{} gives up", id(message)))),
            Deed::Hangs | Deed::HangsInside => std::future::pending().await,
            Deed::Panics => panic!("{} panics", id(message)),
        }
    }
}

impl Handler for Process {
    fn handle(
        &self,
        tx: &mut tokio_postgres::Transaction<'_>,
        message: &Message,
    ) -> impl Future<Output = Result<(), BoxError>> + Send {
        let deeds = panic_at_once(message);
        async move {
            // The effect is there before whatever goes wrong.
            let number: i64 = id(message).parse()?;
            tx.execute(&self.effect, &[&number]).await?;
            if self.is_told_to(message, deeds).await? {
                if deeds.deed == Deed::HangsInside {
                    tx.execute("SELECT pg_sleep(3600)", &[]).await?;
                }
                self.misbehave(message, deeds.deed).await?;
            }
            Ok(())
        }
    }
}

impl Publisher for Process {
    fn publish(&self, message: &Message) -> impl Future<Output = Result<(), BoxError>> + Send {
        let deeds = panic_at_once(message);
        async move {
            if self.is_told_to(message, deeds).await? {
                self.misbehave(message, deeds.deed).await?;
            }
            match self.parent.ask(&format!("publish {}", id(message))).await?.as_str() {
                "ok" => Ok(()),
                refused => Err(refused.into()),
            }
        }
    }
}
