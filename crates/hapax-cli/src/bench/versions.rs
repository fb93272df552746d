//! The versions of the libraries and servers that are compared.

use hapax_bench::measure::{Library, servers};
use hapax_bench::strategy::Needs;

/// The crates that this build compares, and their versions as its build script has found them.
/// (`cargo install` without `--locked` may have taken other versions that are compatible.)
const COMPARED: &str = env!("HAPAX_COMPARED");

/// Returns the versions of this crate, of others, and of servers as far as they are installed.
pub fn libraries() -> Vec<Library> {
    let library = |(name, version): (&str, &str)| Library { name: name.to_string(), version: version.to_string() };
    let places = [
        (Needs::Directory, true),
        (Needs::Redis, cfg!(feature = "redis")),
        (Needs::Postgres, cfg!(feature = "postgres")),
    ];
    let servers: Vec<String> =
        places.iter().filter(|(_, is_built)| *is_built).filter_map(|(needs, _)| servers::version(*needs)).collect();
    let crates = COMPARED.split(',').filter_map(|text| text.split_once(' '));
    let servers = servers.iter().filter_map(|text| text.rsplit_once(' '));
    [("hapax", env!("CARGO_PKG_VERSION"))].into_iter().chain(crates).chain(servers).map(library).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_that_was_compared_is_named() {
        let libraries = libraries();
        for name in ["hapax", "dashmap", "moka", "scc"] {
            let library = libraries.iter().find(|library| library.name == name);
            assert!(library.is_some_and(|library| library.version.split('.').count() >= 3), "{name}: {libraries:?}");
        }
    }
}
