//! `CREATE SINK`: turns options into a target for rows.

use std::path::PathBuf;
use std::sync::Arc;

use datafusion::arrow::datatypes::SchemaRef;
use tidemill_connect::file::{
    DirectorySink, DirectorySinkSettings, FileFormat, FileSink, FileSinkSettings, SyncPolicy,
};
use tidemill_connect::formats::encode::{CsvStyle, TextFormat};
use tidemill_connect::postgres::{PostgresSink, PostgresSinkSettings};
use tidemill_connect::socket::{
    SocketAddress, SocketClientSettings, SocketClientSink, SocketServerSettings, SocketServerSink,
};
use tidemill_connect::standard_streams::StandardOutput;
use tidemill_engine::{Cause, Sink};

use crate::statement::Options;
use crate::text_error::TextError;

const CONNECTORS: &[&str] = &["file", "directory", "postgres", "stdout", "tcp", "unix", "kafka", "blackhole"];
const COMMON: &[&str] = &["connector", "format", "header", "delimiter", "max_latency"];

const SOCKET: &[&str] = &[
    "listen",
    "connect",
    "allow_remote",
    "readers_max",
    "buffer",
    "first_reader_wait",
    "linger",
    "connect_wait",
];

/// Opens a sink for the rows of an output.
pub(super) type OpenSink = dyn Fn(&SinkUse<'_>) -> Result<Box<dyn Sink>, Cause> + Send + Sync;

/// What a sink is opened for.
pub(crate) struct SinkUse<'a> {
    /// The sink's name in the pipeline.
    pub name: &'a str,
    pub schema: &'a SchemaRef,
    /// The names of the key's columns, if the rows form a table.
    pub key: Vec<String>,
    /// Whether it continues behind what an earlier run has committed.
    pub resume: bool,
}

/// A target for rows. It is opened when the query starts, because only then are the columns known.
#[derive(Clone)]
pub(crate) struct SinkDefinition {
    pub connector: String,
    pub open: Arc<OpenSink>,
}

/// The definition that the options describe.
pub(crate) fn define_sink(options: &Options) -> Result<SinkDefinition, TextError> {
    let guessed = if options.get("path").is_some() { "file" } else { "" };
    let connector = options.choice("connector", CONNECTORS)?.unwrap_or(guessed);
    let open: Arc<OpenSink> = match connector {
        "file" => {
            known(options, &["path", "overwrite", "sync"])?;
            let path = PathBuf::from(options.required_text("path")?);
            let mut settings = FileSinkSettings::new(file_format(options, &path.display().to_string())?);
            settings.overwrite = options.boolean("overwrite")?.unwrap_or(false);
            settings.sync = sync(options)?.unwrap_or(settings.sync);
            Arc::new(move |of| {
                let settings = FileSinkSettings { resume: of.resume, ..settings.clone() };
                Ok(Box::new(FileSink::create(&path, of.schema, &settings)?))
            })
        }
        "directory" => {
            known(options, &["path", "overwrite", "sync", "rows_max", "bytes_max", "age_max"])?;
            let path = PathBuf::from(options.required_text("path")?);
            let mut settings = DirectorySinkSettings::new(file_format(options, "")?);
            settings.overwrite = options.boolean("overwrite")?.unwrap_or(false);
            settings.sync = sync(options)?.unwrap_or(settings.sync);
            if let Some(rows) = options.integer("rows_max", 1..=i64::MAX)? {
                settings.rows_max = rows as u64;
            }
            if let Some(bytes) = options.bytes("bytes_max")? {
                settings.bytes_max = bytes.max(1);
            }
            settings.age_max = options.duration("age_max")?.unwrap_or(settings.age_max);
            Arc::new(move |of| {
                let settings = DirectorySinkSettings { resume: of.resume, ..settings.clone() };
                Ok(Box::new(DirectorySink::create(&path, of.schema, &settings)?))
            })
        }
        "postgres" => postgres(options)?,
        "stdout" => {
            known(options, &[])?;
            let format = text_format(options, "table")?;
            Arc::new(move |of| Ok(Box::new(StandardOutput::of_process(of.schema, &format)?)))
        }
        "tcp" | "unix" => socket(options, connector)?,
        "kafka" => {
            known(options, super::kafka::SINK)?;
            super::kafka::sink(options, text_format(options, "json")?)?
        }
        "blackhole" => {
            known(options, &[])?;
            Arc::new(|_| Ok(Box::new(crate::discard::Discard)))
        }
        _ => {
            return Err(options.error("connector", format!("say which connector: {}", CONNECTORS.join(", "))));
        }
    };
    Ok(SinkDefinition { connector: connector.to_string(), open })
}

fn known(options: &Options, own: &[&str]) -> Result<(), TextError> {
    let known: Vec<&str> = COMMON.iter().chain(own).copied().collect();
    options.finish(&known)
}

