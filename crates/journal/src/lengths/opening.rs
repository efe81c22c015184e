//! The file `opened` in the folder of a log: how far the log was when it was last opened, and since which start of the machine it
//! has been. While the machine runs, what was written stays, whether it was synced or not: only a loss of power takes it. So
//! this file tells an end that such a loss has taken from one that somebody has cut off (decision 0186).
//!
//! `TIDEOPEN`, version; one past the last position; the start of the machine as text, empty: not known; CRC32 of all of it.

use std::path::{Path, PathBuf};

use tidemill_core::error::Cause;
use tidemill_core::fields::{PutFields, TakeFields};

use crate::file_reader::FileReader;
use crate::medium::Medium;
use crate::replace::replace;

const MAGIC: [u8; 8] = *b"TIDEOPEN";
const VERSION: u32 = 1;

/// How a log was last opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Opening {
    /// One past the last position that it had. All before it was synced.
    pub end: u64,
    /// The start of the machine; empty: not known.
    pub machine_start: String,
}

impl Opening {
    /// Opened now, with this end.
    pub fn now(medium: &dyn Medium, end: u64) -> Opening {
        Opening { end, machine_start: medium.machine_start().unwrap_or_default() }
    }

    /// Whether the machine has run ever since.
    pub fn is_of_this_start(&self, medium: &dyn Medium) -> bool {
        !self.machine_start.is_empty() && medium.machine_start().is_some_and(|now| now == self.machine_start)
    }

    /// Refuses a log that has become shorter, or that lacks a position which something names that was written later.
    pub fn check(
        &self,
        medium: &dyn Medium,
        folder: &Path,
        end: u64,
        named: Option<u64>,
    ) -> Result<(), Cause> {
        let reason = match named.filter(|named| *named > end) {
            _ if self.end > end => format!("it had {} when it was last opened", self.end),
            Some(named) if self.is_of_this_start(medium) => {
                format!("other files name {named}, and the machine has not restarted since it was written")
            }
            _ => return Ok(()),
        };
        Err(Cause::operation(format!(
            "the journal in '{}' has the positions up to {end}, but {reason}: the end of the journal is lost. \
             Nothing was removed. Restore the folder from a backup; or remove '{}' to continue without what is lost",
            folder.display(),
            path(folder).display()
        )))
    }
}

/// The file in the folder of a log.
pub(crate) fn path(folder: &Path) -> PathBuf {
    folder.join("opened")
}

/// Reads how the log in a folder was last opened. Before the first write, and in folders of earlier versions, nothing is known of it.
pub(crate) fn read(medium: &dyn Medium, folder: &Path) -> Result<Opening, Cause> {
    let Some(mut reader) = FileReader::open(medium, &path(folder), MAGIC, VERSION)? else {
        return Ok(Opening::default());
    };
    let opening = Opening { end: reader.u64()?, machine_start: reader.text()? };
    reader.finish()?;
    Ok(opening)
}

/// Replaces the file, durably, if it says something else.
pub(crate) fn write(medium: &dyn Medium, folder: &Path, opening: &Opening) -> Result<(), Cause> {
    if read(medium, folder)? == *opening {
        return Ok(());
    }
    replace(medium, &path(folder), |file| {
        file.put(&MAGIC);
        file.put_u32(VERSION);
        file.put_u64(opening.end);
        file.put_bytes(opening.machine_start.as_bytes());
    })
}
