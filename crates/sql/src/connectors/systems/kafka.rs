//! `connector = 'kafka'`: a topic. Without the feature `kafka` the name is known, but refused.

use std::sync::Arc;

use super::dead_letters::DEAD_LETTERS;
use super::socket_sinks::MESSAGES;
use super::tls::{TLS, TLS_CA, TLS_CERT, TLS_KEY};
use crate::connectors::formats::Formats;
use crate::connectors::sink_connector::{OpenSink, SinkConnector, SinkRequest};
use crate::connectors::source_connector::{DefinedSource, SourceConnector, SourceRequest};
use crate::statement::declared::{OptionDefault, OptionDefinition, OptionError, OptionKind};
#[cfg(feature = "kafka")]
use {
    super::tls::tls_client,
    crate::statement::declared::OptionValues,
    tidemill_connect::kafka::{KafkaConnection, KafkaLogin, KafkaMechanism},
};

const BROKERS: OptionDefinition =
    OptionDefinition::new("brokers", OptionKind::Text, OptionDefault::Required, "`'host:port,host:port'`");

const RETRY_FOR: OptionDefinition = OptionDefinition::new(
    "retry_for",
    OptionKind::Duration,
    OptionDefault::Value("10 minutes"),
    "how long the brokers may be away, at the start or later; after that, the query fails",
);

const SASL: OptionDefinition = OptionDefinition::new(
    "sasl",
    OptionKind::Choice(&["plain", "scram-sha-256", "scram-sha-512"]),
    OptionDefault::Nothing("no login"),
    "how `user` and `password` are shown to the brokers; `plain` sends the password itself, so use it with `tls`",
);
const USER: OptionDefinition =
    OptionDefinition::new("user", OptionKind::Text, OptionDefault::Nothing("none"), "the user's name")
        .only_with("sasl");
const PASSWORD: OptionDefinition = OptionDefinition::new(
    "password",
    OptionKind::Text,
    OptionDefault::Nothing("none"),
    "the user's password, as `'${NAME}'`",
)
.only_with("sasl");

const SOURCE: &[OptionDefinition] = &[
    BROKERS,
    OptionDefinition::new(
        "topic",
        OptionKind::Text,
        OptionDefault::Required,
        "the topic; all partitions that exist at the start are read",
    ),
    OptionDefinition::new(
        "start",
        OptionKind::Choice(&["earliest", "latest"]),
        OptionDefault::Value("earliest"),
        "`latest`: only messages written after the query started",
    ),
    OptionDefinition::new(
        "end_at_end",
        OptionKind::Boolean,
        OptionDefault::Value("false"),
        "ends where the partitions ended when the query started",
    ),
    RETRY_FOR,
    TLS,
    TLS_CA,
    TLS_CERT,
    TLS_KEY,
    SASL,
    USER,
    PASSWORD,
];

const SINK: &[OptionDefinition] = &[
    BROKERS,
    OptionDefinition::new("topic", OptionKind::Text, OptionDefault::Required, "the topic"),
    OptionDefinition::new(
        "key",
        OptionKind::Text,
        OptionDefault::Nothing("none"),
        "the column whose text becomes the message key: rows with the same key go to the same partition, in order",
    ),
    OptionDefinition {
        doc: "how long the brokers may be away, at the start or later, or take to accept a message; after that, the \
              query fails. In a transaction it is at most 15 minutes",
        ..RETRY_FOR
    },
    OptionDefinition::new(
        "transactions",
        OptionKind::Boolean,
        OptionDefault::Value("false"),
        "sends each commit in a transaction that names its cycle: exactly once",
    ),
    DEAD_LETTERS,
    TLS,
    TLS_CA,
    TLS_CERT,
    TLS_KEY,
    SASL,
    USER,
    PASSWORD,
];

pub(super) struct Topic;

impl SourceConnector for Topic {
    fn doc(&self) -> &str {
        "the messages of a Kafka topic (needs the feature `kafka`)"
    }

    fn options(&self) -> &[OptionDefinition] {
        SOURCE
    }

    fn formats(&self) -> Formats {
        Formats { without_options: &["line_protocol"], ..Formats::TEXT }
    }

    fn define(&self, request: &SourceRequest<'_>) -> Result<DefinedSource, OptionError> {
        source(request)
    }
}

impl SinkConnector for Topic {
    fn doc(&self) -> &str {
        "messages to a Kafka topic (needs the feature `kafka`)"
    }

    fn options(&self) -> &[OptionDefinition] {
        SINK
    }

    fn formats(&self) -> Formats {
        MESSAGES
    }

