//! Windows by count: all rows of a window are written in one cycle, so its groups are complete when the cycle ends.

use tidemill_engine::Cause;
use tidemill_operators::count_windows::{CountWindows, CountWindowsSpec, output_schema};
use tidemill_operators::{AggregateSpec, CycleAggregate, FailedResults};

use crate::build::duplicate;
use crate::keyed::KeyedStream;
use crate::stream::Stream;
use crate::window::RowWindow;

/// The rows of each window, with the window's bounds as further columns of the key.
pub(crate) fn row_windows(keyed: &KeyedStream, window: RowWindow) -> Result<KeyedStream, Cause> {
    let stream = &keyed.stream;
    if stream.table_key.is_some() {
        return Err(Cause::user(
            "rows of an aggregate without a window replace earlier ones, so there is nothing to count; use windows on \
             the stream that is aggregated",
        ));
    }
    let spec = CountWindowsSpec {
        schema: stream.schema.clone(),
        keys: keyed.keys.clone(),
        size: window.size,
        slide: window.slide,
        watermark: stream.watermark(),
        rows_max: stream.build.borrow().keys_max_for(keyed.keys.len()),
    };
    let output = output_schema(&spec);
    if let Some(twice) = duplicate(&output) {
        return Err(Cause::user(format!(
            "the rows have a column '{twice}', which windows write, too; rename it"
        )));
    }
    CountWindows::new(spec.clone())?;
    let name = format!("windows of {} rows every {}", window.size, window.slide);
    let columns = stream.schema.fields().len();
    let rows = keyed.operator(&name, &output, move |_| {
        Box::new(CountWindows::new(spec.clone()).expect("checked when it was planned"))
    });
    let keys = keyed.keys.iter().copied().chain([columns, columns + 1]).collect();
    Ok(KeyedStream { stream: rows, keys })
}

/// Aggregates groups whose rows are all in one cycle.
pub(crate) fn complete_windows(
    keyed: &KeyedStream,
    name: &str,
    spec: AggregateSpec,
) -> Result<Stream, Cause> {
    let output = CycleAggregate::output_schema(&spec)?;
    CycleAggregate::new(&spec)?;
    let failed = FailedResults::Null(keyed.stream.build.borrow().failed.clone());
    Ok(keyed.operator(name, &output, move |_| {
        let aggregate = CycleAggregate::new(&spec).expect("checked when it was planned");
        Box::new(aggregate.failed_results(failed.clone()))
    }))
}
