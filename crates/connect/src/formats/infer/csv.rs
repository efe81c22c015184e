//! The columns of a CSV: delimiter, header, types.

use std::collections::HashSet;
use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema, SchemaRef};
use tidemill_core::error::Cause;

use super::guess::Guess;
use super::{RECORDS_MAX, check_columns};
use crate::formats::{CsvSettings, Step, different_names, field_text, is_name, next_record};

const DELIMITERS: [u8; 4] = [b',', b'\t', b';', b'|'];
/// The number of records by which a delimiter is judged.
const DELIMITER_RECORDS: usize = 100;

/// `None` if there is no record.
pub(super) fn infer(sample: &[u8], settings: &mut CsvSettings) -> Result<Option<SchemaRef>, Cause> {
    let delimiter = settings.delimiter.unwrap_or_else(|| delimiter_of(sample, settings));
    settings.delimiter = Some(delimiter);
    let records = records(sample, delimiter, settings, RECORDS_MAX);
    let Some((first, rest)) = records.split_first() else { return Ok(None) };
    check_columns(first.len())?;
    let mut guesses = vec![Guess::default(); first.len()];
    for record in rest.iter().filter(|record| record.len() == first.len()) {
        for (guess, text) in guesses.iter_mut().zip(record) {
            text.iter().for_each(|text| guess.update(text));
        }
    }
    let is_header = *settings.header.get_or_insert_with(|| is_header(first, rest, &guesses));
    let names = if is_header {
        different_names(first.iter().map(|text| text.as_deref().unwrap_or_default()))
    } else {
        different_names(first.iter().map(|_| ""))
    };
    if !is_header {
        for (guess, text) in guesses.iter_mut().zip(first) {
            text.iter().for_each(|text| guess.update(text));
        }
    }
    let fields =
        names.into_iter().zip(guesses).map(|(name, guess)| Field::new(name, guess.data_type(), true));
    Ok(Some(Arc::new(Schema::new(fields.collect::<Vec<_>>()))))
}

/// Fields of records, `None` for NULL; broken records are left out.
fn records(sample: &[u8], delimiter: u8, settings: &CsvSettings, max: usize) -> Vec<Vec<Option<String>>> {
    let mut records = Vec::new();
    let mut at = 0;
    while records.len() < max && at < sample.len() {
        let mut spans = Vec::new();
        match next_record(sample, at, delimiter, settings.quote, |_, span| spans.push(span)) {
            Step::Record { next, .. } => {
                let text = |span| {
                    let text = field_text(sample, span, settings.quote);
                    (span.is_quoted() || text != settings.null).then_some(text)
                };
                records.push(spans.into_iter().map(text).collect());
                at = next;
            }
            Step::Empty { next } => at = next,
            Step::Incomplete | Step::Bad(_) => {
                let newline = memchr::memchr(b'\n', &sample[at..]);
                at = newline.map_or(sample.len(), |newline| at + newline + 1);
            }
        }
    }
    records
}

/// The delimiter that divides the first records into the same number of fields, and into the most.
fn delimiter_of(sample: &[u8], settings: &CsvSettings) -> u8 {
    let score = |delimiter: u8| {
        let records = records(sample, delimiter, settings, DELIMITER_RECORDS);
        let fields = records.first().map_or(0, Vec::len);
        let even = records.iter().filter(|record| record.len() == fields).count();
        if fields > 1 { even * 1000 / records.len().max(1) * 1000 + fields.min(999) } else { 0 }
    };
    DELIMITERS.into_iter().rev().max_by_key(|delimiter| score(*delimiter)).unwrap_or(b',')
}

/// Whether the first record names the columns. It must consist of names only. In addition, either its types differ from
/// the rest (then names may be equal, or missing), or all names are different and none is also a value of its column.
fn is_header(first: &[Option<String>], rest: &[Vec<Option<String>>], guesses: &[Guess]) -> bool {
    let names: Vec<&String> = first.iter().flatten().collect();
    if names.is_empty() || !names.iter().all(|text| is_name(text)) {
        return false;
    }
    let is_other_type = |(text, guess): (&Option<String>, &Guess)| {
        let mut with_first = guess.clone();
        text.iter().for_each(|text| with_first.update(text));
        guess.data_type() != DataType::Utf8 && with_first.data_type() != guess.data_type()
    };
    if first.iter().zip(guesses).any(is_other_type) {
        return true;
    }
    let all_differ = names.iter().collect::<HashSet<_>>().len() == first.len();
    let all_text = guesses.iter().all(|guess| guess.data_type() == DataType::Utf8);
    let occurs_again =
        |(at, text): (usize, &Option<String>)| rest.iter().any(|record| record.get(at) == Some(text));
    all_differ && all_text && !first.iter().enumerate().any(occurs_again)
}
