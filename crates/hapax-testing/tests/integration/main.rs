//! Tests that judge what others have built: consumers in simulations, and maps.

mod consumer;
mod maps;

/// Returns the first number, or the second one where `HAPAX_LONG` asks for campaigns.
/// (testkit's: testkit depends on this crate.)
fn long<T>(short: T, long: T) -> T {
    if std::env::var_os("HAPAX_LONG").is_some() { long } else { short }
}
