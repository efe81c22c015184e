//! Parses nested values as PostgreSQL writes them: lists `{1.5,2,NULL}`, `{"a, b",c}`, `{{1,2},{3,4}}`, and rows `(1,"a b",)`. A map is a list of rows,
//! each of a key and its value. A list may also be written in brackets, `[1.5, 2, null]`, as vectors are.

use std::borrow::Cow;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{
    Array, ArrayRef, FixedSizeListArray, GenericListArray, MapArray, OffsetSizeTrait, StructArray,
};
use arrow_schema::{DataType, Field, FieldRef, Fields};
use tidemill_core::arrow::buffer::{NullBuffer, OffsetBuffer};
use tidemill_core::error::Cause;

use super::bad_rows::{BadRows, Texts, mismatch};

/// Makes the column of all parts.
type PartColumn = fn(&Field, &Parts<'_>, &mut BadRows) -> Result<ArrayRef, Cause>;

/// The text of a part of a value; `None`: NULL.
type Part<'a> = Option<Cow<'a, str>>;

/// The parts of all rows, one after the other.
pub(super) struct Parts<'a>(Vec<Part<'a>>);

impl Texts for Parts<'_> {
    fn rows(&self) -> usize {
        self.0.len()
    }
    fn get(&self, row: usize) -> Option<&str> {
        self.0[row].as_deref()
    }
}

/// A column of nested values, whose parts `convert` converts. A fixed size is checked.
pub(super) fn column(
    field: &Field,
    texts: &impl Texts,
    bad: &mut BadRows,
    convert: PartColumn,
) -> Result<ArrayRef, Cause> {
    match field.data_type() {
        DataType::List(item) => lists::<i32>(field, item, texts, bad, convert),
        DataType::LargeList(item) => lists::<i64>(field, item, texts, bad, convert),
        DataType::FixedSizeList(item, size) => fixed(field, item, *size, texts, bad, convert),
        DataType::Struct(parts) => rows(field, parts, texts, bad, convert),
        DataType::Map(entries, is_sorted) => maps(field, (entries, *is_sorted), texts, bad, convert),
        other => Err(Cause::bug(format!("{other} has no parts"))),
    }
}

fn lists<O: OffsetSizeTrait>(
    field: &Field,
    item: &FieldRef,
    texts: &impl Texts,
    bad: &mut BadRows,
    convert: PartColumn,
) -> Result<ArrayRef, Cause> {
    let (items, lengths, nulls) = split(field, item, texts, None, bad);
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
    convert: PartColumn,
) -> Result<ArrayRef, Cause> {
    let (items, lengths, nulls) = split(field, item, texts, Some(size.max(0) as usize), bad);
    let values = item_values(field, item, convert, items, &lengths, texts, bad)?;
    let array = FixedSizeListArray::try_new(item.clone(), size, values, Some(nulls));
    array.map(|array| Arc::new(array) as ArrayRef).map_err(bug)
}

fn maps(
    field: &Field,
    (entries, is_sorted): (&FieldRef, bool),
    texts: &impl Texts,
    bad: &mut BadRows,
    convert: PartColumn,
) -> Result<ArrayRef, Cause> {
    let (items, lengths, nulls) = split(field, entries, texts, None, bad);
    let values = item_values(field, entries, convert, items, &lengths, texts, bad)?;
    let offsets = OffsetBuffer::<i32>::from_lengths(lengths);
    let entry_values = values.as_struct().clone();
    let array = MapArray::try_new(entries.clone(), offsets, entry_values, Some(nulls), is_sorted);
    array.map(|array| Arc::new(array) as ArrayRef).map_err(bug)
}

