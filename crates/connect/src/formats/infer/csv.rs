//! How a CSV is written: delimiter, titles, header.

use std::collections::{HashMap, HashSet};

use arrow_schema::DataType;
use tidemill_core::error::Cause;

use super::check_columns;
use super::csv_scan::CsvScan;
use super::guess::Guess;
use crate::formats::{
    CsvSettings, Step, different_names, field_text, is_comment, is_name, named_delimiter, next_record,
};

const DELIMITERS: [u8; 4] = [b',', b'\t', b';', b'|'];
/// The number of records by which a delimiter is judged.
const DELIMITER_RECORDS: usize = 100;
/// The number of records by which the header is judged.
const HEADER_RECORDS: usize = 10_000;
/// The most titles before a table.
const TITLES_MAX: usize = 32;

type Record = Vec<Option<String>>;

/// What reads the columns of a CSV that begins like this. Sets delimiter, header and titles if they were left open. `None` if it
/// has no record.
pub(super) fn scan(sample: &[u8], settings: &mut CsvSettings) -> Result<Option<CsvScan>, Cause> {
    let sample = without_preamble(sample, settings);
    let delimiter = settings.delimiter.unwrap_or_else(|| delimiter_of(sample, settings));
    settings.delimiter = Some(delimiter);
    let mut records = records(sample, delimiter, settings, HEADER_RECORDS);
    if settings.skip == 0 {
        let titles = titles(&records, settings.header);
        records.drain(..titles);
        settings.skip = titles as u64;
        settings.table_fields = records.first().filter(|_| titles > 0).map(Vec::len);
    }
    let Some((first, rest)) = records.split_first() else { return Ok(None) };
    check_columns(first.len())?;
    let mut guesses = vec![Guess::default(); first.len()];
    for record in rest.iter().filter(|record| record.len() == first.len()) {
        for (guess, text) in guesses.iter_mut().zip(record) {
            text.iter().for_each(|text| guess.update(text));
        }
    }
    let is_header = *settings.header.get_or_insert_with(|| is_header(first, rest, &guesses));
    let named =
        |text: &Option<String>| if is_header { text.clone().unwrap_or_default() } else { String::new() };
    let names: Vec<String> = first.iter().map(named).collect();
    let names = different_names(names.iter().map(String::as_str));
    Ok(Some(CsvScan::new(settings.clone(), names)))
}

/// The text behind a line that names the delimiter, and behind the lines that are to be left out.
fn without_preamble<'a>(mut sample: &'a [u8], settings: &mut CsvSettings) -> &'a [u8] {
    let first_line = |text: &[u8]| memchr::memchr(b'\n', text).map_or(text.len(), |newline| newline + 1);
    if let Some(delimiter) = named_delimiter(&sample[..first_line(sample)]) {
        settings.delimiter.get_or_insert(delimiter);
        sample = &sample[first_line(sample)..];
    }
    if settings.table_fields.is_none() {
        (0..settings.skip).for_each(|_| sample = &sample[first_line(sample)..]);
    }
    sample
}

/// Fields of records, `None` for NULL; broken records are left out.
fn records(sample: &[u8], delimiter: u8, settings: &CsvSettings, max: usize) -> Vec<Record> {
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

/// The number of fields that most records have, and how many these are. Of two equally frequent ones it is the larger.
fn usual_fields(records: &[Record]) -> (usize, usize) {
    let mut counts: HashMap<usize, usize> = HashMap::new();
    records.iter().for_each(|record| *counts.entry(record.len()).or_default() += 1);
    counts.into_iter().max_by_key(|(fields, count)| (*count, *fields)).unwrap_or((0, 0))
}

/// The delimiter that divides most of the first records into the same number of fields, and into the most.
fn delimiter_of(sample: &[u8], settings: &CsvSettings) -> u8 {
    let score = |delimiter: u8| {
        let records = records(sample, delimiter, settings, DELIMITER_RECORDS);
        let (fields, even) = usual_fields(&records);
        if fields > 1 { even * 1000 / records.len().max(1) * 1000 + fields.min(999) } else { 0 }
    };
    DELIMITERS.into_iter().rev().max_by_key(|delimiter| score(*delimiter)).unwrap_or(b',')
}

/// How many of the first records are titles or comments of the table: they have fewer fields, and only one of them has a text, or
/// they are comments. A comment that has as many fields is one before a header.
fn titles(records: &[Record], header: Option<bool>) -> usize {
    let (fields, _) = usual_fields(records);
    let first = |record: &Record| record.first().and_then(Clone::clone).unwrap_or_default();
    let is_title = |record: &Record| {
        let texts = record.iter().flatten().filter(|text| !text.trim_ascii().is_empty()).count();
        let is_short =
            record.len() < fields && texts <= 1 || record.len() != fields && first(record).starts_with('#');
        is_short || is_comment(first(record).as_bytes())
    };
    let titles = |count: usize| count <= TITLES_MAX && records[..count].iter().all(is_title);
    let is_before =
        |record: &&Record| record.len() != fields || fields > 1 && is_comment(first(record).as_bytes());
    let with_comments = records.iter().take_while(is_before).count();
    let is_header = |record: &Record| record.iter().flatten().all(|text| is_name(text));
    if header != Some(false) && titles(with_comments) && records.get(with_comments).is_some_and(is_header) {
        return with_comments;
    }
    let count = records.iter().take_while(|record| record.len() != fields).count();
    if titles(count) { count } else { 0 }
}

/// Whether the first record names the columns. It must consist of names only. In addition, either its types differ from
/// the rest (then names may be equal, or missing), or all names are different and none is also a value of its column.
fn is_header(first: &Record, rest: &[Record], guesses: &[Guess]) -> bool {
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
