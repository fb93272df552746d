//! The process that dies: an engine with a long memory that does what the script says.

use super::script::{Deed, Op, RETENTION, Script, WINDOW, Way, time};
use crate::crash::process::{Life, say_what_is_wrong};
use hapax::{Attempt, Dedup, Error, Forgotten, Int, JournalError, JournalOptions, LongMemory, SyncMode};
use std::collections::HashMap;
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

pub use crate::crash::process::Child;

const DIRECTORY: &str = "HAPAX_LONG_MEMORY_DIRECTORY";
const SCRIPT: &str = "HAPAX_LONG_MEMORY_SCRIPT";
const CHECKPOINTS: &str = "HAPAX_LONG_MEMORY_CHECKPOINTS";
const FLAW: &str = "HAPAX_LONG_MEMORY_FLAW";

pub const LIFE: Life = Life { from_start: 30_000, from_report: 10_000, progress: 150 };

/// The things that a child does wrong, so that the judge is seen to notice.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Flaw {
    None,
    /// It calls durable what is in the system's memory.
    NotSynced,
    /// It forgets nothing.
    Remembers,
}

/// A directory, and how it is used.
#[derive(Clone)]
pub struct Setting {
    pub path: PathBuf,
    pub checkpoints: bool,
}

impl Setting {
    pub fn open(&self, flaw: Flaw) -> Result<Dedup, Error> {
        let [window, retention] = [WINDOW, RETENTION].map(Duration::from_millis);
        let sync = if flaw == Flaw::NotSynced { SyncMode::System } else { SyncMode::Disk };
        let journal = JournalOptions::new().checkpoints(self.checkpoints).sync(sync);
        let journal = journal.commit_interval(Duration::from_millis(1));
        let builder = Dedup::builder().window(window).capacity(50_000).journal(self.path.join("journal"), journal);
        builder.long_memory(self.path.join("segments"), LongMemory::new(retention)).build()
    }

    pub fn start(&self, script: Script, flaw: Flaw) -> Child {
        let flaw = match flaw {
            Flaw::None => "",
            Flaw::NotSynced => "not synced",
            Flaw::Remembers => "remembers",
        };
        Child::start([
            (DIRECTORY, self.path.display().to_string()),
            (SCRIPT, script.to_text()),
            (CHECKPOINTS, self.checkpoints.to_string()),
            (FLAW, flaw.into()),
        ])
    }
}

/// Does what the script says from some operation on, and reports what is durable, with how many
/// events were sealed and how many records written, forever.
pub fn run_if_asked() {
    let [path, script, checkpoints, flaw] = [DIRECTORY, SCRIPT, CHECKPOINTS, FLAW].map(|name| std::env::var(name).ok());
    let (Some(path), Some(script)) = (path, script) else { return };
    say_what_is_wrong();
    let flaw = match flaw.as_deref() {
        Some("not synced") => Flaw::NotSynced,
        Some("remembers") => Flaw::Remembers,
        _ => Flaw::None,
    };
    let setting = Setting { path: path.into(), checkpoints: checkpoints.as_deref() == Some("true") };
    let (dedup, mut script, mut output) = (setting.open(flaw).unwrap(), Script::of_text(&script), std::io::stdout());
    let mut accepted = HashMap::new();
    loop {
        let op = script.next();
        perform(&dedup, &op, flaw, &mut accepted);
        if op.makes_durable {
            if make_durable(&dedup, setting.checkpoints).is_err() {
                // The power is off: nothing may be acknowledged any more.
                assert!(dedup.journal().unwrap().flush().is_err());
                std::process::exit(1);
            }
            let segments = dedup.stats().long_memory.unwrap().segments;
            let (sealed, written) = (segments.sealed_events, segments.written_records);
            writeln!(output, "durable {} {sealed} {written}.", op.number).unwrap();
        }
    }
}

fn make_durable(dedup: &Dedup, checkpoints: bool) -> Result<(), JournalError> {
    if checkpoints {
        dedup.journal().unwrap().checkpoint([("source", "1")])?;
    }
    dedup.journal().unwrap().flush()
}

/// Does it. `accepted` are the ids that were accepted in this life, and when.
fn perform(dedup: &Dedup, op: &Op, flaw: Flaw, accepted: &mut HashMap<u64, u64>) {
    // Claims have the time of the last event.
    dedup.check_batch_at([] as [&str; 0], time(op.at), &mut Vec::new());
    match &op.deed {
        Deed::New(way, ids) => {
            let fresh = ask(dedup, *way, &ids.clone().collect::<Vec<_>>(), op.at);
            assert_eq!(fresh.len() as u64, ids.end - ids.start, "ids are known that nobody has asked for");
            accepted.extend(fresh.into_iter().map(|id| (id, op.at)));
        }
        Deed::Again(way, ids) => {
            for id in ask(dedup, *way, ids, op.at) {
                let before = accepted.insert(id, op.at).filter(|before| op.at - before < RETENTION);
                assert_eq!(before, None, "{op:?}: {id} is fresh, and was accepted before");
            }
        }
        _ if flaw == Flaw::Remembers => {}
        Deed::Forget(ids) => {
            for id in ids {
                assert_eq!(dedup.forget(Int::from(*id)), Forgotten::Entirely);
                accepted.remove(id);
            }
        }
        Deed::Clear => {
            dedup.clear();
            accepted.clear();
        }
    }
}

/// Asks for ids. Returns those that were accepted.
fn ask(dedup: &Dedup, way: Way, ids: &[u64], at: u64) -> Vec<u64> {
    let (all, at) = (ids.iter().map(|id| Int::from(*id)), time(at));
    let mut verdicts = Vec::new();
    match way {
        Way::Batch => dedup.check_batch_at(all, at, &mut verdicts),
        Way::Singly => verdicts.extend(all.map(|id| dedup.check_at(id, at))),
        Way::Claims => {
            let (mut attempts, mut ended) = (Vec::new(), Vec::new());
            dedup.claim_batch(all, &mut attempts);
            let claimed = ids.iter().zip(&attempts).filter(|(_, attempt)| matches!(attempt, Attempt::Claimed(_)));
            let claimed: Vec<u64> = claimed.map(|(id, _)| *id).collect();
            dedup.complete_batch(attempts.drain(..).filter_map(Attempt::claimed), &mut ended);
            assert!(ended.iter().all(Result::is_ok), "{ended:?}");
            return claimed;
        }
    }
    // If the disk works, and the power is on.
    let is_certain = verdicts.iter().all(|verdict| verdict.is_certain());
    assert!(is_certain || dedup.journal().unwrap().flush().is_err(), "in doubt, without a reason: {verdicts:?}");
    ids.iter().zip(verdicts).filter(|(_, verdict)| verdict.is_fresh()).map(|(id, _)| *id).collect()
}
