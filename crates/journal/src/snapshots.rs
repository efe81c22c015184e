//! Snapshots as files, one each: `snapshots/<cycle, 20 digits>.snapshot`.
//!
//! `TIDESNAP`, version; the cut, preceded by its length; the plan's text; the cycle; the operators, for each its name,
//! the largest event time of its timers and its partitions, for each its number and its bytes; CRC32 of all of it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use tidemill_core::Cut;
use tidemill_core::error::{Cause, Fault};
use tidemill_core::fields::{Fields, PutFields, TakeFields};
use tidemill_core::snapshot::Snapshot;

use crate::cut_record::{decode_cut, encode_cut};
use crate::failure::{damaged, failed};
use crate::file_reader::FileReader;
use crate::medium::Medium;
use crate::replace::{FileWriter, replace};
use crate::segment::position_of;

const MAGIC: [u8; 8] = *b"TIDESNAP";
const VERSION: u32 = 1;
const ENDING: &str = ".snapshot";
/// More damaged snapshots than this are not reported one by one.
const FAULTS_MAX: usize = 16;

/// The state of a query at the end of a cycle, and what is needed to resume from there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredSnapshot {
    /// The cut of the cycle.
    pub cut: Cut,
    /// The plan's operators and partitions, as the engine writes them.
    pub plan: String,
    /// The operators' state.
    pub state: Snapshot,
}

/// Where the snapshots of a query are. Clones refer to the same folder.
#[derive(Clone)]
pub struct SnapshotFolder {
    medium: Arc<dyn Medium>,
    folder: PathBuf,
    faults: Arc<Mutex<Vec<String>>>,
}

impl SnapshotFolder {
    pub(crate) fn new(medium: Arc<dyn Medium>, folder: PathBuf) -> SnapshotFolder {
        SnapshotFolder { medium, folder, faults: Arc::default() }
    }

    /// Durably writes a snapshot, in place of one of the same cycle.
    ///
    /// # Errors
    /// If the disk is full or fails. Then this cycle has no snapshot, the previous one, or the whole new one.
    pub fn write(&self, snapshot: &StoredSnapshot) -> Result<(), Cause> {
        replace(&*self.medium, &self.path(snapshot.cut.cycle), |file| encode(snapshot, file))
    }

    /// The newest good snapshot of a cycle up to `at_most`; `None`: of any cycle. Damaged ones are skipped, see
    /// [`SnapshotFolder::faults`].
    ///
    /// # Errors
    /// If the folder cannot be read, or a newer program wrote the snapshot.
    pub fn newest(&self, at_most: Option<u64>) -> Result<Option<StoredSnapshot>, Cause> {
        let limit = at_most.unwrap_or(u64::MAX);
        for cycle in self.cycles()?.into_iter().rev().filter(|cycle| *cycle <= limit) {
            match self.read(cycle) {
                Ok(snapshot) => return Ok(Some(snapshot)),
                Err(cause) if cause.fault == Fault::Operation => self.add_fault(cause.message.into()),
                Err(cause) => return Err(cause),
            }
        }
        Ok(None)
    }

    /// The oldest good snapshot whose cut `fits`. Damaged ones are skipped, see [`SnapshotFolder::faults`].
    ///
    /// # Errors
    /// If the folder cannot be read, or a newer program wrote the snapshot.
    pub fn oldest(&self, fits: impl Fn(&Cut) -> bool) -> Result<Option<StoredSnapshot>, Cause> {
        for cycle in self.cycles()? {
            match self.read(cycle) {
                Ok(snapshot) if fits(&snapshot.cut) => return Ok(Some(snapshot)),
                Ok(_) => {}
                Err(cause) if cause.fault == Fault::Operation => self.add_fault(cause.message.into()),
                Err(cause) => return Err(cause),
            }
        }
        Ok(None)
    }

    /// The snapshot of this cycle.
    ///
    /// # Errors
    /// If it does not exist, is damaged, or was written by a newer program.
    pub fn read(&self, cycle: u64) -> Result<StoredSnapshot, Cause> {
        SnapshotFolder::read_on(&*self.medium, &self.path(cycle), cycle)
    }

    pub(crate) fn read_on(medium: &dyn Medium, path: &Path, cycle: u64) -> Result<StoredSnapshot, Cause> {
        let reader = FileReader::open(medium, path, MAGIC, VERSION)?;
        let mut reader = reader
            .ok_or_else(|| Cause::operation(format!("{}: this snapshot does not exist", path.display())))?;
        let cut = decode_cut(&mut Fields(&reader.bytes()?));
        let snapshot = StoredSnapshot {
            cut: cut.map_err(|_| damaged(path, 0, "the cut cannot be read"))?,
            plan: reader.text()?,
            state: decode_state(&mut reader)?,
        };
        reader.finish()?;
        if snapshot.cut.cycle == cycle {
            Ok(snapshot)
        } else {
            Err(damaged(path, 0, format!("it is of cycle {}", snapshot.cut.cycle)))
        }
    }

