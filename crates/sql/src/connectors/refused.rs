//! A connector that may not be used here.

use std::sync::Arc;

use super::formats::Formats;
use super::sink_connector::{OpenSink, SinkConnector, SinkRequest};
use crate::statement::declared::{OptionDefinition, OptionError};

/// A sink that is known, but refused.
pub(super) struct RefusedSink {
    pub connector: Arc<dyn SinkConnector>,
    /// Why, and what to do.
    pub reason: String,
}

impl SinkConnector for RefusedSink {
    fn doc(&self) -> &str {
        self.connector.doc()
    }

    fn options(&self) -> &[OptionDefinition] {
        self.connector.options()
    }

    fn formats(&self) -> Formats {
        self.connector.formats()
    }

    fn define(&self, _request: &SinkRequest<'_>) -> Result<Arc<OpenSink>, OptionError> {
        Err(OptionError::new("connector", self.reason.clone()))
    }
}
