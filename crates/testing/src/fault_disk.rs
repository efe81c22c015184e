//! A disk in memory that keeps what is synced apart from what is only written, and loses power: each write since the last
//! sync is then there, is not, or is there in part; and so is each change of a folder.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_buffer::Buffer;
use parking_lot::{Mutex, MutexGuard};
use tidemill_journal::{LockGuard, Medium, MediumFile};

use crate::random::Random;

/// The smallest piece that the disk writes whole.
const SECTOR_BYTES: usize = 512;

enum Change {
    Write { offset: usize, bytes: Vec<u8> },
    Length(usize),
}

/// The bytes of a file. Those that were never written, at its end, are zeros and take no memory.
#[derive(Clone, Default)]
struct Bytes {
    written: Vec<u8>,
    length: usize,
}

impl Bytes {
    fn set_length(&mut self, length: usize) {
        self.written.truncate(length);
        self.length = length;
    }

    fn write(&mut self, offset: usize, bytes: &[u8]) {
        let end = offset + bytes.len();
        if self.written.len() < end {
            self.written.resize(end, 0);
        }
        self.written[offset..end].copy_from_slice(bytes);
        self.length = self.length.max(end);
    }

    fn read(&self, target: &mut [u8], offset: usize) -> usize {
        let count = self.length.saturating_sub(offset).min(target.len());
        let written = self.written.get(offset..).unwrap_or_default();
        let found = written.len().min(count);
        target[..found].copy_from_slice(&written[..found]);
        target[found..count].fill(0);
        count
    }
}

#[derive(Default)]
struct FileState {
    synced: Bytes,
    now: Bytes,
    /// Since the last sync.
    changes: Vec<Change>,
}

#[derive(Clone)]
enum NameChange {
    Add(String, Arc<Mutex<FileState>>),
    Rename(String, String),
    Remove(String),
}

/// By path, as text: that is compared faster.
type Names = BTreeMap<String, Arc<Mutex<FileState>>>;

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

#[derive(Default)]
struct State {
    folders: BTreeSet<String>,
    synced: Names,
    now: Names,
    changes: Vec<NameChange>,
    bytes_max: usize,
    /// How many syncs go well before one fails.
    fails_sync: Option<u64>,
    /// How many operations go well before the machine stands still.
    halts: Option<u64>,
    locks: BTreeMap<PathBuf, std::sync::Weak<()>>,
    /// How often the machine has lost power.
    power_losses: u64,
}

/// The disk; its clones are the same.
#[derive(Clone)]
pub struct FaultDisk(Arc<Mutex<State>>);

impl Default for FaultDisk {
    fn default() -> FaultDisk {
        FaultDisk::new()
    }
}

impl FaultDisk {
    /// Makes an empty disk.
    pub fn new() -> FaultDisk {
        FaultDisk(Arc::new(Mutex::new(State { bytes_max: usize::MAX, ..State::default() })))
    }

    /// The disk holds no more than this.
    pub fn limit(&self, bytes: usize) {
        self.state().bytes_max = bytes;
    }

    /// How many bytes all files have.
    pub fn bytes(&self) -> usize {
        self.state().now.values().map(|file| file.lock().now.length).sum()
    }

    /// After this many more successful syncs, one fails.
    pub fn fail_sync(&self, after: u64) {
        self.state().fails_sync = Some(after);
    }

    /// Whether the planned sync failure has happened, or none was planned.
    pub fn has_failed_sync(&self) -> bool {
        self.state().fails_sync.is_none()
    }

    /// After this many more changes the machine halts: nothing works any more, and what is there stays as it is.
    pub fn halt(&self, after: u64) {
        self.state().halts = Some(after);
    }

    /// Nothing fails any more.
    pub fn mend(&self) {
        let mut state = self.state();
        (state.fails_sync, state.halts, state.bytes_max) = (None, None, usize::MAX);
    }

    /// Whether the machine has halted.
    pub fn is_halted(&self) -> bool {
        self.state().halts == Some(0)
    }

    /// What is on the disk after the end of the process, as a new disk: all that was written.
    pub fn killed(&self) -> FaultDisk {
        let state = self.state();
        let (folders, bytes_max) = (state.folders.clone(), state.bytes_max);
        let (synced, now, changes) = (state.synced.clone(), state.now.clone(), state.changes.clone());
        FaultDisk(Arc::new(Mutex::new(State {
            folders,
            synced,
            now,
            changes,
            bytes_max,
            power_losses: state.power_losses,
            ..State::default()
        })))
    }

    /// The content of a file, to be changed as if the disk had gone bad.
    pub fn corrupt(&self, path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
        let file = self.state().now[&text(path)].clone();
        let mut file = file.lock();
        let mut bytes = vec![0; file.now.length];
        file.now.read(&mut bytes, 0);
        change(&mut bytes);
        file.now = Bytes { length: bytes.len(), written: bytes };
        file.synced = file.now.clone();
        file.changes.clear();
    }

