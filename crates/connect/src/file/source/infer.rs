//! The columns of files, inferred from the first one.

use std::path::Path;

use arrow_schema::SchemaRef;
use tidemill_core::error::Cause;

use super::failure::failed;
use super::list_files;
use super::reading::TextInput;
use super::settings::FileSettings;
use crate::formats::infer::{SAMPLE_BYTES, infer_text};
use crate::formats::text_lines::lines_schema;
use crate::formats::{CsvSettings, Format, arrow_ipc, parquet};

/// The columns of the first file that has any.
pub(super) fn infer_files(settings: &mut FileSettings) -> Result<SchemaRef, Cause> {
    let format = settings.known_format()?;
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

fn infer_file(path: &Path, format: &Format, csv: &mut CsvSettings) -> Result<SchemaRef, Cause> {
    let place = path.display().to_string();
    let open = || std::fs::File::open(path).map_err(|error| failed(&place, error));
    match format {
        Format::Parquet => parquet::schema(&place, open()?),
        Format::ArrowIpc => arrow_ipc::schema(&place, open()?),
        Format::Lines => Ok(lines_schema()),
        Format::Csv | Format::Json | Format::LineProtocol | Format::Own(_) => {
            let mut input = TextInput::open(path)?;
            let mut sample = vec![0; SAMPLE_BYTES];
            let mut filled = 0;
            while filled < sample.len() {
                match input.read(&mut sample[filled..]).map_err(|error| error.explain(&place))? {
                    0 => break,
                    count => filled += count,
                }
            }
            infer_text(&place, format, &sample[..filled], filled < sample.len(), csv)
        }
    }
}