    fn define(&self, request: &SinkRequest<'_>) -> Result<Arc<OpenSink>, OptionError> {
        sink(request)
    }
}

#[cfg(feature = "kafka")]
fn source(request: &SourceRequest<'_>) -> Result<DefinedSource, OptionError> {
    use tidemill_connect::kafka::{KafkaSource, KafkaSourceSettings, KafkaStart};

    if request.format.csv.header.is_some() {
        let error = OptionError::new("header", "a message has no header");
        return Err(error.with_hint("remove the option: each message is one record"));
    }
    let columns = request.declared_columns("a topic")?;
    let mut decoder = request.format.decoder_settings(&columns);
    // A message has no lines before it.
    decoder.csv.names_delimiter = false;
    let options = request.options;
    let settings = KafkaSourceSettings {
        connection: connection(options)?,
        topic: options.required_text("topic").to_owned(),
        format: request.format.text()?,
        decoder,
        start: match options.text("start") {
            Some("latest") => KafkaStart::Latest,
            _ => KafkaStart::Earliest,
        },
        end_at_end: options.boolean("end_at_end"),
        retry_for: options.duration("retry_for").unwrap_or_default(),
    };
    let is_finite = settings.end_at_end;
    let open: Arc<crate::relations::source_definition::OpenSource> = Arc::new(move |columns| {
        let mut source = KafkaSource::open(settings.clone())?;
        if let Some(columns) = columns {
            source.set_projection(columns)?;
        }
        Ok(Box::new(source) as Box<dyn tidemill_engine::Source>)
    });
    Ok(DefinedSource { is_finite, reads_again: true, ..DefinedSource::new(columns, open) })
}

#[cfg(feature = "kafka")]
fn sink(request: &SinkRequest<'_>) -> Result<Arc<OpenSink>, OptionError> {
    use tidemill_connect::dead_letter::DeadLetterFile;
    use tidemill_connect::kafka::{KafkaSink, KafkaSinkSettings};

    let options = request.options;
    let topic = options.required_text("topic");
    let mut settings = KafkaSinkSettings::new(connection(options)?, topic, request.format.text());
    settings.key = options.text("key").map(str::to_owned);
    settings.retry_for = options.duration("retry_for").unwrap_or(settings.retry_for);
    let has_transactions = options.boolean("transactions");
    let letters = super::dead_letters::path(options)?;
    Ok(Arc::new(move |of| {
        let mut settings = settings.clone();
        if has_transactions {
            settings = settings.with_transactions(of.name, of.identity);
        }
        settings.key = settings.key.map(|name| super::key::key_column(&name, of.schema));
        let sink = KafkaSink::open(of.schema, settings)?;
        Ok(match &letters {
            Some(path) => Box::new(sink.with_dead_letters(DeadLetterFile::open(path, of.name, of.resume)?)),
            None => Box::new(sink),
        })
    }))
}

/// Which brokers, and how they are reached.
#[cfg(feature = "kafka")]
fn connection(options: &OptionValues<'_>) -> Result<KafkaConnection, OptionError> {
    let brokers = options.required_text("brokers").to_owned();
    Ok(KafkaConnection { brokers, tls: tls_client(options)?, login: login(options)? })
}

/// Who the client is; `None`: the brokers ask nobody.
#[cfg(feature = "kafka")]
fn login(options: &OptionValues<'_>) -> Result<Option<KafkaLogin>, OptionError> {
    let mechanism = match options.text("sasl") {
        None => return Ok(None),
        Some("plain") => KafkaMechanism::Plain,
        Some("scram-sha-256") => KafkaMechanism::ScramSha256,
        Some(_) => KafkaMechanism::ScramSha512,
    };
    let given = |name| {
        let missing = || OptionError::new("sasl", format!("a login needs the {name}; add {name} = '...'"));
        options.text(name).map(str::to_owned).ok_or_else(missing)
    };
    Ok(Some(KafkaLogin { mechanism, user: given("user")?, password: given("password")? }))
}

#[cfg(not(feature = "kafka"))]
fn source(_: &SourceRequest<'_>) -> Result<DefinedSource, OptionError> {
    Err(not_built_in())
}

#[cfg(not(feature = "kafka"))]
fn sink(_: &SinkRequest<'_>) -> Result<Arc<OpenSink>, OptionError> {
    Err(not_built_in())
}

#[cfg(not(feature = "kafka"))]
fn not_built_in() -> OptionError {
    let error = OptionError::new("connector", "this build does not include Kafka");
    error.with_hint("build Tidemill with it: cargo build --release -p tidemill-cli --features kafka")
}
