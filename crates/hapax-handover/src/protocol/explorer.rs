//! An explorer of the protocol: every order in which two owners, a store and an operator can act,
//! up to a bound. The store answers late, twice, or not at all; owners crash; the operator deletes
//! orphans. Invariants H1 to H4 of docs/design/streams.md are asked after every step.

use super::{Action, Answer, Event, State, orphans};
use crate::manifest::{Content, File, Manifest, Object, Part};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::hash::{Hash, Hasher};
use xxhash_rust::xxh3::Xxh3Default;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Request {
    Read,
    Put(Manifest, Option<u64>),
    /// An object, and what is in it: the attempt for which it was uploaded.
    Upload(Object, u64),
    Delete(Object),
}

/// A rule of the protocol. The explorer leaves one out, to show that it notices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Rule {
    /// A manifest replaces exactly the one that its owner has seen.
    Conditional,
    /// Nothing is deleted before a manifest without it is published.
    DeleteAfterPublish,
    /// A manifest is written when all files that it names are there.
    FilesFirst,
    /// An object's name has the epoch of its owner.
    EpochInName,
    /// The writer of the manifest decides what is done after a lost answer.
    LostAnswer,
    /// Orphans are those of an earlier epoch. (Their age is asked besides.)
    OrphansByEpoch,
}

