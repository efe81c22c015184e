//! `tidemill journal replay --rows-of 12`: the rows that went into a cycle.

use std::sync::Arc;

use anyhow::Context as _;
use tidemill_engine::arrow::array::{ArrayRef, RecordBatch, UInt64Array};
use tidemill_engine::arrow::schema::{DataType, Field, Schema};
use tidemill_engine::{CycleInput, Past, Positions};

use super::show::{rows, time_text};
use crate::sql::{RowFormat, user_error};
use crate::{quantity, terminal};

/// More rows of one source than this are not shown at once.
const ROWS_MAX: usize = 1_000_000;

/// Shows the rows of a cycle, source by source, each with its position in the journal.
pub(super) fn show(past: &Past, cycle: u64, format: RowFormat) -> anyhow::Result<()> {
    let CycleInput { cut, sources } = past.rows_of(cycle)?;
    let with_rows: Vec<_> = sources.iter().filter(|(_, range)| !range.is_empty()).collect();
    if with_rows.len() > 1 && !format.is_for_people() {
        return Err(user_error(format!(
            "cycle {cycle} has rows of several sources, which do not fit into one text of this format; \
             use --format table"
        )));
    }
    let closed = time_text(cut.closed_at_ns);
    if with_rows.is_empty() {
        terminal::tell(&format!("(cycle {cycle}, closed at {closed}, has no rows of the query's sources)"));
    }
    for (stream, range) in with_rows {
        let count = range.end - range.start;
        let counted = quantity::counted(count, "row");
        terminal::tell(&format!("cycle {cycle}, closed at {closed}: {counted} of {stream}"));
        let positions: Positions = std::iter::once(range.clone()).collect();
        let rows = rows(past.journal(), stream, &positions, ROWS_MAX)?;
        format.show(&with_positions(&rows, range.clone())?)?;
        if count > ROWS_MAX as u64 {
            terminal::tell(&format!(
                "(only the first {ROWS_MAX} are shown; `tidemill journal show {} --stream {stream} --from {}` \
                 shows others)",
                past.journal().display(),
                range.start + ROWS_MAX as u64
            ));
        }
    }
    Ok(())
}

/// Rows with their positions as the first column.
pub(super) fn with_positions(
    rows: &RecordBatch,
    positions: impl IntoIterator<Item = u64>,
) -> anyhow::Result<RecordBatch> {
    let positions = positions.into_iter().take(rows.num_rows());
    let positions: ArrayRef = Arc::new(UInt64Array::from_iter_values(positions));
    let mut fields = vec![Arc::new(Field::new("position", DataType::UInt64, false))];
    fields.extend(rows.schema().fields().iter().cloned());
    let columns = std::iter::once(positions).chain(rows.columns().iter().cloned()).collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)
        .context("the rows cannot be shown with their positions")
}
