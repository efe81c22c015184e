//! `connector = 'postgres', url = 'postgres://...', table = 't'`: rows to a table, and rows from one.

use std::sync::Arc;
use std::time::Duration;

use datafusion::arrow::datatypes::SchemaRef;
use tidemill_connect::postgres::{
    PostgresRows, PostgresSink, PostgresSinkSettings, PostgresSource, PostgresSourceSettings,
};
use tidemill_engine::{Cause, Fault};

use super::key::key_column;
use crate::connectors::sink_connector::{OpenSink, SinkConnector, SinkRequest};
use crate::connectors::source_connector::{DefinedSource, Liveness, SourceConnector, SourceRequest};
use crate::relations::projected::Projected;
use crate::relations::source_definition::OpenSource;
use crate::statement::declared::{OptionDefault, OptionDefinition, OptionError, OptionKind};

const URL: OptionDefinition = OptionDefinition::new(
    "url",
    OptionKind::Text,
    OptionDefault::Required,
    "`'postgres://user:password@host/database'`, or `'host=... user=... dbname=...'`; `?sslmode=verify-full` for TLS",
);

/// How long a source waits for its database at the start.
const RETRY_FOR: Duration = Duration::from_secs(600);
/// A database is not asked more often.
const REFRESH_MIN: Duration = Duration::from_millis(100);

const READ: &[OptionDefinition] = &[
    URL,
    OptionDefinition::new(
        "table",
        OptionKind::Text,
        OptionDefault::Nothing(""),
        "the table or view that is read: `table` or `schema.table`",
    ),
    OptionDefinition::new(
        "query",
        OptionKind::Text,
        OptionDefault::Nothing(""),
        "the query whose answer is read, in place of a table",
    ),
    OptionDefinition::new(
        "refresh",
        OptionKind::Duration,
        OptionDefault::Nothing("never: it is read once"),
        "after this time it is read again, and rows that are new or have changed come; for sources only",
    ),
    OptionDefinition::new(
        "retry_for",
        OptionKind::Duration,
        OptionDefault::Nothing("10 minutes; for a table: it is not tried again"),
        "how long the first reading is tried again while the server is away",
    ),
];

const OPTIONS: &[OptionDefinition] = &[
    URL,
    OptionDefinition::new("table", OptionKind::Text, OptionDefault::Required, "`table` or `schema.table`"),
    OptionDefinition::new(
        "key",
        OptionKind::Names,
        OptionDefault::Nothing("the key of an aggregate without a window, otherwise none"),
        "columns by which a row replaces an earlier one: `'host, name'`",
    ),
    OptionDefinition::new(
        "create",
        OptionKind::Boolean,
        OptionDefault::Value("true"),
        "creates the table if it does not exist",
    ),
    OptionDefinition::new(
        "commit_name",
        OptionKind::Text,
        OptionDefault::Nothing("the sink's name"),
        "the name under which the database records how far the sink is",
    ),
    OptionDefinition::new(
        "retry_for",
        OptionKind::Duration,
        OptionDefault::Value("10 minutes"),
        "how long to retry after a lost connection",
    ),
    OptionDefinition::new(
        "dead_letters",
        OptionKind::Text,
        OptionDefault::Value("tidemill_dead_letters"),
        "the table for rows that the database refuses; with `''`, such a row stops the query",
    ),
];

pub(super) struct Table;

impl SourceConnector for Table {
    fn doc(&self) -> &str {
        "a table of a PostgreSQL database, or what a query answers there"
    }

    fn options(&self) -> &[OptionDefinition] {
        READ
    }

    fn define(&self, request: &SourceRequest<'_>) -> Result<DefinedSource, OptionError> {
        let options = request.options;
        let rows = match (options.text("table"), options.text("query")) {
            (Some(table), None) => PostgresRows::Table(table.to_owned()),
            (None, Some(query)) => PostgresRows::Query(query.to_owned()),
            _ => {
                return Err(OptionError::new(
                    "table",
                    "choose either a table or a query: table = 'customers'",
                ));
            }
        };
        if request.is_table && options.is_given("refresh") {
            let error = OptionError::new("refresh", "a table is read once, before the streams");
            return Err(error.with_hint(
                "to follow it, use CREATE SOURCE, then CREATE MATERIALIZED VIEW name PRIMARY KEY (key) AS SELECT ... \
                 over it, and join with that",
            ));
        }
        let url = options.required_text("url").to_owned();
        let columns = match &request.columns {
            Some(columns) => SchemaRef::clone(columns),
            None => rows.columns(&url).map_err(|cause| not_described(&cause))?,
        };
        let refresh = options.duration("refresh").map(|pause| pause.max(REFRESH_MIN));
        // Whoever defines a table, or asks it, waits for its rows.
        let retry_for = options.duration("retry_for");
        let retry_for = retry_for.unwrap_or(if request.is_table { Duration::ZERO } else { RETRY_FOR });
        let schema = SchemaRef::clone(&columns);
        let settings = PostgresSourceSettings { url, rows, schema, refresh, retry_for };
        let open: Arc<OpenSource> =
            Arc::new(move |columns| Projected::open(PostgresSource::open(settings.clone())?, columns));
        let liveness = if refresh.is_some() { Liveness::Live } else { Liveness::Stored };
        Ok(DefinedSource { is_finite: refresh.is_none(), liveness, ..DefinedSource::new(columns, open) })
    }
}

/// Without declared columns, the database must be there when the source is defined.
fn not_described(cause: &Cause) -> OptionError {
    let error = OptionError::new("url", cause.to_string());
    match cause.fault {
        Fault::Operation => {
            error.with_hint("if its columns are declared, the database may come later (retry_for)")
        }
        _ => error,
    }
}

impl SinkConnector for Table {
    fn doc(&self) -> &str {
        "a table of a PostgreSQL database"
    }

    fn options(&self) -> &[OptionDefinition] {
        OPTIONS
    }

    fn define(&self, request: &SinkRequest<'_>) -> Result<Arc<OpenSink>, OptionError> {
        let options = request.options;
        let (url, table) = (options.required_text("url"), options.required_text("table"));
        let mut settings = PostgresSinkSettings::new(url, table, "");
        settings.create = options.boolean("create");
        settings.retry_for = options.duration("retry_for").unwrap_or(settings.retry_for);
        let dead_letters = options.text("dead_letters").filter(|table| !table.is_empty());
        settings.dead_letters = dead_letters.map(str::to_owned);
        let key = options.names("key").map(<[String]>::to_vec);
        let commit_name = options.text("commit_name").map(str::to_owned);
        Ok(Arc::new(move |of| {
            let mut settings = settings.clone();
            settings.sink = commit_name.clone().unwrap_or_else(|| of.name.to_owned());
            settings.key = match &key {
                Some(names) => names.iter().map(|name| key_column(name, of.schema)).collect(),
                None => of.key.clone(),
            };
            settings.resume = of.resume;
            settings.must_be_empty = of.must_be_empty;
            Ok(Box::new(PostgresSink::open(of.schema, settings)?))
        }))
    }
}
