//! The rows of a commit as messages, numbered in their order.

use std::collections::BTreeMap;

use arrow_array::{Array, RecordBatch};
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use tidemill_core::{Batch, Cause};

use crate::dead_letter::DeadLetter;
use crate::formats::encode::{TextEncoder, unrepresentable};

/// One row.
pub(super) struct Message<'a> {
    pub number: usize,
    pub key: Option<&'a str>,
    pub value: &'a [u8],
}

/// How rows become messages.
pub(super) struct Encoding {
    pub encoder: Box<dyn TextEncoder>,
    /// Whether each row is one line. A CSV's value may hold line ends.
    pub is_ndjson: bool,
    /// The column of the keys.
    pub key: Option<usize>,
}

/// The rows of a commit.
pub(super) struct Messages {
    batches: Vec<(u64, Batch)>,
    /// The number of each batch's first message.
    starts: Vec<usize>,
}

impl Messages {
    /// The rows of these batches, each with its cycle.
    pub fn new(batches: Vec<(u64, Batch)>) -> Messages {
        let starts = batches.iter().scan(0, |next, (_, batch)| {
            let start = *next;
            *next += batch.len();
            Some(start)
        });
        Messages { starts: starts.collect(), batches }
    }

    pub fn is_empty(&self) -> bool {
        self.batches.is_empty()
    }

    /// The messages whose rows have no text.
    pub fn without_text(&self) -> BTreeMap<usize, String> {
        let batches = self.batches.iter().zip(&self.starts);
        let found = batches.flat_map(|((_, batch), start)| {
            unrepresentable(&batch.rows).into_iter().map(move |found| (start + found.row, found.reason))
        });
        found.collect()
    }

    /// Encodes the messages one after another, but not these.
    ///
    /// # Errors
    /// [`Cause::user`] if keys of this type have no text, and those of `take`.
    pub fn each(
        &self,
        encoding: &mut Encoding,
        without_text: &BTreeMap<usize, String>,
        take: &mut dyn FnMut(&Message<'_>) -> Result<(), Cause>,
    ) -> Result<(), Cause> {
        let mut text = Vec::new();
        for ((_, batch), start) in self.batches.iter().zip(&self.starts) {
            let rows = &batch.rows;
            let keys = encoding.key.map(|column| texts(rows, column)).transpose()?;
            let key = |row: usize| keys.as_ref().and_then(|keys| keys[row].as_deref());
            let has_text = |row: &usize| !without_text.contains_key(&(start + row));
            text.clear();
            if encoding.is_ndjson {
                encoding.encoder.rows(rows, &mut text)?;
                let lines = text.split(|byte| *byte == b'\n').take(rows.num_rows()).enumerate();
                for (row, value) in lines.filter(|(row, _)| has_text(row)) {
                    take(&Message { number: start + row, key: key(row), value })?;
                }
                continue;
            }
            for row in (0..rows.num_rows()).filter(has_text) {
                text.clear();
                encoding.encoder.rows(&rows.slice(row, 1), &mut text)?;
                let value = text.strip_suffix(b"\n").unwrap_or(&text);
                take(&Message { number: start + row, key: key(row), value })?;
            }
        }
        Ok(())
    }

    /// The row of a message, with the reason why it is refused.
    pub fn letter(&self, number: usize, reason: &str) -> DeadLetter {
        let index = self.starts.partition_point(|start| *start <= number) - 1;
        let (cycle, batch) = &self.batches[index];
        let row = number - self.starts[index];
        DeadLetter::new(*cycle, batch.positions[row], &batch.rows, row, reason)
    }
}

/// The text of each value of a column; none for NULL.
fn texts(rows: &RecordBatch, column: usize) -> Result<Vec<Option<String>>, Cause> {
    let values = rows.column(column);
    let options = FormatOptions::default();
    let formatter = ArrayFormatter::try_new(values, &options).map_err(|error| {
        Cause::user(format!("keys cannot be written as text: {error}; cast them to VARCHAR"))
    })?;
    let text = |row: usize| values.is_valid(row).then(|| formatter.value(row).to_string());
    Ok((0..values.len()).map(text).collect())
}
