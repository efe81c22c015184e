//! Texts within queries, read as the text formats read them.

use arrow_array::{Array, ArrayRef, StringArray};
use arrow_schema::{DataType, Field};
use tidemill_core::error::Cause;

use super::bad_rows::{BadRows, Texts, not_of_type};
use super::values;

/// The values that texts denote.
#[derive(Clone, Debug)]
pub struct TextValues {
    /// The values; NULL where a text denotes none.
    pub values: ArrayRef,
    /// Why the first text without a value has none.
    pub refused: Option<String>,
}

struct Strings<'a>(&'a StringArray);

impl Texts for Strings<'_> {
    fn rows(&self) -> usize {
        self.0.len()
    }

    fn get(&self, row: usize) -> Option<&str> {
        self.0.is_valid(row).then(|| self.0.value(row))
    }
}

/// Reads texts as values of a type, by the rules of CSV and JSON. An empty text is not a value.
///
/// ```
/// use tidemill_connect::formats::text_values;
/// use tidemill_core::arrow::array::StringArray;
/// use tidemill_core::arrow::schema::DataType;
///
/// let texts = StringArray::from(vec![Some("1e3"), None, Some("many")]);
/// let read = text_values(&texts, &DataType::Decimal128(10, 2))?;
/// assert_eq!(read.refused.as_deref(), Some("'many' is not a DECIMAL(10, 2)"));
/// assert_eq!(read.values.null_count(), 2);
/// # Ok::<(), tidemill_core::Cause>(())
/// ```
///
/// # Errors
/// [`Cause::user`] if no text denotes a value of such a type.
pub fn text_values(texts: &StringArray, data_type: &DataType) -> Result<TextValues, Cause> {
    let mut bad = BadRows::default();
    let values = values::column(&Field::new("", data_type.clone(), true), &Strings(texts), &mut bad)?;
    let is_refused = |row: &usize| texts.is_valid(*row) && values.is_null(*row);
    let refused = (0..texts.len()).find(is_refused).map(|row| not_of_type(data_type, texts.value(row)));
    Ok(TextValues { values, refused })
}
