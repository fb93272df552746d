//! Values by the kind of a message, such as metrics. Whoever sends messages may make up any number
//! of kinds, of any length, so only some have values of their own.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// The largest number of kinds with values of their own: those that come first.
pub const KINDS_MAX: usize = 64;
/// The largest length of such a kind, in bytes.
const LENGTH_MAX: usize = 256;
/// The label of all other kinds.
pub const OTHERS: &str = "*";

/// Values of the kinds that came first, and one of all others.
#[derive(Debug)]
pub struct Kinds<T>(Mutex<HashMap<String, Arc<T>>>);

impl<T> Default for Kinds<T> {
    fn default() -> Self {
        Kinds(Mutex::default())
    }
}

impl<T> Kinds<T> {
    /// Returns the value of a kind, which is made of its label the first time.
    pub fn of(&self, kind: &str, make: impl FnOnce(&str) -> T) -> Arc<T> {
        // Each change is one call, so a poisoned lock guards nothing half done.
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(value) = known.get(kind) {
            return Arc::clone(value);
        }
        let is_sane = (1..=LENGTH_MAX).contains(&kind.len()) && !kind.contains(char::is_control);
        let own = known.len() - usize::from(known.contains_key(OTHERS));
        let label = if own < KINDS_MAX && is_sane { kind } else { OTHERS };
        Arc::clone(known.entry(label.to_owned()).or_insert_with(|| Arc::new(make(label))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_kinds_are_bounded() {
        let kinds = Kinds::default();
        let of = |kind: &str| kinds.of(kind, str::to_owned);
        for (kind, label) in [("a", "a"), ("*", "*"), ("", "*"), ("a\nb", "*"), (&"x".repeat(257), "*"), ("b", "b")] {
            assert_eq!(*of(kind), label, "{kind:?}");
        }
        let own = (0..10_000).filter(|n| *of(&format!("kind-{n}")) != OTHERS).count();
        assert_eq!((own + 2, kinds.0.lock().unwrap().len()), (KINDS_MAX, KINDS_MAX + 1));
        assert!(*of("a") == "a" && *of("kind-0") == "kind-0" && Arc::ptr_eq(&of("c"), &of("*")));
    }
}