/// The fate of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Answered,
    /// It is done, and the answer does not come.
    AnswerLost,
    /// It is not answered, and is done later, or never.
    Late,
    /// It is done twice, and the second answer is the one that comes.
    Twice,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Actor {
    state: State,
    asked: Vec<Request>,
    acquires_left: u8,
    ships_left: u8,
    /// The attempt that is being published, and true if another had acquired before it began.
    shipping: Option<(u64, bool)>,
    is_fenced: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Operator {
    Away,
    Listed(BTreeSet<Object>),
    Deleting(BTreeSet<Object>),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct World {
    left_out: Option<Rule>,
    actors: [Actor; 2],
    operator: Operator,
    manifest: Option<Manifest>,
    objects: BTreeMap<Object, u64>,
    /// The requests without an answer, which may still be done.
    late: Vec<Request>,
    attempts: u64,
    landed: BTreeSet<u64>,
    /// The attempt that has acquired each epoch.
    epochs: BTreeMap<u64, u64>,
    /// The latest position that an owner was told to be published.
    published: u64,
    faults_left: u8,
}

#[derive(Debug, Default)]
struct Seen {
    states: HashSet<u64>,
    fenced: u64,
    published: u64,
    deleted: u64,
    swept: u64,
    gave_up: u64,
}

type Broken = &'static str;

fn position(manifest: &Manifest) -> u64 {
    manifest.content.positions.first().map_or(0, |(_, position)| position.first().copied().unwrap_or(0).into())
}

impl World {
    fn new(left_out: Option<Rule>, faults: u8, ships: u8) -> Self {
        let actor = |acquires_left| Actor { acquires_left, ships_left: ships, ..Actor::default() };
        World {
            left_out,
            actors: [actor(2), actor(1)],
            operator: Operator::Away,
            manifest: None,
            objects: BTreeMap::new(),
            late: Vec::new(),
            attempts: 0,
            landed: BTreeSet::new(),
            epochs: BTreeMap::new(),
            published: 0,
            faults_left: faults,
        }
    }

    fn obeys(&self, rule: Rule) -> bool {
        self.left_out != Some(rule)
    }

    fn epoch(&self) -> u64 {
        self.manifest.as_ref().map_or(0, |manifest| manifest.epoch)
    }

    /// H2: what the manifest names is there, as its owner has uploaded it.
    fn check(&self) -> Result<(), Broken> {
        let Some(manifest) = &self.manifest else { return Ok(()) };
        let mut parts = manifest.content.files.iter().flat_map(|file| &file.parts);
        let is_there = |part: &Part| self.objects.get(&part.object).map(|&tag| u128::from(tag)) == Some(part.checksum);
        if parts.all(is_there) { Ok(()) } else { Err("H2: the manifest names what is not there") }
    }

    /// Does a request. Returns the answer.
    fn perform(&mut self, request: &Request, seen: &mut Seen) -> Result<Event, Broken> {
        Ok(match request {
            Request::Read => Event::Read(self.manifest.clone()),
            Request::Put(manifest, over) => {
                let now = self.manifest.as_ref().map(|now| now.version);
                if now != *over && self.obeys(Rule::Conditional) {
                    return Ok(Event::Put(Answer::Refused));
                }
                self.lands(manifest)?;
                Event::Put(Answer::Written)
            }
            Request::Upload(object, tag) => {
                self.objects.insert(*object, *tag);
                Event::Uploaded(*object)
            }
            Request::Delete(object) => {
                seen.deleted += 1;
                self.objects.remove(object);
                Event::Deleted(*object)
            }
        })
    }

    fn lands(&mut self, manifest: &Manifest) -> Result<(), Broken> {
        if manifest.epoch < self.epoch() {
            return Err("H1: an owner published after another had acquired");
        }
        let before = self.manifest.as_ref().map_or(0, position);
        if position(manifest) < before.max(self.published) {
            return Err("H3: the position went back");
        }
        self.landed.insert(manifest.attempt);
        self.manifest = Some(manifest.clone());
        Ok(())
    }

    fn tell(&mut self, who: usize, event: Event, seen: &mut Seen) -> Result<(), Broken> {
        let (mut early, obeys_answers) = (BTreeSet::new(), self.obeys(Rule::LostAnswer));
        let state = &mut self.actors[who].state;
        let event = match (event, state.owning()) {
            // The mutant takes another's manifest for its own, and puts over it.
            (Event::Read(Some(now)), Some(owning)) if !obeys_answers => {
                Event::Read(Some(Manifest { epoch: owning.current.epoch, ..now }))
            }
            (event, _) => event,
        };
        for action in state.on(event) {
            let is_early = !self.obeys(Rule::FilesFirst);
            let actor = &mut self.actors[who];
            let tag = actor.shipping.map_or(0, |(attempt, _)| attempt);
            match action {
                Action::Read => actor.asked.push(Request::Read),
                Action::Put { manifest, over } => actor.asked.push(Request::Put(manifest, over)),
                Action::Upload(new) => {
                    early.extend(new.iter().copied().filter(|_| is_early));
                    actor.asked.extend(new.into_iter().map(|new| Request::Upload(new, tag)));
                }
                Action::Delete(old) => actor.asked.extend(old.into_iter().map(Request::Delete)),
                Action::Acquired => {
                    let current = &actor.state.owning().ok_or("acquired, and owns nothing")?.current;
                    let (epoch, attempt) = (current.epoch, current.attempt);
                    if self.epochs.insert(epoch, attempt).is_some_and(|other| other != attempt) {
                        return Err("H1: two owners of one epoch");
                    }
                }
                Action::Published => {
                    seen.published += 1;
                    let (attempt, was_late) = actor.shipping.take().ok_or("published, and was not asked to")?;
                    if was_late || actor.is_fenced {
                        return Err("H4: an owner did not learn that it is fenced");
                    }
                    if !self.landed.contains(&attempt) {
                        return Err("H3: told that it is published, and it is not");
                    }
                    let current = &actor.state.owning().ok_or("published, and owns nothing")?.current;
                    self.published = self.published.max(position(current));
                }
                Action::Fenced => {
                    seen.fenced += 1;
                    (actor.is_fenced, actor.shipping) = (true, None);
                }
                Action::GaveUp => {
                    seen.gave_up += 1;
                    actor.shipping = None;
                }
            }
        }
        early.into_iter().try_for_each(|object| self.tell(who, Event::Uploaded(object), seen))
    }

    fn acquire(&mut self, who: usize, seen: &mut Seen) -> Result<(), Broken> {
        self.attempts += 1;
        self.actors[who].acquires_left -= 1;
        self.actors[who].is_fenced = false;
        self.tell(who, Event::Acquire { attempt: self.attempts }, seen)
    }

    /// Ships a new object beside the last one of before, so that older ones become garbage.
    fn ship(&mut self, who: usize, seen: &mut Seen) -> Result<(), Broken> {
        self.attempts += 1;
        let attempt = self.attempts;
        let (epoch, names_epochs, deletes_early) =
            (self.epoch(), self.obeys(Rule::EpochInName), !self.obeys(Rule::DeleteAfterPublish));
        let actor = &mut self.actors[who];
        let State::Owning(owning) = &mut actor.state else { return Ok(()) };
        let object = owning.name(0);
        let object = if names_epochs { object } else { Object { epoch: 0, ..object } };
        let before = &owning.current;
        let part = Part { object, bytes: 1, checksum: attempt.into() };
        let kept = before.content.files.iter().flat_map(|file| &file.parts).next_back().copied();
        let file = File { name: "f".into(), is_closed: false, parts: kept.into_iter().chain([part]).collect() };
        let next = u8::try_from(position(before) + 1).unwrap_or(u8::MAX);
        let content = Content { positions: vec![(vec![], vec![next])], files: vec![file], ..Content::default() };
        let named = content.objects();
        let unnamed = before.content.objects().into_iter().filter(|old| deletes_early && !named.contains(old));
        actor.asked.extend(unnamed.map(Request::Delete));
        actor.shipping = Some((attempt, before.epoch != epoch));
        actor.ships_left -= 1;
        self.tell(who, Event::Publish { attempt, content, new: [object].into() }, seen)
    }

    fn answer(&mut self, who: usize, i: usize, fate: Fate, seen: &mut Seen) -> Result<(), Broken> {
        let request = self.actors[who].asked.remove(i);
        let no_answer = |request: &Request| match request {
            Request::Read => Event::NotRead,
            Request::Put(..) => Event::Put(Answer::Unknown),
            Request::Upload(..) | Request::Delete(_) => Event::UploadFailed,
        };
        let is_delete = matches!(request, Request::Delete(_));
        match fate {
            Fate::Answered => {
                let event = self.perform(&request, seen)?;
                return self.tell(who, event, seen);
            }
            Fate::AnswerLost => drop(self.perform(&request, seen)?),
            Fate::Late => self.late.push(request.clone()),
            Fate::Twice => {
                self.perform(&request, seen)?;
                let event = self.perform(&request, seen)?;
                return self.tell(who, event, seen);
            }
        }
        if is_delete { Ok(()) } else { self.tell(who, no_answer(&request), seen) }
    }

    fn operate(&mut self, delete: Option<Object>, seen: &mut Seen) {
        self.operator = match std::mem::replace(&mut self.operator, Operator::Away) {
            Operator::Away => Operator::Listed(self.objects.keys().copied().collect()),
            Operator::Listed(listed) => {
                let mut manifest = self.manifest.clone().unwrap_or_default();
                if !self.obeys(Rule::OrphansByEpoch) {
                    manifest.epoch = u64::MAX;
                }
                // Their age is not asked: the epoch is enough.
                Operator::Deleting(orphans(listed.into_iter().map(|object| (object, 0)), &manifest, 0))
            }
            Operator::Deleting(mut orphans) => {
                if let Some(object) = delete {
                    seen.swept += 1;
                    orphans.remove(&object);
                    self.objects.remove(&object);
                }
                Operator::Deleting(orphans)
            }
        };
    }

    /// Calls with every world that may be next.
    fn each_next(&self, seen: &mut Seen, next: &mut Vec<World>) -> Result<(), Broken> {
        for who in 0..2 {
            let actor = &self.actors[who];
            let is_new = actor.state == State::New || actor.is_fenced;
            if is_new && actor.acquires_left > 0 && actor.asked.is_empty() {
                let mut world = self.clone();
                if actor.is_fenced {
                    world.actors[who].state = State::New;
                }
                world.acquire(who, seen)?;
                next.push(world);
            }
            if actor.state.owning().is_some() && actor.asked.is_empty() && actor.ships_left > 0 {
                let mut world = self.clone();
                world.ship(who, seen)?;
                next.push(world);
            }
            for i in 0..actor.asked.len() {
                let is_put = matches!(actor.asked[i], Request::Put(..));
                let mut fates = vec![Fate::Answered];
                if self.faults_left > 0 {
                    fates.extend([Fate::AnswerLost, Fate::Late]);
                    fates.extend(is_put.then_some(Fate::Twice));
                }
                for fate in fates {
                    let mut world = self.clone();
                    world.faults_left -= u8::from(fate != Fate::Answered);
                    world.answer(who, i, fate, seen)?;
                    next.push(world);
                }
            }
            if self.faults_left > 0 && actor.shipping.is_some() && actor.ships_left > 0 {
                // Whoever waits for the publication goes, and asks for the next one.
                let mut world = self.clone();
                world.faults_left -= 1;
                let asked = std::mem::take(&mut world.actors[who].asked);
                world.late.extend(asked.into_iter().filter(|asked| *asked != Request::Read));
                world.ship(who, seen)?;
                next.push(world);
            }
            if self.faults_left > 0 && actor.state != State::New && actor.acquires_left > 0 {
                // It crashes; what it has asked for may still be done.
                let mut world = self.clone();
                world.faults_left -= 1;
                let old = &actor.clone();
                world.late.extend(old.asked.iter().filter(|asked| **asked != Request::Read).cloned());
                let Actor { acquires_left, ships_left, .. } = *old;
                world.actors[who] = Actor { acquires_left, ships_left, ..Actor::default() };
                next.push(world);
            }
        }
        for i in 0..self.late.len() {
            let mut world = self.clone();
            let request = world.late.remove(i);
            world.perform(&request, seen)?;
            next.push(world);
        }
        let choices = match &self.operator {
            Operator::Deleting(orphans) => orphans.iter().map(|orphan| Some(*orphan)).collect(),
            _ => vec![None],
        };
        for delete in choices {
            let mut world = self.clone();
            world.operate(delete, seen);
            next.push(world);
        }
        Ok(())
    }
}

/// Explores every order. Returns what was seen, and the first invariant that does not hold.
fn explore(left_out: Option<Rule>, faults: u8, ships: u8) -> (Seen, Result<(), Broken>) {
    let mut seen = Seen::default();
    let mut waiting = vec![World::new(left_out, faults, ships)];
    while let Some(world) = waiting.pop() {
        let mut hasher = Xxh3Default::new();
        world.hash(&mut hasher);
        if !seen.states.insert(hasher.finish()) {
            continue;
        }
        let outcome = world.check().and_then(|()| world.each_next(&mut seen, &mut waiting));
        if outcome.is_err() {
            return (seen, outcome);
        }
    }
    (seen, Ok(()))
}

#[test]
fn h1_to_h4_hold_in_every_order_of_two_owners_a_store_and_an_operator() {
    let few = [(0, 2, 10_000), (1, 1, 10_000)];
    let all = [few[0], (1, 2, 100_000), (2, 1, 100_000)];
    for &(faults, ships, states_min) in testkit::long(&few[..], &all[..]) {
        let (seen, outcome) = explore(None, faults, ships);
        let Seen { states, fenced, published, deleted, swept, gave_up } = seen;
        println!(
            "{faults} faults, {ships} publications an owner: {} states; {published} published, {fenced} fenced, \
             {gave_up} given up, {deleted} deleted, {swept} orphans",
            states.len()
        );
        assert_eq!(outcome, Ok(()));
        assert!(states.len() > states_min && fenced > 0 && published > 0);
        assert!(faults == 0 || (gave_up > 0 && swept > 0));
        assert!(ships < 2 || deleted > 0);
    }
}

#[test]
fn every_mutant_is_noticed() {
    use Rule::{Conditional, DeleteAfterPublish, EpochInName, FilesFirst, LostAnswer, OrphansByEpoch};
    for rule in [Conditional, DeleteAfterPublish, EpochInName, FilesFirst, LostAnswer, OrphansByEpoch] {
        let bounds = [(0, 2), (1, 1), (1, 2), (2, 1)];
        let broken = bounds.into_iter().find_map(|(faults, ships)| explore(Some(rule), faults, ships).1.err());
        println!("without {rule:?}: {broken:?}");
        assert!(broken.is_some(), "the explorer does not notice that {rule:?} is left out");
    }
}
