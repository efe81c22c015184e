//! The history of a database's journal: the file `epochs`; and how much of it a query has seen: the file `epoch` of the
//! query's folder.
//!
//! `TIDEEPOC`, version; number of epochs, for each its kind. 0, it was opened: the first cycle that it had no cut of. 1, rows
//! were lost: the source, the first and the last cycle, position, watermark, and whether it was idle. CRC32 of all of it.
//!
//! `TIDESEEN`, version; number of epochs; CRC32 of all of it.

use std::ops::RangeInclusive;
use std::path::Path;

use tidemill_core::error::Cause;
use tidemill_core::fields::{PutFields, TakeFields};

use crate::failure::damaged;
use crate::file_reader::FileReader;
use crate::medium::Medium;
use crate::replace::replace;

const MAGIC: [u8; 8] = *b"TIDEEPOC";
const MAGIC_SEEN: [u8; 8] = *b"TIDESEEN";
const VERSION: u32 = 1;
const OPENED: u8 = 0;
const LOST: u8 = 1;

/// Something that has happened to the journal of a database. What queries have kept before may name what it no longer has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Epoch {
    /// It was opened.
    Opened {
        /// The first cycle that it had no cut of. Cuts that were logged behind it are lost, and later cycles have their
        /// numbers.
        next_cycle: u64,
    },
    /// It was found that a source lacks rows which logged cuts name.
    Lost(LostRows),
}

/// Rows of a source that logged cuts name, and that its journal does not have: the machine crashed before they were synced.
/// Other rows have their positions since.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostRows {
    /// The place of the source in the cuts.
    pub source: usize,
    /// The cycles whose cuts name such rows.
    pub cycles: RangeInclusive<u64>,
    /// Where the source is at all these cuts: where it was at the last cut before them.
    pub position: u64,
    /// Its watermark there.
    pub watermark: i64,
    /// Whether it was idle there.
    pub is_idle: bool,
}

/// What has happened, in order; nothing before the first write.
pub(crate) fn read(medium: &dyn Medium, path: &Path) -> Result<Vec<Epoch>, Cause> {
    let Some(mut reader) = FileReader::open(medium, path, MAGIC, VERSION)? else { return Ok(Vec::new()) };
    let mut epochs = Vec::new();
    for _ in 0..reader.u64()? {
        epochs.push(match reader.u8()? {
            OPENED => Epoch::Opened { next_cycle: reader.u64()? },
            LOST => {
                let source = reader.u64()?;
                let source = usize::try_from(source)
                    .map_err(|_| damaged(path, 0, format!("there is no source {source}")))?;
                let cycles = reader.u64()?..=reader.u64()?;
                let (position, watermark) = (reader.u64()?, reader.u64()? as i64);
                Epoch::Lost(LostRows { source, cycles, position, watermark, is_idle: reader.u8()? != 0 })
            }
            kind => return Err(damaged(path, 0, format!("there is no epoch of kind {kind}"))),
        });
    }
    reader.finish()?;
    Ok(epochs)
}

/// Replaces the file, durably.
pub(crate) fn write(medium: &dyn Medium, path: &Path, epochs: &[Epoch]) -> Result<(), Cause> {
    replace(medium, path, |file| {
        file.put(&MAGIC);
        file.put_u32(VERSION);
        file.put_u64(epochs.len() as u64);
        for epoch in epochs {
            match epoch {
                Epoch::Opened { next_cycle } => {
                    file.put_u8(OPENED);
                    file.put_u64(*next_cycle);
                }
                Epoch::Lost(lost) => {
                    file.put_u8(LOST);
                    file.put_u64(lost.source as u64);
                    file.put_u64(*lost.cycles.start());
                    file.put_u64(*lost.cycles.end());
                    file.put_u64(lost.position);
                    file.put_u64(lost.watermark as u64);
                    file.put_u8(u8::from(lost.is_idle));
                }
            }
        }
    })
}

/// How many epochs a query has seen; 0 before the first write.
pub(crate) fn read_seen(medium: &dyn Medium, path: &Path) -> Result<usize, Cause> {
    let Some(mut reader) = FileReader::open(medium, path, MAGIC_SEEN, VERSION)? else { return Ok(0) };
    let seen = reader.u64()?;
    reader.finish()?;
    usize::try_from(seen).map_err(|_| damaged(path, 0, format!("it says {seen} epochs")))
}

/// Replaces the file, durably.
pub(crate) fn write_seen(medium: &dyn Medium, path: &Path, seen: usize) -> Result<(), Cause> {
    replace(medium, path, |file| {
        file.put(&MAGIC_SEEN);
        file.put_u32(VERSION);
        file.put_u64(seen as u64);
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::Disk;

    #[test]
    fn what_is_written_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("epochs");
        assert_eq!(read(&Disk, &path), Ok(Vec::new()));
        let lost = LostRows { source: 2, cycles: 5..=9, position: 40, watermark: -1, is_idle: true };
        let epochs = [Epoch::Opened { next_cycle: 0 }, Epoch::Opened { next_cycle: 10 }, Epoch::Lost(lost)];
        write(&Disk, &path, &epochs).unwrap();
        assert_eq!(read(&Disk, &path).unwrap(), epochs);
        let mut bytes = std::fs::read(&path).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        std::fs::write(&path, bytes).unwrap();
        assert!(read(&Disk, &path).unwrap_err().to_string().contains("epochs"));

        let path = folder.path().join("epoch");
        assert_eq!(read_seen(&Disk, &path), Ok(0));
        write_seen(&Disk, &path, 3).unwrap();
        assert_eq!(read_seen(&Disk, &path), Ok(3));
    }
}
