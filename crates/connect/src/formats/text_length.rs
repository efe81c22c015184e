//! The longest text that a column may have: `VARCHAR(20)`. A row with a longer one is bad.

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};
use arrow_schema::{DataType, Field, Schema};
use tidemill_core::error::Cause;

use super::bad_rows::BadRows;

/// Where a field keeps the number.
const KEY: &str = "tidemill.characters_max";

/// The column with texts of at most this many characters.
///
/// ```
/// use tidemill_connect::formats::with_characters_max;
/// use tidemill_core::arrow::schema::{DataType, Field};
/// let name = with_characters_max(Field::new("name", DataType::Utf8, true), 20);
/// assert_eq!(name.data_type(), &DataType::Utf8);
/// ```
#[must_use]
pub fn with_characters_max(field: Field, characters_max: u64) -> Field {
    let mut metadata = field.metadata().clone();
    metadata.insert(KEY.to_owned(), characters_max.to_string());
    field.with_metadata(metadata)
}

/// The most characters that a text of the column may have; `None`: any number.
pub(crate) fn characters_max(field: &Field) -> Option<usize> {
    field.metadata().get(KEY)?.parse().ok()
}

/// Marks the rows whose text is too long.
pub(crate) fn check_length(field: &Field, values: &ArrayRef, bad: &mut BadRows) {
    let Some(most) = characters_max(field) else { return };
    let rows = values.len();
    let mut check = |(row, text): (usize, Option<&str>)| {
        // Bytes are quick to count, and there are at least as many.
        let is_long = text.is_some_and(|text| text.len() > most && text.chars().count() > most);
        if is_long {
            bad.mark(row, rows, || {
                let characters = text.unwrap_or_default().chars().count();
                format!("column '{}': {characters} characters do not fit into VARCHAR({most})", field.name())
            });
        }
    };
    match values.data_type() {
        DataType::Utf8 => values.as_string::<i32>().iter().enumerate().for_each(&mut check),
        DataType::LargeUtf8 => values.as_string::<i64>().iter().enumerate().for_each(&mut check),
        DataType::Utf8View => values.as_string_view().iter().enumerate().for_each(&mut check),
        _ => {}
    }
}

/// Refuses lengths in a format that does not check them.
pub(crate) fn refuse_lengths(schema: &Schema, format: &str) -> Result<(), Cause> {
    match schema.fields().iter().find(|field| characters_max(field).is_some()) {
        None => Ok(()),
        Some(field) => Err(Cause::user(format!(
            "column '{}': the format {format} does not check lengths; write VARCHAR",
            field.name()
        ))),
    }
}
