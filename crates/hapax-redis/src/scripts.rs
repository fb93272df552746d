//! Scripts, by their digests.

use super::commands::Commands;

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
        Script { source, digest: ::redis::Script::new(source).get_hash().into() }
    }

    /// Tells a server about it.
    pub(super) fn load(&self, commands: &mut Commands) {
        commands.add(&["SCRIPT", "LOAD", self.source]);
    }

    /// Begins a call for so many keys, which are to follow, and then so many arguments.
    pub(super) fn call(&self, keys: usize, arguments: usize, commands: &mut Commands) {
        commands.begin(3 + keys + arguments);
        commands.written(b"$7\r\nEVALSHA\r\n");
        commands.text(&self.digest);
        commands.number(keys as u64);
    }
}
