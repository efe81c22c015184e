//! `CREATE SINK`: turns options into a target for rows.

use std::sync::Arc;

use super::formats::choose_output;
use super::known_options::KnownOptions;
use super::masked::MaskedSink;
use super::sink_connector::{OpenSink, SinkRequest};
use super::table::ConnectorTable;
use crate::settings::Settings;
use crate::stand_ins::NOT_NEEDED;
use crate::statement::Options;
use crate::statement::declared::{OptionDefault, OptionDefinition, OptionKind};
use crate::text::TextError;
use crate::translate::Takes;

/// What all sinks have.
pub(super) const COMMON: &[OptionDefinition] = &[
    OptionDefinition::new(
        "max_latency",
        OptionKind::Duration,
        OptionDefault::Nothing("none"),
        "the latency bound for this sink's rows; a pipeline uses the smallest bound of all its sinks",
    ),
    OptionDefinition::new(
        "start",
        OptionKind::Choice(&["now", "earliest"]),
        OptionDefault::Nothing("`earliest` over files, `now` over others"),
        "under `tidemill serve`, whether the sink begins with all rows that the journal of its durable sources has \
         (`earliest`), or with those that come from now on (`now`)",
    ),
    OptionDefinition::new(
        "emit",
        OptionKind::Choice(&["append", "changes"]),
        OptionDefault::Value("append"),
        "`append`: rows as they come; of a table, each row that replaces the previous one of its key. `changes`: all \
         rows that come and go, with the column `weight`: 1 for a row that comes, -1 for one that goes, more for equal \
         rows. Any query can be written so",
    ),
    OptionDefinition::new(
        "pool",
        OptionKind::Text,
        OptionDefault::Nothing("ordinary threads"),
        "the pool in which its query runs",
    ),
    OptionDefinition::new(
        "deadline",
        OptionKind::Duration,
        OptionDefault::Nothing("none"),
        "how late an answer may be; later ones are counted. \
         With `min_gap`, the analysis says whether it can be kept",
    ),
    OptionDefinition::new(
        "burst",
        OptionKind::Integer { least: 1, most: 1_000_000 },
        OptionDefault::Nothing("1"),
        "the most events that arrive at once, for the analysis",
    ),
    OptionDefinition::new(
        "min_gap",
        OptionKind::Duration,
        OptionDefault::Nothing("none"),
        "the shortest time between two bursts, for the analysis",
    ),
    OptionDefinition::new(
        "wcet",
        OptionKind::DurationOr(&["measure"]),
        OptionDefault::Nothing("`measure`"),
        "the most processor time that an event takes, for the analysis; `measure`: as the first cycles show",
    ),
    OptionDefinition::new(
        "margin",
        OptionKind::Text,
        OptionDefault::Nothing("1.5"),
        "by how much the analysis multiplies costs that are measured, from 1 to 100",
    ),
    OptionDefinition::new(
        "best_effort",
        OptionKind::Boolean,
        OptionDefault::Nothing("false"),
        "whether a deadline that cannot be kept for certain, its own or one of another sink, is a warning and no error",
    ),
    OptionDefinition::new(
        "buffer_max",
        OptionKind::Integer { least: 1, most: 1 << 30 },
        OptionDefault::Nothing("from the analysis, or `cycle_events`"),
        "the maximum number of events in a cycle",
    ),
    OptionDefinition::new(
        "release",
        OptionKind::Choice(&["waiting", "periodic"]),
        OptionDefault::Nothing("`waiting`"),
        "whether a cycle closes when its oldest event has waited for the interval, or at multiples of the interval \
         since the query started",
    ),
];

/// A target for rows. It is opened when the query starts, because only then are the columns known.
#[derive(Clone)]
pub(crate) struct SinkDefinition {
    pub connector: String,
    /// What it takes of the rows of its query.
    pub takes: Takes,
    pub open: Arc<OpenSink>,
}

/// The definition that the options describe.
pub(crate) fn define_sink(
    options: &Options,
    table: &ConnectorTable,
    settings: &Settings,
) -> Result<SinkDefinition, TextError> {
    let (options, secrets) = options.resolved(settings.stand_ins.as_ref().map(|_| NOT_NEEDED))?;
    let mut defined = define(&options, table).map_err(|error| secrets.mask_error(error))?;
    if !secrets.is_empty() {
        let open = defined.open;
        defined.open = Arc::new(move |of| {
            let sink = open(of).map_err(|cause| secrets.mask_cause(cause))?;
            Ok(Box::new(MaskedSink { sink, secrets: secrets.clone() }))
        });
    }
    Ok(defined)
}

/// The definition that the options describe, in which values stand in place of names.
fn define(options: &Options, table: &ConnectorTable) -> Result<SinkDefinition, TextError> {
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
    let takes = match values.text("emit") {
        Some("changes") => Takes::WeightedRows,
        _ => Takes::Rows,
    };
    Ok(SinkDefinition { connector: name.to_owned(), takes, open })
}
