//! Positions that are left out of a query from now on: the file `skips`.
//!
//! `TIDESKIP`, version; number of streams, for each its name and the number of its ranges, for each range its first
//! position and the one behind its last; CRC32 of all of it.

use std::collections::BTreeMap;
use std::path::Path;

use tidemill_core::error::Cause;
use tidemill_core::fields::{PutFields, TakeFields};

use crate::failure::damaged;
use crate::file_reader::FileReader;
use crate::medium::Medium;
use crate::positions::Positions;
use crate::replace::replace;

const MAGIC: [u8; 8] = *b"TIDESKIP";
const VERSION: u32 = 1;

/// For each stream the positions of it that are left out; a stream without any is not in it.
pub type Skips = BTreeMap<String, Positions>;

/// What is left out; nothing before the first write.
pub(crate) fn read(medium: &dyn Medium, path: &Path) -> Result<Skips, Cause> {
    let Some(mut reader) = FileReader::open(medium, path, MAGIC, VERSION)? else {
        return Ok(Skips::new());
    };
    let mut skips = Skips::new();
    for _ in 0..reader.u64()? {
        let stream = reader.text()?;
        let mut positions = Positions::default();
        for _ in 0..reader.u64()? {
            let (start, end) = (reader.u64()?, reader.u64()?);
            if start >= end {
                return Err(damaged(path, 0, format!("positions {start} to {end} are not a range")));
            }
            positions.add(start..end);
        }
        skips.insert(stream, positions);
    }
    reader.finish()?;
    Ok(skips)
}

/// Replaces the file, durably.
pub(crate) fn write(medium: &dyn Medium, path: &Path, skips: &Skips) -> Result<(), Cause> {
    replace(medium, path, |file| {
        file.put(&MAGIC);
        file.put_u32(VERSION);
        let skips = || skips.iter().filter(|(_, positions)| !positions.is_empty());
        file.put_u64(skips().count() as u64);
        for (stream, positions) in skips() {
            file.put_bytes(stream.as_bytes());
            file.put_u64(positions.ranges().len() as u64);
            for range in positions.ranges() {
                file.put_u64(range.start);
                file.put_u64(range.end);
            }
        }
    })
}
