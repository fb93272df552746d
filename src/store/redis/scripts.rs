//! Scripts, by their digests.

use redis::{Cmd, cmd};

/// A script that is done for each of its keys.
pub(super) struct Script {
    source: &'static str,
    digest: String,
}

/// What the store asks for that is more than one command.
pub(super) struct Scripts {
    pub(super) claim: Script,
    pub(super) hold: Script,
    pub(super) look: Script,
    pub(super) unmark: Script,
    pub(super) compact: Script,
}

impl Scripts {
    pub(super) fn new() -> Self {
        Scripts {
            claim: Script::new(include_str!("claim.lua")),
            hold: Script::new(include_str!("hold.lua")),
            look: Script::new(include_str!("look.lua")),
            unmark: Script::new(include_str!("unmark.lua")),
            compact: Script::new(include_str!("compact.lua")),
        }
    }
}

impl Script {
    fn new(source: &'static str) -> Self {
        Script { source, digest: redis::Script::new(source).get_hash().into() }
    }

    /// Tells a server about it.
    pub(super) fn load(&self) -> Cmd {
        let mut load = cmd("SCRIPT");
        load.arg("LOAD").arg(self.source);
        load
    }

    /// Calls it: for these keys, and then whatever arguments are added.
    pub(super) fn call<'k>(&self, keys: impl ExactSizeIterator<Item = &'k [u8]>) -> Cmd {
        let mut call = cmd("EVALSHA");
        call.arg(&self.digest).arg(keys.len());
        for key in keys {
            call.arg(key);
        }
        call
    }
}
