//! `CREATE SOURCE` and `CREATE TABLE`: turn columns and options into the definition of a source.

use std::path::Path;
use std::sync::Arc;

use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::DFSchema;
use datafusion::sql::sqlparser::ast;
use tidemill_connect::formats::Format;
use tidemill_engine::AdmissionClock;

use super::bad_records::{DEAD_LETTERS, LetterPlace};
use super::changes::{CHANGES, DELETED, source_changes};
use super::columns::{
    as_queries_see, declared_columns, text_form, visible_columns, watermark, with_timestamp_unit,
};
use super::formats::{InputFormat, TIMESTAMP_UNIT, choose_input};
use super::gateway::{GATEWAY, gateway};
use super::known_options::KnownOptions;
use super::masked::MaskedSource;
use super::max_ahead::MAX_AHEAD;
use super::source_connector::{DefinedSource, SourceRequest};
use super::systems::journal;
use super::table::ConnectorTable;
use super::{durable, max_ahead};
use crate::logical::Provider;
use crate::relations::source_definition::SourceDefinition;
use crate::settings::Settings;
use crate::stand_ins::{NOT_NEEDED, StandIns};
use crate::statement::declared::{OptionDefault, OptionDefinition, OptionKind};
use crate::statement::{CreateSource, Options, Statement, text_length};
use crate::text::TextError;

/// What all sources have, besides what [`durable`] adds.
pub(super) const COMMON: &[OptionDefinition] = &[
    OptionDefinition::new(
        "ordered",
        OptionKind::Boolean,
        OptionDefault::Value("false"),
        "declares that rows arrive in order of event time",
    ),
    OptionDefinition::new(
        "idle_after",
        OptionKind::Duration,
        OptionDefault::Nothing("the setting, 5 s"),
        "after this time without rows, the source no longer holds back the watermark",
    ),
    MAX_AHEAD,
    DEAD_LETTERS,
    GATEWAY,
    CHANGES,
    DELETED,
];

/// The definition that a statement describes.
pub(crate) fn define_source(
    create: &CreateSource,
    is_table: bool,
    statement: &Statement,
    provider: &Provider<'_>,
    table: &ConnectorTable,
    settings: &Settings,
) -> Result<SourceDefinition, TextError> {
    let (options, secrets) = create.options.resolved(settings.stand_ins.as_ref().map(|_| NOT_NEEDED))?;
    let defined = define(create, &options, is_table, statement, provider, table, settings);
    let (mut defined, letters) = defined.map_err(|error| secrets.mask_error(error))?;
    if !secrets.is_empty() {
        let open = defined.open;
        defined.open = Arc::new(move |columns| {
            let source = open(columns).map_err(|cause| secrets.mask_cause(cause))?;
            Ok(Box::new(MaskedSource { source, secrets: secrets.clone() }))
        });
    }
    if let Some(letters) = letters {
        defined.open = letters.kept(defined.open);
    }
    Ok(defined)
}

