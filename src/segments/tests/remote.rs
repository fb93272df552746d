//! Segments that are elsewhere, and come here at any moment, against a plain map: over a source
//! that fails, lies or is gone, and a disk that fails; while segments are sealed, merged, expired
//! and cleared, processes end, and all of it is handed over again. A seed gives the same trace
//! twice: `HAPAX_SEGMENTS` says how many are tried, `HAPAX_SEGMENTS_SEED` which comes first.

use super::model::{digester, directory, key, number};
use crate::digest::Digest;
use crate::journal::DurableFile;
use crate::journal::files::simulated::{Fault, Simulated};
use crate::long::long;
use crate::mutation::{Rule, leave_out};
use crate::random::{Random, hash, mix};
use crate::segments::live::seal_and_merge::Merge;
use crate::segments::live::set::Segments;
use crate::segments::options::SegmentOptions;
use crate::segments::read::look::Answer;
use crate::segments::read::source::SegmentSource;
use crate::segments::write::sort::{Event, EventKind};
use crate::sync::unpoisoned;
use crate::{SegmentError, Timestamp};
use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

const IDS: u64 = 60;
const RETENTION: u64 = 1_000_000;

/// The things that the source does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Mood {
    #[default]
    Well,
    Gone,
    /// It fails for one place in three.
    Fails(u64),
    /// It has a wrong bit in one place of three.
    Lies(u64),
}

type Act = Box<dyn FnOnce() + Send>;

/// The files of all owners, as an object store has them.
#[derive(Clone, Default)]
pub(crate) struct Elsewhere(Arc<Mutex<Shared>>);

#[derive(Default)]
struct Shared {
    files: BTreeMap<String, Vec<u8>>,
    mood: Mood,
    /// Something that happens while the next bytes are read.
    act: Option<Act>,
}

impl SegmentSource for Elsewhere {
    fn read_at(&self, name: &str, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        let act = unpoisoned(self.0.lock()).act.take();
        if let Some(act) = act {
            act();
        }
        let shared = unpoisoned(self.0.lock());
        let file = shared.files.get(name).ok_or(io::ErrorKind::NotFound)?;
        let at = offset as usize;
        bytes.copy_from_slice(file.get(at..at + bytes.len()).ok_or(io::ErrorKind::UnexpectedEof)?);
        let number = name.bytes().fold(0, |sum: u64, byte| mix(sum ^ u64::from(byte)));
        let drawn = |seed| hash([seed, number, offset]);
        match shared.mood {
            Mood::Well => Ok(()),
            Mood::Gone => Err(io::ErrorKind::ConnectionRefused.into()),
            Mood::Fails(seed) if drawn(seed) % 3 == 0 => Err(io::ErrorKind::TimedOut.into()),
            Mood::Lies(seed) if drawn(seed) % 3 == 0 => {
                let bit = drawn(seed + 1) as usize % (8 * bytes.len());
                bytes[bit / 8] ^= 1 << (bit % 8);
                Ok(())
            }
            Mood::Fails(_) | Mood::Lies(_) => Ok(()),
        }
    }
}

impl Elsewhere {
    pub(crate) fn mood(&self, mood: Mood) {
        unpoisoned(self.0.lock()).mood = mood;
    }

    /// Takes over the files of a directory, as they were listed; those that are not there it has.
    pub(crate) fn take_over(&self, disk: &Simulated, files: &[DurableFile]) {
        for file in files {
            if let Some(bytes) = disk.read(&file.path) {
                let name = file.path.file_name().unwrap().to_str().unwrap().to_owned();
                assert_eq!(bytes.len() as u64, file.bytes, "{name} is as long as it was listed");
                unpoisoned(self.0.lock()).files.insert(name, bytes);
            }
        }
    }
}

struct World {
    disk: Simulated,
    source: Elsewhere,
    mood: Mood,
    segments: Option<Arc<Segments>>,
    merge: Option<Merge>,
    random: Random,
    now: u64,
    sealed: u64,
    accepted: BTreeMap<u64, u64>,
    digests: Vec<Digest>,
    trace: u64,
}

fn digests() -> Vec<Digest> {
    let digester = digester();
    (0..IDS).map(|id| digester.digest(id.to_le_bytes())).collect()
}

fn options() -> SegmentOptions {
    SegmentOptions { key: key(), read_threads: 0, ..SegmentOptions::new(Duration::from_nanos(RETENTION)) }
}

impl World {
    fn new(seed: u64) -> Self {
        let (disk, source, mood) = (Simulated::new(), Elsewhere::default(), Mood::Well);
        let (accepted, random) = (BTreeMap::new(), Random::new(seed));
        let (segments, merge) = (None, None);
        let (now, sealed, digests) = (10 * RETENTION, 0, digests());
        World { disk, source, mood, segments, merge, random, now, sealed, accepted, digests, trace: seed }
    }

