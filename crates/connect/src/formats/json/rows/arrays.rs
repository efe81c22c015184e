//! Makes the arrays of columns. A value that its part cannot have marks the row of the column as bad, however deep it lies.

use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, FixedSizeListArray, GenericListArray, MapArray, OffsetSizeTrait, StructArray,
    UInt64Array,
};
use arrow_schema::{ArrowError, DataType, Field, FieldRef};
use arrow_select::take::take;
use tidemill_core::arrow::buffer::{NullBuffer, OffsetBuffer};
use tidemill_core::error::Cause;

use super::collected::{Collected, Objects, PartTexts, Values};
use super::shape::{Object, Part, Shape};
use crate::formats::bad_rows::{BadRows, mismatch, no_value};
use crate::formats::values;

/// Makes the array of a column.
pub(super) fn column(
    part: &Part,
    collected: &Collected<'_>,
    decoded: &str,
    bad: &mut BadRows,
) -> Result<ArrayRef, Cause> {
    let array = array(part, collected, decoded, bad)?;
    if !part.field.is_nullable() && array.null_count() > 0 {
        for row in (0..array.len()).filter(|row| array.is_null(*row)) {
            bad.mark(row, array.len(), || no_value(&part.field));
        }
    }
    Ok(array)
}

/// Marks the rows that [`column`] would mark, for a column that nobody reads.
pub(super) fn check(
    part: &Part,
    collected: &Collected<'_>,
    decoded: &str,
    bad: &mut BadRows,
) -> Result<(), Cause> {
    match &collected.values {
        Values::Texts(texts) => values::check(&part.field, &PartTexts { texts, decoded }, bad),
        _ => column(part, collected, decoded, bad).map(drop),
    }
}

fn array(
    part: &Part,
    collected: &Collected<'_>,
    decoded: &str,
    bad: &mut BadRows,
) -> Result<ArrayRef, Cause> {
    let rows = collected.rows();
    for (row, text) in &collected.mismatched {
        bad.mark(*row, rows, || mismatch(&part.field, text));
    }
    match (&part.shape, &collected.values) {
        (_, Values::Texts(texts)) => values::column(&part.field, &PartTexts { texts, decoded }, bad),
        (Shape::Object(object), Values::Objects(objects)) => structs(part, object, objects, decoded, bad),
        (Shape::List(item), Values::Lists { valid, ends, items }) => {
            let valid = NullBuffer::from(valid.as_slice());
            let values = bad.within(owners(ends), rows, |bad| inner(item, &items[0], None, decoded, bad))?;
            lists(part, &valid, ends, values, bad)
        }
        (Shape::Map(entry), Values::Lists { valid, ends, items }) => {
            let valid = NullBuffer::from(valid.as_slice());
            let columns = bad.within(owners(ends), rows, |bad| {
                let columns =
                    entry.iter().zip(items).map(|(part, items)| inner(part, items, None, decoded, bad));
                columns.collect::<Result<Vec<_>, Cause>>()
            })?;
            maps(part, valid, ends, columns)
        }
        _ => Err(Cause::bug(format!("column '{}' was not read as it is declared", part.field.name()))),
    }
}

/// Makes the array of a part, which may have to have a value wherever `around` has one.
fn inner(
    part: &Part,
    collected: &Collected<'_>,
    around: Option<&[bool]>,
    decoded: &str,
    bad: &mut BadRows,
) -> Result<ArrayRef, Cause> {
    let array = array(part, collected, decoded, bad)?;
    if !part.is_required || array.null_count() == 0 {
        return Ok(array);
    }
    for row in (0..array.len()).filter(|row| array.is_null(*row)) {
        if around.is_none_or(|around| around[row]) {
            bad.mark(row, array.len(), || no_value(&part.field));
        }
    }
    // The rows are left out later, but the array is made before, and needs some value there.
    let data = array.to_data().into_builder().nulls(None).build();
    data.map(arrow_array::make_array).map_err(|error| bug(part, error))
}