/// The definition that a statement describes with these options, in which values stand in place of names, and where its
/// bad records are kept.
fn define(
    create: &CreateSource,
    options: &Options,
    is_table: bool,
    statement: &Statement,
    provider: &Provider<'_>,
    table: &ConnectorTable,
    settings: &Settings,
) -> Result<(SourceDefinition, Option<LetterPlace>), TextError> {
    let declared = declared_columns(create, statement, provider)?;
    let (named, connector) = table.source(options)?;
    let own = connector.options_given(options).map_err(|error| error.placed_in(options))?;
    let formats = connector.formats();
    let formats_are_none = formats.is_none();
    let chosen = choose_input(options, &formats, &table.formats)?;
    durable::refuse_nodes(options)?;
    let known = KnownOptions {
        connector: named,
        common: COMMON.iter().chain(durable::OPTIONS).collect(),
        own: &own,
        formats,
        chosen: &chosen,
        others_with: &|option| table.sources_with(option),
    };
    let values = known.read(options)?;
    let format = chosen.input(&values).map_err(|error| values.placed(error))?;
    let durable = durable::durable(&values)?;
    let gateway = gateway(&values, named, is_table)?;
    let mut opened = match settings.replay.as_deref().filter(|_| durable.is_some()) {
        Some(folder) => replayed(create, declared, folder)?,
        None => {
            let request = SourceRequest {
                name: create.name.as_str(),
                columns: with_timestamp_unit(declared, options)?,
                options: &values,
                format: &format,
                is_durable: durable.is_some(),
                is_table,
            };
            connector.define(&request).map_err(|error| values.placed(error))?
        }
    };
    let mut types = create.columns.iter().filter_map(|column| column.data_type.as_ref());
    let is_restricted =
        |data_type: &ast::DataType| text_length(data_type).is_some() || text_form(data_type).is_some();
    if options.get(TIMESTAMP_UNIT.name).is_some() || types.any(is_restricted) {
        opened.columns = as_queries_see(&opened.columns);
    }
    let raw = DFSchema::try_from(opened.columns.as_ref().clone())
        .map_err(|error| statement.error(create.name.span, error.to_string()))?;
    let (mut schema, mut computed) = visible_columns(create, &opened.columns, &raw, statement, provider)?;
    let declared_time = watermark(create, &mut schema, &mut computed, &raw, statement)?;
    // Who knows its event time says how far behind a row may be.
    let in_order = declared_time.is_none() && opened.event_time.is_some_and(|known| known.delay_ns == 0);
    let event_time = declared_time.or(opened.event_time);
    let idle_after = values.duration("idle_after").unwrap_or(settings.idle_after);
    let max_ahead = max_ahead::max_ahead(&values, opened.liveness, event_time.is_some())?;
    let reads_again = durable.is_some() && opened.reads_again;
    let letters = LetterPlace::of(&values, create.name.as_str(), !formats_are_none, reads_again);
    let letters = letters.map_err(|error| values.placed(error))?;
    // Those of the past were written when it was the present.
    let letters = letters.filter(|_| durable.is_none() || settings.replay.is_none());
    let waits_max = opened.waits_max();
    let schema = Arc::new(Schema::new(schema));
    let changes = source_changes(create, &values, &schema, (statement, provider))?;
    let definition = SourceDefinition {
        name: create.name.value.clone(),
        raw: opened.columns,
        schema,
        computed,
        event_time,
        ordered: values.boolean("ordered") || in_order,
        idle_after: Some(idle_after).filter(|limit| !limit.is_zero()),
        // A replay must not decide again what was decided when the rows came.
        max_ahead: max_ahead.filter(|_| durable.is_none() || settings.replay.is_none()),
        clock: AdmissionClock::default(),
        is_table: is_table || opened.is_table,
        key: Vec::new(),
        changes,
        is_finite: opened.is_finite,
        is_repeatable: opened.is_repeatable,
        starts_over: opened.starts_over,
        waits_max,
        // Its rows are in a journal already.
        durable: durable.filter(|_| settings.replay.is_none()),
        gateway,
        stored: None,
        at_gateways: None,
        push: opened.push,
        open: opened.open,
    };
    match &settings.stand_ins {
        // Its letters would be those of a test.
        Some(stand_ins) => Ok((stood_in(stand_ins, definition, format, options), None)),
        None => Ok((definition, letters)),
    }
}

/// Puts the rows that stand in into the place of the connector. Text for them is read in the format of the source, or of the file that
/// it would read.
fn stood_in(
    stand_ins: &StandIns,
    definition: SourceDefinition,
    format: InputFormat,
    options: &Options,
) -> SourceDefinition {
    let path = options.text("path").ok().flatten();
    let by_path = || Format::of_path(path?);
    let format = InputFormat { format: format.format.clone().or_else(by_path), ..format };
    let columns = Arc::clone(&definition.raw);
    stand_ins.replace(definition, Arc::new(move || format.decoder(&columns)))
}

/// A durable source is read from its journal if the past is replayed.
fn replayed(
    create: &CreateSource,
    declared: Option<SchemaRef>,
    folder: &Path,
) -> Result<DefinedSource, TextError> {
    let opened = journal::opened(folder, create.name.as_str(), declared);
    opened.map_err(|cause| create.options.error("durable", cause.to_string()))
}
