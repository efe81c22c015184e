//! Which stream of which journal a source reads, and from where.

use std::path::PathBuf;

use arrow_schema::{Schema, SchemaRef};
use tidemill_core::Cause;
use tidemill_journal::inspect::{self, Records};

/// Where a [`JournalSource`](super::JournalSource) begins to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JournalStart {
    /// At the first row that was ever taken in.
    First,
    /// At the oldest row that is there.
    Kept,
    /// At what is taken in later.
    Latest,
}

/// What a [`JournalSource`](super::JournalSource) reads.
#[derive(Clone, Debug)]
pub struct JournalSourceSettings {
    /// The folder of the journal.
    pub path: PathBuf,
    /// The name of the stream in it.
    pub stream: String,
    /// Whether the source reads on as the journal is written.
    pub follows: bool,
    /// Where a new query begins.
    pub start: JournalStart,
}

impl JournalSourceSettings {
    /// The columns of the journal, which are the declared ones if some are declared.
    ///
    /// # Errors
    /// If the journal has other columns, or cannot be read. A journal that is followed may come later if its columns are declared.
    pub fn schema(&self, declared: Option<SchemaRef>) -> Result<SchemaRef, Cause> {
        // A query that resumes does not need the first rows, which may be gone.
        let from = if self.follows { self.oldest() } else { self.first() };
        match (from.and_then(|from| self.records(from)), declared) {
            (Ok(records), None) => Ok(records.schema()),
            (Ok(records), Some(declared)) => self.checked(&records, &declared),
            // The other pipeline may start later.
            (Err(_), Some(declared)) if self.follows => Ok(declared),
            (Err(cause), _) => Err(cause),
        }
    }

    /// The positions of its first row and behind its last one; `None`: nothing was written yet.
    fn bounds(&self) -> Result<Option<(u64, u64)>, Cause> {
        if self.is_awaited() {
            return Ok(None);
        }
        let streams = inspect::list(&self.path)?.streams;
        let log = streams.into_iter().find(|log| log.name == self.stream);
        Ok(log.map(|log| (log.first, log.end)))
    }

    /// The position of the oldest row that is there.
    fn oldest(&self) -> Result<u64, Cause> {
        Ok(self.bounds()?.map_or(0, |(first, _)| first))
    }

    /// Where a new query begins.
    pub(super) fn first(&self) -> Result<u64, Cause> {
        match self.start {
            JournalStart::First => Ok(0),
            JournalStart::Kept => self.oldest(),
            JournalStart::Latest => Ok(self.bounds()?.map_or(0, |(_, end)| end)),
        }
    }

    /// Its records from the one with a position on.
    pub(super) fn records(&self, from: u64) -> Result<Records, Cause> {
        let records = inspect::records(&self.path, &self.stream, from)?;
        Ok(if self.follows { records.following() } else { records })
    }

    /// Whether it is followed, and the other pipeline has not begun yet.
    pub(super) fn is_awaited(&self) -> bool {
        self.follows && !self.path.exists()
    }

    /// The folder and the stream, for messages.
    pub(super) fn place(&self) -> String {
        format!("the journal of '{}' in '{}'", self.stream, self.path.display())
    }

    /// Why records cannot be read, with what the user can do.
    pub(super) fn explained(&self, cause: Cause) -> Cause {
        let remedy = "the pipeline that writes it removes what it no longer needs; let its source keep more \
                      (retain), or begin with what is there, in a new journal and with start = 'kept'";
        if self.follows {
            cause.map_message(|reason| format!("{}: {reason}; {remedy}", self.place()))
        } else {
            cause
        }
    }

    /// The columns of the journal, which are those that were declared.
    pub(super) fn checked(&self, records: &Records, declared: &SchemaRef) -> Result<SchemaRef, Cause> {
        let journaled = records.schema();
        if same_columns(declared, &journaled) {
            return Ok(journaled);
        }
        let (declared, journaled) = (described(declared), described(&journaled));
        Err(Cause::user(format!(
            "{} has the columns {journaled}, but {declared} were declared",
            self.place()
        )))
    }
}

fn same_columns(left: &Schema, right: &Schema) -> bool {
    let columns = |schema: &Schema| -> Vec<_> {
        schema.fields().iter().map(|field| (field.name().clone(), field.data_type().clone())).collect()
    };
    columns(left) == columns(right)
}

fn described(schema: &Schema) -> String {
    let columns = schema.fields().iter().map(|field| format!("{} {}", field.name(), field.data_type()));
    format!("({})", columns.collect::<Vec<_>>().join(", "))
}
