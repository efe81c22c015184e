//! Limits on memory as errors of DataFusion.

use datafusion::common::DataFusionError;
use tidemill_engine::Cause;

/// A limit that was reached, as DataFusion's error.
pub(crate) fn limit_reached(cause: Cause) -> DataFusionError {
    DataFusionError::ResourcesExhausted(cause.message.to_string())
}
