//! The versions of the libraries and servers that are compared.

use hapax_bench::measure::{Library, servers};
use hapax_bench::strategy::Needs;

/// The lock file of the workspace when it was built. (`cargo install` without `--locked` may have
/// taken other versions that are compatible.)
const LOCK: &str = include_str!("../../../../Cargo.lock");

/// The crates that are compared, and whether this build has them.
const COMPARED: [(&str, bool); 13] = [
    ("bloomfilter", true),
    ("dashmap", true),
    ("fastbloom", true),
    ("foldhash", true),
    ("moka", true),
    ("papaya", true),
    ("parking_lot", true),
    ("quick_cache", true),
    ("scc", true),
    ("fjall", cfg!(feature = "fjall")),
    ("redis", cfg!(feature = "redis")),
    ("rusqlite", cfg!(feature = "sqlite")),
    ("tokio-postgres", cfg!(feature = "postgres")),
];

/// Returns the versions of this crate, of others, and of servers as far as they are installed.
pub fn libraries() -> Vec<Library> {
    let library = |name: &str, version: &str| Library { name: name.to_string(), version: version.to_string() };
    let mut libraries = vec![library("hapax", env!("CARGO_PKG_VERSION"))];
    let built = COMPARED.iter().filter(|(_, is_built)| *is_built);
    libraries.extend(built.filter_map(|(name, _)| Some(library(name, &locked(LOCK, "hapax-bench", name)?))));
    let places = [
        (Needs::Directory, true),
        (Needs::Redis, cfg!(feature = "redis")),
        (Needs::Postgres, cfg!(feature = "postgres")),
    ];
    for (needs, is_built) in places {
        let version = servers::version(needs).filter(|_| is_built);
        libraries.extend(
            version.iter().filter_map(|text| text.rsplit_once(' ')).map(|(name, version)| library(name, version)),
        );
    }
    libraries
}

/// Returns the version of a crate that a package depends on. A lock names the version in the
/// dependency if it has several.
fn locked(lock: &str, package: &str, name: &str) -> Option<String> {
    let packages = || lock.split("[[package]]").skip(1);
    let value = |package: &'_ str, key: &str| -> Option<String> {
        let line = package.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(" = "))?;
        Some(line.trim_matches('"').to_string())
    };
    let own = packages().find(|text| value(text, "name").as_deref() == Some(package))?;
    let dependencies = own.split_once("dependencies = [").map_or("", |(_, rest)| rest);
    let mut dependencies = dependencies.lines().map(|line| line.trim().trim_matches([',', '"']).split(' '));
    let mut dependency = dependencies.find(|words| words.clone().next() == Some(name))?;
    let version = dependency.nth(1).map(str::to_string);
    version.or_else(|| value(packages().find(|text| value(text, "name").as_deref() == Some(name))?, "version"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_that_of_our_dependency() {
        let lock = r#"
[[package]]
name = "map"
version = "1.0.0"

[[package]]
name = "map"
version = "2.0.0"

[[package]]
name = "own"
version = "0.1.0"
dependencies = [
 "map 2.0.0",
 "set",
]

[[package]]
name = "set"
version = "3.1.4"
"#;
        let of = |name| locked(lock, "own", name);
        assert_eq!((of("map").as_deref(), of("set").as_deref(), of("none")), (Some("2.0.0"), Some("3.1.4"), None));
    }

    #[test]
    fn everything_that_was_compared_is_named() {
        let libraries = libraries();
        for name in ["hapax", "dashmap", "moka", "scc"] {
            let library = libraries.iter().find(|library| library.name == name);
            assert!(library.is_some_and(|library| library.version.split('.').count() >= 3), "{name}: {libraries:?}");
        }
    }
}