fn rows(
    field: &Field,
    parts: &Fields,
    texts: &impl Texts,
    bad: &mut BadRows,
    convert: PartColumn,
) -> Result<ArrayRef, Cause> {
    let count = texts.rows();
    let mut columns: Vec<Vec<Part<'_>>> = vec![Vec::with_capacity(count); parts.len()];
    let mut valid = Vec::with_capacity(count);
    for row in 0..count {
        let text = texts.get(row).map(str::trim_ascii).filter(|text| !text.is_empty());
        let values = text.and_then(parts_of_row).filter(|values| values.len() == parts.len());
        if let (Some(text), None) = (text, &values) {
            bad.mark(row, count, || mismatch(field, text));
        }
        valid.push(values.is_some());
        let values = values.unwrap_or_else(|| vec![None; parts.len()]);
        columns.iter_mut().zip(values).for_each(|(column, value)| column.push(value));
    }
    let ones = vec![1; count];
    let columns = columns.into_iter().zip(parts);
    let columns = columns
        .map(|(values, part)| item_values(field, part, convert, Parts(values), &ones, texts, bad))
        .collect::<Result<Vec<_>, Cause>>()?;
    let nulls = Some(NullBuffer::from(valid));
    let array = StructArray::try_new_with_length(parts.clone(), columns, nulls, count);
    array.map(|array| Arc::new(array) as ArrayRef).map_err(bug)
}

fn bug(error: arrow_schema::ArrowError) -> Cause {
    Cause::bug(format!("a nested value: {error}")).with_source(error)
}

/// The items, the number of them in each row, and which rows are not NULL.
fn split<'a>(
    field: &Field,
    item: &Field,
    texts: &'a impl Texts,
    size: Option<usize>,
    bad: &mut BadRows,
) -> (Parts<'a>, Vec<usize>, NullBuffer) {
    let has_lists =
        matches!(item.data_type(), DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(..));
    let rows = texts.rows();
    let mut items = Vec::with_capacity(rows * size.unwrap_or(4));
    let mut lengths = Vec::with_capacity(rows);
    let mut valid = Vec::with_capacity(rows);
    for row in 0..rows {
        let text = texts.get(row).map(str::trim_ascii).filter(|text| !text.is_empty());
        let before = items.len();
        let is_list = text.is_some_and(|text| push_items(text, has_lists, &mut items).is_some());
        let fits = is_list && size.is_none_or(|size| items.len() - before == size);
        if let (Some(text), false) = (text, fits) {
            bad.mark(row, rows, || mismatch(field, text));
        }
        if !fits {
            // A list of a fixed size has its items even where it is NULL.
            items.truncate(before);
            items.resize(before + size.unwrap_or(0), None);
        }
        lengths.push(items.len() - before);
        valid.push(fits);
    }
    (Parts(items), lengths, NullBuffer::from(valid))
}

/// Adds the items of a list, which may be lists if it `has_lists`; `None` if it is none.
fn push_items<'a>(text: &'a str, has_lists: bool, items: &mut Vec<Part<'a>>) -> Option<()> {
    let between = |first, last| text.strip_prefix(first).and_then(|text: &str| text.strip_suffix(last));
    let inner = between('[', ']').or_else(|| between('{', '}'))?;
    if inner.trim_ascii().is_empty() {
        return Some(());
    }
    if !inner.contains(['"', '\\', '{', '[', '}', ']']) {
        for item in inner.split(',') {
            let item = item.trim_ascii();
            // An empty item is neither a value nor NULL.
            if item.is_empty() {
                return None;
            }
            items.push((!item.eq_ignore_ascii_case("null")).then_some(Cow::Borrowed(item)));
        }
        return Some(());
    }
    let mut rest = inner.trim_ascii_start();
    loop {
        let (item, is_quoted, behind) = if has_lists && rest.starts_with(['{', '[']) {
            let length = nested_length(rest)?;
            (Cow::Borrowed(&rest[..length]), true, &rest[length..])
        } else {
            part(rest, true)?
        };
        if item.is_empty() && !is_quoted {
            return None;
        }
        items.push((is_quoted || !item.eq_ignore_ascii_case("null")).then_some(item));
        let behind = behind.trim_ascii_start();
        if behind.is_empty() {
            return Some(());
        }
        rest = behind.strip_prefix(',')?.trim_ascii_start();
    }
}

