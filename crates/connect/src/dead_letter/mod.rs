//! Rows that a target refuses, and records of sources that cannot be read. They are kept separately, with the reason, so
//! that the others can continue.

mod dead_letter_sink;
mod file;
mod letter_file;
mod source_letter_file;
mod source_letters;

pub use dead_letter_sink::DeadLetterSink;
pub use file::DeadLetterFile;
pub use source_letter_file::SourceLetterFile;
pub use source_letters::SourceLetters;

use arrow_array::RecordBatch;
use tidemill_core::{Cause, RefusedRow};

use crate::formats::encode::{ascii, row_json};

/// A row that was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadLetter {
    /// The cycle of the row.
    pub cycle: u64,
    /// The position, within the cycle, of the event that caused it.
    pub position: u32,
    /// Why it was refused.
    pub reason: String,
    /// The row as a JSON object, in ASCII and without characters of code 0, so that the target that refused the row can
    /// store it.
    pub row: String,
}

impl DeadLetter {
    /// One row of a batch.
    pub fn new(cycle: u64, position: u32, rows: &RecordBatch, row: usize, reason: &str) -> DeadLetter {
        DeadLetter { cycle, position, reason: ascii(reason), row: row_json(&rows.slice(row, 1)) }
    }

    /// The error of a sink that does not keep refused rows.
    pub(crate) fn unkept(&self) -> Cause {
        let text = format!(
            "{}; the row is {}; with dead_letters = 'FILE', the sink writes such rows there and continues",
            self.reason,
            self.shown_row()
        );
        Cause::user(text).with_source(self.refused_row())
    }

    /// What caused the row.
    pub(crate) fn refused_row(&self) -> RefusedRow {
        RefusedRow { cycle: self.cycle, event: self.position }
    }

    /// The description shown to users.
    pub fn describe(&self, sink: &str) -> String {
        let DeadLetter { cycle, position, reason, row: _ } = self;
        format!(
            "sink '{sink}', cycle {cycle}, position {position}: {reason}; the row is {}",
            self.shown_row()
        )
    }

    fn shown_row(&self) -> String {
        const BYTES_MAX: usize = 300;
        if self.row.len() > BYTES_MAX { format!("{}...", &self.row[..BYTES_MAX]) } else { self.row.clone() }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{ArrayRef, Int64Array, StringArray};

    use super::*;

    #[test]
    fn a_letter_is_json_that_any_database_can_hold() {
        let names = Arc::new(StringArray::from(vec!["good", "a\0☃𝄞\"\\\n"])) as ArrayRef;
        let values = Arc::new(Int64Array::from(vec![Some(1), None])) as ArrayRef;
        let rows = RecordBatch::try_from_iter_with_nullable([("name", names, true), ("v", values, true)]);
        let letter = DeadLetter::new(7, 3, &rows.unwrap(), 1, "too ☃");
        assert!(letter.row.is_ascii() && !letter.row.contains('\0'), "{}", letter.row);
        let value: serde_json::Value = serde_json::from_str(&letter.row).unwrap();
        assert_eq!(value, serde_json::json!({"name": "a\\u0000☃𝄞\"\\\n", "v": null}));
        assert_eq!(letter.reason, "too \\u2603");
        assert!(letter.describe("s").starts_with("sink 's', cycle 7, position 3: too"));
    }
}
