//! The formats of files of rows.

use arrow_schema::{FieldRef, Schema};

use tidemill_core::Cause;

use crate::formats::encode::must_differ;
use crate::formats::encode::{CsvStyle, OwnEncoding, TextFormat};

/// The format of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileFormat {
    /// Comma-separated values.
    Csv(CsvStyle),
    /// One JSON object per line.
    Ndjson,
    /// Parquet, compressed with Snappy.
    Parquet,
    /// An Arrow IPC file, also known as Feather 2; dictionaries are replaced by their values.
    ArrowIpc,
    /// Text in a format of the program's own.
    Own(OwnEncoding),
}

impl FileFormat {
    /// CSV with commas and a header.
    pub fn csv() -> FileFormat {
        FileFormat::Csv(CsvStyle::default())
    }

    /// The format named by the ending of a file name: `csv`, `tsv`, `ndjson`, `jsonl`, `json`, `parquet`, `arrow`,
    /// `feather`, `ipc`.
    ///
    /// ```
    /// use tidemill_connect::file::FileFormat;
    /// assert_eq!(FileFormat::of_name("out/tolls.parquet"), Some(FileFormat::Parquet));
    /// assert_eq!(FileFormat::of_name("tolls"), None);
    /// ```
    pub fn of_name(name: &str) -> Option<FileFormat> {
        let ending = std::path::Path::new(name).extension()?.to_str()?.to_ascii_lowercase();
        Some(match ending.as_str() {
            "csv" => FileFormat::csv(),
            "tsv" => FileFormat::Csv(CsvStyle { delimiter: b'\t', ..CsvStyle::default() }),
            "ndjson" | "jsonl" | "json" => FileFormat::Ndjson,
            "parquet" => FileFormat::Parquet,
            "arrow" | "feather" | "ipc" => FileFormat::ArrowIpc,
            _ => return None,
        })
    }

    /// The ending that files of this format get.
    pub fn ending(&self) -> &str {
        match self {
            FileFormat::Csv(style) if style.delimiter == b'\t' => "tsv",
            FileFormat::Csv(_) => "csv",
            FileFormat::Ndjson => "ndjson",
            FileFormat::Parquet => "parquet",
            FileFormat::ArrowIpc => "arrow",
            FileFormat::Own(own) => own.name(),
        }
    }

    /// The bytes with which each complete file ends.
    pub(crate) fn last_bytes(&self) -> &'static [u8] {
        match self {
            FileFormat::Csv(_) | FileFormat::Ndjson | FileFormat::Own(_) => b"\n",
            FileFormat::Parquet => b"PAR1",
            FileFormat::ArrowIpc => b"ARROW1",
        }
    }

    /// Refuses rows that the format cannot hold.
    pub(crate) fn check(&self, schema: &Schema) -> Result<(), Cause> {
        match self {
            FileFormat::Csv(_) | FileFormat::Own(_) => Ok(()),
            FileFormat::Ndjson => must_differ(schema, "JSON"),
            FileFormat::Parquet => must_differ(schema, "Parquet"),
            FileFormat::ArrowIpc => must_differ(schema, "Arrow IPC"),
        }
    }

    /// The corresponding text format, if it is one.
    pub fn text(&self) -> Option<TextFormat> {
        match self {
            FileFormat::Csv(style) => Some(TextFormat::Csv(style.clone())),
            FileFormat::Ndjson => Some(TextFormat::Ndjson),
            FileFormat::Own(own) => Some(TextFormat::Own(own.clone())),
            FileFormat::Parquet | FileFormat::ArrowIpc => None,
        }
    }
}

/// When written data is forced to disk, so that it survives a crash of the machine. Committed data survives the process
/// in any case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SyncPolicy {
    /// Before each commit returns. Slow: a commit then takes as long as the disk.
    EveryCommit,
    /// When the query ends.
    #[default]
    AtEnd,
    /// When the operating system chooses.
    Never,
}

impl SyncPolicy {
    /// The policy for a sink that resumes after a crash: a commit that is not on disk does not count.
    pub(crate) fn of_resumed(self) -> SyncPolicy {
        match self {
            SyncPolicy::Never => SyncPolicy::Never,
            SyncPolicy::EveryCommit | SyncPolicy::AtEnd => SyncPolicy::EveryCommit,
        }
    }

    pub(crate) fn is_every_commit(self) -> bool {
        self == SyncPolicy::EveryCommit
    }
}

/// What files hold, as a text that is equal if one run may continue another's files.
pub(crate) fn content_text(format: &FileFormat, schema: &Schema) -> String {
    let column = |field: &FieldRef| format!("{:?}: {}", field.name(), field.data_type());
    let columns: Vec<String> = schema.fields().iter().map(column).collect();
    format!("{format:?}: {}", columns.join(", "))
}
