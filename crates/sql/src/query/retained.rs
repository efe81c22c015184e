//! Which rows a materialized view keeps: `WITH (retain = ..., point = ..., key = ...)`.

use datafusion::arrow::datatypes::{DataType, SchemaRef, TimeUnit};
use tidemill_engine::Cause;
use tidemill_store::{Contents, Retention, StoreConfig};

use crate::logical::Provider;
use crate::query::fragmented;
use crate::query::prepared::Output;
use crate::relations::named_relations::{Retained, ViewDefinition};
use crate::settings::Settings;
use crate::statement::{Options, Statement};
use crate::text::TextError;

/// The options of a materialized view.
pub(crate) const VIEW_OPTIONS: [&str; 10] = [
    "max_latency",
    "start",
    "retain",
    "retain_bytes",
    "retain_versions",
    "point",
    "key",
    "time",
    "fragments",
    "fragment_by",
];

/// The least that a fragment of a store is given.
const BYTES_MIN: u64 = 1 << 16;

/// Reads the options of a view with this output.
pub(crate) fn read(
    options: &Options,
    output: &Output,
    provider: &Provider<'_>,
    statement: &Statement,
) -> Result<Retained, TextError> {
    let columns = |name: &str| columns(options, name, &output.schema);
    refuse_useless(options, output)?;
    let time_column = match columns("time")?.as_deref() {
        None => output.event_time,
        Some([column]) => Some(*column),
        Some(_) => return Err(options.error("time", "the time is one column")),
    };
    let point = match columns("point")?.as_deref() {
        None => None,
        Some([x, y]) => Some([*x, *y]),
        Some(_) => {
            let error = options.error("point", "a point has two coordinates");
            return Err(error.with_hint("name both columns: point = 'x, y'"));
        }
    };
    let retain = options.duration_ns("retain")?;
    let time = match (retain, time_column) {
        (None, _) => None,
        (Some(0), _) => return Err(options.error("retain", "rows must be kept for longer than 0")),
        (Some(_), None) => {
            let error = options.error_at_name("retain", "the rows of this view have no event time");
            return Err(
                error.with_hint("select the column with the event time, or name one: time = 'column'")
            );
        }
        (Some(length_ns), Some(column)) => {
            let field = output.schema.field(column);
            let Some(length) = in_units(length_ns, field.data_type()) else {
                let message = format!("column '{}' is not a timestamp", field.name());
                return Err(options.error("retain", message).with_hint("cast it: CAST(column AS TIMESTAMP)"));
            };
            Some(length)
        }
    };
    let named_key = columns("key")?;
    let key = output.table_key.as_ref().map_or(named_key.as_deref(), Option::as_deref);
    let fragments = fragmented::read(options, output, key, (provider, statement))?;
    let bytes_max = options.bytes("retain_bytes")?;
    let count = fragments.as_ref().map_or(1, |fragments| u64::from(fragments.count));
    if bytes_max.is_some_and(|bytes| bytes < BYTES_MIN * count) {
        return Err(options.error(
            "retain_bytes",
            match count {
                1 => "a view needs at least 64 KB".to_owned(),
                _ => format!("{count} fragments need at least {} KB", count * BYTES_MIN / 1024),
            },
        ));
    }
    let versions_max = options.integer("retain_versions", 1..=1_000_000)?;
    let retained = Retained {
        time,
        bytes_max: bytes_max.map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX)),
        versions_max: versions_max.map(|versions| versions as usize),
        key: named_key,
        time_column,
        point,
        fragments,
    };
    let config = config(output, &retained, usize::MAX);
    config.and_then(|config| config.check()).map_err(|cause| {
        let place = ["point", "time", "key"].into_iter().find(|name| options.get(name).is_some());
        options.error(place.unwrap_or("retain"), cause.message.as_ref())
    })?;
    Ok(retained)
}

