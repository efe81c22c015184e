//! `CREATE SINK`: turns options into a target for rows.

use std::sync::Arc;

use super::formats::choose_output;
use super::known_options::KnownOptions;
use super::sink_connector::{OpenSink, SinkRequest};
use super::table::ConnectorTable;
use crate::statement::Options;
use crate::statement::declared::{OptionDefault, OptionDefinition, OptionKind};
use crate::text_error::TextError;

/// What all sinks have.
pub(super) const COMMON: &[OptionDefinition] = &[OptionDefinition::new(
    "max_latency",
    OptionKind::Duration,
    OptionDefault::Nothing("none"),
    "the latency bound for this sink's rows; a pipeline uses the smallest bound of all its sinks",
)];

/// A target for rows. It is opened when the query starts, because only then are the columns known.
#[derive(Clone)]
pub(crate) struct SinkDefinition {
    pub connector: String,
    pub open: Arc<OpenSink>,
}

/// The definition that the options describe.
pub(crate) fn define_sink(options: &Options, table: &ConnectorTable) -> Result<SinkDefinition, TextError> {
    let (name, connector) = table.sink(options)?;
    let formats = connector.formats();
    let chosen = choose_output(options, &formats, &table.formats)?;
    let known = KnownOptions {
        connector: name,
        common: COMMON.iter().collect(),
        own: connector.options(),
        formats,
        chosen: &chosen,
        others_with: &|option| table.sinks_with(option),
    };
    let values = known.read(options)?;
    let format = chosen.output(&values).map_err(|error| values.placed(error))?;
    let request = SinkRequest { options: &values, format: &format };
    let open = connector.define(&request).map_err(|error| values.placed(error))?;
    Ok(SinkDefinition { connector: name.to_owned(), open })
}
