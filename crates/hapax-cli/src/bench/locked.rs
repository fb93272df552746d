//! The versions in a lock file. The build script reads them: a package that is built from a
//! registry has its lock elsewhere, or none.

/// Returns the version of a crate that a package depends on. A lock names the version in the
/// dependency if it has several.
pub fn locked(lock: &str, package: &str, name: &str) -> Option<String> {
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
}