fn structs(
    part: &Part,
    object: &Object,
    objects: &Objects<'_>,
    decoded: &str,
    bad: &mut BadRows,
) -> Result<ArrayRef, Cause> {
    let columns = object.parts.iter().zip(&objects.fields);
    let columns = columns.map(|(part, field)| inner(part, field, Some(&objects.valid), decoded, bad));
    let columns = columns.collect::<Result<Vec<_>, Cause>>()?;
    let fields = object.keys.fields.clone();
    let nulls = Some(NullBuffer::from(objects.valid.as_slice())).filter(|nulls| nulls.null_count() > 0);
    let array = StructArray::try_new_with_length(fields.into(), columns, nulls, objects.valid.len());
    array.map(|array| Arc::new(array) as ArrayRef).map_err(|error| bug(part, error))
}

fn lists(
    part: &Part,
    valid: &NullBuffer,
    ends: &[usize],
    values: ArrayRef,
    bad: &mut BadRows,
) -> Result<ArrayRef, Cause> {
    fn of_any_length<O: OffsetSizeTrait>(
        item: &FieldRef,
        valid: &NullBuffer,
        ends: &[usize],
        values: ArrayRef,
    ) -> Result<ArrayRef, ArrowError> {
        let nulls = Some(valid.clone()).filter(|nulls| nulls.null_count() > 0);
        let array = GenericListArray::<O>::try_new(Arc::clone(item), offsets(ends), values, nulls)?;
        Ok(Arc::new(array))
    }
    let array = match part.field.data_type() {
        DataType::List(item) => of_any_length::<i32>(item, valid, ends, values),
        DataType::LargeList(item) => of_any_length::<i64>(item, valid, ends, values),
        DataType::FixedSizeList(item, size) => of_length(&part.field, item, *size, valid, ends, &values, bad),
        other => return Err(Cause::bug(format!("{other} is not a list"))),
    };
    array.map_err(|error| bug(part, error))
}

fn of_length(
    field: &Field,
    item: &FieldRef,
    size: i32,
    valid: &NullBuffer,
    ends: &[usize],
    values: &ArrayRef,
    bad: &mut BadRows,
) -> Result<ArrayRef, ArrowError> {
    let wanted = size.max(0) as usize;
    let (mut places, mut nulls, mut start) = (Vec::with_capacity(ends.len() * wanted), Vec::new(), 0);
    for (row, end) in ends.iter().enumerate() {
        let found = end - start;
        let fits = valid.is_valid(row) && found == wanted;
        if valid.is_valid(row) && !fits {
            let name = field.name();
            bad.mark(row, ends.len(), || format!("column '{name}': {found} values instead of {wanted}"));
        }
        // A list of a fixed size has its items even where it is NULL.
        places.extend((0..wanted).map(|item| fits.then_some((start + item) as u64)));
        nulls.push(fits);
        start = *end;
    }
    let mut values = take(values, &UInt64Array::from(places), None)?;
    if !item.is_nullable() {
        values = arrow_array::make_array(values.to_data().into_builder().nulls(None).build()?);
    }
    let array = FixedSizeListArray::try_new(Arc::clone(item), size, values, Some(nulls.into()))?;
    Ok(Arc::new(array))
}

fn maps(part: &Part, valid: NullBuffer, ends: &[usize], columns: Vec<ArrayRef>) -> Result<ArrayRef, Cause> {
    let DataType::Map(entries, ordered) = part.field.data_type() else {
        return Err(Cause::bug(format!("{} is not a map", part.field.data_type())));
    };
    let DataType::Struct(fields) = entries.data_type() else {
        return Err(Cause::bug(format!("{} is not a map's entry", entries.data_type())));
    };
    let array = StructArray::try_new(fields.clone(), columns, None)
        .and_then(|rows| MapArray::try_new(Arc::clone(entries), offsets(ends), rows, Some(valid), *ordered));
    array.map(|array| Arc::new(array) as ArrayRef).map_err(|error| bug(part, error))
}

fn offsets<O: OffsetSizeTrait>(ends: &[usize]) -> OffsetBuffer<O> {
    let starts = std::iter::once(&0).chain(ends);
    OffsetBuffer::from_lengths(starts.zip(ends).map(|(start, end)| end - start))
}

/// The row of each item.
fn owners(ends: &[usize]) -> Vec<usize> {
    let mut owners = Vec::with_capacity(ends.last().copied().unwrap_or(0));
    for (row, end) in ends.iter().enumerate() {
        owners.resize(*end, row);
    }
    owners
}

fn bug(part: &Part, error: ArrowError) -> Cause {
    Cause::bug(format!("column '{}': {error}", part.field.name())).with_source(error)
}
