//! `connector = 'blackhole'`: rows are counted and discarded.

use std::sync::Arc;

use crate::connectors::discard_sink::DiscardSink;
use crate::connectors::sink_connector::{OpenSink, SinkConnector, SinkRequest};
use crate::statement::declared::OptionError;

pub(super) struct Blackhole;

impl SinkConnector for Blackhole {
    fn doc(&self) -> &str {
        "discards rows after counting them"
    }

    fn define(&self, _: &SinkRequest<'_>) -> Result<Arc<OpenSink>, OptionError> {
        Ok(Arc::new(|_| Ok(Box::new(DiscardSink))))
    }
}
