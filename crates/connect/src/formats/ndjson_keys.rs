//! Assigns the keys of an object to columns: the key with exactly the column's name, or else one that differs only in
//! case. Objects are decoded with the keys of the previous objects; this module finds out where an object has different
//! ones.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::{Array, RecordBatch};
use arrow_schema::{Schema, SchemaRef};

use super::ndjson_fields::raw_field;

/// The keys as the columns are declared.
pub(super) fn as_declared(declared: &Schema) -> SchemaRef {
    let fields = declared.fields().iter().map(|field| raw_field(field, field.name()));
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// Consecutive rows whose objects have the same keys.
pub(super) struct KeyRun {
    pub(super) rows: Range<usize>,
    /// How they write them; the reason if two of their keys could be the same column.
    pub(super) keys: Result<SchemaRef, String>,
}

/// The rows of a batch whose objects write a key differently than `raw`, by which it was decoded.
///
/// If all columns found values under their declared names, there is nothing to search. Otherwise the texts are searched
/// for column names in another case, and only objects that contain one are parsed again.
pub(super) fn written_otherwise<'a>(
    raw: &Schema,
    declared: &Schema,
    batch: &RecordBatch,
    text_of: impl Fn(usize) -> &'a [u8],
) -> Vec<KeyRun> {
    let is_respelled = |column: usize| raw.field(column).name() != declared.field(column).name();
    let may_differ = |column: &usize| is_respelled(*column) || batch.column(*column).null_count() > 0;
    let columns: Vec<usize> = (0..batch.num_columns()).filter(may_differ).collect();
    let mut runs: Vec<KeyRun> = Vec::new();
    if columns.is_empty() {
        return runs;
    }
    for row in 0..batch.num_rows() {
        let text = text_of(row);
        let could_differ = |column: &usize| {
            (is_respelled(*column) || batch.column(*column).is_null(row))
                && has_like(text, declared.field(*column).name(), raw.field(*column).name())
        };
        if !columns.iter().any(could_differ) {
            continue;
        }
        let keys = keys_of(declared, text);
        match runs.last_mut() {
            _ if keys.as_ref().is_ok_and(|own| own.as_ref() == raw) => {}
            Some(run) if run.rows.end == row && run.keys == keys => run.rows.end += 1,
            _ => runs.push(KeyRun { rows: row..row + 1, keys }),
        }
    }
    runs
}

/// Whether a text has a string that is a column's name in another case than the key that was used.
fn has_like(text: &[u8], name: &str, looked_for: &str) -> bool {
    if !name.is_ascii() {
        return true;
    }
    let name = name.as_bytes();
    memchr::memchr_iter(b'"', text).any(|quote| {
        let Some(found) = text.get(quote + 1..quote + 1 + name.len()) else { return false };
        text.get(quote + 1 + name.len()) == Some(&b'"')
            && found.eq_ignore_ascii_case(name)
            && found != looked_for.as_bytes()
    })
}

/// The columns as an object writes their names.
fn keys_of(declared: &Schema, text: &[u8]) -> Result<SchemaRef, String> {
    let keys: Vec<&str> =
        outermost_keys(text).into_iter().filter_map(|key| std::str::from_utf8(key).ok()).collect();
    let mut fields = Vec::with_capacity(declared.fields().len());
    for field in declared.fields() {
        let name = field.name().as_str();
        let is_like =
            |key: &&&str| key.to_lowercase() == name.to_lowercase() && declared.index_of(key).is_err();
        let mut like = keys.iter().filter(is_like);
        let key = match (keys.contains(&name), like.next(), like.next()) {
            (true, ..) | (false, None, _) => name,
            (false, Some(key), None) => key,
            (false, Some(key), Some(other)) => {
                return Err(format!("column '{name}': both '{key}' and '{other}' could be its key"));
            }
        };
        fields.push(raw_field(field, key));
    }
    Ok(Arc::new(Schema::new(fields)))
}

/// The keys of an object in their order, as they are written; arbitrary if the line is not an object.
pub(crate) fn outermost_keys(line: &[u8]) -> Vec<&[u8]> {
    let mut found = Vec::new();
    let (mut at, mut depth) = (0, 0);
    // A key is the string after the brace or a comma of the outermost object.
    let mut is_key = false;
    while let Some(&byte) = line.get(at) {
        match byte {
            b'"' => {
                let end = end_of_string(line, at + 1);
                if is_key && depth == 1 {
                    found.push(&line[at + 1..end]);
                }
                is_key = false;
                at = end;
            }
            b'{' | b'[' => (depth, is_key) = (depth + 1, byte == b'{'),
            b'}' | b']' => depth -= 1,
            b',' => is_key = true,
            _ => {}
        }
        at += 1;
    }
    found
}

/// Where the closing quote is.
fn end_of_string(line: &[u8], mut at: usize) -> usize {
    while at < line.len() && line[at] != b'"' {
        at += if line[at] == b'\\' { 2 } else { 1 };
    }
    at.min(line.len())
}