    /// How many bytes the snapshot of this cycle has on the disk.
    ///
    /// # Errors
    /// If it does not exist, or cannot be read.
    pub fn bytes(&self, cycle: u64) -> Result<u64, Cause> {
        let path = self.path(cycle);
        let length = self.medium.open(&path, false).and_then(|file| file.length());
        length.map_err(|error| failed("read", &path, error))
    }

    /// The cycles that have snapshots, ascending.
    ///
    /// # Errors
    /// If the folder cannot be read.
    pub fn cycles(&self) -> Result<Vec<u64>, Cause> {
        SnapshotFolder::cycles_on(&*self.medium, &self.folder)
    }

    pub(crate) fn cycles_on(medium: &dyn Medium, folder: &Path) -> Result<Vec<u64>, Cause> {
        let names = medium.names(folder).map_err(|error| failed("list", folder, error))?;
        let mut cycles: Vec<u64> = names.iter().filter_map(|name| position_of(name, ENDING)).collect();
        cycles.sort_unstable();
        Ok(cycles)
    }

    /// Removes the snapshots of cycles below this one.
    ///
    /// # Errors
    /// If the disk fails.
    pub fn remove_before(&self, cycle: u64) -> Result<(), Cause> {
        for old in self.cycles()?.into_iter().filter(|old| *old < cycle) {
            self.remove(old)?;
        }
        Ok(())
    }

    /// Removes the snapshot of this cycle.
    ///
    /// # Errors
    /// If it does not exist, or the disk fails.
    pub fn remove(&self, cycle: u64) -> Result<(), Cause> {
        let path = self.path(cycle);
        self.medium.remove(&path).map_err(|error| failed("remove", &path, error))
    }

    /// Durably removes the snapshots of cycles above this one; `None`: all.
    ///
    /// # Errors
    /// If the disk fails.
    pub fn remove_after(&self, cycle: Option<u64>) -> Result<(), Cause> {
        let newer: Vec<u64> = self.cycles()?.into_iter().filter(|newer| Some(*newer) > cycle).collect();
        for newer in &newer {
            self.remove(*newer)?;
        }
        if newer.is_empty() {
            return Ok(());
        }
        self.medium.sync_folder(&self.folder).map_err(|error| failed("sync the folder", &self.folder, error))
    }

    /// The damaged snapshots that were skipped: the first few, each with file, offset and reason.
    pub fn faults(&self) -> Vec<String> {
        self.faults.lock().clone()
    }

    fn add_fault(&self, fault: String) {
        let mut faults = self.faults.lock();
        if faults.len() < FAULTS_MAX && !faults.contains(&fault) {
            faults.push(fault);
        }
    }

    fn path(&self, cycle: u64) -> PathBuf {
        SnapshotFolder::path_in(&self.folder, cycle)
    }

    pub(crate) fn path_in(folder: &Path, cycle: u64) -> PathBuf {
        folder.join(format!("{cycle:020}{ENDING}"))
    }
}

fn encode(snapshot: &StoredSnapshot, file: &mut FileWriter) {
    let mut cut = Vec::new();
    encode_cut(&snapshot.cut, &mut cut);
    file.put(&MAGIC);
    file.put_u32(VERSION);
    file.put_bytes(&cut);
    file.put_bytes(snapshot.plan.as_bytes());
    file.put_u64(snapshot.state.cycle);
    file.put_u64(snapshot.state.operators.len() as u64);
    for (operator, partitions) in &snapshot.state.operators {
        let watermark = snapshot.state.watermarks.get(operator).copied().unwrap_or(i64::MIN);
        file.put_bytes(operator.as_bytes());
        file.put_u64(watermark as u64);
        file.put_u64(partitions.len() as u64);
        for (partition, bytes) in partitions {
            file.put_u32(*partition);
            file.put_bytes(bytes);
        }
    }
}

fn decode_state(reader: &mut FileReader) -> Result<Snapshot, Cause> {
    let mut state = Snapshot { cycle: reader.u64()?, ..Snapshot::default() };
    for _ in 0..reader.u64()? {
        let operator = reader.text()?;
        state.watermarks.insert(operator.clone(), reader.u64()? as i64);
        let mut partitions = BTreeMap::new();
        for _ in 0..reader.u64()? {
            partitions.insert(reader.u32()?, reader.bytes()?);
        }
        state.operators.insert(operator, partitions);
    }
    Ok(state)
}
