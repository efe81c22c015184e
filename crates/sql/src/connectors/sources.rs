//! `CREATE SOURCE` and `CREATE TABLE`: turn columns and options into the definition of a source.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use datafusion::common::DFSchema;
use datafusion::logical_expr::{Expr, ExprSchemable, cast};
use datafusion::sql::sqlparser::ast;
use tidemill_connect::file::{FileSettings, FileSource};
use tidemill_connect::formats::{BATCH_ROWS, CsvSettings, DecoderSettings, Format};
use tidemill_connect::standard_streams::{StandardInput, StreamSettings};
use tidemill_engine::{Cause, EventTime, Source};

use super::{http, line_protocol, sockets};
use crate::definition::{Open, SourceDefinition};
use crate::extension::Registry;
use crate::logical::Provider;
use crate::settings::Settings;
use crate::statement::{Column, CreateSource, Options, Statement};
use crate::text_error::TextError;

const CONNECTORS: &[&str] =
    &["file", "stdin", "tcp", "unix", "udp", "http", "line_protocol", "kafka", "journal", "generator"];
const COMMON: &[&str] = &["connector", "format", "ordered", "idle_after", "max_ahead"];
const CSV: &[&str] = &["header", "delimiter", "quote", "null"];

/// How to open a source, and its own columns.
pub(super) struct Opened {
    pub raw: SchemaRef,
    pub is_finite: bool,
    pub open: Arc<Open>,
}

/// The definition that a statement describes.
pub(crate) fn define_source(
    create: &CreateSource,
    is_table: bool,
    statement: &Statement,
    provider: &Provider<'_>,
    registry: &Registry,
    settings: &Settings,
) -> Result<SourceDefinition, TextError> {
    let options = &create.options;
    let declared = declared_columns(create, statement, provider)?;
    let guessed = if options.get("path").is_some() { "file" } else { "" };
    let connector = options.choice("connector", CONNECTORS)?.unwrap_or(guessed);
    let durable = super::durable::durable(options)?;
    let opened = match connector {
        _ if durable.is_some() && settings.replay.is_some() => replayed(create, options, declared, settings)?,
        "file" => file(options, declared)?,
        "stdin" => stdin(options, declared)?,
        "tcp" => sockets::tcp(options, declared)?,
        "unix" => sockets::unix(options, declared)?,
        "udp" => sockets::udp(options, declared)?,
        "http" => http::http(options, declared, durable.is_some())?,
        "line_protocol" => line_protocol::connector(options, declared, durable.is_some())?,
        "kafka" => kafka(options, declared)?,
        "journal" => {
            known(options, &["path", "source"])?;
            super::journal::journal(options, &create.name, declared)?
        }
        "generator" => return generator(create, statement, registry),
        _ => {
            return Err(options.error("connector", format!("say which connector: {}", CONNECTORS.join(", "))));
        }
    };
    let raw = DFSchema::try_from(opened.raw.as_ref().clone())
        .map_err(|error| statement.error(create.name.span, error.to_string()))?;
    let (mut schema, mut computed) = visible_columns(create, &opened.raw, &raw, statement, provider)?;
    let event_time = watermark(create, &mut schema, &mut computed, &raw, statement)?;
    let idle_after = options.duration("idle_after")?.unwrap_or(settings.idle_after);
    let max_ahead = super::max_ahead::max_ahead(options, connector, event_time.is_some())?;
    Ok(SourceDefinition {
        name: create.name.value.clone(),
        raw: opened.raw,
        schema: Arc::new(Schema::new(schema)),
        computed,
        event_time,
        ordered: create.ordered()?,
        idle_after: Some(idle_after).filter(|limit| !limit.is_zero()),
        // A replay must not decide again what was decided when the rows came.
        max_ahead: max_ahead.filter(|_| durable.is_none() || settings.replay.is_none()),
        is_table,
        key: Vec::new(),
        is_finite: opened.is_finite,
        is_repeatable: opened.is_finite && connector == "file" && !is_pipe(options)?,
        // Its rows are in a journal already.
        durable: durable.filter(|_| settings.replay.is_none()),
        open: opened.open,
    })
}

/// A durable source is read from its journal if the past is replayed.
fn replayed(
    create: &CreateSource,
    options: &Options,
    declared: Option<SchemaRef>,
    settings: &Settings,
) -> Result<Opened, TextError> {
    let folder = settings.replay.as_deref().unwrap_or(Path::new("."));
    let opened = super::journal::opened(folder, &create.name.value, declared);
    opened.map_err(|cause| options.error("durable", cause.to_string()))
}