    fn open(&mut self) -> Result<Arc<Segments>, String> {
        if let Some(segments) = &self.segments {
            return Ok(Arc::clone(segments));
        }
        let open = |source: &Elsewhere| {
            let source: Arc<dyn SegmentSource> = Arc::new(source.clone());
            Segments::open_on(Arc::new(self.disk.of_this_boot()), directory(), options(), Some(source))
        };
        let opened = open(&self.source).or_else(|error| match (&error, self.mood) {
            (SegmentError::Io { .. }, Mood::Gone | Mood::Fails(_))
            // (A wrong bit may be one of the version.)
            | (SegmentError::Damaged { .. } | SegmentError::NotOurs { .. }, Mood::Lies(_)) => {
                // It is refused, and opens when the source is well.
                self.mood = Mood::Well;
                self.source.mood(Mood::Well);
                open(&self.source)
            }
            _ => Err(error),
        });
        let segments = opened.map_err(|wrong| format!("cannot be opened: {wrong}"))?;
        if self.disk.paths().iter().any(|path| path.extension().is_some_and(|it| it == "part")) {
            return Err("a part was left".into());
        }
        self.segments = Some(Arc::clone(&segments));
        Ok(segments)
    }

    fn end(&mut self, how: impl FnOnce(&Simulated)) {
        self.disk.plan(None, 0, Fault::Dead);
        (self.merge, self.segments) = (None, None);
        how(&self.disk);
        self.disk.heal();
    }

    fn seal(&mut self) -> Result<(), String> {
        let segments = self.open()?;
        let mut events = Vec::new();
        for _ in 0..1 + self.random.below(10) {
            let id = self.random.below(IDS);
            let kind = if self.random.chance(20) { EventKind::Forgotten } else { EventKind::Accepted };
            self.now += 1;
            events.push(Event { digest: self.digests[id as usize], time: Timestamp::from_nanos(self.now), kind });
            match kind {
                EventKind::Accepted => self.accepted.insert(id, self.now),
                EventKind::Forgotten => self.accepted.remove(&id),
            };
        }
        self.sealed += 1;
        segments.seal(&mut &events[..], self.sealed).map_err(|wrong| format!("cannot be sealed: {wrong}"))
    }

    /// Another owner goes on, with the manifest alone.
    fn hand_over(&mut self) -> Result<(), String> {
        let (durable, sealed) = self.open()?.durable();
        if sealed != self.sealed {
            return Err(format!("{sealed} is sealed, and {} was", self.sealed));
        }
        self.source.take_over(&self.disk, &durable.files);
        self.end(|_| {});
        self.disk = Simulated::new();
        self.disk.replace_directory(directory());
        self.disk.put(&directory().join(crate::segments::live::manifest::NAME), durable.manifest);
        Ok(())
    }

    fn bring(&mut self) -> Result<(), String> {
        let segments = self.open()?;
        let bytes = [1, 5_000, 1 << 20][self.random.below(3) as usize];
        let is_faulty = self.random.chance(4);
        if is_faulty {
            let fault = [Fault::Error(5), Fault::Error(28), Fault::HalfThenFull, Fault::Short];
            self.disk.plan(None, self.random.below(6), fault[self.random.below(4) as usize]);
        }
        if !is_faulty && self.random.chance(6) {
            // Everything else may happen while the source is asked.
            let (another, now, clears) = (Arc::clone(&segments), self.now + RETENTION, self.random.chance(2));
            let sealed = self.sealed;
            let act = move || {
                if clears { drop(another.clear(sealed)) } else { drop(another.expire(Timestamp::from_nanos(now))) }
            };
            unpoisoned(self.source.0.lock()).act = Some(Box::new(act));
        }
        let brought = segments.bring(bytes);
        // (If nobody asked, it happens now.)
        let hook = unpoisoned(self.source.0.lock()).act.take();
        let is_gone = segments.stats().segments == 0 && !self.accepted.is_empty();
        drop(hook);
        if is_gone {
            // Whatever was cleared or has expired is unknown from now on.
            self.now += RETENTION;
            self.accepted.clear();
        }
        self.disk.heal();
        self.disk.set_capacity(None);
        self.trace = mix(self.trace ^ u64::from(brought.is_ok()));
        match (brought, self.mood) {
            (Ok(_), _) => Ok(()),
            (Err(SegmentError::Io { .. }), _) if is_faulty => Ok(()),
            (Err(SegmentError::Io { .. }), Mood::Gone | Mood::Fails(_)) => Ok(()),
            (Err(SegmentError::Damaged { .. } | SegmentError::NotOurs { .. }), Mood::Lies(_)) => Ok(()),
            (Err(wrong), mood) => Err(format!("cannot be brought ({mood:?}): {wrong}")),
        }
    }

