//! The columns of a table that clients give.

use tidemill_sql::ClientTable;

use crate::report::{Report, UNDEFINED_COLUMN};

/// The places of the columns of a table that a `COPY` names.
pub(super) fn named_columns(table: &ClientTable, columns: Option<&[String]>) -> Result<Vec<usize>, Report> {
    let all = &table.shape.columns;
    let Some(columns) = columns else { return Ok((0..all.fields().len()).collect()) };
    let place = |column: &String| {
        all.index_of(column).map_err(|_| {
            let message = format!("table '{}' has no column '{column}'", table.name);
            Report::error(UNDEFINED_COLUMN, message)
        })
    };
    columns.iter().map(place).collect()
}
