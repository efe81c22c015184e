//! Limits as errors of DataFusion.

use datafusion::common::DataFusionError;
use tidemill_engine::Cause;

/// A limit on memory that was reached, as DataFusion's error.
pub(crate) fn limit_reached(cause: Cause) -> DataFusionError {
    DataFusionError::ResourcesExhausted(cause.message.to_string())
}

/// An error that stops the query: no row may be left out because of it.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Stopped(Cause);

/// An error that stops the query, as DataFusion's error.
pub(crate) fn stopped(cause: Cause) -> DataFusionError {
    DataFusionError::External(Box::new(Stopped(cause)))
}

/// Why the query has to stop; `None` if the error concerns only a row.
pub(crate) fn stops(error: &DataFusionError) -> Option<&Cause> {
    match error.find_root() {
        DataFusionError::External(cause) => cause.downcast_ref::<Stopped>().map(|Stopped(cause)| cause),
        _ => None,
    }
}
