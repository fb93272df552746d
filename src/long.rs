//! The size of random tests: `testkit::long` for the unit tests, also under models, which have no
//! `testkit`.

/// Returns the first number, or the second one where `HAPAX_LONG` asks for campaigns.
pub(crate) fn long<T>(short: T, long: T) -> T {
    if std::env::var_os("HAPAX_LONG").is_some() { long } else { short }
}
