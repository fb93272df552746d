//! Functions that are called by the code that `hapax-macros` makes.

use hapax::Key;

/// Returns the key of a call of a function.
pub fn key(function: &str, key: impl AsRef<[u8]>) -> Vec<u8> {
    let mut named = Key::new();
    named.text(function).bytes(key);
    named.as_ref().to_vec()
}