fn socket(options: &Options, connector: &str) -> Result<Arc<OpenSink>, TextError> {
    known(options, SOCKET)?;
    let format = text_format(options, "json")?;
    let address = |text: &str| match connector {
        "unix" => SocketAddress::Unix(PathBuf::from(text)),
        _ => SocketAddress::Tcp(text.to_string()),
    };
    let allow_remote = options.boolean("allow_remote")?.unwrap_or(false);
    match (options.text("listen")?, options.text("connect")?) {
        (Some(listen), None) => {
            let address = address(listen);
            let mut settings = SocketServerSettings::new(format);
            settings.allow_remote = allow_remote;
            if let Some(readers) = options.integer("readers_max", 1..=65_536)? {
                settings.readers_max = readers as usize;
            }
            if let Some(bytes) = options.bytes("buffer")? {
                settings.buffer_bytes = bytes as usize;
            }
            refuse_option(options, "connect_wait", "no one is connected to")?;
            let wait = options.duration("first_reader_wait")?;
            settings.first_reader_wait = wait.unwrap_or(settings.first_reader_wait);
            settings.linger = options.duration("linger")?.unwrap_or(settings.linger);
            Ok(Arc::new(move |of| Ok(Box::new(SocketServerSink::listen(&address, of.schema, &settings)?))))
        }
        (None, Some(connect)) => {
            let address = address(connect);
            let mut settings = SocketClientSettings::new(format);
            settings.allow_remote = allow_remote;
            for option in ["readers_max", "buffer", "first_reader_wait"] {
                refuse_option(options, option, "there is one reader, which is connected to")?;
            }
            settings.connect_wait = options.duration("connect_wait")?.unwrap_or(settings.connect_wait);
            settings.linger = options.duration("linger")?.unwrap_or(settings.linger);
            Ok(Arc::new(move |of| Ok(Box::new(SocketClientSink::connect(&address, of.schema, &settings)?))))
        }
        _ => Err(options.error("listen", "say either where to listen or whom to connect to")),
    }
}

/// `connector = 'postgres', url = 'postgres://...', table = 't', key = 'host, name'`
fn postgres(options: &Options) -> Result<Arc<OpenSink>, TextError> {
    known(options, &["url", "table", "key", "create", "commit_name", "retry_for", "dead_letters"])?;
    let mut settings =
        PostgresSinkSettings::new(options.required_text("url")?, options.required_text("table")?, "");
    settings.create = options.boolean("create")?.unwrap_or(settings.create);
    settings.retry_for = options.duration("retry_for")?.unwrap_or(settings.retry_for);
    if let Some(table) = options.text("dead_letters")? {
        settings.dead_letters = Some(table.to_string()).filter(|table| !table.is_empty());
    }
    let key = options.text("key")?.map(|key| key.split(',').map(|name| name.trim().to_string()).collect());
    let commit_name = options.text("commit_name")?.map(str::to_string);
    Ok(Arc::new(move |of| {
        let mut settings = settings.clone();
        settings.sink = commit_name.clone().unwrap_or_else(|| of.name.to_string());
        settings.key = key.clone().unwrap_or_else(|| of.key.clone());
        settings.resume = of.resume;
        Ok(Box::new(PostgresSink::connect(of.schema, settings)?))
    }))
}

/// Refuses an option that would have no effect.
fn refuse_option(options: &Options, name: &str, reason: &str) -> Result<(), TextError> {
    match options.get(name) {
        None => Ok(()),
        Some(_) => Err(options.error(name, format!("'{name}' has no meaning here: {reason}"))),
    }
}

fn sync(options: &Options) -> Result<Option<SyncPolicy>, TextError> {
    let chosen = options.choice("sync", &["every_commit", "at_end", "never"])?;
    Ok(chosen.map(|chosen| match chosen {
        "every_commit" => SyncPolicy::EveryCommit,
        "never" => SyncPolicy::Never,
        _ => SyncPolicy::AtEnd,
    }))
}

fn file_format(options: &Options, path: &str) -> Result<FileFormat, TextError> {
    // A format is named as the ending of a file name is.
    let name = options.text("format")?.map_or(path.to_string(), |format| format!("rows.{format}"));
    let format = FileFormat::of_name(&name).ok_or_else(|| {
        options.error("format", "say which format: format = 'csv', 'json', 'parquet' or 'arrow'")
    })?;
    Ok(match format {
        FileFormat::Csv(_) => FileFormat::Csv(csv_style(options)?),
        other => other,
    })
}

fn csv_style(options: &Options) -> Result<CsvStyle, TextError> {
    let mut style = CsvStyle::default();
    style.header = options.boolean("header")?.unwrap_or(style.header);
    match options.text("delimiter")?.map(str::as_bytes) {
        None => {}
        Some([delimiter]) => style.delimiter = *delimiter,
        Some(_) => return Err(options.error("delimiter", "'delimiter' must be one ASCII character")),
    }
    Ok(style)
}

fn text_format(options: &Options, default: &str) -> Result<TextFormat, TextError> {
    match options.choice("format", &["csv", "json", "ndjson", "table"])?.unwrap_or(default) {
        "csv" => Ok(TextFormat::Csv(csv_style(options)?)),
        "table" => Ok(TextFormat::table()),
        _ => Ok(TextFormat::Ndjson),
    }
}
