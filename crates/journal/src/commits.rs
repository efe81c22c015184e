//! The file `commits`: what was committed, for sinks that do not store it themselves. The file `away` has the same form.
//!
//! `TIDECMIT`, version; number of sinks, for each its name and its last committed cycle; CRC32 of all of it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tidemill_core::error::Cause;
use tidemill_core::fields::{PutFields, TakeFields};

use crate::file_reader::FileReader;
use crate::medium::Medium;
use crate::replace::replace;

const MAGIC: [u8; 8] = *b"TIDECMIT";
const VERSION: u32 = 1;

/// A file with a cycle for each sink: in `commits`, the last that it has committed. Clones refer to the same file.
#[derive(Clone)]
pub struct CommitFile {
    medium: Arc<dyn Medium>,
    path: PathBuf,
}

impl CommitFile {
    pub(crate) fn new(medium: Arc<dyn Medium>, path: PathBuf) -> CommitFile {
        CommitFile { medium, path }
    }

    /// The cycle of each sink; empty before the first write.
    ///
    /// # Errors
    /// If the file is damaged, or a newer program wrote it.
    pub fn read(&self) -> Result<BTreeMap<String, u64>, Cause> {
        CommitFile::read_on(&*self.medium, &self.path)
    }

    pub(crate) fn read_on(medium: &dyn Medium, path: &Path) -> Result<BTreeMap<String, u64>, Cause> {
        let Some(mut reader) = FileReader::open(medium, path, MAGIC, VERSION)? else {
            return Ok(BTreeMap::new());
        };
        let mut commits = BTreeMap::new();
        for _ in 0..reader.u64()? {
            commits.insert(reader.text()?, reader.u64()?);
        }
        reader.finish()?;
        Ok(commits)
    }

    /// Replaces the file, durably.
    ///
    /// # Errors
    /// If the disk is full or fails. The file then has the old content or the new.
    pub fn write(&self, commits: &BTreeMap<String, u64>) -> Result<(), Cause> {
        replace(&*self.medium, &self.path, |file| {
            file.put(&MAGIC);
            file.put_u32(VERSION);
            file.put_u64(commits.len() as u64);
            for (sink, cycle) in commits {
                file.put_bytes(sink.as_bytes());
                file.put_u64(*cycle);
            }
        })
    }
}
