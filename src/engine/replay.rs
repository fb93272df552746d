//! Replay: an engine learns from the journal of the engine before it.

use super::Engine;
use crate::Timestamp;
use crate::digest::Digest;
use crate::journal::{Kind, Told};
use crate::rules::{Rule, obeys};

impl Engine {
    /// Takes in a part of the journal, at the time that it has there; returns the window's time of
    /// that.
    /// `digests` is a buffer, used again for each part.
    pub(crate) fn learn(&self, told: Told<'_>, digests: &mut Vec<Digest>) -> Timestamp {
        let run = match told {
            Told::Run(run) => run,
            Told::Time(time) => {
                self.window.advance(time.into());
                return time;
            }
        };
        let at = if obeys(Rule::ExactTimes) { self.window.within_a_tick(run.at) } else { run.at };
        digests.clear();
        match run.kind {
            Kind::Accepted => {
                digests.extend(run.ids());
                self.restore(digests, at);
            }
            Kind::Fingerprinted => {
                digests.extend(run.fingerprinted().map(|(id, _)| id));
                self.restore(digests, at);
                run.fingerprinted().for_each(|(id, digest)| self.restore_fingerprint(id, digest, at));
            }
            Kind::Forgotten => run.ids().for_each(|id| {
                self.window.forget_at_rest(id);
                self.forget_fingerprint(id);
            }),
            Kind::Cleared => {
                self.clear_tiers();
                self.claims.clear();
            }
            Kind::Time | Kind::Position | Kind::TimeBase => {}
        }
        at.time
    }
}