    /// Returns the paths of all files.
    pub fn paths(&self) -> Vec<PathBuf> {
        self.state().now.keys().map(PathBuf::from).collect()
    }

    /// What is on the disk after a loss of power, as a new disk.
    pub fn power_loss(&self, random: &mut Random) -> FaultDisk {
        let state = self.state();
        let mut names = state.synced.clone();
        // File systems keep the order of changes of one folder; how many of them are there is open.
        let kept = random.below(state.changes.len() as u64 + 1) as usize;
        state.changes[..kept].iter().for_each(|change| apply(&mut names, change));
        // A file may have two names in between; it is torn once.
        let mut torn: Vec<(*const Mutex<FileState>, Arc<Mutex<FileState>>)> = Vec::new();
        for file in names.values_mut() {
            let known = torn.iter().find(|(pointer, _)| *pointer == Arc::as_ptr(file));
            let after = known.map(|(_, after)| after.clone()).unwrap_or_else(|| {
                let after = Arc::new(Mutex::new(file.lock().torn(random)));
                torn.push((Arc::as_ptr(file), after.clone()));
                after
            });
            *file = after;
        }
        let (synced, now) = (names.clone(), names);
        let folders = state.folders.clone();
        FaultDisk(Arc::new(Mutex::new(State {
            folders,
            synced,
            now,
            bytes_max: usize::MAX,
            power_losses: state.power_losses + 1,
            ..State::default()
        })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock()
    }

    fn open_file(&self, file: Arc<Mutex<FileState>>) -> Arc<dyn MediumFile> {
        Arc::new(FaultFile { disk: self.clone(), file })
    }

    fn check_space(&self, more: usize) -> io::Result<()> {
        if self.bytes() + more <= self.state().bytes_max {
            Ok(())
        } else {
            Err(io::ErrorKind::StorageFull.into())
        }
    }

    /// Counts one more change; whether the machine still works.
    fn check_halt(&self) -> io::Result<()> {
        let mut state = self.state();
        if state.halts == Some(0) {
            return Err(io::Error::other("the machine stands still"));
        }
        state.halts = state.halts.map(|after| after - 1);
        Ok(())
    }

    fn check_sync(&self) -> io::Result<()> {
        self.check_halt()?;
        let mut state = self.state();
        match state.fails_sync {
            Some(0) => {
                state.fails_sync = None;
                Err(io::Error::other("the disk does not answer"))
            }
            after => {
                state.fails_sync = after.map(|after| after - 1);
                Ok(())
            }
        }
    }
}

impl FileState {
    /// What is left of it: the synced content, and some sectors of each later write. Changes of length happen in order,
    /// up to one of them.
    fn torn(&self, random: &mut Random) -> FileState {
        let mut bytes = self.synced.clone();
        let lengths = self.changes.iter().filter(|change| matches!(change, Change::Length(_))).count() as u64;
        let mut lengths_kept = random.below(lengths + 1);
        let all = random.is_once_in(4);
        for change in &self.changes {
            match change {
                Change::Length(length) if lengths_kept > 0 => {
                    lengths_kept -= 1;
                    bytes.set_length(*length);
                }
                Change::Length(_) => {}
                Change::Write { offset, bytes: written } if all || random.is_once_in(2) => {
                    bytes.write(*offset, written);
                }
                Change::Write { offset, bytes: written } => tear(&mut bytes, *offset, written, random),
            }
        }
        FileState { synced: bytes.clone(), now: bytes, changes: Vec::new() }
    }
}

/// Writes some of the sectors.
fn tear(target: &mut Bytes, offset: usize, bytes: &[u8], random: &mut Random) {
    let mut at = 0;
    while at < bytes.len() {
        let sector_end = ((offset + at) / SECTOR_BYTES + 1) * SECTOR_BYTES - offset;
        let end = sector_end.min(bytes.len());
        if random.is_once_in(2) {
            target.write(offset + at, &bytes[at..end]);
        }
        at = end;
    }
}

fn apply(names: &mut Names, change: &NameChange) {
    match change {
        NameChange::Add(path, file) => {
            names.insert(path.clone(), file.clone());
        }
        NameChange::Rename(from, to) => {
            if let Some(file) = names.remove(from) {
                names.insert(to.clone(), file);
            }
        }
        NameChange::Remove(path) => {
            names.remove(path);
        }
    }
}

impl State {
    fn change(&mut self, change: NameChange) {
        apply(&mut self.now, &change);
        self.changes.push(change);
    }

    fn file(&self, path: &Path) -> io::Result<Arc<Mutex<FileState>>> {
        self.now.get(&text(path)).cloned().ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

impl Medium for FaultDisk {
    fn create_folder(&self, folder: &Path) -> io::Result<()> {
        self.check_halt()?;
        let mut state = self.state();
        state.folders.extend(folder.ancestors().map(text));
        Ok(())
    }

    fn names(&self, folder: &Path) -> io::Result<Vec<String>> {
        let state = self.state();
        let inside = format!("{}/", text(folder));
        let mut files = state.now.range(inside.clone()..).map(|(path, _)| path);
        let mut folders = state.folders.range(inside.clone()..);
        let names = |paths: &mut dyn Iterator<Item = &String>| -> Vec<String> {
            let names = paths.map_while(|path| path.strip_prefix(&inside));
            names.filter(|name| !name.contains('/')).map(str::to_owned).collect()
        };
        Ok([names(&mut files), names(&mut folders)].concat())
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn MediumFile>> {
        self.check_halt()?;
        let file = Arc::new(Mutex::new(FileState::default()));
        self.state().change(NameChange::Add(text(path), file.clone()));
        Ok(self.open_file(file))
    }

    fn open(&self, path: &Path, _write: bool) -> io::Result<Arc<dyn MediumFile>> {
        let file = self.state().file(path)?;
        Ok(self.open_file(file))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.state().file(from)?;
        self.check_halt()?;
        self.state().change(NameChange::Rename(text(from), text(to)));
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.state().file(path)?;
        self.check_halt()?;
        self.state().change(NameChange::Remove(text(path)));
        Ok(())
    }

    fn remove_folder(&self, folder: &Path) -> io::Result<()> {
        let inside = format!("{}/", text(folder));
        let files: Vec<String> =
            self.state().now.keys().filter(|path| path.starts_with(&inside)).cloned().collect();
        files.iter().try_for_each(|file| self.remove(Path::new(file)))
    }

    fn sync_folder(&self, _folder: &Path) -> io::Result<()> {
        self.check_sync()?;
        let mut state = self.state();
        state.synced = state.now.clone();
        state.changes.clear();
        Ok(())
    }

    fn lock(&self, path: &Path) -> io::Result<Option<LockGuard>> {
        let mut state = self.state();
        if state.locks.get(path).is_some_and(|lock| lock.strong_count() > 0) {
            return Ok(None);
        }
        let guard = Arc::new(());
        state.locks.insert(path.to_owned(), Arc::downgrade(&guard));
        Ok(Some(guard))
    }

    fn machine_start(&self) -> Option<String> {
        Some(self.state().power_losses.to_string())
    }
}

struct FaultFile {
    disk: FaultDisk,
    file: Arc<Mutex<FileState>>,
}

impl FaultFile {
    fn set_length(&self, length: usize) -> io::Result<()> {
        self.disk.check_halt()?;
        let mut file = self.file.lock();
        file.now.set_length(length);
        file.changes.push(Change::Length(length));
        Ok(())
    }
}

impl MediumFile for FaultFile {
    fn length(&self) -> io::Result<u64> {
        Ok(self.file.lock().now.length as u64)
    }

    fn write_at(&self, parts: &[&[u8]], offset: u64) -> io::Result<()> {
        self.disk.check_halt()?;
        let (bytes, offset) = (parts.concat(), offset as usize);
        let length = self.file.lock().now.length;
        let more = (offset + bytes.len()).saturating_sub(length);
        let fits = self.disk.check_space(more);
        let mut file = self.file.lock();
        // A write to a full disk leaves what found room.
        let bytes = if fits.is_ok() { bytes } else { bytes[..bytes.len() - more].to_vec() };
        file.now.write(offset, &bytes);
        file.changes.push(Change::Write { offset, bytes });
        fits
    }

    fn read_at(&self, target: &mut [u8], offset: u64) -> io::Result<usize> {
        Ok(self.file.lock().now.read(target, offset as usize))
    }

    fn map(&self, length: u64) -> io::Result<Buffer> {
        let mut bytes = vec![0; length as usize];
        self.file.lock().now.read(&mut bytes, 0);
        Ok(Buffer::from(bytes))
    }

    fn allocate(&self, length: u64) -> io::Result<()> {
        let now = self.length()?;
        if length > now {
            self.disk.check_space((length - now) as usize)?;
            self.set_length(length as usize)?;
        }
        Ok(())
    }

    fn truncate(&self, length: u64) -> io::Result<()> {
        self.set_length(length as usize)
    }

    fn is_at(&self, path: &Path) -> io::Result<bool> {
        Ok(self.disk.state().file(path).is_ok_and(|file| Arc::ptr_eq(&file, &self.file)))
    }

    fn sync(&self) -> io::Result<()> {
        self.disk.check_sync()?;
        let mut file = self.file.lock();
        file.synced = file.now.clone();
        file.changes.clear();
        Ok(())
    }
}
