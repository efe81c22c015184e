//! What to read, and how.

use std::path::Path;

use arrow_schema::SchemaRef;
use tidemill_core::error::Cause;

use super::listing;
use super::pipe::is_pipe;
use crate::fetch::{FetchSettings, Location, is_remote, list_objects};
use crate::formats::{BATCH_ROWS, CsvSettings, Format, without_compression};

/// Which files to read, and how.
#[derive(Clone, Debug)]
pub struct FileSettings {
    /// A file, a directory, or a pattern with `*`, `?`, `[...]`, `**`. Files are read in the order of their
    /// names.
    pub path: String,
    /// The format; `None`: by the ending of the (first) file's name.
    pub format: Option<Format>,
    /// Whether to wait at the end for more data, as `tail -F` does, and for new files. The source then never ends.
    pub follow: bool,
    /// Whether to hear of changes from the system where that is possible, instead of looking at all files all the time. What is
    /// read does not depend on it.
    pub watch: bool,
    /// How a CSV file is written.
    pub csv: CsvSettings,
    /// The columns; `None`: those of the first file, inferred if it is text.
    pub schema: Option<SchemaRef>,
    /// The most rows of a batch; 0 counts as 1.
    pub batch_rows: usize,
    /// How a file of another machine is fetched.
    pub fetch: FetchSettings,
    /// Whether files that are read once are read to their ends to infer their columns. Otherwise their beginning decides, so that
    /// the columns stay the same when they grow.
    pub scan: bool,
    /// How the columns were inferred; `None` if they were declared.
    pub inferred: Option<Inferred>,
}

/// How columns were inferred.
#[derive(Clone, Debug, Default)]
pub struct Inferred {
    /// Whether all records were looked at, so that none can have what no column has.
    pub is_complete: bool,
    /// What users are to know about it.
    pub notes: Vec<String>,
}

impl FileSettings {
    /// The defaults: read once, format by name, columns from the file.
    pub fn new(path: impl Into<String>) -> FileSettings {
        FileSettings {
            path: path.into(),
            format: None,
            follow: false,
            watch: true,
            csv: CsvSettings::default(),
            schema: None,
            batch_rows: BATCH_ROWS,
            fetch: FetchSettings::default(),
            scan: true,
            inferred: None,
        }
    }

    /// Whether records may have keys without a column, because the columns were inferred without them.
    pub(super) fn may_have_other_keys(&self) -> bool {
        self.inferred.as_ref().is_some_and(|inferred| !inferred.is_complete)
    }

    /// Completes the settings from the name of the first file.
    pub(super) fn complete(&mut self) -> Result<(), Cause> {
        self.batch_rows = self.batch_rows.max(1);
        let name = match self.location()? {
            Some(_) if self.follow => return Err(not_followed()),
            Some(place) if self.format.is_none() => named(&place, &self.fetch)?,
            Some(place) => place.shown(),
            None if Format::of_path(&self.path).is_some() => self.path.clone(),
            None => first_file(&self.path)?.unwrap_or_else(|| self.path.clone()),
        };
        if self.format.is_none() {
            self.format = Some(Format::of_path(&name).ok_or_else(|| unknown_format(&name))?);
        }
        let name = without_compression(&name).to_ascii_lowercase();
        if self.csv.delimiter.is_none() && name.ends_with(".tsv") {
            self.csv.delimiter = Some(b'\t');
        }
        Ok(())
    }

    /// Whether the path leads to a pipe, whose rows can be read only once.
    pub fn is_pipe(&self) -> bool {
        is_pipe(Path::new(&self.path))
    }

    /// Whether the file lies on another machine, and is fetched.
    pub fn is_remote(&self) -> bool {
        is_remote(&self.path)
    }

    /// Where the file lies, if that is another machine.
    pub(super) fn location(&self) -> Result<Option<Location>, Cause> {
        self.is_remote().then(|| Location::parse(&self.path)).transpose()
    }

    /// The path for messages: without what may be secret in a URL.
    pub fn shown_path(&self) -> String {
        match self.location() {
            Ok(Some(place)) => place.shown(),
            Ok(None) => self.path.clone(),
            Err(_) => "a URL".to_owned(),
        }
    }

    /// The format, after [`FileSettings::complete`].
    pub(crate) fn known_format(&self) -> Result<Format, Cause> {
        self.format.clone().ok_or_else(|| unknown_format(&self.shown_path()))
    }
}

/// The first file that a path means: the file itself, or the first one of a folder or of those that match a pattern.
///
/// # Errors
/// If the folder cannot be read, or the pattern is invalid.
pub fn first_file(path: &str) -> Result<Option<String>, Cause> {
    Ok(listing::list(path)?.first().map(|first| first.display().to_string()))
}

/// The name that tells the format: that of the place, or of the first object that it means.
fn named(place: &Location, fetch: &FetchSettings) -> Result<String, Cause> {
    let own = place.shown();
    if !place.is_many() || Format::of_path(&own).is_some() {
        return Ok(own);
    }
    Ok(list_objects(place, fetch)?.first().map_or(own, Location::shown))
}

fn not_followed() -> Cause {
    Cause::user(
        "a file of another machine is fetched once and not followed, because a server does not tell what was added; \
         leave out follow, or let its rows be sent (connector = 'http', 'tcp', 'kafka')",
    )
}

fn unknown_format(path: &str) -> Cause {
    let reason = if path.ends_with(".bz2") || path.ends_with(".xz") {
        "the compression is not supported; compress the file with zstd (.zst) or gzip (.gz)"
    } else {
        "the extension does not tell the format; name it: format = 'csv', 'json', 'parquet' or \
            'arrow'"
    };
    Cause::user(format!("{path}: {reason}"))
}
