//! The journaled rows of a source, of which some columns are read.

use std::path::PathBuf;

use tidemill_core::arrow::schema::SchemaRef;
use tidemill_core::error::Cause;
use tidemill_journal::Record;
use tidemill_journal::inspect::{self, Records};

use crate::clock::ReadRecord;

/// Reads the journal of a source one record after the other.
pub(super) struct PastRecords {
    journal: PathBuf,
    stream: String,
    /// The columns that are read.
    schema: SchemaRef,
    /// The records from the first position on, and where these columns are in them; `None`: nothing was read yet.
    records: Option<(Records, Vec<usize>)>,
}

impl PastRecords {
    /// These columns of a stream of a journal.
    pub fn new(journal: PathBuf, stream: &str, schema: SchemaRef) -> PastRecords {
        PastRecords { journal, stream: stream.to_owned(), schema, records: None }
    }

    fn open(&self, position: u64) -> Result<(Records, Vec<usize>), Cause> {
        let records = inspect::records(&self.journal, &self.stream, position)?;
        let journaled = records.schema();
        let column = |field: &tidemill_core::arrow::schema::FieldRef| {
            let found = journaled
                .fields()
                .iter()
                .position(|known| known.name() == field.name() && known.data_type() == field.data_type());
            found.ok_or_else(|| {
                let (name, data_type) = (field.name(), field.data_type());
                let known = journaled.fields().iter().map(|known| format!("{} {}", known.name(), known.data_type()));
                let known = known.collect::<Vec<_>>().join(", ");
                Cause::user(format!(
                    "the query reads column {name} {data_type} of '{}', but its journal has the columns ({known})",
                    self.stream
                ))
            })
        };
        let columns = self.schema.fields().iter().map(column).collect::<Result<_, _>>()?;
        Ok((records, columns))
    }
}

impl ReadRecord for PastRecords {
    fn read(&mut self, position: u64) -> Result<Option<Record>, Cause> {
        if self.records.is_none() {
            self.records = Some(self.open(position)?);
        }
        let Some((records, columns)) = &mut self.records else { return Ok(None) };
        let Some(record) = records.next().transpose()? else { return Ok(None) };
        let rows = record.rows.project(columns);
        let rows = rows.map_err(|error| Cause::bug(error.to_string()).with_source(error))?;
        Ok(Some(Record { rows, ..record }))
    }
}