    fn step(&mut self) -> Result<(), String> {
        match self.random.below(20) {
            0..4 => self.seal()?,
            4..11 => self.bring()?,
            11..13 => self.hand_over()?,
            13 => self.end(Simulated::kill),
            14 => {
                let seed = self.random.next();
                self.end(|disk| disk.crash(seed));
            }
            15 | 16 => {
                let segments = self.open()?;
                if self.merge.is_none() {
                    self.merge = segments.begin_merge(Timestamp::from_nanos(self.now)).unwrap();
                }
                if let Some(mut merge) = self.merge.take()
                    && !merge.step(40).map_err(|wrong| format!("cannot be merged: {wrong}"))?
                {
                    self.merge = Some(merge);
                }
            }
            17 => {
                self.now += self.random.below(RETENTION / 4);
                self.open()?.expire(Timestamp::from_nanos(self.now)).unwrap();
            }
            _ => {
                let seed = self.random.next();
                let moods = [Mood::Well, Mood::Gone, Mood::Fails(seed), Mood::Lies(seed)];
                self.mood = moods[self.random.below(4) as usize];
                self.source.mood(self.mood);
            }
        }
        self.look()
    }

    /// Compares all answers, and the files with what is live.
    fn look(&mut self) -> Result<(), String> {
        let segments = self.open()?;
        let (mut answers, now) = (Vec::new(), self.now);
        let looked = segments.look(&self.digests, Timestamp::from_nanos(now), &mut answers);
        let stats = segments.stats();
        let may_doubt = stats.remote > 0 && self.mood != Mood::Well;
        if let Err(wrong) = looked
            && !may_doubt
        {
            return Err(format!("cannot be read ({:?}, {} elsewhere): {wrong}", self.mood, stats.remote));
        }
        for (id, answer) in (0..).zip(&answers) {
            let at = self.accepted.get(&id).copied();
            self.trace = mix(self.trace ^ id ^ u64::from(*answer == Answer::Unknown) << 32);
            // A tick is a 2^15th of a segment's span.
            let tick = 2 * RETENTION / 32_768 + 1;
            let is_right = match (at, answer) {
                (_, Answer::InDoubt) => may_doubt,
                (Some(at), Answer::Known(time)) => time.as_nanos() >= at && now - at < RETENTION + tick,
                (Some(at), Answer::Unknown) => now - at >= RETENTION,
                (None, answer) => *answer == Answer::Unknown,
            };
            if !is_right {
                return Err(format!("{id}, accepted {at:?}, at {now}, {:?}: {answer:?}", self.mood));
            }
        }
        let is_file = |path: &PathBuf| path.extension().is_some_and(|it| it == "segment");
        let files: Vec<_> = self.disk.paths().into_iter().filter(is_file).collect();
        let live = segments.durable().0.files;
        let is_live = |path: &PathBuf| live.iter().any(|file| file.path == *path);
        // (One whose name could not be made durable is elsewhere still, and has it.)
        let is_right = files.len() as u64 >= stats.segments - stats.remote && files.iter().all(is_live);
        if self.merge.is_none() && !is_right {
            return Err(format!("{files:?} of {} segments, {} elsewhere", stats.segments, stats.remote));
        }
        Ok(())
    }

    /// The source is well: everything comes, and nobody needs it any more.
    fn finish(&mut self) -> Result<(), String> {
        self.mood = Mood::Well;
        self.source.mood(Mood::Well);
        let segments = self.open()?;
        while segments.bring(1 << 20).map_err(|wrong| format!("cannot be brought in the end: {wrong}"))? {}
        self.mood = Mood::Gone;
        self.source.mood(Mood::Gone);
        drop(segments);
        self.look()?;
        self.end(Simulated::kill);
        let disk = Arc::new(self.disk.of_this_boot());
        let alone = Segments::open_on(disk, directory(), options(), None);
        let alone = alone.map_err(|wrong| format!("cannot be opened without a source: {wrong}"))?;
        while alone.load_filter().map_err(|wrong| format!("a filter, in the end: {wrong}"))? {}
        self.segments = Some(alone);
        self.look()
    }
}

fn run(seed: u64) -> Result<u64, String> {
    let mut world = World::new(seed);
    for n in 0..70 {
        world.step().map_err(|wrong| format!("seed {seed}, step {n}: {wrong}"))?;
    }
    world.finish().map_err(|wrong| format!("seed {seed}, at the end: {wrong}"))?;
    Ok(world.trace)
}

#[test]
fn segments_elsewhere_agree_with_a_plain_map_whatever_the_source_does() {
    let (first, sequences) = (number("HAPAX_SEGMENTS_SEED", 1), number("HAPAX_SEGMENTS", long(20, 150)));
    println!("{sequences} sequences from seed {first} on");
    for seed in first..first + sequences {
        let trace = run(seed).unwrap_or_else(|wrong| panic!("{wrong}"));
        if seed % 20 == 0 {
            assert_eq!(run(seed), Ok(trace), "seed {seed}, run again");
        }
    }
}

#[test]
fn it_is_noticed_when_a_rule_of_bringing_is_left_out() {
    for rule in [Rule::BroughtPages, Rule::BroughtIfLive, Rule::BroughtWhole] {
        let noticed = std::thread::spawn(move || {
            leave_out(Some(rule));
            (1..1_000).find_map(|seed| run(seed).err())
        });
        let noticed = noticed.join().expect("nothing panics");
        println!("without {rule:?}: {}", noticed.as_deref().unwrap_or("not noticed"));
        assert!(noticed.is_some(), "{rule:?} was left out, and nobody noticed");
    }
}
