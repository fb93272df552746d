//! An order's way from an HTTP request to its bill, in four steps that may each be killed at any
//! time: it is billed once.
//!
//! | step | in file | what makes it once |
//! |---|---|---|
//! | a client posts an order, and posts it again if it gets no answer | `api.rs` | its key: a layer replays the answer, and the order's id is the key |
//! | the order and its message are stored together | `api.rs` | one transaction: `hapax_postgres::outbox` |
//! | the message goes to a stream of NATS JetStream | `relay.rs` | it is removed when the stream has it; the stream drops what comes twice within minutes |
//! | the order is billed | `billing.rs` | the bill and the mark of its message are one transaction: `hapax_postgres::inbox` |

pub mod api;
pub mod billing;
pub mod relay;
pub mod setup;
pub mod world;

use deadpool_postgres::{Manager, Pool};
use hapax_postgres::Tables;
use tokio::signal::unix::{SignalKind, signal};

/// An error that ends a step. Whoever supervises it starts it again.
pub type Failed = Box<dyn std::error::Error + Send + Sync>;

/// The topic of the outbox, and the subject in the stream.
pub const TOPIC: &str = "orders.placed";

/// Returns the tables of inbox and outbox.
///
/// # Errors
///
/// None: the names are valid.
pub fn tables() -> Result<Tables, Failed> {
    Ok(Tables::new("public", "shop")?)
}

/// Returns connections to the database, made when they are needed.
///
/// # Errors
///
/// If the address is wrong.
pub fn pool(database: &str) -> Result<Pool, Failed> {
    // In production with TLS, and with an address of more than one server.
    let manager = Manager::new(database.parse()?, tokio_postgres::NoTls);
    Ok(Pool::builder(manager).max_size(8).build()?)
}

/// Connects to NATS, or goes on trying.
///
/// # Errors
///
/// If the address is wrong.
pub async fn jetstream(nats: &str) -> Result<async_nats::jetstream::Context, Failed> {
    let options = async_nats::ConnectOptions::new().retry_on_initial_connect();
    Ok(async_nats::jetstream::new(options.connect(nats).await?))
}

/// Waits until this process is asked to end.
///
/// # Errors
///
/// If signals cannot be received.
pub fn interrupted() -> std::io::Result<impl Future<Output = ()> + Send> {
    let [mut pressed, mut ended] = [signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?];
    Ok(async move {
        tokio::select! {
            _ = pressed.recv() => {}
            _ = ended.recv() => {}
        }
    })
}
