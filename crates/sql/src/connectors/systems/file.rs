//! `connector = 'file'`, and files named in queries: `FROM 'clicks.csv'`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use datafusion::common::DataFusionError;
use tidemill_connect::fetch::S3Settings;
use tidemill_connect::file::{FileSettings, FileSink, FileSinkSettings, FileSource};
use tidemill_connect::formats::Format;
use tidemill_engine::{Cause, Source};

use super::dead_letters::{DEAD_LETTERS, sifted_if_text};
use super::fetched::{self, fetch_settings, is_remote, refuse_remote};
use super::sync::{OVERWRITE, SYNC, sync};
use super::tls::{TLS_CA, TLS_CERT, TLS_KEY};
use crate::connectors::formats::{Formats, OwnFormats};
use crate::connectors::sink_connector::{OpenSink, SinkConnector, SinkRequest};
use crate::connectors::source_connector::{DefinedSource, Liveness, SourceConnector, SourceRequest};
use crate::relations::source_definition::{OpenSource, SourceDefinition};
use crate::statement::declared::{OptionDefault, OptionDefinition, OptionError, OptionKind};

/// The definition of a file, pattern or directory of that name; `None` if the name does not look like one.
pub(crate) fn by_path(name: &str, own: &OwnFormats) -> Option<Result<SourceDefinition, DataFusionError>> {
    if let Some((format, _)) = own.of_path(name) {
        let text = format!(
            "the format {format} does not describe the columns of '{name}'; declare them: CREATE SOURCE ... (...) \
             WITH (path = '{name}')"
        );
        return Some(Err(DataFusionError::Plan(text)));
    }
    let is_there = is_pattern(name) || Path::new(name).exists();
    match misspelled(name).filter(|_| !is_remote(name)) {
        Some(meant) => {
            let text = format!("there is no file '{name}'; did you mean '{meant}'?");
            Some(Err(DataFusionError::Plan(text)))
        }
        None if !looks_like_path(name) && !is_there => None,
        None => Some(define(name).map_err(|cause| DataFusionError::Plan(cause.to_string()))),
    }
}

/// What a name gives that looks like a path, to somebody who may not open files. Whether there is such a file is not told.
pub(crate) fn refused_path(name: &str) -> Option<Result<SourceDefinition, DataFusionError>> {
    looks_like_path(name).then(|| {
        let text = format!("'{name}' would be a file, and you may not open files of the server's machine");
        Err(DataFusionError::Plan(text))
    })
}

fn looks_like_path(name: &str) -> bool {
    name.contains('/') || name.contains('*') || Format::of_path(name).is_some()
}

fn is_pattern(path: &str) -> bool {
    path.contains('*')
}

/// The file that was probably meant by a path at which there is nothing.
fn misspelled(path: &str) -> Option<String> {
    let is_there = is_pattern(path) || Path::new(path).exists();
    if is_there { None } else { similar_file(Path::new(path)) }
}

/// How many files of a folder are compared with a misspelled name.
const COMPARED_MAX: usize = 10_000;

/// A file whose name has an ending, in the folder of a file that does not exist and has a similar name.
fn similar_file(path: &Path) -> Option<String> {
    path.extension()?;
    let name = path.file_name()?.to_str()?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let entries = std::fs::read_dir(folder.unwrap_or(Path::new("."))).ok()?.take(COMPARED_MAX).flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<String> = names.filter(|name| Format::of_path(name).is_some()).collect();
    // Folders are read in no particular order.
    names.sort();
    let meant = crate::closest(name, names.iter().map(String::as_str))?;
    Some(path.with_file_name(meant).to_string_lossy().into_owned())
}

fn define(path: &str) -> Result<SourceDefinition, Cause> {
    let mut settings = FileSettings::new(path);
    settings.fetch.s3 = S3Settings::from_environment();
    let schema = FileSource::infer(&mut settings)?;
    settings.schema = Some(Arc::clone(&schema));
    let name = settings.shown_path();
    let open = Arc::new(move |columns: Option<&[usize]>| open(settings.clone(), columns));
    let definition = SourceDefinition::new(&name, schema, open);
    Ok(SourceDefinition { is_finite: true, is_repeatable: true, ..definition })
}

