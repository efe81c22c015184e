//! `CREATE SOURCE` and `CREATE TABLE`: turn columns and options into the definition of a source.

use std::path::Path;
use std::sync::Arc;

use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::DFSchema;
use tidemill_engine::Cause;

use super::columns::{declared_columns, visible_columns, watermark};
use super::formats::{Formats, choose_input};
use super::known_options::KnownOptions;
use super::max_ahead::MAX_AHEAD;
use super::source_connector::{DefinedSource, SourceRequest};
use super::systems::{journal, line_protocol};
use super::table::ConnectorTable;
use super::{durable, max_ahead};
use crate::arguments::Arguments;
use crate::definition::SourceDefinition;
use crate::extension::Registry;
use crate::logical::Provider;
use crate::settings::Settings;
use crate::statement::declared::{OptionDefault, OptionDefinition, OptionKind};
use crate::statement::{CreateSource, Statement};
use crate::text_error::TextError;

/// What all sources have, besides what [`durable`] adds.
pub(super) const COMMON: &[OptionDefinition] = &[
    OptionDefinition::new(
        "ordered",
        OptionKind::Boolean,
        OptionDefault::Value("false"),
        "declares that rows arrive in the order of event time",
    ),
    OptionDefinition::new(
        "idle_after",
        OptionKind::Duration,
        OptionDefault::Nothing("the setting, 5 s"),
        "after this long without rows, the source no longer holds back the watermark",
    ),
    MAX_AHEAD,
];

/// The definition that a statement describes.
pub(crate) fn define_source(
    create: &CreateSource,
    is_table: bool,
    statement: &Statement,
    provider: &Provider<'_>,
    registry: &Registry,
    table: &ConnectorTable,
    settings: &Settings,
) -> Result<SourceDefinition, TextError> {
    let options = &create.options;
    let declared = declared_columns(create, statement, provider)?;
    let (named, mut connector) = table.source(options)?;
    if named == "generator" {
        return generator(create, statement, registry);
    }
    let mut formats = connector.formats();
    if named == "line_protocol" {
        let name = line_protocol::connector_of(options)?;
        let of_scheme = table
            .source_named(name)
            .ok_or_else(|| options.error("listen", format!("there is no connector '{name}' any more")))?;
        (connector, formats) = (of_scheme, LINE_PROTOCOL);
    }
    let chosen = choose_input(options, &formats, &table.formats)?;
    durable::refuse_nodes(options)?;
    let known = KnownOptions {
        connector: named,
        common: COMMON.iter().chain(durable::OPTIONS).collect(),
        own: connector.options(),
        formats,
        chosen: &chosen,
        others_with: &|option| table.sources_with(option),
    };
    let values = known.read(options)?;
    let durable = durable::durable(&values)?;
    let opened = match settings.replay.as_deref().filter(|_| durable.is_some()) {
        Some(folder) => replayed(create, declared, folder)?,
        None => {
            let request = SourceRequest {
                name: create.name.as_str(),
                columns: declared,
                options: &values,
                format: &chosen.input(&values).map_err(|error| values.placed(error))?,
                is_durable: durable.is_some(),
            };
            connector.define(&request).map_err(|error| values.placed(error))?
        }
    };
    let raw = DFSchema::try_from(opened.columns.as_ref().clone())
        .map_err(|error| statement.error(create.name.span, error.to_string()))?;
    let (mut schema, mut computed) = visible_columns(create, &opened.columns, &raw, statement, provider)?;
    let event_time = watermark(create, &mut schema, &mut computed, &raw, statement)?;
    let idle_after = values.duration("idle_after").unwrap_or(settings.idle_after);
    let max_ahead = max_ahead::max_ahead(&values, opened.liveness, event_time.is_some())?;
    Ok(SourceDefinition {
        name: create.name.value.clone(),
        raw: opened.columns,
        schema: Arc::new(Schema::new(schema)),
        computed,
        event_time,
        ordered: values.boolean("ordered"),
        idle_after: Some(idle_after).filter(|limit| !limit.is_zero()),
        // A replay must not decide again what was decided when the rows came.
        max_ahead: max_ahead.filter(|_| durable.is_none() || settings.replay.is_none()),
        is_table,
        key: Vec::new(),
        is_finite: opened.is_finite,
        is_repeatable: opened.is_repeatable,
        // Its rows are in a journal already.
        durable: durable.filter(|_| settings.replay.is_none()),
        open: opened.open,
    })
}

/// What the connector `line_protocol` reads, by whatever protocol.
const LINE_PROTOCOL: Formats = Formats {
    names: &["line_protocol"],
    default: OptionDefault::Value("line_protocol"),
    without_options: &[],
};

/// A durable source is read from its journal if the past is replayed.
fn replayed(
    create: &CreateSource,
    declared: Option<SchemaRef>,
    folder: &Path,
) -> Result<DefinedSource, TextError> {
    let opened = journal::opened(folder, create.name.as_str(), declared);
    opened.map_err(|cause| create.options.error("durable", cause.to_string()))
}

/// `connector = 'generator', function = 'yahoo_events', rate = 1000`
fn generator(
    create: &CreateSource,
    statement: &Statement,
    registry: &Registry,
) -> Result<SourceDefinition, TextError> {
    let options = &create.options;
    let function = options.required_text("function")?;
    let Some(generator) = registry.generators.get(function) else {
        let names: Vec<&str> = registry.generators.keys().map(String::as_str).collect();
        return Err(options
            .error("function", format!("'{function}' is no generator; there are {}", names.join(", "))));
    };
    if let Some(column) = create.columns.first() {
        let error = statement.error(column.span, "a generator has its own columns");
        return Err(error.with_hint("leave the columns out; SELECT those that you want in a view"));
    }
    let arguments = Arguments::from_options(function, options, &["connector", "function"]);
    let failed = |cause: Cause| options.error("function", cause.to_string());
    let definition = generator(&arguments.map_err(failed)?).map_err(failed)?;
    Ok(SourceDefinition { name: create.name.value.clone(), ..definition })
}
