//! The file `identity`, which tells a query from all others, also from one with the same script.
//!
//! `TIDEIDNT`, version; a random number; CRC32 of all of it.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::path::Path;

use tidemill_core::error::Cause;
use tidemill_core::fields::{PutFields, TakeFields};

use crate::file_reader::FileReader;
use crate::medium::Medium;
use crate::replace::replace;

const MAGIC: [u8; 8] = *b"TIDEIDNT";
const VERSION: u32 = 1;

/// The identity; `None` before the first write.
pub(crate) fn read(medium: &dyn Medium, path: &Path) -> Result<Option<u64>, Cause> {
    let Some(mut reader) = FileReader::open(medium, path, MAGIC, VERSION)? else { return Ok(None) };
    let identity = reader.u64()?;
    reader.finish()?;
    Ok(Some(identity))
}

/// The identity. The first call makes one, durably.
pub(crate) fn read_or_make(medium: &dyn Medium, path: &Path) -> Result<u64, Cause> {
    if let Some(identity) = read(medium, path)? {
        return Ok(identity);
    }
    // The keys of the hash function are the standard library's random numbers.
    let identity = RandomState::new().build_hasher().finish();
    replace(medium, path, |file| {
        file.put(&MAGIC);
        file.put_u32(VERSION);
        file.put_u64(identity);
    })?;
    Ok(identity)
}
