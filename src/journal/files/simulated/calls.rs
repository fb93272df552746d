//! The calls of a journal to a disk in memory.

use super::{Call, Change, Contents, Fault, Simulated, parent};
use crate::journal::files::disk::{Disk, DiskFile, Held, Identity, NotLocked};
use crate::journal::files::pages::PageFile;
use std::io;
use std::path::{Path, PathBuf};

impl Disk for Simulated {
    fn create_directory(&self, path: &Path) -> io::Result<()> {
        let (mut world, _) = self.enter(Call::CreateDirectory)?;
        if !world.directories.contains_key(path) {
            let number = world.number();
            world.directories.insert(path.into(), number);
        }
        Ok(())
    }

    fn lock(&self, path: &Path, _: &str) -> Result<Box<dyn Held>, NotLocked> {
        let (mut world, _) = self.enter(Call::Lock).map_err(NotLocked::Io)?;
        let file = match world.entry(path) {
            Ok(file) => file,
            Err(_) => {
                world.must_be_new(path).map_err(NotLocked::Io)?;
                let file = world.new_file(Vec::new());
                world.change(Change::Put(path.into(), file));
                file
            }
        };
        let holder = world.number();
        if let std::collections::btree_map::Entry::Vacant(e) = world.locked.entry(file) {
            e.insert(holder);
            Ok(Box::new(SimulatedLock { disk: self.clone(), file, holder }))
        } else {
            Err(NotLocked::InUse("a simulated process".into()))
        }
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<PathBuf>> {
        let (world, _) = self.enter(Call::List)?;
        if !world.directories.contains_key(directory) {
            return Err(io::ErrorKind::NotFound.into());
        }
        Ok(world.entries.keys().filter(|path| parent(path) == directory).cloned().collect())
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        let (world, _) = self.enter(Call::Open)?;
        let file = world.entry(path)?;
        Ok(Box::new(SimulatedFile { disk: self.clone(), file }))
    }

    fn open_pages(&self, path: &Path) -> io::Result<Box<dyn PageFile>> {
        let (world, _) = self.enter(Call::Open)?;
        let file = world.entry(path)?;
        Ok(Box::new(SimulatedFile { disk: self.clone(), file }))
    }

    fn open_to_append(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        self.open(path)
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        let (mut world, _) = self.enter(Call::Create)?;
        world.must_be_new(path)?;
        let file = world.new_file(Vec::new());
        world.change(Change::Put(path.into(), file));
        Ok(Box::new(SimulatedFile { disk: self.clone(), file }))
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        let (mut world, _) = self.enter(Call::SyncDirectory)?;
        if !world.directories.contains_key(path) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let (now, later) = std::mem::take(&mut world.changes).into_iter().partition(|c| c.directory() == path);
        world.changes = later;
        let now: Vec<Change> = now;
        now.iter().for_each(|change| change.apply(&mut world.synced));
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let (mut world, _) = self.enter(Call::Rename)?;
        let file = world.entry(from)?;
        world.change(Change::Moved(from.into(), to.into(), file));
        Ok(())
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        let (mut world, _) = self.enter(Call::Link)?;
        let file = world.entry(from)?;
        world.must_be_new(to)?;
        world.change(Change::Put(to.into(), file));
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let (mut world, _) = self.enter(Call::Remove)?;
        world.entry(path)?;
        world.change(Change::Gone(path.into()));
        Ok(())
    }

    fn identity(&self, path: &Path) -> io::Result<Identity> {
        let (world, _) = self.enter(Call::Identity)?;
        match world.directories.get(path) {
            Some(number) => Ok(Identity(1, *number)),
            None => world.entry(path).map(|file| Identity(1, file)),
        }
    }
}

struct SimulatedFile {
    disk: Simulated,
    file: u64,
}

impl SimulatedFile {
    /// Makes a call to the disk.
    fn call<R>(
        &self,
        call: Call,
        what: impl FnOnce(&mut Contents, Option<Fault>, u64) -> io::Result<R>,
    ) -> io::Result<R> {
        let (mut world, fault) = self.disk.enter(call)?;
        let room = world.capacity.map_or(u64::MAX, |capacity| capacity.saturating_sub(world.used()));
        if fault == Some(Fault::HalfThenFull) {
            world.capacity = Some(0);
        }
        let contents = world.files.get_mut(&self.file).ok_or_else(|| io::Error::other("from before a restart"))?;
        what(contents, fault, room)
    }
}

impl DiskFile for SimulatedFile {
    fn size(&mut self) -> io::Result<u64> {
        self.call(Call::Read, |file, _, _| Ok(file.bytes.len() as u64))
    }

    fn read_at(&mut self, offset: u64, bytes: &mut [u8]) -> io::Result<usize> {
        self.read(offset, bytes)
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.call(Call::Write, |file, fault, room| {
            let n = match fault {
                Some(Fault::HalfThenFull) => bytes.len() / 2,
                Some(_) => bytes.len().min(1),
                None => bytes.len().min(usize::try_from(room).unwrap_or(usize::MAX)),
            };
            if n == 0 && !bytes.is_empty() {
                return Err(io::ErrorKind::StorageFull.into());
            }
            file.bytes.extend_from_slice(&bytes[..n]);
            Ok(n)
        })
    }

    fn sync(&mut self) -> io::Result<()> {
        self.call(Call::Sync, |file, _, _| {
            file.synced.clone_from(&file.bytes);
            Ok(())
        })
    }

    fn truncate(&mut self, bytes: u64) -> io::Result<()> {
        self.call(Call::Truncate, |file, _, _| {
            file.bytes.truncate(bytes as usize);
            Ok(())
        })
    }

    fn identity(&mut self) -> io::Result<Identity> {
        let file = self.file;
        self.call(Call::Identity, |_, _, _| Ok(Identity(1, file)))
    }
}

impl SimulatedFile {
    fn read(&self, offset: u64, bytes: &mut [u8]) -> io::Result<usize> {
        self.call(Call::Read, |file, _, _| {
            let rest = file.bytes.get(offset as usize..).unwrap_or_default();
            let n = rest.len().min(bytes.len());
            bytes[..n].copy_from_slice(&rest[..n]);
            Ok(n)
        })
    }
}

impl PageFile for SimulatedFile {
    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<usize> {
        self.read(offset, bytes)
    }

    fn read_cached(&self, offset: u64, bytes: &mut [u8]) -> io::Result<Option<usize>> {
        if self.disk.world().is_cold { Ok(None) } else { self.read(offset, bytes).map(Some) }
    }
}

struct SimulatedLock {
    disk: Simulated,
    file: u64,
    holder: u64,
}

impl Held for SimulatedLock {
    fn identity(&self) -> io::Result<Identity> {
        Ok(Identity(1, self.file))
    }
}

impl Drop for SimulatedLock {
    fn drop(&mut self) {
        let mut world = self.disk.world();
        if world.locked.get(&self.file) == Some(&self.holder) {
            world.locked.remove(&self.file);
        }
    }
}
