//! One Parquet or Arrow IPC file of a followed folder. It is read once, as soon as it is complete.

use std::collections::VecDeque;
use std::fs::File;
use std::path::Path;
use std::time::{Duration, Instant};

use arrow_schema::SchemaRef;
use tidemill_core::error::Cause;
use tidemill_core::source::Faults;

use super::entry::Entry;
use super::failure::failed;
use super::offset::{FileOffset, Fingerprints};
use super::reading::Columns;
use super::text_progress::{RowsRead, TextProgress};
use crate::formats::{Format, arrow_ipc, parquet};

/// How long a file that cannot be opened may stay unchanged before that is a fault.
const PATIENCE: Duration = Duration::from_secs(10);

/// How to read it.
pub(super) struct ColumnsRequest<'a> {
    pub format: &'a Format,
    pub declared: &'a SchemaRef,
    pub projection: &'a [usize],
    pub batch_rows: usize,
}

pub(super) enum FollowedColumns {
    Waiting { size_bytes: u64, since: Instant, is_reported: bool, known_rows: u64 },
    Reading { columns: Columns, prints: Fingerprints },
    Done(FileOffset),
}

impl FollowedColumns {
    /// A file that an earlier run may have read in part or completely.
    pub(super) fn new(start: FileOffset) -> FollowedColumns {
        if start.is_complete {
            FollowedColumns::Done(start)
        } else {
            FollowedColumns::Waiting {
                size_bytes: 0,
                since: Instant::now(),
                is_reported: false,
                known_rows: start.rows,
            }
        }
    }

    pub(super) fn is_done(&self) -> bool {
        matches!(self, FollowedColumns::Done(_))
    }

    /// How far it was read, once all of it was.
    pub(super) fn last_offset(&self) -> Option<&FileOffset> {
        match self {
            FollowedColumns::Done(offset) => Some(offset),
            _ => None,
        }
    }

    /// Reads the next batch; true if there was something. The bytes of a file are counted when it is opened.
    pub(super) fn read(
        &mut self,
        entry: &Entry,
        wanted: &ColumnsRequest<'_>,
        given: &mut VecDeque<RowsRead>,
        faults: &mut Faults,
        done_bytes: &mut u64,
    ) -> Result<bool, Cause> {
        if matches!(self, FollowedColumns::Waiting { .. })
            && !self.try_open(entry, wanted, faults, done_bytes)?
        {
            return Ok(false);
        }
        let FollowedColumns::Reading { columns, prints } = self else { return Ok(false) };
        let batch = columns.next(faults)?;
        let track = TextProgress::of_rows(columns.rows_read());
        match batch {
            Some(rows) if rows.num_rows() > 0 => {
                given.push_back(RowsRead { rows, offset: Some(entry.offset(&track, *prints, false)) });
            }
            Some(_) => {}
            None => *self = FollowedColumns::Done(entry.file_offset(&track, *prints, true)),
        }
        Ok(!self.is_done())
    }

    /// Opens it if it is complete; a file that is being written has no footer yet.
    fn try_open(
        &mut self,
        entry: &Entry,
        wanted: &ColumnsRequest<'_>,
        faults: &mut Faults,
        done_bytes: &mut u64,
    ) -> Result<bool, Cause> {
        let FollowedColumns::Waiting { size_bytes, since, is_reported, known_rows } = self else {
            return Ok(false);
        };
        let Ok(metadata) = entry.path.metadata() else { return Ok(false) };
        if metadata.len() != *size_bytes {
            (*size_bytes, *since, *is_reported) = (metadata.len(), Instant::now(), false);
        } else if *is_reported {
            return Ok(false);
        }
        let place = entry.path.display().to_string();
        let Ok(mut file) = File::open(&entry.path) else { return Ok(false) };
        let own = if *wanted.format == Format::Parquet { parquet::schema } else { arrow_ipc::schema };
        let prints = Fingerprints::of(&mut file, metadata.len()).map_err(|error| failed(&place, error))?;
        if let Err(cause) = own(&place, file) {
            if since.elapsed() >= PATIENCE {
                *is_reported = true;
                faults.add(cause.to_string());
            }
            return Ok(false);
        }
        *done_bytes += metadata.len();
        let mut columns = open(&entry.path, wanted)?;
        columns.leave_out(*known_rows);
        *self = FollowedColumns::Reading { columns, prints };
        Ok(true)
    }
}

fn open(path: &Path, wanted: &ColumnsRequest<'_>) -> Result<Columns, Cause> {
    Columns::open(wanted.format, path, wanted.declared, wanted.projection, wanted.batch_rows)
}
