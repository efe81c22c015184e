//! Assigns the fields of a CSV to columns.

use std::collections::HashSet;

use arrow_schema::{DataType, Field, Schema};
use tidemill_core::error::Cause;

use super::bad_rows::{BadRows, Texts};
use super::csv_records::Span;
use super::epoch::Epoch;
use super::fit::missing_column;
use super::values;

/// Where the examined columns are in a record.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Layout {
    /// The number of fields in a record.
    pub(super) fields: usize,
    /// For each field its index among these columns, if it is one of them.
    pub(super) slot_of: Vec<Option<u32>>,
    /// The number of columns that are examined.
    pub(super) slots: usize,
}

impl Layout {
    /// By the names of the header, or by position if there is none.
    pub(super) fn new(
        place: &str,
        declared: &Schema,
        looked_at: &[usize],
        names: Option<&[String]>,
    ) -> Result<Layout, Cause> {
        let fields = names.map_or(declared.fields().len(), <[String]>::len);
        let mut slot_of = vec![None; fields];
        // All declared columns must exist, whether examined or not: a query does not decide whether a file is valid.
        for (index, field) in declared.fields().iter().enumerate() {
            let at = match names {
                Some(names) => {
                    position(names, field.name()).ok_or_else(|| missing_column(place, field.name(), names))?
                }
                None => index,
            };
            if let Some(slot) = looked_at.iter().position(|other| *other == index) {
                slot_of[at] = Some(slot as u32);
            }
        }
        Ok(Layout { fields, slot_of, slots: looked_at.len() })
    }
}

/// Makes the names of all columns unique: a missing name is invented, and a repeated one gets a number.
pub(crate) fn different_names<'a>(header: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let mut taken = HashSet::new();
    let mut names = Vec::new();
    for (index, text) in header.into_iter().enumerate() {
        let base = match text.trim_ascii() {
            "" => format!("column_{}", index + 1),
            given => given.to_owned(),
        };
        let mut name = base.clone();
        let mut count = 1;
        while !taken.insert(name.to_lowercase()) {
            count += 1;
            name = format!("{base}_{count}");
        }
        names.push(name);
    }
    names
}

/// The column of that name, or else the column whose name differs only in case.
fn position(names: &[String], name: &str) -> Option<usize> {
    let is_same = |other: &String| other.trim_ascii().to_lowercase() == name.to_lowercase();
    names.iter().position(|other| other == name).or_else(|| names.iter().position(is_same))
}

/// Whether a first record is a header, given the declared columns: it contains the name of one of them, or it has
/// values that cannot be theirs but could be names.
pub(super) fn is_header_of(first: &[String], declared: &Schema) -> bool {
    if names_any(first, declared) {
        return true;
    }
    let looks_named = first.iter().all(|text| is_name(text));
    let fits = |(field, text): (&std::sync::Arc<Field>, &String)| {
        has_type(text, field.data_type()) || Epoch::of(field).is_some_and(|epoch| epoch.parse(text).is_some())
    };
    looks_named && !declared.fields().iter().zip(first).all(fits)
}

/// Whether a record has the name of a column.
pub(super) fn names_any(record: &[String], declared: &Schema) -> bool {
    declared.fields().iter().any(|field| position(record, field.name()).is_some())
}

/// Whether a text could name a column: it begins with a letter and is not a number.
pub(crate) fn is_name(text: &str) -> bool {
    let text = text.trim_ascii();
    text.chars().next().is_some_and(|first| first.is_alphabetic() || first == '_')
}

/// Whether a text is a value of a type, or NULL.
pub(crate) fn has_type(text: &str, data_type: &DataType) -> bool {
    struct SingleText<'a>(&'a str);
    impl Texts for SingleText<'_> {
        fn rows(&self) -> usize {
            1
        }
        fn get(&self, _row: usize) -> Option<&str> {
            Some(self.0)
        }
    }
    let mut bad = BadRows::default();
    let array = values::column(&Field::new("", data_type.clone(), true), &SingleText(text), &mut bad);
    array.is_ok() && bad.good().is_none()
}

/// A field as text; invalid UTF-8 is replaced.
pub(crate) fn text(bytes: &[u8], span: Span, quote: u8) -> String {
    let text = String::from_utf8_lossy(&bytes[span.range()]).into_owned();
    let doubled = [quote as char, quote as char].iter().collect::<String>();
    if span.is_quoted() { text.replace(&doubled, &doubled[1..]) } else { text }
}
