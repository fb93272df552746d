//! Scripts, by their digests.

use super::commands::Commands;

/// A script that is run for each of its keys.
pub(crate) struct Script {
    source: &'static str,
    digest: String,
}

/// The scripts, for requests that take more than one command.
pub(crate) struct Scripts {
    pub(crate) claim: Script,
    pub(crate) hold: Script,
    pub(crate) look: Script,
    pub(crate) mark: Script,
    pub(crate) unmark: Script,
}

impl Scripts {
    pub(crate) fn new() -> Self {
        Scripts {
            claim: Script::new(include_str!("../claim.lua")),
            hold: Script::new(include_str!("../hold.lua")),
            look: Script::new(include_str!("../look.lua")),
            mark: Script::new(include_str!("../mark.lua")),
            unmark: Script::new(include_str!("../unmark.lua")),
        }
    }
}

impl Script {
    pub(crate) fn new(source: &'static str) -> Self {
        Script { source, digest: ::redis::Script::new(source).get_hash().into() }
    }

    /// Adds the command that loads the script into a server.
    pub(crate) fn load(&self, commands: &mut Commands) {
        commands.add(&["SCRIPT", "LOAD", self.source]);
    }

    /// Begins a call for this many keys, which are to follow, and then this many arguments.
    pub(crate) fn call(&self, keys: usize, arguments: usize, commands: &mut Commands) {
        commands.begin(3 + keys + arguments);
        commands.written(b"$7\r\nEVALSHA\r\n");
        commands.text(&self.digest);
        commands.number(keys as u64);
    }
}
