//! Strategies that not every build has.

use serde::{Deserialize, Serialize};

/// The strategies that need a feature or a `--cfg`: which, whether it is on, and their names.
pub(super) const OPTIONAL: [(&str, bool, &[&str]); 5] = [
    ("the feature `fjall`", cfg!(feature = "fjall"), &["hapax over fjall", "fjall"]),
    ("the feature `sqlite`", cfg!(feature = "sqlite"), &["rusqlite"]),
    ("`--cfg rocksdb` in RUSTFLAGS", cfg!(rocksdb), &["RocksDB"]),
    (
        "the feature `redis`",
        cfg!(feature = "redis"),
        &["hapax over Redis", "Redis SET NX EX, pipelined", "Redis SET NX EX, one at a time"],
    ),
    (
        "the feature `postgres`",
        cfg!(feature = "postgres"),
        &["hapax over PostgreSQL", "PostgreSQL INSERT, batched", "PostgreSQL INSERT, one at a time"],
    ),
];

/// A strategy that was not measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Absent {
    /// Its name.
    pub strategy: String,
    /// The reason.
    pub reason: String,
}

/// Returns the strategies that this build lacks, and what each is built with.
pub fn not_built() -> Vec<Absent> {
    let lacking = OPTIONAL.iter().filter(|(_, is_built, _)| !is_built);
    let absent = lacking.flat_map(|(with, _, names)| {
        names.iter().map(move |name| Absent { strategy: name.to_string(), reason: format!("built without {with}") })
    });
    absent.collect()
}
