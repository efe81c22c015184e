//! The file `length` beside a catalogue's log: how many records the log has had. A log that was cut off, or whose folder is gone,
//! still reads well; with this file, that is noticed.
//!
//! `TIDELENG`, version; the number of records; CRC32 of all of it.

use std::path::{Path, PathBuf};

use tidemill_core::error::Cause;
use tidemill_core::fields::{PutFields, TakeFields};

use crate::file_reader::FileReader;
use crate::medium::Medium;
use crate::replace::replace;

const MAGIC: [u8; 8] = *b"TIDELENG";
const VERSION: u32 = 1;

/// The file in the folder of a catalogue.
pub(crate) fn path(catalogue: &Path) -> PathBuf {
    catalogue.join("length")
}

/// The number of records; `None` before the first write, and in folders of earlier versions.
pub(crate) fn read(medium: &dyn Medium, path: &Path) -> Result<Option<u64>, Cause> {
    let Some(mut reader) = FileReader::open(medium, path, MAGIC, VERSION)? else { return Ok(None) };
    let length = reader.u64()?;
    reader.finish()?;
    Ok(Some(length))
}

/// Replaces the file, durably.
pub(crate) fn write(medium: &dyn Medium, path: &Path, length: u64) -> Result<(), Cause> {
    replace(medium, path, |file| {
        file.put(&MAGIC);
        file.put_u32(VERSION);
        file.put_u64(length);
    })
}

/// Refuses a log of fewer records than it has had.
pub(crate) fn check(medium: &dyn Medium, catalogue: &Path, there: u64) -> Result<(), Cause> {
    let path = path(catalogue);
    match read(medium, &path)? {
        Some(length) if length > there => Err(Cause::operation(format!(
            "the catalogue in '{}' has {there} records, but it had {length}: its end is lost. Nothing was removed. \
             Restore the folder from a backup; or remove '{}' to continue without these records",
            catalogue.display(),
            path.display()
        ))),
        _ => Ok(()),
    }
}
