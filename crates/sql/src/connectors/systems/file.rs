//! `connector = 'file'`, and files named in queries: `FROM 'clicks.csv'`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use datafusion::common::DataFusionError;
use tidemill_connect::file::{FileSettings, FileSink, FileSinkSettings, FileSource};
use tidemill_connect::formats::Format;
use tidemill_engine::{Cause, Source};

use super::dead_letters::{DEAD_LETTERS, sifted_if_text};
use super::sync::{OVERWRITE, SYNC, sync};
use crate::connectors::formats::Formats;
use crate::connectors::sink_connector::{OpenSink, SinkConnector, SinkRequest};
use crate::connectors::source_connector::{DefinedSource, Liveness, SourceConnector, SourceRequest};
use crate::definition::{Open, SourceDefinition};
use crate::statement::declared::{OptionDefault, OptionDefinition, OptionError, OptionKind};

/// The definition of a file, pattern or directory of that name; `None` if the name does not look like one.
pub(crate) fn by_path(name: &str) -> Option<Result<SourceDefinition, DataFusionError>> {
    let looks_like_path = name.contains('/') || name.contains('*') || Format::of_path(name).is_some();
    if !looks_like_path && !Path::new(name).exists() {
        return None;
    }
    Some(define(name).map_err(|cause| DataFusionError::Plan(cause.to_string())))
}

fn define(path: &str) -> Result<SourceDefinition, Cause> {
    let mut settings = FileSettings::new(path);
    let schema = FileSource::infer(&mut settings)?;
    settings.schema = Some(Arc::clone(&schema));
    let open = Arc::new(move |columns: Option<&[usize]>| open(settings.clone(), columns));
    let definition = SourceDefinition::new(path, schema, open);
    Ok(SourceDefinition { is_finite: true, is_repeatable: true, ..definition })
}

/// Opens files with some of their columns.
pub(super) fn open(settings: FileSettings, columns: Option<&[usize]>) -> Result<Box<dyn Source>, Cause> {
    let mut source = FileSource::open(settings)?;
    if let Some(columns) = columns {
        source.set_projection(columns)?;
    }
    Ok(Box::new(source))
}

/// Rows from files, and rows to one file.
pub(super) struct FileRows;

const SOURCE: &[OptionDefinition] = &[
    OptionDefinition::new(
        "path",
        OptionKind::Text,
        OptionDefault::Required,
        "a file, a folder, a named pipe, or a pattern with `*`, `?`, `[...]`, `**`; files are read in the order of \
         their names",
    ),
    OptionDefinition::new(
        "follow",
        OptionKind::Boolean,
        OptionDefault::Value("false"),
        "at the end, waits for more data, as `tail -F` does, and for new files; the source then never ends",
    ),
];

const SINK: &[OptionDefinition] = &[
    OptionDefinition::new("path", OptionKind::Text, OptionDefault::Required, "the file"),
    OVERWRITE,
    SYNC,
    DEAD_LETTERS,
];

impl SourceConnector for FileRows {
    fn doc(&self) -> &str {
        "one file, the files of a folder, or those that match a pattern"
    }

    fn options(&self) -> &[OptionDefinition] {
        SOURCE
    }

    fn formats(&self) -> Formats {
        Formats {
            names: &["csv", "json", "lines", "line_protocol", "parquet", "arrow"],
            default: OptionDefault::Nothing("by the file's ending"),
            without_options: &["line_protocol"],
        }
    }

    fn define(&self, request: &SourceRequest<'_>) -> Result<DefinedSource, OptionError> {
        let options = request.options;
        let mut settings = FileSettings::new(options.required_text("path"));
        settings.format = request.format.format.clone();
        settings.csv = request.format.csv.clone();
        settings.follow = options.boolean("follow");
        settings.schema = request.columns.clone();
        let columns = match &settings.schema {
            Some(columns) => Arc::clone(columns),
            None => FileSource::infer(&mut settings)
                .map_err(|cause| OptionError::new("path", cause.to_string()))?,
        };
        settings.schema = Some(Arc::clone(&columns));
        let is_finite = !settings.follow;
        let is_repeatable = is_finite && !settings.is_pipe();
        let liveness = if settings.follow { Liveness::Live } else { Liveness::Stored };
        let open: Arc<Open> = Arc::new(move |columns| open(settings.clone(), columns));
        Ok(DefinedSource { columns, is_finite, is_repeatable, liveness, open })
    }
}

impl SinkConnector for FileRows {
    fn doc(&self) -> &str {
        "one file"
    }

    fn options(&self) -> &[OptionDefinition] {
        SINK
    }

    fn formats(&self) -> Formats {
        FILE_FORMATS
    }

    fn define(&self, request: &SinkRequest<'_>) -> Result<Arc<OpenSink>, OptionError> {
        let options = request.options;
        let path = PathBuf::from(options.required_text("path"));
        let mut settings = FileSinkSettings::new(request.format.file(&path.display().to_string())?);
        settings.overwrite = options.boolean("overwrite");
        settings.sync = sync(options);
        let is_text = settings.format.text().is_some();
        let open: Arc<OpenSink> = Arc::new(move |of| {
            let settings = FileSinkSettings { resume: of.resume, ..settings.clone() };
            Ok(Box::new(FileSink::create(&path, of.schema, &settings)?))
        });
        sifted_if_text(request, is_text, open)
    }
}

/// What files can hold.
pub(super) const FILE_FORMATS: Formats = Formats {
    names: &["csv", "json", "parquet", "arrow"],
    default: OptionDefault::Nothing("by the file's ending"),
    without_options: &[],
};
