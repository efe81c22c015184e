//! What is said of the texts of a column besides their type: how long they may be (`VARCHAR(20)`), or that they are JSON or UUIDs. A row with another
//! text is bad.

use std::borrow::Cow;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, StringArray};
use arrow_cast::cast;
use arrow_schema::extension::EXTENSION_TYPE_NAME_KEY;
use arrow_schema::{DataType, Field, Schema};
use tidemill_core::error::Cause;

use super::bad_rows::BadRows;
use super::json_value::tree::Json;

/// Where a field keeps the number of characters.
const LENGTH_KEY: &str = "tidemill.characters_max";
/// Where a field keeps what its texts are.
const FORM_KEY: &str = "tidemill.text_form";
/// What Arrow calls JSON.
const JSON: &str = "arrow.json";

/// What texts are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextForm {
    /// JSON, as it is written.
    Json,
    /// JSON as PostgreSQL writes JSONB, so that equal values are equal texts.
    Jsonb,
    /// UUIDs in small letters: `a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11`.
    Uuid,
}

impl TextForm {
    const ALL: [(TextForm, &str); 3] =
        [(TextForm::Json, "JSON"), (TextForm::Jsonb, "JSONB"), (TextForm::Uuid, "UUID")];

    fn name(self) -> &'static str {
        TextForm::ALL.iter().find(|(form, _)| *form == self).map_or("", |(_, name)| name)
    }

    fn of(field: &Field) -> Option<TextForm> {
        let name = field.metadata().get(FORM_KEY)?;
        TextForm::ALL.iter().find(|(_, known)| known == name).map(|(form, _)| *form)
    }

    /// Returns a text in this form.
    fn written<'a>(self, text: &'a str) -> Result<Cow<'a, str>, String> {
        match self {
            TextForm::Json => Json::parse(text).map(|_| Cow::Borrowed(text)),
            TextForm::Jsonb => Json::parse(text).map(|value| Cow::Owned(value.to_string())),
            TextForm::Uuid => {
                uuid_text(text).map(Cow::Owned).ok_or_else(|| format!("'{text}' is not a UUID"))
            }
        }
    }
}

/// Returns the column with texts of at most this many characters.
///
/// ```
/// use tidemill_connect::formats::with_characters_max;
/// use tidemill_core::arrow::schema::{DataType, Field};
/// let name = with_characters_max(Field::new("name", DataType::Utf8, true), 20);
/// assert_eq!(name.data_type(), &DataType::Utf8);
/// ```
#[must_use]
pub fn with_characters_max(field: Field, characters_max: u64) -> Field {
    with_metadata(field, LENGTH_KEY, &characters_max.to_string())
}

/// Returns the column with texts in this form.
///
/// ```
/// use tidemill_connect::formats::{TextForm, is_json_field, with_text_form};
/// use tidemill_core::arrow::schema::{DataType, Field};
/// let doc = with_text_form(Field::new("doc", DataType::Utf8, true), TextForm::Jsonb);
/// assert!(is_json_field(&doc));
/// ```
#[must_use]
pub fn with_text_form(field: Field, form: TextForm) -> Field {
    let field = if form == TextForm::Uuid { field } else { as_json_field(field) };
    with_metadata(field, FORM_KEY, form.name())
}

/// Returns a column that is known to be JSON, without a check.
#[must_use]
pub fn as_json_field(field: Field) -> Field {
    with_metadata(field, EXTENSION_TYPE_NAME_KEY, JSON)
}

/// Returns whether a column is known to be JSON.
pub fn is_json_field(field: &Field) -> bool {
    field.metadata().get(EXTENSION_TYPE_NAME_KEY).is_some_and(|name| name == JSON)
}

fn with_metadata(field: Field, key: &str, value: &str) -> Field {
    let mut metadata = field.metadata().clone();
    metadata.insert(key.to_owned(), value.to_owned());
    field.with_metadata(metadata)
}

/// Returns a UUID as PostgreSQL writes it; `None` if a text is none.
///
/// ```
/// use tidemill_connect::formats::uuid_text;
/// let uuid = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11";
/// assert_eq!(uuid_text("{A0EEBC999C0B4EF8-bb6d-6bb9bd380a11}").as_deref(), Some(uuid));
/// assert_eq!(uuid_text("a0eebc99"), None);
/// ```
pub fn uuid_text(text: &str) -> Option<String> {
    let inner = text.strip_prefix('{').map_or(Some(text), |rest| rest.strip_suffix('}'))?;
    let mut uuid = String::with_capacity(36);
    let mut digits = 0;
    let mut rest = inner.bytes().peekable();
    while let Some(byte) = rest.next() {
        if !byte.is_ascii_hexdigit() || digits == 32 {
            return None;
        }
        if matches!(digits, 8 | 12 | 16 | 20) {
            uuid.push('-');
        }
        uuid.push(char::from(byte.to_ascii_lowercase()));
        digits += 1;
        // A hyphen may stand behind each group of four digits.
        if digits % 4 == 0 && digits < 32 {
            rest.next_if_eq(&b'-');
        }
    }
    (digits == 32).then_some(uuid)
}

/// The most characters that a text of the column may have; `None`: any number.
fn characters_max(field: &Field) -> Option<usize> {
    field.metadata().get(LENGTH_KEY)?.parse().ok()
}

/// Whether some texts are not values of the column.
pub(crate) fn is_restricted(field: &Field) -> bool {
    characters_max(field).is_some() || TextForm::of(field).is_some()
}

/// The texts of a column as they are kept, with the rows marked that must not have theirs.
pub(crate) fn checked_texts(field: &Field, values: ArrayRef, bad: &mut BadRows) -> ArrayRef {
    check_length(field, &values, bad);
    let Some(form) = TextForm::of(field) else { return values };
    let Ok(texts) = cast(&values, &DataType::Utf8) else { return values };
    let texts = texts.as_string::<i32>();
    let rows = texts.len();
    let text = |(row, text): (usize, Option<&str>)| match form.written(text?) {
        Ok(text) => Some(text.into_owned()),
        Err(reason) => {
            bad.mark(row, rows, || format!("column '{}': {reason}", field.name()));
            None
        }
    };
    let written: StringArray = texts.iter().enumerate().map(text).collect();
    cast(&written, values.data_type()).unwrap_or_else(|_| Arc::new(written))
}

/// Returns texts as a column keeps them.
///
/// # Errors
/// If one of them is too long for it, or not what it says.
pub fn kept_texts(field: &Field, values: ArrayRef) -> Result<ArrayRef, Cause> {
    if !is_restricted(field) {
        return Ok(values);
    }
    let mut bad = BadRows::default();
    let texts = checked_texts(field, values, &mut bad);
    match bad.first() {
        Some(reason) => Err(Cause::user(reason)),
        None => Ok(texts),
    }
}

/// Marks the rows whose text is too long.
fn check_length(field: &Field, values: &ArrayRef, bad: &mut BadRows) {
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

/// Refuses such columns in a format that does not check them.
pub(crate) fn refuse_restricted(schema: &Schema, format: &str) -> Result<(), Cause> {
    match schema.fields().iter().find(|field| is_restricted(field)) {
        None => Ok(()),
        Some(field) => Err(Cause::user(format!(
            "column '{}': the format {format} does not check lengths and forms of texts; write VARCHAR",
            field.name()
        ))),
    }
}