/// The parts of a row; `None` if it is none. What is empty is NULL, and blanks count.
fn parts_of_row(text: &str) -> Option<Vec<Part<'_>>> {
    let mut rest = text.strip_prefix('(')?.strip_suffix(')')?;
    let mut parts = Vec::new();
    loop {
        let (value, is_quoted, behind) = part(rest, false)?;
        parts.push((is_quoted || !value.is_empty()).then_some(value));
        if behind.is_empty() {
            return Some(parts);
        }
        rest = behind.strip_prefix(',')?;
    }
}

/// What stands around lists, and in an item only in quotes.
const BRACES: [char; 4] = ['{', '}', '[', ']'];

/// The part at the beginning, up to a comma, whether it has quotes, and what follows it; `None` if a quote is not closed. In quotes, one stands
/// for itself behind a backslash, or twice.
fn part(text: &str, is_item: bool) -> Option<(Cow<'_, str>, bool, &str)> {
    let plain = text.find([',', '"', '\\']).unwrap_or(text.len());
    if !text[plain..].starts_with(['"', '\\']) {
        let value = if is_item { text[..plain].trim_ascii_end() } else { &text[..plain] };
        let is_plain = !(is_item && value.contains(BRACES));
        return is_plain.then_some((Cow::Borrowed(value), false, &text[plain..]));
    }
    let (mut value, mut in_quotes, mut is_quoted) = (String::new(), false, false);
    let mut letters = text.char_indices().peekable();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '\\' => {
                value.push(letters.next()?.1);
                is_quoted = true;
            }
            '"' if in_quotes && letters.next_if(|(_, next)| *next == '"').is_some() => value.push('"'),
            '"' => {
                in_quotes = !in_quotes;
                is_quoted = true;
            }
            ',' if !in_quotes => return Some((Cow::Owned(value), is_quoted, &text[at..])),
            // Blanks behind the quotes of an item.
            blank if is_item && is_quoted && !in_quotes && blank.is_ascii_whitespace() => {}
            brace if is_item && !in_quotes && BRACES.contains(&brace) => return None,
            other => value.push(other),
        }
    }
    (!in_quotes).then_some((Cow::Owned(value), is_quoted, ""))
}

/// The length of the list at the beginning.
fn nested_length(text: &str) -> Option<usize> {
    let (mut depth, mut in_quotes, mut letters) = (0_usize, false, text.char_indices());
    while let Some((at, letter)) = letters.next() {
        match letter {
            '\\' => {
                letters.next()?;
            }
            '"' => in_quotes = !in_quotes,
            '{' | '[' if !in_quotes => depth += 1,
            '}' | ']' if !in_quotes => {
                depth -= 1;
                if depth == 0 {
                    return Some(at + 1);
                }
            }
            _ => {}
        }
    }
    None
}

fn item_values(
    field: &Field,
    item: &FieldRef,
    convert: PartColumn,
    items: Parts<'_>,
    lengths: &[usize],
    texts: &impl Texts,
    bad: &mut BadRows,
) -> Result<ArrayRef, Cause> {
    let mut bad_items = BadRows::default();
    let nullable = item.as_ref().clone().with_nullable(true);
    let values = convert(&nullable, &items, &mut bad_items)?;
    let mut first = 0;
    for (row, length) in lengths.iter().enumerate() {
        let parts = first..first + length;
        let text = texts.get(row).filter(|text| !text.trim_ascii().is_empty());
        let lacks_one = || !item.is_nullable() && items.0[parts.clone()].iter().any(Option::is_none);
        if let Some(text) = text.filter(|_| bad_items.any_in(parts.clone()) || lacks_one()) {
            bad.mark(row, lengths.len(), || mismatch(field, text));
        }
        first = parts.end;
    }
    // Bad items are NULL until their rows are filtered out; an item that may not be NULL needs some value
    // there.
    if item.is_nullable() { Ok(values) } else { without_nulls(values) }
}

fn without_nulls(values: ArrayRef) -> Result<ArrayRef, Cause> {
    let data = values.to_data().into_builder().nulls(None).build();
    data.map(arrow_array::make_array).map_err(bug)
}
