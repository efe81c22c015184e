//! The rows of a table by their key.

use std::collections::HashMap;

use arrow_row::{OwnedRow, RowConverter, Rows, SortField};
use tidemill_engine::Cause;
use tidemill_engine::arrow::array::RecordBatch;
use tidemill_engine::arrow::schema::SchemaRef;

/// The rows of a table by their key: the number of each.
pub(super) struct KeyIndex {
    columns: Vec<usize>,
    converter: RowConverter,
    rows: HashMap<OwnedRow, i64>,
}

impl KeyIndex {
    /// An index of no rows; `None` if the table has no key.
    pub fn new(schema: &SchemaRef, columns: &[usize]) -> Result<Option<KeyIndex>, Cause> {
        if columns.is_empty() {
            return Ok(None);
        }
        let fields = columns.iter().map(|column| SortField::new(schema.field(*column).data_type().clone()));
        let converter = RowConverter::new(fields.collect()).map_err(of_arrow)?;
        Ok(Some(KeyIndex { columns: columns.to_vec(), converter, rows: HashMap::new() }))
    }

    /// The keys of rows.
    pub fn keys(&self, rows: &RecordBatch) -> Result<Rows, Cause> {
        let columns: Vec<_> = self.columns.iter().map(|column| rows.column(*column).clone()).collect();
        self.converter.convert_columns(&columns).map_err(of_arrow)
    }

    /// The number of the row with a key.
    pub fn find(&self, key: &OwnedRow) -> Option<i64> {
        self.rows.get(key).copied()
    }

    /// A row has this number.
    pub fn set(&mut self, key: OwnedRow, number: i64) {
        self.rows.insert(key, number);
    }

    /// A row is gone.
    pub fn remove(&mut self, key: &OwnedRow) {
        self.rows.remove(key);
    }
}

pub(crate) fn of_arrow(error: arrow_schema::ArrowError) -> Cause {
    Cause::bug(error.to_string()).with_source(error)
}
