//! What the examples have in common, so that each of them holds only what a reader would copy.

pub mod ledger;
pub mod prompt;
pub mod signature;

pub use ledger::Ledger;

/// What goes wrong in an example ends it: what it had not acknowledged comes again.
pub type Failed = Box<dyn std::error::Error + Send + Sync>;

/// The arguments of the command line, one for each name.
///
/// # Errors
///
/// How the command is used, if there are more or fewer.
pub fn arguments<const N: usize>(names: [&str; N]) -> Result<[String; N], Failed> {
    let mut words = std::env::args();
    let command = words.next().unwrap_or_default();
    words.collect::<Vec<_>>().try_into().map_err(|words: Vec<_>| {
        format!("expected {N} arguments, got {}. Usage: {command} {}", words.len(), names.join(" ")).into()
    })
}
