//! The columns of files, inferred from the first one.

use std::fs::File;
use std::path::Path;

use arrow_schema::SchemaRef;
use tidemill_core::error::Cause;

use super::failure::failed;
use super::list_files;
use super::reading::TextInput;
use super::settings::FileSettings;
use crate::fetch::{Content, Location, columnar_ends, list_objects, text_prefix};
use crate::formats::infer::{SAMPLE_BYTES, infer_text};
use crate::formats::text_lines::lines_schema;
use crate::formats::{CsvSettings, Format, arrow_ipc, parquet};

/// How much of a text is fetched to infer its columns: the sample, and as much as compression may add to it.
const PREFIX_BYTES: u64 = SAMPLE_BYTES as u64 + (512 << 10);

/// The columns of the first file that has any.
pub(super) fn infer_files(settings: &mut FileSettings) -> Result<SchemaRef, Cause> {
    let format = settings.known_format()?;
    if let Some(place) = settings.location()? {
        return infer_remote(&place, &format, settings);
    }
    if settings.is_pipe() {
        let path = &settings.path;
        return Err(Cause::user(format!(
            "{path}: a pipe is read only while the query runs, so its columns cannot be inferred; declare them"
        )));
    }
    let mut result = Err(Cause::bug("no file was examined"));
    for path in list_files(&settings.path)? {
        result = infer_file(&path, &format, &mut settings.csv);
        if result.is_ok() || path.metadata().is_ok_and(|metadata| metadata.len() > 0) {
            break;
        }
    }
    result
}

/// The columns of the first file of another machine, of which only what shows them is fetched.
fn infer_remote(place: &Location, format: &Format, settings: &mut FileSettings) -> Result<SchemaRef, Cause> {
    if *format == Format::Lines {
        return Ok(lines_schema());
    }
    let files = list_objects(place, &settings.fetch)?;
    let first = files.first().ok_or_else(|| Cause::bug("no file was listed"))?;
    let looked = if format.is_text() {
        text_prefix(first, Content::Text, PREFIX_BYTES, &settings.fetch)?
    } else {
        columnar_ends(first, &settings.fetch)?
    };
    infer_opened(&looked.name, || looked.open(), format, &mut settings.csv)
}

fn infer_file(path: &Path, format: &Format, csv: &mut CsvSettings) -> Result<SchemaRef, Cause> {
    infer_opened(&path.display().to_string(), || File::open(path), format, csv)
}

fn infer_opened(
    place: &str,
    open: impl Fn() -> std::io::Result<File>,
    format: &Format,
    csv: &mut CsvSettings,
) -> Result<SchemaRef, Cause> {
    let file = || open().map_err(|error| failed(place, error));
    match format {
        Format::Parquet => parquet::schema(place, file()?),
        Format::ArrowIpc => arrow_ipc::schema(place, file()?),
        Format::Lines => Ok(lines_schema()),
        Format::Csv | Format::Json | Format::LineProtocol | Format::Own(_) => {
            let mut input = TextInput::opened(&open).map_err(|error| failed(place, error))?;
            let mut sample = vec![0; SAMPLE_BYTES];
            let mut filled = 0;
            while filled < sample.len() {
                match input.read(&mut sample[filled..]).map_err(|error| error.explain(place))? {
                    0 => break,
                    count => filled += count,
                }
            }
            infer_text(place, format, &sample[..filled], filled < sample.len(), csv)
        }
    }
}
