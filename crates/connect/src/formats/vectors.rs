//! Parses lists of numbers: `[1.5, 2, null]`, or as PostgreSQL writes them: `{1.5,2,NULL}`.

use std::sync::Arc;

use arrow_array::{ArrayRef, FixedSizeListArray, GenericListArray, OffsetSizeTrait};
use arrow_schema::{DataType, Field, FieldRef};
use tidemill_core::arrow::buffer::{NullBuffer, OffsetBuffer};
use tidemill_core::error::Cause;

use super::bad_rows::{BadRows, Texts, mismatch};

/// Makes the column of all items.
type ItemColumn = fn(&Field, &Items<'_>, &mut BadRows) -> Result<ArrayRef, Cause>;

/// The items of all rows, one after the other.
pub(super) struct Items<'a>(Vec<Option<&'a str>>);

impl Texts for Items<'_> {
    fn rows(&self) -> usize {
        self.0.len()
    }
    fn get(&self, row: usize) -> Option<&str> {
        self.0[row]
    }
}

/// A column of lists, whose items `items` converts. A fixed size is checked.
pub(super) fn column(
    field: &Field,
    texts: &impl Texts,
    bad: &mut BadRows,
    items: ItemColumn,
) -> Result<ArrayRef, Cause> {
    match field.data_type() {
        DataType::List(item) => lists::<i32>(field, item, texts, bad, items),
        DataType::LargeList(item) => lists::<i64>(field, item, texts, bad, items),
        DataType::FixedSizeList(item, size) => fixed(field, item, *size, texts, bad, items),
        other => Err(Cause::bug(format!("{other} is not a list"))),
    }
}

fn lists<O: OffsetSizeTrait>(
    field: &Field,
    item: &FieldRef,
    texts: &impl Texts,
    bad: &mut BadRows,
    convert: ItemColumn,
) -> Result<ArrayRef, Cause> {
    let (items, lengths, nulls) = split(field, texts, None, bad);
    let values = item_values(field, item, convert, items, &lengths, texts, bad)?;
    let offsets = OffsetBuffer::<O>::from_lengths(lengths);
    let array = GenericListArray::<O>::try_new(item.clone(), offsets, values, Some(nulls));
    array.map(|array| Arc::new(array) as ArrayRef).map_err(bug)
}

fn fixed(
    field: &Field,
    item: &FieldRef,
    size: i32,
    texts: &impl Texts,
    bad: &mut BadRows,
    convert: ItemColumn,
) -> Result<ArrayRef, Cause> {
    let (items, lengths, nulls) = split(field, texts, Some(size.max(0) as usize), bad);
    let values = item_values(field, item, convert, items, &lengths, texts, bad)?;
    let array = FixedSizeListArray::try_new(item.clone(), size, values, Some(nulls));
    array.map(|array| Arc::new(array) as ArrayRef).map_err(bug)
}

fn bug(error: arrow_schema::ArrowError) -> Cause {
    Cause::bug(format!("a list: {error}")).with_source(error)
}

/// The items, the number of them in each row, and which rows are not NULL.
fn split<'a>(
    field: &Field,
    texts: &'a impl Texts,
    size: Option<usize>,
    bad: &mut BadRows,
) -> (Items<'a>, Vec<usize>, NullBuffer) {
    let rows = texts.rows();
    let mut items = Vec::with_capacity(rows * size.unwrap_or(4));
    let mut lengths = Vec::with_capacity(rows);
    let mut valid = Vec::with_capacity(rows);
    for row in 0..rows {
        let text = texts.get(row).map(str::trim_ascii).filter(|text| !text.is_empty());
        let before = items.len();
        let is_list = text.is_some_and(|text| push_items(text, &mut items));
        let fits = is_list && size.is_none_or(|size| items.len() - before == size);
        if let (Some(text), false) = (text, fits) {
            bad.mark(row, rows, || mismatch(field, text));
        }
        if !fits {
            // A list of a fixed size has its items even where it is NULL.
            items.truncate(before);
            items.resize(before + size.unwrap_or(0), Some("0"));
        }
        lengths.push(items.len() - before);
        valid.push(fits);
    }
    (Items(items), lengths, NullBuffer::from(valid))
}

fn push_items<'a>(text: &'a str, items: &mut Vec<Option<&'a str>>) -> bool {
    let between = |first, last| text.strip_prefix(first).and_then(|text: &str| text.strip_suffix(last));
    let Some(inner) = between('[', ']').or_else(|| between('{', '}')) else { return false };
    if !inner.trim_ascii().is_empty() {
        let item = |text: &'a str| Some(text.trim_ascii()).filter(|text| !text.eq_ignore_ascii_case("null"));
        items.extend(inner.split(',').map(item));
    }
    true
}

fn item_values(
    field: &Field,
    item: &FieldRef,
    convert: ItemColumn,
    items: Items<'_>,
    lengths: &[usize],
    texts: &impl Texts,
    bad: &mut BadRows,
) -> Result<ArrayRef, Cause> {
    let mut bad_items = BadRows::default();
    // An empty item is neither a number nor NULL.
    for (at, text) in items.0.iter().enumerate() {
        if text.is_some_and(str::is_empty) {
            bad_items.mark(at, items.0.len(), String::new);
        }
    }
    let nullable = item.as_ref().clone().with_nullable(true);
    let values = convert(&nullable, &items, &mut bad_items)?;
    let mut first = 0;
    for (row, length) in lengths.iter().enumerate() {
        if bad_items.any_in(first..first + length) {
            bad.mark(row, lengths.len(), || mismatch(field, texts.get(row).unwrap_or_default()));
        }
        first += length;
    }
    // Bad items are NULL until their rows are filtered out; an item that may not be NULL needs some value
    // there.
    if item.is_nullable() { Ok(values) } else { without_nulls(values) }
}

fn without_nulls(values: ArrayRef) -> Result<ArrayRef, Cause> {
    let data = values.to_data().into_builder().nulls(None).build();
    data.map(arrow_array::make_array).map_err(bug)
}
