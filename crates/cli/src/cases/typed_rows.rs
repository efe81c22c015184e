//! The lines of a section as rows: CSV with a header, or JSON lines.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow_select::concat::concat_batches;
use tidemill_connect::formats::{BATCH_ROWS, CsvSettings, DecoderSettings, Format, text_decoder};
use tidemill_engine::arrow::array::RecordBatch;
use tidemill_engine::arrow::schema::{DataType, Field, Schema, SchemaRef};

use super::case_file::{Body, Case};
use super::{CaseError, instead_of};

/// Reads the rows of a section that belong to `owner`, such as `source 'clicks'`. The batch has the columns that the section names, in
/// its order. A column whose type no text can have becomes a text.
///
/// # Errors
/// At the first line that does not fit.
pub(super) fn read(
    case: &Case,
    body: &Body,
    columns: &SchemaRef,
    owner: &str,
) -> Result<RecordBatch, CaseError> {
    let is_json = body.text.trim_start().starts_with('{');
    let names = if is_json {
        json_names(case, body)?
    } else {
        csv_names(body.text.lines().next().unwrap_or_default())
    };
    if body.text.trim().is_empty() {
        return Ok(RecordBatch::new_empty(Arc::clone(columns)));
    }
    let place = |line: usize| format!("{}, line {line}", body.place(case));
    let fields = names.iter().map(|name| {
        let field = column(columns, name)
            .map_err(|reason| CaseError { place: place(body.line), reason: format!("{owner} {reason}") })?;
        Ok(readable(field, is_json))
    });
    let schema: SchemaRef = Arc::new(Schema::new(fields.collect::<Result<Vec<_>, CaseError>>()?));
    // Lines are counted from the beginning of the file.
    let before = body.line - 1;
    let csv = CsvSettings {
        header: Some(true),
        delimiter: Some(b','),
        names_delimiter: false,
        ..CsvSettings::default()
    };
    let csv = CsvSettings { skip: before as u64, ..csv };
    let format = if is_json { Format::Json } else { Format::Csv };
    let wrong = |reason: String| CaseError { place: place(body.line), reason };
    let settings = DecoderSettings { schema: Arc::clone(&schema), csv, batch_rows: BATCH_ROWS };
    let mut decoder = text_decoder(format, settings).map_err(|cause| wrong(cause.to_string()))?;
    decoder.begin(&body.place(case));
    let mut batches = VecDeque::new();
    let text = format!("{}{}", "\n".repeat(before), body.text);
    let decoded = decoder.decode(text.as_bytes(), &mut batches).and_then(|()| decoder.finish(&mut batches));
    decoded.map_err(|cause| wrong(cause.to_string()))?;
    if let Some(sample) = decoder.faults().samples.first() {
        let (place, reason) = sample.split_once(": ").unwrap_or((sample, ""));
        return Err(CaseError { place: place.to_owned(), reason: reason.to_owned() });
    }
    concat_batches(&schema, batches.iter()).map_err(|error| wrong(error.to_string()))
}

/// The column of that name, or else the one whose name differs only in case.
pub(super) fn column<'a>(columns: &'a Schema, name: &str) -> Result<&'a Field, String> {
    let fields = || columns.fields().iter().map(AsRef::as_ref);
    let exact = fields().find(|field: &&Field| field.name() == name);
    let found = exact.or_else(|| fields().find(|field: &&Field| field.name().eq_ignore_ascii_case(name)));
    found.ok_or_else(|| {
        let known: Vec<&str> = columns.fields().iter().map(|field| field.name().as_str()).collect();
        format!("has no column '{name}'{}", instead_of(name, &known))
    })
}

/// A column as the text can give it.
fn readable(field: &Field, is_json: bool) -> Field {
    let one = Arc::new(Schema::new(vec![field.clone()]));
    let settings = DecoderSettings { schema: one, csv: CsvSettings::default(), batch_rows: 1 };
    let format = if is_json { Format::Json } else { Format::Csv };
    match text_decoder(format, settings) {
        Ok(_) => field.clone(),
        Err(_) => Field::new(field.name(), DataType::Utf8, true),
    }
}

/// The fields of one line of CSV.
pub(super) fn csv_names(line: &str) -> Vec<String> {
    let (mut fields, mut field, mut is_quoted) = (Vec::new(), String::new(), false);
    let mut characters = line.trim_end_matches('\r').chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '"' if is_quoted && characters.peek() == Some(&'"') => {
                characters.next();
                field.push('"');
            }
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => fields.push(std::mem::take(&mut field)),
            other => field.push(other),
        }
    }
    fields.push(field);
    fields
}

/// The keys of all rows, in the order in which they first come.
fn json_names(case: &Case, body: &Body) -> Result<Vec<String>, CaseError> {
    let mut names: Vec<String> = Vec::new();
    for (index, line) in body.text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let wrong = |reason: String| CaseError {
            place: format!("{}, line {}", body.place(case), body.line + index),
            reason,
        };
        let row: serde_json::Map<String, serde_json::Value> =
            serde_json::from_str(line).map_err(|error| wrong(format!("it is not a JSON object: {error}")))?;
        names.extend(row.keys().filter(|key| !names.contains(key)).cloned().collect::<Vec<_>>());
    }
    Ok(names)
}
