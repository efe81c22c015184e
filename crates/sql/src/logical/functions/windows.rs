//! Arithmetic of windows.

use std::sync::Arc;

use datafusion::arrow::array::types::TimestampNanosecondType;
use datafusion::arrow::array::{ArrayRef, AsArray, PrimitiveArray};
use datafusion::common::{Result, exec_datafusion_err};

/// The start of the window `[n * size + offset, ...)` that contains a time.
pub(crate) fn start(time_ns: i64, size_ns: i64, offset_ns: i64) -> i64 {
    time_ns - (time_ns - offset_ns).rem_euclid(size_ns)
}

/// The starts of the windows of many times.
pub(crate) fn starts(
    times: &ArrayRef,
    size_ns: i64,
    offset_ns: i64,
    zone: Option<Arc<str>>,
) -> Result<ArrayRef> {
    let times = times
        .as_primitive_opt::<TimestampNanosecondType>()
        .ok_or_else(|| exec_datafusion_err!("a window needs a timestamp, found {}", times.data_type()))?;
    let starts: PrimitiveArray<TimestampNanosecondType> =
        times.unary(|time_ns| start(time_ns, size_ns, offset_ns));
    Ok(Arc::new(starts.with_timezone_opt(zone)))
}
