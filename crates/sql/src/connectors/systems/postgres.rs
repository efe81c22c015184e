//! `connector = 'postgres', url = 'postgres://...', table = 't', key = 'host, name'`

use std::sync::Arc;

use tidemill_connect::postgres::{PostgresSink, PostgresSinkSettings};

use super::key::key_column;
use crate::connectors::sink_connector::{OpenSink, SinkConnector, SinkRequest};
use crate::statement::declared::{OptionDefault, OptionDefinition, OptionError, OptionKind};

const OPTIONS: &[OptionDefinition] = &[
    OptionDefinition::new(
        "url",
        OptionKind::Text,
        OptionDefault::Required,
        "`'postgres://user:password@host/database'`, or `'host=... user=... dbname=...'`; no TLS",
    ),
    OptionDefinition::new("table", OptionKind::Text, OptionDefault::Required, "`table` or `schema.table`"),
    OptionDefinition::new(
        "key",
        OptionKind::Names,
        OptionDefault::Nothing("the key of an aggregate without a window; otherwise none"),
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
        "the table for rows that the database refuses; with `''` such a row ends the query",
    ),
];

pub(super) struct Table;

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
            Ok(Box::new(PostgresSink::connect(of.schema, settings)?))
        }))
    }
}
