//! Rows of texts.

use std::sync::Arc;

use tidemill_engine::arrow::array::{ArrayRef, RecordBatch, StringArray};
use tidemill_engine::arrow::schema::{DataType, Field, Schema};

/// The column of a plan, as PostgreSQL calls it.
pub(crate) const PLAN_COLUMN: &str = "QUERY PLAN";

pub(crate) fn text_schema(names: &[&str]) -> Schema {
    Schema::new(names.iter().map(|name| Field::new(*name, DataType::Utf8, false)).collect::<Vec<_>>())
}

/// The lines of a plan.
pub(crate) fn plan_table(plan: &str) -> RecordBatch {
    text_table(&[PLAN_COLUMN], vec![plan.lines().map(str::to_owned).collect()])
}

/// A table of texts. The columns have the same length.
pub(crate) fn text_table(names: &[&str], columns: Vec<Vec<String>>) -> RecordBatch {
    let columns = columns.into_iter().map(|values| Arc::new(StringArray::from(values)) as ArrayRef);
    RecordBatch::try_new(Arc::new(text_schema(names)), columns.collect()).expect("columns of equal length")
}
