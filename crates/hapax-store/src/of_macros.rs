//! Functions that are called by the code that `hapax-macros` makes.

use crate::sync::{Mutex, lock};
use crate::{ErrorKind, IdempotencyError, StoreError};
use hapax::Key;
use std::collections::BTreeMap;
use std::sync::OnceLock;

/// Returns the key of a call of a function.
pub fn key(function: &str, key: impl AsRef<[u8]>) -> Vec<u8> {
    let mut named = Key::new();
    named.text(function).bytes(key);
    named.as_ref().to_vec()
}

/// A function, by the place where it stands.
#[derive(Debug)]
pub struct Place {
    name: &'static str,
    file: &'static str,
    line: u32,
    /// The other function that was called under this name first, if there is one.
    other: OnceLock<Option<&'static Place>>,
}

impl Place {
    pub const fn new(name: &'static str, file: &'static str, line: u32) -> Self {
        Place { name, file, line, other: OnceLock::new() }
    }

    /// Returns an error if another function of this process has the same name in its keys: each
    /// would be answered with the results of the other one.
    pub fn check(&'static self) -> Result<(), IdempotencyError> {
        static FIRST: Mutex<BTreeMap<&str, &Place>> = Mutex::new(BTreeMap::new());
        let other = self.other.get_or_init(|| {
            let first = *lock(&FIRST).entry(self.name).or_insert(self);
            (!std::ptr::eq(first, self)).then_some(first)
        });
        let Some(Place { file, line, .. }) = other else { return Ok(()) };
        let text = format!(
            "two functions have the name {:?}: got one at {}:{}, expected that of {file}:{line} alone; \
             one of them needs another `#[once(…, name = \"…\")]`",
            self.name, self.file, self.line
        );
        Err(IdempotencyError::Claim(StoreError::new(ErrorKind::Misconfigured, "hapax", text)))
    }
}
