//! The columns of files, inferred from what is in them.
//!
//! How they are written shows at the beginning of the first one. The types come from all their records, because what
//! comes late must not be lost: files that are read once are read to their ends, up to [`SCANNED_BYTES_MAX`]. Of
//! files that are followed, and of those whose columns must be the same in later runs, only the beginning is looked
//! at, as of files of other machines.

use std::fs::File;
use std::path::Path;

use arrow_schema::SchemaRef;
use tidemill_core::error::Cause;

use super::failure::failed;
use super::list_files;
use super::pipe::BLOCK_BYTES;
use super::settings::{FileSettings, Inferred};
use super::text_input::TextInput;
use crate::fetch::{Content, Location, columnar_ends, list_objects, text_prefix};
use crate::formats::infer::{ColumnScan, SAMPLE_BYTES, infer_text};
use crate::formats::text_lines::lines_schema;
use crate::formats::{CsvSettings, Format, arrow_ipc, parquet};

/// How much of a text is fetched to infer its columns: the sample, and as much as compression may add to it.
const PREFIX_BYTES: u64 = SAMPLE_BYTES as u64 + (512 << 10);

/// The most text that is read to find the types: some seconds.
const SCANNED_BYTES_MAX: u64 = 512 << 20;

/// The columns of the files, named by the first one that has any.
pub(super) fn infer_files(settings: &mut FileSettings) -> Result<SchemaRef, Cause> {
    let format = settings.known_format()?;
    settings.inferred = Some(Inferred::default());
    if let Some(place) = settings.location()? {
        return infer_remote(&place, &format, settings);
    }
    if settings.is_pipe() {
        let path = &settings.path;
        return Err(Cause::user(format!(
            "{path}: a pipe is read only while the query runs, so its columns cannot be inferred; declare them"
        )));
    }
    let files = list_files(&settings.path)?;
    let has_bytes = |path: &&std::path::PathBuf| path.metadata().is_ok_and(|metadata| metadata.len() > 0);
    let is_scanned = settings.scan && !settings.follow && format.is_text();
    let mut result = Err(Cause::bug("no file was examined"));
    for (at, path) in files.iter().enumerate() {
        let csv = &mut settings.csv;
        result = if is_scanned {
            infer_scanned(&files[at..], &format, csv).map(|(columns, inferred)| {
                settings.inferred = Some(inferred);
                columns
            })
        } else {
            infer_file(path, &format, csv)
        };
        if result.is_ok() || has_bytes(&path) {
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
            let mut input = TextInput::opened(place, &open, format)?;
            let sample = sample(place, &mut input)?;
            infer_text(place, format, &sample, sample.len() < SAMPLE_BYTES, csv)
        }
    }
}

fn sample(place: &str, input: &mut TextInput) -> Result<Vec<u8>, Cause> {
    let mut sample = vec![0; SAMPLE_BYTES];
    let mut filled = 0;
    while filled < sample.len() {
        match input.read(&mut sample[filled..]).map_err(|error| error.explain(place))? {
            0 => break,
            count => filled += count,
        }
    }
    sample.truncate(filled);
    Ok(sample)
}

/// The columns of text files, from all their records.
fn infer_scanned(
    files: &[std::path::PathBuf],
    format: &Format,
    csv: &mut CsvSettings,
) -> Result<(SchemaRef, Inferred), Cause> {
    let opened = |path: &Path| -> Result<(String, TextInput), Cause> {
        let place = path.display().to_string();
        let input = TextInput::opened(&place, || File::open(path), format)?;
        Ok((place, input))
    };
    let Some((first, others)) = files.split_first() else { return Err(Cause::bug("no file was examined")) };
    let (place, mut input) = opened(first)?;
    let sample = sample(&place, &mut input)?;
    let mut scan = ColumnScan::begin(&place, format, &sample, sample.len() < SAMPLE_BYTES, csv)?;
    scan.take(&place, &sample)?;
    let mut bytes = sample.len() as u64;
    let mut is_complete = read_to_end(&place, &mut input, &mut scan, &mut bytes)?;
    for path in others {
        if !is_complete {
            break;
        }
        // What cannot be read is reported when the rows are read.
        let Ok((place, mut input)) = opened(path) else { continue };
        is_complete = read_to_end(&place, &mut input, &mut scan, &mut bytes)?;
    }
    let found = scan.schema(&place, sample.len())?;
    let note = |name: &String| {
        format!(
            "column '{name}' is in a later file and not in the first one, {place}, which names the columns; it is left \
             out: declare the columns to read it"
        )
    };
    Ok((found.columns, Inferred { is_complete, notes: found.others.iter().map(note).collect() }))
}

/// Reads the rest of a file; false if it is too much.
fn read_to_end(
    place: &str,
    input: &mut TextInput,
    scan: &mut ColumnScan,
    bytes: &mut u64,
) -> Result<bool, Cause> {
    if scan.is_known() {
        return Ok(true);
    }
    let mut block = vec![0; BLOCK_BYTES];
    while *bytes < SCANNED_BYTES_MAX {
        // What is damaged is reported when the rows before it were read.
        let count = input.read(&mut block).unwrap_or(0);
        if count == 0 {
            scan.end_file(place)?;
            return Ok(true);
        }
        *bytes += count as u64;
        scan.take(place, &block[..count])?;
    }
    Ok(false)
}
