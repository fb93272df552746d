//! The files that exist when an engine is built: a journal, segments, and how they come back.

use super::Builder;
use crate::Error;
use crate::clock::{EngineClock, Machine};
use crate::digest::{DigestKey, WantedKey};
use crate::engine::{Engine, Gathered};
use crate::journal::{Opened, Resumed};
use crate::mutation::{Rule, obeys};
use crate::{JournalOptions, long_memory::LongTier, segments::Segments};
use std::sync::Arc;
use std::time::Duration;

/// An open journal and open segments, of which nothing is remembered yet.
pub(super) struct OnDisk {
    journal: Option<Opened>,
    segments: Option<Arc<Segments>>,
}

impl OnDisk {
    /// Opens the files that the options name.
    pub(super) fn open(options: &mut Builder, clock: &EngineClock) -> Result<Self, Error> {
        let long_memory = options.long_memory.take();
        if let Some((directory, _)) = &long_memory
            && options.journal.is_none()
        {
            options.journal = Some((directory.join("journal"), JournalOptions::new()));
        }
        let journal = match options.journal.take() {
            #[cfg(any(fuzzing, test))]
            Some((path, journal)) if options.surroundings.is_some() => {
                options.surroundings.take().map(|on| Opened::on(on, &path, journal)).transpose()?
            }
            journal => journal.map(|(path, journal)| Opened::new(&path, journal, clock.machine())).transpose()?,
        };
        let segments = match (long_memory, &journal) {
            (Some((directory, long_memory)), Some(journal)) => {
                // The journal's key, if it has one, must be that of the segments.
                let known = journal.key(options.key)?;
                let key = WantedKey { bits: known.map(|key| key.bits).or(options.key.bits), ..options.key };
                let source = options.segment_source.take();
                Some(LongTier::open(journal.disk(), &directory, &long_memory, key, source)?)
            }
            _ => None,
        };
        Ok(OnDisk { journal, segments })
    }

    /// Returns the key of the digests in them, or the one that is wanted.
    pub(super) fn key(&self, mut wanted: WantedKey) -> Result<DigestKey, Error> {
        if let Some(segments) = &self.segments {
            wanted.bits = Some(segments.key().bits);
        }
        let known = self.journal.as_ref().map(|journal| journal.key(wanted)).transpose()?;
        known.flatten().map_or_else(|| wanted.or_random(), Ok)
    }

    /// Tells a new engine what is in them: first the journal, then the time.
    pub(super) fn bring_back(self, engine: &mut Engine, key: DigestKey, options: &Builder) -> Result<(), Error> {
        let Some(mut journal) = self.journal else { return Ok(()) };
        let (is_inline, keeps_damage, machine) = (journal.is_inline(), journal.keeps_damage(), journal.machine());
        if let Some(segments) = &self.segments {
            // (Another journal's segments have nothing of this one: see `LongTier::go_on`.)
            let is_ours = journal.identity().is_none_or(|journal| segments.may_be_of(journal));
            journal.keep_unsealed(if is_ours { segments.sealed() } else { 0 });
        }
        let resumed = replay(journal, engine, key, options)?;
        if resumed.clocks.is_some() {
            go_on(engine, &machine, resumed);
        }
        if let (Some(segments), Some(journal)) = (self.segments, &engine.journal) {
            let shared = Arc::clone(&journal.shared);
            let now = engine.no_later_than_events(engine.now_at_rest().time);
            let window = engine.window.duration();
            // (Deferred ids are to be appended within half a window.)
            let lateness = if journal.notes_checks() { Duration::ZERO } else { window / 2 };
            let sealed = segments.sealed();
            let missing = if sealed > 0 { shared.first_block().saturating_sub(sealed) } else { 0 };
            let long = LongTier::go_on(segments, shared, (window, lateness, now), (!is_inline, keeps_damage))?;
            engine.long = Some(Box::new(long));
            if let Some(journal) = &mut engine.journal {
                journal.misses(missing);
            }
        }
        Ok(())
    }
}

/// Replays the journal into an engine, which goes on with it. Returns the time at which it was
/// written last.
fn replay(journal: Opened, engine: &mut Engine, key: DigestKey, options: &Builder) -> Result<Resumed, Error> {
    let horizon = options.history.map(|history| history.horizon);
    let retention = crate::journal::write::sizing::retention(engine.window.duration(), engine.window.tick(), horizon);
    // Ids that are read must not be lost while memory is made ready for them.
    engine.window.grow_in_thread(false);
    // If an id was accepted twice, since the window was shorter then, the last time counts.
    engine.window.set_refresh_on_duplicate(obeys(Rule::LatestAcceptance));
    let mut gathered = Gathered::default();
    let journal = journal.replay(key, retention, |told| engine.learn(told, &mut gathered))?;
    engine.learn_gathered(&mut gathered);
    engine.window.set_refresh_on_duplicate(options.refresh_on_duplicate);
    let resumed = journal.resumed();
    engine.set_journal(journal);
    engine.window.grow_in_thread(options.growth_thread);
    Ok(resumed)
}

/// Sets the engine's time to go on from what is known of it.
fn go_on(engine: &mut Engine, machine: &Machine, resumed: Resumed) {
    let step = engine.go_on(resumed.into(), (machine.clocks)().into());
    let base = engine.time_base();
    if let Some(journal) = &mut engine.journal {
        journal.goes_on(step, base);
    }
}
