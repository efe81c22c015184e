//! The rows behind an answer as rows of an answer.

use std::path::Path;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use tidemill_connect::formats::encode::TextFormat;
use tidemill_engine::{Cause, Positions, inspect};

use super::{Witness, bug};
use crate::statement::explain::why_columns;

/// More rows of one source and effect than this are left out.
const ROWS_MAX: usize = 10_000;

impl Witness {
    /// Returns the rows that it names, read from the journal in a folder: for each its source, by the name that this has outside
    /// of the journal, its position, its effect and the row as JSON.
    ///
    /// # Errors
    /// If the journal cannot be read.
    pub fn shown(&self, journal: &Path, name_of: impl Fn(&str) -> String) -> Result<RecordBatch, Cause> {
        let effect = if self.is_minimal { "needed" } else { "perhaps needed" };
        let named = self.rows.iter().map(|(source, rows)| (source, rows, effect));
        let alike = self.alike.iter().map(|(source, rows)| (source, rows, "changed nothing"));
        let mut shown = Shown::default();
        for (source, positions, effect) in named.chain(alike) {
            shown.add(journal, (source, &name_of(source)), positions, effect)?;
        }
        let columns: Vec<ArrayRef> = vec![
            Arc::new(StringArray::from(shown.sources)),
            Arc::new(Int64Array::from(shown.positions)),
            Arc::new(StringArray::from(shown.effects)),
            Arc::new(StringArray::from(shown.rows)),
        ];
        RecordBatch::try_new(why_columns(), columns).map_err(bug)
    }
}

#[derive(Default)]
struct Shown {
    sources: Vec<String>,
    positions: Vec<i64>,
    effects: Vec<&'static str>,
    rows: Vec<String>,
}

impl Shown {
    fn add(
        &mut self,
        journal: &Path,
        (stream, source): (&str, &str),
        positions: &Positions,
        effect: &'static str,
    ) -> Result<(), Cause> {
        let first = positions.ranges().first().map_or(0, |range| range.start);
        let records = inspect::records(journal, stream, first)?;
        let mut encoder = TextFormat::Ndjson.encoder(&records.schema())?;
        let mut left = ROWS_MAX;
        for record in records {
            let record = record?;
            let end = record.start + record.rows.num_rows() as u64;
            let within = positions.within(record.start..end);
            for position in within.ranges().iter().cloned().flatten().take(left) {
                let mut text = Vec::new();
                encoder.rows(&record.rows.slice((position - record.start) as usize, 1), &mut text)?;
                self.sources.push(source.to_owned());
                self.positions.push(position as i64);
                self.effects.push(effect);
                self.rows.push(String::from_utf8_lossy(&text).trim_end().to_owned());
            }
            left = left.saturating_sub(within.count() as usize);
            if left == 0 || positions.within(end..u64::MAX).is_empty() {
                break;
            }
        }
        Ok(())
    }
}
