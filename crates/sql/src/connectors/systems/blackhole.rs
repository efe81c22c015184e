//! `connector = 'blackhole'`: rows are counted and discarded.

use std::sync::Arc;

use crate::connectors::sink_connector::{OpenSink, SinkConnector, SinkRequest};
use crate::discard::Discard;
use crate::statement::declared::OptionError;

pub(super) struct Blackhole;

impl SinkConnector for Blackhole {
    fn doc(&self) -> &str {
        "nowhere: rows are counted and discarded"
    }

    fn define(&self, _: &SinkRequest<'_>) -> Result<Arc<OpenSink>, OptionError> {
        Ok(Arc::new(|_| Ok(Box::new(Discard))))
    }
}
