//! Rows of a sink of ours, as one file for each: `views/<sink>.rows`.
//!
//! `TIDEROWS`, version; the last cycle whose rows it has; the bytes, as the sink writes them; CRC32 of all of it.

use std::path::PathBuf;
use std::sync::Arc;

use tidemill_core::error::Cause;
use tidemill_core::fields::{PutFields, TakeFields};

use crate::file_reader::FileReader;
use crate::medium::Medium;
use crate::replace::replace;

const MAGIC: [u8; 8] = *b"TIDEROWS";
const VERSION: u32 = 1;

/// The file in which a sink keeps its rows, with the cycle up to which it has them.
///
/// ```
/// use tidemill_journal::Journal;
/// let folder = tempfile::tempdir()?;
/// let file = Journal::open(folder.path())?.stored_rows("totals")?;
/// assert_eq!(file.read()?, None);
/// file.write(7, b"rows")?;
/// assert_eq!(file.read()?, Some((7, b"rows".to_vec())));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct StoredRowsFile {
    medium: Arc<dyn Medium>,
    path: PathBuf,
}

impl StoredRowsFile {
    pub(crate) fn new(medium: Arc<dyn Medium>, path: PathBuf) -> StoredRowsFile {
        StoredRowsFile { medium, path }
    }

    /// The last cycle and the bytes; `None` before the first write.
    ///
    /// # Errors
    /// If the file is damaged, or a newer program wrote it.
    pub fn read(&self) -> Result<Option<(u64, Vec<u8>)>, Cause> {
        let Some(mut reader) = FileReader::open(&*self.medium, &self.path, MAGIC, VERSION)? else {
            return Ok(None);
        };
        let rows = (reader.u64()?, reader.bytes()?);
        reader.finish()?;
        Ok(Some(rows))
    }

    /// Replaces the file, durably.
    ///
    /// # Errors
    /// If the disk is full or fails. The file then has the old content or the new.
    pub fn write(&self, cycle: u64, bytes: &[u8]) -> Result<(), Cause> {
        replace(&*self.medium, &self.path, |file| {
            file.put(&MAGIC);
            file.put_u32(VERSION);
            file.put_u64(cycle);
            file.put_bytes(bytes);
        })
    }
}