/// The columns that the source itself must have; `None`: any.
fn declared_columns(
    create: &CreateSource,
    statement: &Statement,
    provider: &Provider<'_>,
) -> Result<Option<SchemaRef>, TextError> {
    let stored = create.columns.iter().filter(|column| column.computed.is_none());
    let field = |column: &Column| {
        let data_type = column
            .data_type
            .as_ref()
            .ok_or_else(|| statement.error(column.span, format!("column '{}' has no type", column.name)))?;
        let field = provider
            .data_type(data_type)
            .map_err(|error| statement.error(column.type_span, crate::expression::plain(&error)))?;
        Ok(Field::new(column.name.as_str(), field, !column.not_null))
    };
    let fields: Vec<Field> = stored.map(field).collect::<Result<_, TextError>>()?;
    Ok((!fields.is_empty()).then(|| Arc::new(Schema::new(fields))))
}

/// The columns that queries see, in the order of their declaration, and how they are computed.
fn visible_columns(
    create: &CreateSource,
    raw: &SchemaRef,
    raw_schema: &DFSchema,
    statement: &Statement,
    provider: &Provider<'_>,
) -> Result<(Vec<Field>, Option<Vec<Expr>>), TextError> {
    let own: Vec<Field> = raw.fields().iter().map(|field| field.as_ref().clone()).collect();
    if create.columns.iter().all(|column| column.computed.is_none()) {
        return Ok((own, None));
    }
    let column = |name: &str| Expr::Column(datafusion::common::Column::from_name(name));
    let (mut fields, mut expressions) = (Vec::new(), Vec::new());
    if create.columns.iter().all(|column| column.computed.is_some()) {
        // Only computed columns are written down: those of the file come first.
        expressions.extend(own.iter().map(|field| column(field.name())));
        fields.extend(own);
    }
    for declared in &create.columns {
        let name = declared.name.as_str();
        let expression = match &declared.computed {
            None => column(name),
            Some(computed) => provider
                .expression(&with_declared_type(computed, declared.data_type.as_ref()), raw_schema)
                .map_err(|error| provider.text_error(&error, statement))?,
        };
        let data_type =
            expression.get_type(raw_schema).map_err(|error| provider.text_error(&error, statement))?;
        fields.push(Field::new(name, data_type, !declared.not_null));
        expressions.push(expression);
    }
    Ok((fields, Some(expressions)))
}

/// The expression that computes a column, cast to its declared type if it has one.
fn with_declared_type(computed: &ast::Expr, declared: Option<&ast::DataType>) -> ast::Expr {
    match declared {
        None => computed.clone(),
        Some(data_type) => ast::Expr::Cast {
            kind: ast::CastKind::Cast,
            expr: Box::new(computed.clone()),
            data_type: data_type.clone(),
            array: false,
            format: None,
        },
    }
}

/// The event time, converted to a timestamp in nanoseconds if it has another unit.
fn watermark(
    create: &CreateSource,
    fields: &mut [Field],
    computed: &mut Option<Vec<Expr>>,
    raw: &DFSchema,
    statement: &Statement,
) -> Result<Option<EventTime>, TextError> {
    let Some(watermark) = &create.watermark else { return Ok(None) };
    let names = fields.iter().map(|field| field.name().as_str());
    let name = watermark.column.meant(names.clone()).unwrap_or(watermark.column.as_str()).to_owned();
    let Some(column) = fields.iter().position(|field| *field.name() == name) else {
        let names = fields.iter().map(|field| field.name().as_str());
        let error = statement.error(watermark.column.span, format!("there is no column '{name}'"));
        return Err(match crate::suggest::closest(&name, names) {
            Some(meant) => error.with_hint(format!("did you mean {meant}?")),
            None => error,
        });
    };
    match fields[column].data_type().clone() {
        DataType::Timestamp(TimeUnit::Nanosecond, _) => {}
        DataType::Timestamp(_, zone) => {
            let wanted = DataType::Timestamp(TimeUnit::Nanosecond, zone);
            let all = computed.get_or_insert_with(|| raw.columns().into_iter().map(Expr::Column).collect());
            all[column] = cast(all[column].clone(), wanted.clone());
            fields[column] = fields[column].clone().with_data_type(wanted);
        }
        other => {
            let error = statement.error(
                watermark.column.span,
                format!("the watermark's column must be a TIMESTAMP, but '{name}' is {other}"),
            );
            return Err(error.with_hint(format!(
                "add a computed column, such as event_time AS to_timestamp_seconds({name}), and use it in WATERMARK FOR"
            )));
        }
    }
    Ok(Some(EventTime { column, delay_ns: watermark.delay_ns }))
}

