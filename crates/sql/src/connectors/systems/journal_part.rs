//! A stream in the journal of a pipeline, as a source reads it.

use std::path::PathBuf;

use datafusion::arrow::datatypes::{Schema, SchemaRef};
use tidemill_engine::Cause;
use tidemill_engine::inspect::{self, Records};

/// Where reading begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Start {
    /// At the first row that was ever taken in.
    First,
    /// At the oldest row that is there.
    Kept,
    /// At what is taken in later.
    Latest,
}

/// What is read.
#[derive(Clone, Debug)]
pub(super) struct JournalPart {
    /// The folder.
    pub path: PathBuf,
    /// The name of the stream in it.
    pub stream: String,
    /// Whether it is read on as it is written.
    pub follows: bool,
    pub start: Start,
}

impl JournalPart {
    /// The positions of its first row and behind its last one; `None`: nothing was written yet.
    pub fn bounds(&self) -> Result<Option<(u64, u64)>, Cause> {
        if self.is_awaited() {
            return Ok(None);
        }
        let streams = inspect::list(&self.path)?.streams;
        let log = streams.into_iter().find(|log| log.name == self.stream);
        Ok(log.map(|log| (log.first, log.end)))
    }

    /// The position of the oldest row that is there.
    pub fn oldest(&self) -> Result<u64, Cause> {
        Ok(self.bounds()?.map_or(0, |(first, _)| first))
    }

    /// Where a new query begins.
    pub fn first(&self) -> Result<u64, Cause> {
        match self.start {
            Start::First => Ok(0),
            Start::Kept => self.oldest(),
            Start::Latest => Ok(self.bounds()?.map_or(0, |(_, end)| end)),
        }
    }

    /// Its records from the one with a position on.
    pub fn records(&self, from: u64) -> Result<Records, Cause> {
        let records = inspect::records(&self.path, &self.stream, from)?;
        Ok(if self.follows { records.following() } else { records })
    }

    /// Whether it is followed, and the other pipeline has not begun yet.
    pub fn is_awaited(&self) -> bool {
        self.follows && !self.path.exists()
    }

    /// The folder and the stream, for messages.
    pub fn place(&self) -> String {
        format!("the journal of '{}' in '{}'", self.stream, self.path.display())
    }

    /// Why records cannot be read, with what the user can do.
    pub fn explained(&self, cause: Cause) -> Cause {
        let remedy = "the pipeline that writes it removes what it no longer needs; let its source keep more \
                      (retain), or begin with what is there, in a new journal and with start = 'kept'";
        match self.follows {
            true => cause.map_message(|reason| format!("{}: {reason}; {remedy}", self.place())),
            false => cause,
        }
    }

    /// The columns of the journal, which are those that were declared.
    pub fn checked(&self, records: &Records, declared: &SchemaRef) -> Result<SchemaRef, Cause> {
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
