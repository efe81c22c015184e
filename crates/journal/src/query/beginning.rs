//! The file `beginning`: after which cut a query of a database began. A replay of its past begins there, as long as the rows behind
//! it are kept.
//!
//! `TIDEBEGN`, version; whether there is a cut, and its bytes, as in the log of cuts; CRC32 of all of it.

use std::path::Path;

use tidemill_core::Cut;
use tidemill_core::error::Cause;
use tidemill_core::fields::{Fields, PutFields, TakeFields};

use crate::cut_record::{decode_cut, encode_cut};
use crate::failure::damaged;
use crate::file_reader::FileReader;
use crate::medium::Medium;
use crate::replace::replace;

const MAGIC: [u8; 8] = *b"TIDEBEGN";
const VERSION: u32 = 1;

/// Where a query began.
#[derive(Clone, Debug, PartialEq)]
pub enum BeganAt {
    /// With the first cycle that there ever was.
    First,
    /// After this cut.
    After(Cut),
}

/// Reads where a query began; `None`: an earlier version has begun it, and did not say.
pub(crate) fn read(medium: &dyn Medium, path: &Path) -> Result<Option<BeganAt>, Cause> {
    let Some(mut reader) = FileReader::open(medium, path, MAGIC, VERSION)? else { return Ok(None) };
    let beginning = if reader.u64()? == 0 {
        BeganAt::First
    } else {
        let cut = decode_cut(&mut Fields(&reader.bytes()?));
        BeganAt::After(cut.map_err(|_| damaged(path, 0, "the cut cannot be read"))?)
    };
    reader.finish()?;
    Ok(Some(beginning))
}

/// Replaces the file, durably.
pub(crate) fn write(medium: &dyn Medium, path: &Path, after: Option<&Cut>) -> Result<(), Cause> {
    replace(medium, path, |file| {
        file.put(&MAGIC);
        file.put_u32(VERSION);
        file.put_u64(after.is_some().into());
        if let Some(cut) = after {
            let mut bytes = Vec::new();
            encode_cut(cut, &mut bytes);
            file.put_bytes(&bytes);
        }
    })
}
