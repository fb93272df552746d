//! The parts that examples share: arguments, signals, a ledger, and the helpers of a receiver of
//! requests. The programs in `src/bin` put them together.

pub mod prompt;
pub mod signature;

pub mod ledger;

pub use ledger::Ledger;

use tokio::signal::unix::{SignalKind, signal};

/// An error that ends an example: messages that it had not acknowledged come again.
pub type Failed = Box<dyn std::error::Error + Send + Sync>;

/// Returns the arguments of the command line, one for each name.
///
/// # Errors
///
/// The usage of the command, if there are more or fewer.
pub fn arguments<const N: usize>(names: [&str; N]) -> Result<[String; N], Failed> {
    let mut words = std::env::args();
    let command = words.next().unwrap_or_default();
    words.collect::<Vec<_>>().try_into().map_err(|words: Vec<_>| {
        format!("expected {N} arguments, got {}. Usage: {command} {}", words.len(), names.join(" ")).into()
    })
}

/// Waits for Ctrl-C, or for another request to end this process. From the call on, neither ends it
/// by itself.
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
