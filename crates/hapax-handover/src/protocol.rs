//! The protocol of ownership: a state machine without I/O and without a clock. Events in, actions
//! out; `handover` and `owned` do what it says.
//!
//! ```text
//! New ──acquire──► Acquiring ──written──► Owning(epoch) ──another epoch is seen──► Fenced
//! ```
//!
//! A manifest is only ever written over the version that its writer has seen. An epoch has one
//! owner, so a manifest of the own epoch is the own one. Whatever was not answered, or was refused,
//! is decided by reading the manifest.

#[cfg(test)]
mod explorer;

use crate::manifest::{Content, Manifest, Object};
use std::collections::BTreeSet;

/// The most times that a manifest is written for one acquisition or one publication.
pub(crate) const PUTS_MAX: u32 = 8;

/// The state of an owner.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[expect(clippy::large_enum_variant, reason = "there is one of it for each partition")]
pub(crate) enum State {
    #[default]
    New,
    Acquiring(Acquiring),
    Owning(Owning),
    /// It owned an epoch, and another owner has one now; 0 if the manifest is gone.
    Fenced {
        epoch: u64,
        by: u64,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Acquiring {
    attempt: u64,
    phase: Phase,
    puts: u32,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Owning {
    pub(crate) current: Manifest,
    /// The objects that the manifest before the current one names.
    previous: BTreeSet<Object>,
    /// The objects that were named or uploaded, and not deleted.
    known: BTreeSet<Object>,
    next_number: u64,
    publishing: Option<Publishing>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Publishing {
    attempt: u64,
    content: Content,
    /// The objects whose upload is under way.
    waiting: BTreeSet<Object>,
    phase: Phase,
    puts: u32,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Phase {
    /// Nothing of the manifest is under way.
    Idle,
    Putting(Manifest),
    /// The manifest is read, to see whether the last put has come through.
    Checking(Option<Manifest>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// To become the owner. The number is another one for each acquisition and publication.
    Acquire {
        attempt: u64,
    },
    /// To publish this, of which these objects are new.
    Publish {
        attempt: u64,
        content: Content,
        new: BTreeSet<Object>,
    },
    Uploaded(Object),
    UploadFailed,
    Read(Option<Manifest>),
    /// The manifest could not be read.
    NotRead,
    Put(Answer),
    /// The manifest was read, to see whether this still is the owner.
    Looked(Option<Manifest>),
    Deleted(Object),
}

/// The answer to a conditional put.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Answer {
    Written,
    /// Another version was there: perhaps the one that the same put has written before.
    Refused,
    /// It may have been written, or may still be.
    Unknown,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Read,
    /// To write this manifest over this version: over none, if there is to be none.
    Put {
        manifest: Manifest,
        over: Option<u64>,
    },
    Upload(BTreeSet<Object>),
    Acquired,
    Published,
    Fenced,
    /// The store does not answer, or others are always faster. The state is as it was before.
    GaveUp,
    Delete(BTreeSet<Object>),
}

impl State {
    /// Takes an event, and returns what is to be done.
    pub(crate) fn on(&mut self, event: Event) -> Vec<Action> {
        let (state, actions) = match std::mem::take(self) {
            State::New => new(event),
            State::Acquiring(acquiring) => acquiring.on(event),
            State::Owning(owning) => owning.on(event),
            fenced @ State::Fenced { .. } => (fenced, vec![Action::Fenced]),
        };
        *self = state;
        actions
    }

    #[cfg(any(fuzzing, test))]
    pub(crate) fn owning(&self) -> Option<&Owning> {
        match self {
            State::Owning(owning) => Some(owning),
            _ => None,
        }
    }
}

fn new(event: Event) -> (State, Vec<Action>) {
    match event {
        Event::Acquire { attempt } => {
            let acquiring = Acquiring { attempt, phase: Phase::Checking(None), puts: 0 };
            (State::Acquiring(acquiring), vec![Action::Read])
        }
        _ => (State::New, vec![]),
    }
}

impl Acquiring {
    fn on(mut self, event: Event) -> (State, Vec<Action>) {
        match (event, std::mem::replace(&mut self.phase, Phase::Idle)) {
            (Event::Read(Some(now)), Phase::Checking(Some(put))) if now.is(&put) => Owning::begin(now),
            (Event::Read(now), Phase::Checking(_)) if self.puts < PUTS_MAX => {
                self.puts += 1;
                let over = now.as_ref().map(|now| now.version);
                let now = now.unwrap_or_default();
                let (epoch, version) = (now.epoch + 1, now.version + 1);
                let manifest = Manifest { epoch, version, attempt: self.attempt, content: now.content };
                self.phase = Phase::Putting(manifest.clone());
                (State::Acquiring(self), vec![Action::Put { manifest, over }])
            }
            (Event::Put(Answer::Written), Phase::Putting(put)) => Owning::begin(put),
            (Event::Put(_), Phase::Putting(put)) => {
                self.phase = Phase::Checking(Some(put));
                (State::Acquiring(self), vec![Action::Read])
            }
            (Event::Read(_) | Event::NotRead, Phase::Checking(_)) => (State::New, vec![Action::GaveUp]),
            // An answer that comes late, to what was asked before.
            (_, phase) => (State::Acquiring(Acquiring { phase, ..self }), vec![]),
        }
    }
}

impl Owning {
    fn begin(current: Manifest) -> (State, Vec<Action>) {
        let known = current.content.objects();
        let owning = Owning { current, previous: known.clone(), known, next_number: 0, publishing: None };
        (State::Owning(owning), vec![Action::Acquired])
    }

    /// Returns a name for a new object, which no other epoch can have.
    pub(crate) fn name(&mut self, random: u64) -> Object {
        self.next_number += 1;
        let object = Object { epoch: self.current.epoch, number: self.next_number, random };
        self.known.insert(object);
        object
    }

    /// Returns true if a manifest that is current names it, or the one before.
    pub(crate) fn names(&self, object: &Object) -> bool {
        self.previous.contains(object) || self.current.content.objects().contains(object)
    }

    fn on(mut self, event: Event) -> (State, Vec<Action>) {
        let epoch = self.current.epoch;
        let publishing = self.publishing.take();
        match (event, publishing) {
            (Event::Looked(now) | Event::Read(now), _) if now.as_ref().is_none_or(|now| now.epoch != epoch) => {
                let by = now.map_or(0, |now| now.epoch);
                (State::Fenced { epoch, by }, vec![Action::Fenced])
            }
            // (Whoever waited for the one before has gone: its put is in doubt, as one without an
            // answer.)
            (Event::Publish { attempt, content, new }, _) => self.publish(attempt, content, new),
            (Event::Uploaded(object), Some(mut publishing)) => {
                let is_last = publishing.waiting.remove(&object) && publishing.waiting.is_empty();
                self.publishing = Some(publishing);
                if is_last { self.put() } else { (State::Owning(self), vec![]) }
            }
            (Event::UploadFailed, Some(_)) => (State::Owning(self), vec![Action::GaveUp]),
            (Event::Put(Answer::Written), Some(Publishing { phase: Phase::Putting(put), .. })) => self.published(put),
            (Event::Put(_), Some(Publishing { phase: Phase::Putting(put), attempt, content, waiting, puts })) => {
                let phase = Phase::Checking(Some(put));
                self.publishing = Some(Publishing { phase, attempt, content, waiting, puts });
                (State::Owning(self), vec![Action::Read])
            }
            (Event::Read(Some(now)), Some(publishing)) => self.checked(now, publishing),
            (Event::NotRead, Some(Publishing { phase: Phase::Checking(_), .. })) => {
                (State::Owning(self), vec![Action::GaveUp])
            }
            (Event::Deleted(object), publishing) => {
                self.known.remove(&object);
                self.publishing = publishing;
                (State::Owning(self), vec![])
            }
            // An answer that comes late, to what was asked before.
            (_, publishing) => {
                self.publishing = publishing;
                (State::Owning(self), vec![])
            }
        }
    }

    fn publish(mut self, attempt: u64, content: Content, new: BTreeSet<Object>) -> (State, Vec<Action>) {
        let waiting = new.clone();
        self.publishing = Some(Publishing { attempt, content, waiting, phase: Phase::Idle, puts: 0 });
        if new.is_empty() {
            return self.put();
        }
        (State::Owning(self), vec![Action::Upload(new)])
    }

    /// Writes the manifest over the current one.
    fn put(mut self) -> (State, Vec<Action>) {
        let Manifest { epoch, version, .. } = self.current;
        let Some(publishing) = &mut self.publishing else { return (State::Owning(self), vec![]) };
        if publishing.puts == PUTS_MAX {
            self.publishing = None;
            return (State::Owning(self), vec![Action::GaveUp]);
        }
        publishing.puts += 1;
        let (attempt, content) = (publishing.attempt, publishing.content.clone());
        let manifest = Manifest { epoch, version: version + 1, attempt, content };
        publishing.phase = Phase::Putting(manifest.clone());
        (State::Owning(self), vec![Action::Put { manifest, over: Some(version) }])
    }

    /// The manifest is of this epoch, so this owner has written it: now, or in an attempt that was
    /// given up without an answer.
    fn checked(mut self, now: Manifest, publishing: Publishing) -> (State, Vec<Action>) {
        match &publishing.phase {
            Phase::Checking(Some(put)) if now.is(put) => self.published(now),
            Phase::Checking(_) => {
                if now.version != self.current.version {
                    self.replace(now);
                }
                self.publishing = Some(publishing);
                self.put()
            }
            _ => {
                self.publishing = Some(publishing);
                (State::Owning(self), vec![])
            }
        }
    }

    fn replace(&mut self, now: Manifest) {
        let before = std::mem::replace(&mut self.current, now);
        self.previous = before.content.objects();
        self.known.extend(self.current.content.objects());
    }

    fn published(mut self, now: Manifest) -> (State, Vec<Action>) {
        self.replace(now);
        let named = self.current.content.objects();
        let unnamed: BTreeSet<_> = self.known.difference(&named).copied().collect();
        let unnamed: BTreeSet<_> = unnamed.difference(&self.previous).copied().collect();
        let mut actions = vec![Action::Published];
        if !unnamed.is_empty() {
            actions.push(Action::Delete(unnamed));
        }
        (State::Owning(self), actions)
    }
}

/// Returns the objects that no owner can ever name again, and that are old: what an epoch before
/// the manifest's has left, and the manifest does not name. The age is asked besides, for what the
/// protocol does not know: an operator who brings an old manifest back.
pub(crate) fn orphans(
    listed: impl IntoIterator<Item = (Object, u64)>,
    manifest: &Manifest,
    old_secs: u64,
) -> BTreeSet<Object> {
    let named = manifest.content.objects();
    let is_orphan = |object: &Object| object.epoch < manifest.epoch && !named.contains(object);
    let listed = listed.into_iter().filter(|(object, age)| is_orphan(object) && *age >= old_secs);
    listed.map(|(object, _)| object).collect()
}
