//! Replay: an engine learns from the journal of the engine before it.

use super::{At, Engine};
use crate::Timestamp;
use crate::clock::{Reading, Stamp};
use crate::digest::Digest;
use crate::id_set::IdSet;
use crate::journal::{Kind, Told};
use crate::mutation::{Rule, obeys};

/// Accepted ids of neighbouring runs that the window stamps alike: they are restored together, so
/// that their memory accesses overlap. A journal that is flushed after each message has a run for
/// each.
#[derive(Default)]
pub(crate) struct Gathered {
    ids: Vec<Digest>,
    /// The latest time of any of them.
    at: Option<Stamp>,
}

/// The number of ids from which on no further run is added.
const GATHERED_MAX: usize = 1_024;

impl Engine {
    /// Takes in a part of the journal, at the time that it has there; returns the window's time of
    /// that. Ids that were accepted are gathered, and taken in with
    /// [`learn_gathered`](Engine::learn_gathered) at the latest.
    pub(crate) fn learn(&self, told: Told<'_>, gathered: &mut Gathered) -> Timestamp {
        let run = match told {
            Told::Run(run) => run,
            Told::Time(time) => {
                self.learn_gathered(gathered);
                self.window.advance(time.into());
                return time;
            }
        };
        let at = if obeys(Rule::ExactTimes) { self.window.within_a_tick(run.at) } else { run.at };
        let stamp = self.window.stamp_at(at);
        let goes_along = gathered.at.is_none_or(|before| before.tick == stamp.tick);
        if run.kind != Kind::Accepted || !goes_along || gathered.ids.len() >= GATHERED_MAX {
            self.learn_gathered(gathered);
        }
        match run.kind {
            Kind::Accepted => {
                gathered.ids.extend(run.ids());
                let reading = gathered.at.map_or(at, |before| before.reading.later(at));
                gathered.at = Some(Stamp { reading, ..stamp });
            }
            Kind::Fingerprinted => {
                self.restore(&run.fingerprinted().map(|(id, _)| id).collect::<Vec<_>>(), at);
                run.fingerprinted().for_each(|(id, digest)| self.restore_fingerprint(id, digest, at));
            }
            Kind::Forgotten => run.ids().for_each(|id| {
                self.window.forget_at_rest(id);
                self.forget_fingerprint(id);
            }),
            Kind::Cleared | Kind::Time | Kind::Position | Kind::TimeBase => {}
        }
        at.time
    }

    /// Takes in the ids that are gathered.
    pub(crate) fn learn_gathered(&self, gathered: &mut Gathered) {
        if let Some(at) = gathered.at.take() {
            debug_assert_eq!(self.window.stamp_at(at.reading).tick, at.tick, "no later than any of them");
            self.restore(&gathered.ids, at.reading);
            gathered.ids.clear();
        }
    }

    /// Restores ids that were accepted at a time in the past, or elsewhere.
    #[inline]
    pub(crate) fn restore(&self, digests: &[Digest], at: Reading) {
        self.claims.restored(digests, &At(self, at));
        let ids = digests.iter().copied();
        let Some(history) = &self.history else {
            return self.window.check_chunks(ids, at, |_| IdSet::EMPTY, |_, _, _| ());
        };
        // The history's memory is asked for while the window takes in the same chunk.
        self.window.check_chunks(
            ids,
            at,
            |chunk| {
                chunk.digests().iter().for_each(|digest| history.prefetch(*digest));
                IdSet::EMPTY
            },
            |chunk, _, _| {
                let now = history.tick(self.window.no_earlier(at.time));
                chunk.digests().iter().for_each(|digest| history.insert_looked(&history.look(digest).0, now));
            },
        );
    }
}