/// Opens files with some of their columns.
pub(super) fn open(settings: FileSettings, columns: Option<&[usize]>) -> Result<Box<dyn Source>, Cause> {
    let path = settings.shown_path();
    let mut source = FileSource::open(settings).map_err(|cause| match misspelled(&path) {
        Some(meant) => cause.map_message(|message| format!("{message}; did you mean '{meant}'?")),
        None => cause,
    })?;
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
         their names; `https://host/file` or `s3://bucket/key` is fetched first",
    ),
    OptionDefinition::new(
        "follow",
        OptionKind::Boolean,
        OptionDefault::Value("false"),
        "waits at the end for more data, as `tail -F` does, and for new files; the source then never ends",
    ),
    fetched::HEADERS,
    fetched::TIMEOUT,
    fetched::DOWNLOAD_TIME_MAX,
    fetched::DOWNLOAD_MAX,
    fetched::ALLOW_REMOTE,
    OptionDefinition { only_with: None, ..TLS_CA },
    OptionDefinition { only_with: None, ..TLS_CERT },
    OptionDefinition { only_with: None, ..TLS_KEY },
    fetched::S3_ENDPOINT,
    fetched::S3_REGION,
    fetched::S3_ACCESS_KEY,
    fetched::S3_SECRET_KEY,
    fetched::S3_SESSION_TOKEN,
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
            default: OptionDefault::Nothing("by the file's extension"),
            without_options: &["line_protocol"],
        }
    }

    fn define(&self, request: &SourceRequest<'_>) -> Result<DefinedSource, OptionError> {
        let options = request.options;
        let mut settings = FileSettings::new(options.required_text("path"));
        settings.format = request.format.format.clone();
        settings.csv = request.format.csv.clone();
        settings.follow = options.boolean("follow");
        // A later run must find the same columns.
        settings.scan = !request.is_durable;
        if settings.follow && settings.is_remote() {
            let message =
                "a server does not tell what was added to a file, so it is fetched once and not followed";
            let hint = "leave out `follow`, or let its rows be sent: connector = 'http', 'tcp' or 'kafka'";
            return Err(OptionError::new("follow", message).with_hint(hint));
        }
        settings.fetch = fetch_settings(options, settings.is_remote())?;
        settings.schema = request.columns.clone();
        let columns = match &settings.schema {
            Some(columns) => Arc::clone(columns),
            None => FileSource::infer(&mut settings).map_err(|cause| {
                let hint = misspelled(&settings.shown_path()).map(|meant| format!("did you mean '{meant}'?"));
                OptionError { hint, ..OptionError::new("path", cause.to_string()) }
            })?,
        };
        settings.schema = Some(Arc::clone(&columns));
        let is_finite = !settings.follow;
        let is_repeatable = is_finite && !settings.is_pipe();
        // What came through a pipe is gone.
        let starts_over = !settings.is_pipe();
        let liveness = match (settings.follow, settings.is_pipe()) {
            (true, _) => Liveness::Live,
            (false, true) => Liveness::Unknown,
            (false, false) => Liveness::Stored,
        };
        let open: Arc<OpenSource> = Arc::new(move |columns| open(settings.clone(), columns));
        Ok(DefinedSource {
            is_finite,
            is_repeatable,
            starts_over,
            reads_again: starts_over,
            liveness,
            ..DefinedSource::new(columns, open)
        })
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
        refuse_remote(options.required_text("path"))?;
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
    default: OptionDefault::Nothing("by the file's extension"),
    without_options: &[],
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelled_file_suggests_one_beside_it_and_another_name_does_not() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("clicks.csv"), "n\n1\n").unwrap();
        let said = |name: &str| {
            let name = folder.path().join(name);
            by_path(name.to_str().unwrap(), &OwnFormats::default())
                .unwrap()
                .map(drop)
                .unwrap_err()
                .to_string()
        };
        for name in ["clicks.cvs", "clics.csv"] {
            assert!(said(name).ends_with("clicks.csv'?"), "{}", said(name));
        }
        assert!(!said("orders.csv").contains("did you mean"));
        assert!(
            by_path(folder.path().join("clicks.csv").to_str().unwrap(), &OwnFormats::default())
                .unwrap()
                .is_ok()
        );
        assert!(by_path("clicks_of_nobody", &OwnFormats::default()).is_none());
    }

    #[test]
    fn a_misspelled_path_of_a_source_suggests_one_as_well() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("t.csv"), "n\n1\n").unwrap();
        let said = |columns: &str, path: &str| {
            let path = folder.path().join(path).display().to_string();
            let script =
                format!("CREATE SOURCE t {columns} WITH (path = '{path}', format = 'csv'); SELECT * FROM t");
            let mut planner = crate::Planner::new();
            for statement in crate::parse(&script, "test").unwrap() {
                match planner.execute(&statement) {
                    Ok(crate::Reply::Query(query)) => {
                        return query.open(Vec::new()).unwrap().start().map(drop).unwrap_err().to_string();
                    }
                    Ok(_) => {}
                    Err(error) => return error.to_string(),
                }
            }
            panic!("the file was found");
        };
        for columns in ["", "(n BIGINT)"] {
            let (wrong, other) = (said(columns, "t.cvs"), said(columns, "orders.csv"));
            assert!(wrong.contains("no such file") && wrong.contains("/t.csv'?"), "{wrong}");
            assert!(other.contains("no such file") && !other.contains("did you mean"), "{other}");
        }
    }
}
