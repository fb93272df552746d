//! A disk in memory, with synced and unsynced data, crashes, little room, calls that fail, and
//! damage.

mod calls;

#[cfg(all(test, not(modelled)))]
use crate::sync::turns;
use crate::sync::unpoisoned;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

/// A kind of call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Call {
    CreateDirectory,
    Lock,
    List,
    Open,
    Read,
    Create,
    Write,
    Sync,
    SyncDirectory,
    Rename,
    Link,
    Remove,
    Truncate,
    Identity,
}

/// The fault of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// An error of the system, by number.
    Error(i32),
    /// A write does half of what it should, and the disk is full from then on.
    HalfThenFull,
    /// A write does one byte, and that is no error.
    Short,
    /// Everything fails from now on: the process has died.
    Dead,
}

/// A call that is to go wrong.
#[derive(Clone, Copy, Debug)]
struct Planned {
    /// The kind of the call; any kind that changes something, if there is none.
    call: Option<Call>,
    /// The number of such calls that come before it.
    after: u64,
    fault: Fault,
}

/// A disk; clones are the same one.
#[derive(Clone, Default)]
pub(crate) struct Simulated {
    world: Arc<Mutex<World>>,
    /// The boot that it belongs to, for a disk that must not be used after another boot.
    boot: Option<u64>,
}

#[derive(Default)]
struct World {
    files: BTreeMap<u64, Contents>,
    /// The files by path, as everybody sees them.
    entries: BTreeMap<PathBuf, u64>,
    directories: BTreeMap<PathBuf, u64>,
    /// The files of each directory that are on the disk; `changes` are those since.
    synced: BTreeMap<PathBuf, u64>,
    changes: Vec<Change>,
    next: u64,
    /// The number of bytes that it has room for.
    capacity: Option<u64>,
    planned: Vec<Planned>,
    is_dead: bool,
    calls: u64,
    /// The holders of locks, by file.
    locked: BTreeMap<u64, u64>,
    /// The number of times that the machine was started again.
    boots: u64,
    /// True if no page is in memory, so that each read waits for the disk.
    is_cold: bool,
    /// The action that comes during the next call of a kind.
    meanwhile: Option<(Call, Box<dyn FnOnce() + Send>)>,
}

#[derive(Clone, Default)]
struct Contents {
    bytes: Vec<u8>,
    synced: Vec<u8>,
}

/// A change of a directory's contents.
#[derive(Clone)]
enum Change {
    Put(PathBuf, u64),
    Gone(PathBuf),
    Moved(PathBuf, PathBuf, u64),
}

impl Change {
    fn directory(&self) -> &Path {
        match self {
            Change::Put(path, _) | Change::Gone(path) | Change::Moved(path, ..) => parent(path),
        }
    }

    fn apply(&self, entries: &mut BTreeMap<PathBuf, u64>) {
        match self {
            Change::Put(path, file) => drop(entries.insert(path.clone(), *file)),
            Change::Gone(path) => drop(entries.remove(path)),
            Change::Moved(from, to, file) => {
                entries.remove(from);
                entries.insert(to.clone(), *file);
            }
        }
    }
}

fn parent(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new("/"))
}

