//! The rows that a section of a case gives to a source.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use tidemill_engine::arrow::array::{Array, ArrayRef, Int64Array, RecordBatch, new_null_array};
use tidemill_engine::{Faults, RecordContent};
use tidemill_sql::ReplacedSource;

use super::CaseError;
use super::case_file::{Body, Case};
use super::typed_rows;

/// The column that says how many of a table's row come.
const COUNT: &str = "$count";

/// A record of a source that is left out, and why.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct DeadLetter {
    pub reason: String,
    pub record: String,
}

/// See the module.
pub(super) struct GivenRows {
    pub batches: Vec<RecordBatch>,
    /// Records that could not be read.
    pub faults: Faults,
}

/// Records that could not be read, by source.
#[derive(Default)]
pub(super) struct GivenFaults {
    pub letters: BTreeMap<String, Vec<DeadLetter>>,
    pub samples: BTreeMap<String, Vec<String>>,
}

impl GivenFaults {
    /// Keeps those of a source.
    pub fn note(&mut self, name: &str, faults: &Faults) {
        let kept = faults.records.as_ref().map_or(&[][..], |records| records.kept());
        let letters = kept.iter().map(|record| DeadLetter {
            reason: record.reason.clone(),
            record: match &record.content {
                RecordContent::Text(text) => String::from_utf8_lossy(text).trim_end().replace('\n', "\\n"),
                RecordContent::Row(row) => row.clone(),
            },
        });
        self.letters.entry(name.to_owned()).or_default().extend(letters);
        self.samples.entry(name.to_owned()).or_default().extend(faults.samples.iter().cloned());
    }

    /// Adds those of others.
    pub fn merge(&mut self, other: GivenFaults) {
        for (name, letters) in other.letters {
            self.letters.entry(name).or_default().extend(letters);
        }
    }
}

/// Reads what a section gives to a source: rows by name, or the text that its connector would read.
///
/// # Errors
/// If the section does not fit the source.
pub(super) fn read(
    case: &Case,
    source: &ReplacedSource,
    body: &Body,
    is_text: bool,
) -> Result<GivenRows, CaseError> {
    if is_text {
        decoded(case, source, body)
    } else {
        Ok(GivenRows { batches: vec![typed(case, source, body)?], faults: Faults::default() })
    }
}

/// The rows of a section with all columns of the source: those that it leaves out are NULL.
fn typed(case: &Case, source: &ReplacedSource, body: &Body) -> Result<RecordBatch, CaseError> {
    let columns = &source.columns;
    let owner = format!("source '{}'", source.name);
    let wrong =
        |reason: String| CaseError { place: format!("{}, line {}", body.place(case), body.line), reason };
    let given = typed_rows::read(case, body, columns, &owner)?;
    let given_schema = given.schema();
    let rows = given.num_rows();
    let arrays = columns.fields().iter().map(|field| -> ArrayRef {
        let found = given_schema.fields().iter().position(|other| other.name() == field.name());
        match found {
            Some(index) => Arc::clone(given.column(index)),
            None if field.name() == COUNT => Arc::new(Int64Array::from(vec![1; rows])),
            None => new_null_array(field.data_type(), rows),
        }
    });
    let arrays: Vec<ArrayRef> = arrays.collect();
    let mut both = columns.fields().iter().zip(&arrays);
    if let Some((field, _)) = both.find(|(field, array)| !field.is_nullable() && array.null_count() > 0) {
        let name = field.name();
        return Err(wrong(format!("{owner} needs a value for '{name}', which is NOT NULL; add the column")));
    }
    RecordBatch::try_new(Arc::clone(columns), arrays)
        .map_err(|error| wrong(format!("the rows do not fit {owner}: {error}")))
}

/// What a source's connector makes of the text of a section.
fn decoded(case: &Case, source: &ReplacedSource, body: &Body) -> Result<GivenRows, CaseError> {
    let name = &source.name;
    let wrong = |cause: tidemill_engine::Cause| CaseError {
        place: format!("{}, line {}", body.place(case), body.line),
        reason: format!("source '{name}' cannot read this text: {cause}; or give it rows: === rows {name}"),
    };
    let mut decoder = (source.decoder)().map_err(wrong)?;
    decoder.keep_bad_records();
    decoder.begin(&case.path.display().to_string());
    let mut batches = VecDeque::new();
    let decoded =
        decoder.decode(body.text.as_bytes(), &mut batches).and_then(|()| decoder.finish(&mut batches));
    decoded.map_err(wrong)?;
    Ok(GivenRows { batches: batches.into(), faults: decoder.faults() })
}
