//! Finds the versions of the crates that `hapax bench` compares.

#[path = "src/bench/locked.rs"]
mod locked;

use std::path::Path;

/// The crates that are compared, and what Cargo says of a build that has each: its feature or its
/// `--cfg`, if it needs one.
const COMPARED: [(&str, Option<&str>); 14] = [
    ("bloomfilter", None),
    ("dashmap", None),
    ("fastbloom", None),
    ("foldhash", None),
    ("moka", None),
    ("papaya", None),
    ("parking_lot", None),
    ("quick_cache", None),
    ("scc", None),
    ("fjall", Some("FEATURE_FJALL")),
    ("redis", Some("FEATURE_REDIS")),
    ("rocksdb", Some("CFG_ROCKSDB")),
    ("rusqlite", Some("FEATURE_SQLITE")),
    ("tokio-postgres", Some("FEATURE_POSTGRES")),
];

fn main() {
    let folder = std::env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
    // A package has a lock of its own; in a checkout it is the workspace's.
    let lock = Path::new(&folder).ancestors().map(|folder| folder.join("Cargo.lock")).find(|path| path.is_file());
    println!("cargo::rerun-if-changed=build.rs");
    lock.iter().for_each(|path| println!("cargo::rerun-if-changed={}", path.display()));
    let lock = lock.and_then(|path| std::fs::read_to_string(path).ok()).unwrap_or_default();
    let is_built = |with: Option<&str>| with.is_none_or(|with| std::env::var_os(format!("CARGO_{with}")).is_some());
    let compared = COMPARED.iter().filter(|(_, with)| is_built(*with)).map(|(name, _)| {
        let version = locked::locked(&lock, "hapax-bench", name);
        format!("{name} {}", version.as_deref().unwrap_or("unknown"))
    });
    println!("cargo::rustc-env=HAPAX_COMPARED={}", compared.collect::<Vec<_>>().join(","));
}
