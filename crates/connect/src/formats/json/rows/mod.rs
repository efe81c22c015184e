//! Reads JSON objects into columns. Values lie in columns, in structs, in lists and in maps; the same reader of texts
//! ([`values`](crate::formats::values)) makes all of them.

mod arrays;
mod collected;
mod keys;
mod shape;

use arrow_array::ArrayRef;
use arrow_schema::Schema;
use tidemill_core::error::Cause;

use self::collected::Objects;
use self::keys::Keys;
use self::shape::{Absences, Object, Part};
use crate::formats::bad_rows::BadRows;
use crate::formats::json_value::scanner::Scanner;

/// Why a line is refused that has no object, or more than one.
pub(in crate::formats) const NO_OBJECT: &str = "not one JSON object";

/// How many names a message lists.
const NAMES_MAX: usize = 8;

/// The columns that objects are read into.
#[derive(Debug)]
pub(in crate::formats) struct JsonColumns(Object);

/// The objects of a block.
#[derive(Debug)]
pub(in crate::formats) struct JsonRows<'a> {
    objects: Objects<'a>,
    /// The texts that were written with escapes.
    decoded: String,
}

impl JsonColumns {
    /// Makes them for declared columns.
    ///
    /// # Errors
    /// [`Cause::user`] if a column has a type that JSON cannot represent.
    pub(in crate::formats) fn new(schema: &Schema) -> Result<JsonColumns, Cause> {
        let parts = schema.fields().iter().map(|field| Part::column(field));
        let parts = parts.collect::<Result<Vec<_>, Cause>>()?;
        Ok(JsonColumns(Object { keys: Keys::new(schema.fields().iter().cloned().collect()), parts }))
    }

    /// Begins a block without rows.
    pub(in crate::formats) fn rows<'a>(&self) -> JsonRows<'a> {
        JsonRows { objects: Objects::new(&self.0), decoded: String::new() }
    }

    /// Reads an object as the next row of a block; returns whether one of its keys is a column, or it has no keys. On an
    /// error there is no such row.
    ///
    /// # Errors
    /// Why the text is not an object with such columns.
    pub(in crate::formats) fn read<'a>(
        &mut self,
        text: &'a str,
        rows: &mut JsonRows<'a>,
    ) -> Result<bool, String> {
        let before = rows.objects.valid.len();
        let mut scanner = Scanner::new(text);
        let read = rows.objects.read(&mut self.0, &mut scanner, &mut rows.decoded);
        let read = match read {
            Ok(_) if !scanner.is_at_end() => Err(NO_OBJECT.to_owned()),
            read => read,
        };
        read.inspect_err(|_| rows.objects.truncate(before))
    }

    /// From now on keeps keys that match no column when they come for the first time.
    pub(in crate::formats) fn keep_new_strangers(&mut self) {
        self.0.keys.keep_new_strangers();
    }

    /// Returns such keys since this was last asked.
    pub(in crate::formats) fn take_new_strangers(&mut self) -> Vec<Box<str>> {
        self.0.keys.take_new_strangers()
    }

    /// Describes the keys that match no column, beside the columns.
    pub(in crate::formats) fn strangers(&self) -> String {
        let columns = self.0.keys.fields.iter().map(|field| field.name().clone());
        let strangers = self.0.keys.strangers().into_iter().map(|(key, _)| key.to_owned());
        format!("its keys are {}; the columns are {}", list(strangers), list(columns))
    }

    /// Describes the columns, and fields of structs, that no object had so far, if there were keys that are none.
    pub(in crate::formats) fn absences(&self) -> Option<String> {
        let mut found = Absences::default();
        self.0.find_absences("", &mut found);
        let Absences { fields, keys } = found;
        (!fields.is_empty()).then(|| {
            let keys = keys.into_iter().map(|(key, count)| format!("{key} ({count} times)"));
            let (fields, keys) = (list(fields.into_iter()), list(keys));
            format!("no object so far has {fields}, and these keys match no column: {keys}")
        })
    }

    /// Makes the array of a column of a block.
    pub(in crate::formats) fn column(
        &self,
        column: usize,
        rows: &JsonRows<'_>,
        bad: &mut BadRows,
    ) -> Result<ArrayRef, Cause> {
        arrays::column(&self.0.parts[column], &rows.objects.fields[column], &rows.decoded, bad)
    }

    /// Marks the bad rows of a column that nobody reads.
    pub(in crate::formats) fn check(
        &self,
        column: usize,
        rows: &JsonRows<'_>,
        bad: &mut BadRows,
    ) -> Result<(), Cause> {
        arrays::check(&self.0.parts[column], &rows.objects.fields[column], &rows.decoded, bad)
    }
}

/// The first names of a list.
fn list(names: impl Iterator<Item = String>) -> String {
    let mut names: Vec<String> = names.collect();
    if names.len() > NAMES_MAX {
        let more = names.len() - NAMES_MAX;
        names.truncate(NAMES_MAX);
        names.push(format!("and {more} more"));
    }
    names.join(", ")
}
