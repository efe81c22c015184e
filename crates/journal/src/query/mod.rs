//! The file `query`, which says which query the folder belongs to. It exists before the first cut.
//!
//! `TIDEQURY`, version; the query's description; CRC32 of all of it.

pub(crate) mod beginning;
pub(crate) mod identity;

use std::path::Path;

use tidemill_core::error::Cause;
use tidemill_core::fields::PutFields;

use crate::file_reader::FileReader;
use crate::medium::Medium;
use crate::replace::replace;

const MAGIC: [u8; 8] = *b"TIDEQURY";
const VERSION: u32 = 1;

/// The description; `None` before the first write.
pub(crate) fn read(medium: &dyn Medium, path: &Path) -> Result<Option<String>, Cause> {
    let Some(mut reader) = FileReader::open(medium, path, MAGIC, VERSION)? else { return Ok(None) };
    let text = reader.text()?;
    reader.finish()?;
    Ok(Some(text))
}

/// Replaces the file, durably.
pub(crate) fn write(medium: &dyn Medium, path: &Path, text: &str) -> Result<(), Cause> {
    replace(medium, path, |file| {
        file.put(&MAGIC);
        file.put_u32(VERSION);
        file.put_bytes(text.as_bytes());
    })
}