/// Refuses options that say what a view has anyway.
fn refuse_useless(options: &Options, output: &Output) -> Result<(), TextError> {
    const ALL_ROWS: &str =
        "remove it, or keep all rows of a stream: CREATE MATERIALIZED VIEW name AS SELECT * FROM stream";
    const OF_CHANGES: (&str, &str) = ("the rows of this view come and go by themselves", "remove it");
    const OF_KEY: &str = "this view keeps the last row of each key";
    let useless = match &output.table_key {
        None if output.is_changing => vec![("retain", OF_CHANGES), ("retain_bytes", OF_CHANGES)],
        None => Vec::new(),
        Some(_) => vec![
            ("retain", (OF_KEY, ALL_ROWS)),
            ("retain_bytes", (OF_KEY, ALL_ROWS)),
            ("key", (OF_KEY, "remove it: the rows of such a view are found by their key anyway")),
        ],
    };
    match useless.into_iter().find(|(name, _)| options.get(name).is_some()) {
        None => Ok(()),
        Some((name, (reason, way_out))) => Err(options.error_at_name(name, reason).with_hint(way_out)),
    }
}

/// The columns that an option names: `'x, y'`.
fn columns(options: &Options, name: &str, schema: &SchemaRef) -> Result<Option<Vec<usize>>, TextError> {
    let Some(text) = options.text(name)? else { return Ok(None) };
    let column = |column: &str| {
        let column = column.trim();
        let names = || schema.fields().iter().map(|field| field.name().as_str());
        names().position(|known| known == column).ok_or_else(|| {
            let error = options.error(name, format!("the view has no column '{column}'"));
            match crate::closest(column, names()) {
                Some(meant) => error.with_hint(format!("did you mean '{meant}'?")),
                None => {
                    error.with_hint(format!("its columns are {}", names().collect::<Vec<_>>().join(", ")))
                }
            }
        })
    };
    text.split(',').map(column).collect::<Result<Vec<_>, _>>().map(Some)
}

fn in_units(length_ns: i64, data_type: &DataType) -> Option<i64> {
    let unit_ns = match data_type {
        DataType::Timestamp(TimeUnit::Second, _) => 1_000_000_000,
        DataType::Timestamp(TimeUnit::Millisecond, _) => 1_000_000,
        DataType::Timestamp(TimeUnit::Microsecond, _) => 1000,
        DataType::Timestamp(TimeUnit::Nanosecond, _) => 1,
        DataType::Date32 => 86_400_000_000_000,
        _ => return None,
    };
    Some((length_ns / unit_ns).max(1))
}

/// What the store of a view holds.
pub(crate) fn store_config(
    output: &Output,
    view: &ViewDefinition,
    settings: &Settings,
) -> Result<StoreConfig, Cause> {
    let retained = view.materialized.as_ref().map(|materialized| materialized.retained.clone());
    config(output, &retained.unwrap_or_default(), settings.max_result_rows)
}

/// What a store holds of which these rows are retained.
pub(crate) fn config(output: &Output, retained: &Retained, rows_max: usize) -> Result<StoreConfig, Cause> {
    let (contents, key) = match &output.table_key {
        Some(Some(key)) => (Contents::LastOfKey, Some(key.clone())),
        Some(None) => {
            return Err(Cause::user(
                "the result does not contain the columns of GROUP BY; add them to SELECT",
            ));
        }
        None if output.is_changing => (Contents::Changes, retained.key.clone()),
        None => (Contents::AllRows, retained.key.clone()),
    };
    let default = Retention::default();
    let versions_max = retained.versions_max.unwrap_or(default.versions_max);
    // A view that says how much it keeps drops its oldest rows; any other is complete, or fails.
    let retention = if retained.time.is_some() || retained.bytes_max.is_some() {
        let bytes_max = retained.bytes_max.unwrap_or(default.bytes_max);
        Retention { time: retained.time, bytes_max, versions_max, ..default }
    } else {
        Retention { bytes_max: usize::MAX, rows_max, versions_max, is_strict: true, time: None }
    };
    let divided = |fragments| fragmented::fragmentation(fragments, output);
    Ok(StoreConfig {
        contents,
        key,
        time: retained.time_column,
        point: retained.point,
        retention,
        fragments: retained.fragments.as_ref().map(divided).transpose()?,
        ..StoreConfig::new(&output.schema)
    })
}
