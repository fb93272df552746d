//! Records as stores give them back: the first letter says to which decoder. The bodies are the
//! `fuzzing.rs` of the crates, whose tests replay them; those of the servers' crates are there with
//! the feature `stores`.
#![cfg_attr(fuzzing, no_main)]

#[cfg(fuzzing)]
#[path = "../allocation.rs"]
mod allocation;

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    allocation::at_most(65_536 + 64 * bytes.len(), || decode(bytes));
});

#[cfg(fuzzing)]
fn decode(bytes: &[u8]) -> bool {
    #[cfg(feature = "stores")]
    if hapax_fjall::fuzzing::fuzz(bytes) || hapax_postgres::fuzzing::fuzz(bytes) || hapax_redis::fuzzing::fuzz(bytes) {
        return true;
    }
    hapax_store::fuzzing::fuzz(bytes)
}

/// Stands in for the main function that `cargo fuzz` makes, so that this compiles without it.
#[cfg(not(fuzzing))]
fn main() {}