/// Returns a number below another one (SplitMix64).
pub(crate) fn below(state: &mut u64, end: u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let n = (*state ^ *state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let n = (n ^ n >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    (n ^ n >> 31) % end.max(1)
}

impl Simulated {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Returns another disk with the same contents.
    pub(crate) fn copy(&self) -> Self {
        let world = self.world();
        let (files, entries, directories) = (world.files.clone(), world.entries.clone(), world.directories.clone());
        let (synced, changes, next) = (world.synced.clone(), world.changes.clone(), world.next);
        let copy = World { files, entries, directories, synced, changes, next, ..World::default() };
        Simulated { world: Arc::new(Mutex::new(copy)), boot: None }
    }

    /// Returns the same disk as a process has it: after a crash it cannot be used any more.
    pub(crate) fn of_this_boot(&self) -> Self {
        let boot = Some(self.world().boots);
        Simulated { boot, ..self.clone() }
    }

    /// Begins a call. Returns its fault, if it has one.
    fn enter(&self, call: Call) -> io::Result<(MutexGuard<'_, World>, Option<Fault>)> {
        #[cfg(all(test, not(modelled)))]
        turns::step(turns::DISK, turns::Kind::Read);
        let meanwhile = self.world().meanwhile.take_if(|(when, _)| *when == call);
        if let Some((_, act)) = meanwhile {
            act();
        }
        let mut world = self.world();
        if self.boot.is_some_and(|boot| boot != world.boots) {
            return Err(io::Error::other("from before a restart"));
        }
        let fault = world.call(call)?;
        Ok((world, fault))
    }

    fn world(&self) -> MutexGuard<'_, World> {
        unpoisoned(self.world.lock())
    }

    /// Sets the number of bytes that it has room for from now on; `None` is unlimited.
    pub(crate) fn set_capacity(&self, bytes: Option<u64>) {
        self.world().capacity = bytes;
    }

    pub(crate) fn used(&self) -> u64 {
        self.world().used()
    }

    /// Plans a fault: for a call of this kind, or of any that may change something, after this
    /// many.
    pub(crate) fn plan(&self, call: Option<Call>, after: u64, fault: Fault) {
        self.world().planned.push(Planned { call, after, fault });
    }

    /// Takes all pages out of memory.
    pub(crate) fn be_cold(&self) {
        self.world().is_cold = true;
    }

    /// Does something while the next call of this kind is under way.
    pub(crate) fn meanwhile(&self, call: Call, act: impl FnOnce() + Send + 'static) {
        self.world().meanwhile = Some((call, Box::new(act)));
    }

    /// Cancels all faults, except for lack of room.
    pub(crate) fn heal(&self) {
        let mut world = self.world();
        world.planned.clear();
        world.is_dead = false;
    }

    /// Returns the number of calls that may have changed something.
    pub(crate) fn calls(&self) -> u64 {
        self.world().calls
    }

    /// Cuts the power: of the data that was not synced, a beginning is left of each file and
    /// directory. Everything that was open or locked is not any more (its holders must not use it).
    pub(crate) fn crash(&self, seed: u64) {
        let mut random = seed;
        let mut world = self.world();
        for file in world.files.values_mut() {
            file.crash(&mut random);
        }
        let mut entries = world.synced.clone();
        let changes = std::mem::take(&mut world.changes);
        let directories: BTreeSet<_> = changes.iter().map(|change| change.directory().to_owned()).collect();
        for directory in directories {
            let of_it: Vec<_> = changes.iter().filter(|change| change.directory() == directory).collect();
            let left = below(&mut random, of_it.len() as u64 + 1) as usize;
            of_it[..left].iter().for_each(|change| change.apply(&mut entries));
        }
        world.restart(entries);
    }

    /// Kills the process, and nothing else: written data is there.
    pub(crate) fn kill(&self) {
        let mut world = self.world();
        let entries = world.entries.clone();
        world.restart(entries);
    }

    pub(crate) fn read(&self, path: &Path) -> Option<Vec<u8>> {
        let world = self.world();
        world.entries.get(path).map(|file| world.files[file].bytes.clone())
    }

    /// Puts a file there, synced.
    pub(crate) fn put(&self, path: &Path, bytes: Vec<u8>) {
        let mut world = self.world();
        let file = world.new_file(bytes.clone());
        world.files.insert(file, Contents { synced: bytes.clone(), bytes });
        world.entries.insert(path.into(), file);
        world.synced.insert(path.into(), file);
    }

    /// Returns all files, by path.
    pub(crate) fn paths(&self) -> Vec<PathBuf> {
        self.world().entries.keys().cloned().collect()
    }

    pub(crate) fn flip(&self, path: &Path, bit: u64) {
        self.edit(path, |bytes| bytes[(bit / 8) as usize] ^= 1 << (bit % 8));
    }

    pub(crate) fn cut(&self, path: &Path, length: u64) {
        self.edit(path, |bytes| bytes.truncate(length as usize));
    }

    pub(crate) fn zero(&self, path: &Path, offset: u64, bytes: u64) {
        self.edit(path, |all| {
            let end = all.len().min((offset + bytes) as usize);
            all[offset as usize..end].fill(0);
        });
    }

    fn edit(&self, path: &Path, edit: impl FnOnce(&mut Vec<u8>)) {
        let mut bytes = self.read(path).unwrap_or_default();
        edit(&mut bytes);
        let mut world = self.world();
        if let Some(file) = world.entries.get(path).copied() {
            world.files.insert(file, Contents { synced: bytes.clone(), bytes });
        }
    }

    /// Deletes a file, as somebody else would.
    pub(crate) fn delete(&self, path: &Path) {
        let mut world = self.world();
        world.entries.remove(path);
        world.synced.remove(path);
    }

    /// Deletes a directory with its files, as somebody else would.
    pub(crate) fn delete_directory(&self, path: &Path) {
        let mut world = self.world();
        world.directories.remove(path);
        world.entries.retain(|entry, _| parent(entry) != path);
        world.synced.retain(|entry, _| parent(entry) != path);
        world.changes.retain(|change| change.directory() != path);
    }

    /// Deletes a directory, and creates another one in its place.
    pub(crate) fn replace_directory(&self, path: &Path) {
        self.delete_directory(path);
        let mut world = self.world();
        let number = world.number();
        world.directories.insert(path.into(), number);
    }
}

impl Contents {
    fn crash(&mut self, random: &mut u64) {
        if !self.bytes.starts_with(&self.synced) {
            // The file was cut off; that may have reached the disk, or not.
            if below(random, 2) == 0 {
                self.bytes = std::mem::take(&mut self.synced);
            }
        } else {
            let unsynced = (self.bytes.len() - self.synced.len()) as u64;
            let written = self.synced.len() + below(random, unsynced + 1) as usize;
            let length = written + below(random, (self.bytes.len() - written) as u64 + 1) as usize;
            match below(random, 4) {
                // Its length has reached the disk, and its contents have not.
                0 => {
                    self.bytes.truncate(length);
                    self.bytes[written..].fill(0);
                }
                _ => self.bytes.truncate(written),
            }
        }
        self.synced.clone_from(&self.bytes);
    }
}

impl World {
    fn restart(&mut self, entries: BTreeMap<PathBuf, u64>) {
        self.entries = entries;
        self.files.values_mut().for_each(|file| file.synced.clone_from(&file.bytes));
        self.synced.clone_from(&self.entries);
        self.changes.clear();
        self.locked.clear();
        self.planned.clear();
        self.is_dead = false;
        self.boots += 1;
        self.drop_unused();
    }

    /// Drops files to which no name leads any more: they take no room. (A process that has one open
    /// finds it gone only after a restart.)
    fn drop_unused(&mut self) {
        let used: BTreeSet<u64> = self.entries.values().chain(self.synced.values()).copied().collect();
        self.files.retain(|file, _| used.contains(file));
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn new_file(&mut self, bytes: Vec<u8>) -> u64 {
        let file = self.number();
        self.files.insert(file, Contents { bytes, synced: Vec::new() });
        file
    }

    fn used(&self) -> u64 {
        let used: BTreeSet<u64> = self.entries.values().copied().collect();
        used.iter().filter_map(|file| self.files.get(file)).map(|file| file.bytes.len() as u64).sum()
    }

    /// Begins a call. Returns its fault, if it has one.
    fn call(&mut self, call: Call) -> io::Result<Option<Fault>> {
        let changes = !matches!(call, Call::List | Call::Open | Call::Read | Call::Identity);
        self.calls += u64::from(changes);
        let dead = || io::Error::other("the process is dead");
        if self.is_dead {
            return Err(dead());
        }
        let mut fault = None;
        self.planned.retain_mut(|planned| {
            let is_it = planned.call.map_or(changes, |kind| kind == call);
            if is_it && planned.after == 0 {
                fault = Some(planned.fault);
                return false;
            }
            planned.after -= u64::from(is_it);
            true
        });
        match fault {
            Some(Fault::Error(number)) => Err(io::Error::from_raw_os_error(number)),
            Some(Fault::Dead) => {
                self.is_dead = true;
                Err(dead())
            }
            fault => Ok(fault),
        }
    }

    fn entry(&self, path: &Path) -> io::Result<u64> {
        self.entries.get(path).copied().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn change(&mut self, change: Change) {
        change.apply(&mut self.entries);
        self.changes.push(change);
    }

    fn must_be_new(&self, path: &Path) -> io::Result<()> {
        if !self.directories.contains_key(parent(path)) {
            return Err(io::ErrorKind::NotFound.into());
        }
        if self.entries.contains_key(path) { Err(io::ErrorKind::AlreadyExists.into()) } else { Ok(()) }
    }
}
