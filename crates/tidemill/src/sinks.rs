//! Sinks that programs often write to; [`connect`](crate::connect) has all of them.

use std::path::{Path, PathBuf};

use arrow_schema::SchemaRef;
use tidemill_connect::file::{FileFormat, FileSink, FileSinkSettings};
#[cfg(feature = "postgres")]
use tidemill_connect::postgres::{PostgresSink, PostgresSinkSettings};
use tidemill_engine::{Cause, Sink};

/// What a stream can be [sent to](crate::Stream::to): any [`Sink`], or what this module describes.
pub trait IntoSink: 'static {
    /// The sink. Called when the query starts; if it is durable, when its journal is open.
    ///
    /// # Errors
    /// If it cannot be opened. The query then does not start.
    fn into_sink(self, opening: &SinkOpening<'_>) -> Result<Box<dyn Sink>, Cause>;
}

/// What a sink is opened for.
#[derive(Clone, Copy, Debug)]
pub struct SinkOpening<'a> {
    /// The name of the query.
    pub query: &'a str,
    /// The name of the sink.
    pub name: &'a str,
    /// The columns of its rows.
    pub schema: &'a SchemaRef,
    /// If a row replaces the previous one with the same key: the columns of the key.
    pub key: &'a [String],
    /// Whether the query is durable: the sink then continues where an earlier run stopped.
    pub resume: bool,
}

impl<S: Sink + 'static> IntoSink for S {
    fn into_sink(self, _opening: &SinkOpening<'_>) -> Result<Box<dyn Sink>, Cause> {
        Ok(Box::new(self))
    }
}

/// A file, from [`file`].
#[derive(Clone, Debug)]
pub struct FileTarget {
    path: PathBuf,
    /// `None`: the ending of the path tells no format.
    settings: Option<FileSinkSettings>,
}

/// A file, in the format that its ending tells: `csv`, `tsv`, `json`, `ndjson`, `jsonl`, `parquet` or `arrow`. The file of a
/// durable query has each row exactly once.
///
/// ```
/// use tidemill::connect::file::SyncPolicy;
/// let tolls = tidemill::sinks::file("tolls.csv").with(|settings| settings.overwrite = true);
/// ```
pub fn file(path: impl AsRef<Path>) -> FileTarget {
    let path = path.as_ref().to_owned();
    let settings = FileFormat::of_name(&path.display().to_string()).map(FileSinkSettings::new);
    FileTarget { path, settings }
}

impl FileTarget {
    /// Writes this format, whatever the ending of the file's name.
    #[must_use]
    pub fn format(self, format: FileFormat) -> FileTarget {
        FileTarget { settings: Some(FileSinkSettings::new(format)), ..self }
    }

    /// Changes the settings of the sink.
    #[must_use]
    pub fn with(mut self, change: impl FnOnce(&mut FileSinkSettings)) -> FileTarget {
        self.settings.as_mut().map(change);
        self
    }
}

impl IntoSink for FileTarget {
    fn into_sink(self, opening: &SinkOpening<'_>) -> Result<Box<dyn Sink>, Cause> {
        let Some(settings) = self.settings else {
            return Err(Cause::user(format!(
                "the name of {} does not tell the format; end it with .csv, .json or .parquet, or call format()",
                self.path.display()
            )));
        };
        let settings = FileSinkSettings { resume: opening.resume, ..settings };
        Ok(Box::new(FileSink::create(&self.path, opening.schema, &settings)?))
    }
}

/// A table of a PostgreSQL database, from [`postgres`].
#[cfg(feature = "postgres")]
#[derive(Clone, Debug)]
pub struct PostgresTarget {
    settings: PostgresSinkSettings,
    has_key: bool,
}

/// A table of a PostgreSQL database, which is created if it does not exist: `postgres://user:password@host/database`. The table
/// has each row of a durable query exactly once. If the rows of the stream replace each other, as those of an
/// [aggregate](crate::KeyedStream::aggregate) do, so do those of the table.
///
/// ```no_run
/// use tidemill::{Query, sinks};
/// let mut query = Query::new("traffic");
/// let tolls = query.rows::<(u32, i64)>("tolls", ["car", "toll"]);
/// tolls.to("tolls", sinks::postgres("postgres://me@127.0.0.1/traffic", "tolls"));
/// ```
#[cfg(feature = "postgres")]
pub fn postgres(url: &str, table: &str) -> PostgresTarget {
    PostgresTarget { settings: PostgresSinkSettings::new(url, table, ""), has_key: false }
}

#[cfg(feature = "postgres")]
impl PostgresTarget {
    /// A row replaces the one that has the same values in these columns. `()`: all rows stay.
    #[must_use]
    pub fn key(mut self, columns: impl crate::Names) -> PostgresTarget {
        (self.settings.key, self.has_key) = (columns.names(), true);
        self
    }

    /// Changes the other settings of the sink. The name under which the database records how far it is, is made of the names
    /// of query and sink if none is set.
    #[must_use]
    pub fn with(mut self, change: impl FnOnce(&mut PostgresSinkSettings)) -> PostgresTarget {
        change(&mut self.settings);
        self
    }
}

#[cfg(feature = "postgres")]
impl IntoSink for PostgresTarget {
    fn into_sink(self, opening: &SinkOpening<'_>) -> Result<Box<dyn Sink>, Cause> {
        let mut settings = self.settings;
        if settings.sink.is_empty() {
            settings.sink = format!("{}: {}", opening.query, opening.name);
        }
        if !self.has_key {
            settings.key = opening.key.to_vec();
        }
        settings.resume = opening.resume;
        Ok(Box::new(PostgresSink::open(opening.schema, settings)?))
    }
}