pub(super) fn format(options: &Options) -> Result<Option<Format>, TextError> {
    match options.text("format")? {
        None => Ok(None),
        Some(name) => Format::named(name).map(Some).ok_or_else(|| {
            options.error(
                "format",
                format!(
                    "'{name}' is no format; there are csv, json, lines, line_protocol, parquet and arrow"
                ),
            )
        }),
    }
}

pub(super) fn csv(options: &Options) -> Result<CsvSettings, TextError> {
    let byte = |name: &str| match options.text(name)? {
        None => Ok(None),
        Some(text) => match text.as_bytes() {
            [byte] => Ok(Some(*byte)),
            _ => Err(options.error(name, format!("'{name}' must be one ASCII character, found '{text}'"))),
        },
    };
    let defaults = CsvSettings::default();
    Ok(CsvSettings {
        header: options.boolean("header")?,
        delimiter: byte("delimiter")?,
        quote: byte("quote")?.unwrap_or(defaults.quote),
        null: options.text("null")?.map_or(defaults.null, str::to_string),
    })
}

pub(super) fn known(options: &Options, own: &[&str]) -> Result<(), TextError> {
    let known =
        COMMON.iter().chain(CSV).chain(line_protocol::OPTIONS).chain(super::durable::OPTIONS).chain(own);
    let known: Vec<&str> = known.copied().collect();
    options.finish(&known)
}

/// Whether a source is a pipe, whose rows can be read only once.
fn is_pipe(options: &Options) -> Result<bool, TextError> {
    Ok(options.text("path")?.is_some_and(|path| FileSettings::new(path).is_pipe()))
}

fn file(options: &Options, declared: Option<SchemaRef>) -> Result<Opened, TextError> {
    known(options, &["path", "follow"])?;
    line_protocol::refuse_options(options)?;
    let mut settings = FileSettings::new(options.required_text("path")?);
    settings.format = format(options)?;
    settings.csv = csv(options)?;
    settings.follow = options.boolean("follow")?.unwrap_or(false);
    settings.schema = declared;
    let raw = match &settings.schema {
        Some(schema) => Arc::clone(schema),
        None => FileSource::infer(&mut settings).map_err(|cause| options.error("path", cause.to_string()))?,
    };
    settings.schema = Some(Arc::clone(&raw));
    let is_finite = !settings.follow;
    let open: Arc<Open> = Arc::new(move |columns| super::files::open(settings.clone(), columns));
    Ok(Opened { raw, is_finite, open })
}

pub(super) fn declared_or(
    options: &Options,
    declared: Option<SchemaRef>,
    what: &str,
) -> Result<SchemaRef, TextError> {
    declared.ok_or_else(|| {
        options
            .error("connector", format!("{what} is read only while the query runs, so declare its columns"))
    })
}

pub(super) fn text_format(options: &Options) -> Result<Format, TextError> {
    match format(options)? {
        Some(format) if format.is_text() => Ok(format),
        _ => Err(options.error(
            "format",
            "say which format the lines have: format = 'csv', 'json', 'lines' or 'line_protocol'",
        )),
    }
}

fn stdin(options: &Options, declared: Option<SchemaRef>) -> Result<Opened, TextError> {
    known(options, &[])?;
    line_protocol::refuse_options(options)?;
    let raw = declared_or(options, declared, "standard input")?;
    let mut settings = StreamSettings::new(text_format(options)?);
    settings.csv = csv(options)?;
    settings.schema = Some(Arc::clone(&raw));
    let taken = AtomicBool::new(false);
    let open: Arc<Open> = Arc::new(move |columns| {
        if taken.swap(true, Ordering::SeqCst) {
            let text = "standard input was read by an earlier query and cannot be read twice; ask both in one \
                        pipeline, or write it to a file first";
            return Err(Cause::user(text));
        }
        let mut source = StandardInput::open(settings.clone())?;
        if let Some(columns) = columns {
            source.set_projection(columns)?;
        }
        Ok(Box::new(source) as Box<dyn Source>)
    });
    // It ends when its writer closes it, but no one knows whether that will be.
    Ok(Opened { raw, is_finite: true, open })
}

fn kafka(options: &Options, declared: Option<SchemaRef>) -> Result<Opened, TextError> {
    known(options, super::kafka::SOURCE)?;
    line_protocol::refuse_options(options)?;
    let raw = declared_or(options, declared, "a topic")?;
    let decoder = DecoderSettings { schema: raw, csv: csv(options)?, batch_rows: BATCH_ROWS };
    super::kafka::source(options, text_format(options)?, decoder)
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
    let arguments = crate::arguments::Arguments::from_options(function, options, &["connector", "function"]);
    let failed = |cause: Cause| options.error("function", cause.to_string());
    let definition = generator(&arguments.map_err(failed)?).map_err(failed)?;
    Ok(SourceDefinition { name: create.name.value.clone(), ..definition })
}
