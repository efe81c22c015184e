//! Converts texts to typed columns. A text that is not a value of its column's type marks its row as bad.

use std::borrow::Cow;
use std::sync::Arc;

use arrow_array::builder::{
    BinaryBuilder, BooleanBuilder, GenericStringBuilder, PrimitiveBuilder, StringDictionaryBuilder,
    StringViewBuilder,
};
use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::{
    Array, ArrayRef, ArrowPrimitiveType, OffsetSizeTrait, RecordBatch, RecordBatchOptions, StringArray,
};
use arrow_cast::parse::Parser;
use arrow_cast::{CastOptions, can_cast_types, cast_with_options};
use arrow_schema::{ArrowError, DataType, Field, SchemaRef, TimeUnit};
use arrow_select::filter::filter;
use tidemill_core::error::Cause;

use super::bad_rows::{BadRows, Texts, mismatch, no_value};
use super::decimal_text::decimal_in_digits;
use super::epoch::Epoch;
use super::interval_text::interval_in_units;
use super::nested_texts;
use super::sql_type::sql_type;
use super::text_form::{checked_texts, is_restricted};
use super::times::{TimestampParser, parse_date, parse_time};

/// Whether texts can be converted to this type.
pub(crate) fn is_supported(data_type: &DataType) -> bool {
    match data_type {
        DataType::List(part)
        | DataType::LargeList(part)
        | DataType::FixedSizeList(part, _)
        | DataType::Map(part, _) => is_supported(part.data_type()),
        DataType::Struct(parts) => parts.iter().all(|part| is_supported(part.data_type())),
        DataType::Dictionary(_, value) => value.as_ref() == &DataType::Utf8,
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => {
            true
        }
        other => !other.is_nested() && can_cast_types(&DataType::Utf8, other),
    }
}

/// Makes a column. Bad values become NULL in rows that are marked; so do NULLs where none are allowed.
pub(crate) fn column(field: &Field, texts: &impl Texts, bad: &mut BadRows) -> Result<ArrayRef, Cause> {
    let array = checked_texts(field, typed(field, texts, bad)?, bad);
    if !field.is_nullable() && array.logical_null_count() > 0 {
        for row in (0..array.len()).filter(|row| array.is_null(*row)) {
            bad.mark(row, array.len(), || no_value(field));
        }
    }
    Ok(array)
}

/// Marks the rows that [`column`] would mark, for a column that nobody reads.
pub(crate) fn check(field: &Field, texts: &impl Texts, bad: &mut BadRows) -> Result<(), Cause> {
    if !is_plain_text(field.data_type()) || is_restricted(field) {
        return column(field, texts, bad).map(drop);
    }
    if !field.is_nullable() {
        for row in (0..texts.rows()).filter(|row| texts.get(*row).is_none()) {
            bad.mark(row, texts.rows(), || no_value(field));
        }
    }
    Ok(())
}

/// Whether some texts are not values of a column.
pub(crate) fn can_mismatch(field: &Field) -> bool {
    !field.is_nullable() || !is_plain_text(field.data_type()) || is_restricted(field)
}

fn is_plain_text(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

fn typed(field: &Field, texts: &impl Texts, bad: &mut BadRows) -> Result<ArrayRef, Cause> {
    macro_rules! primitive {
        ($type:ty, $parse:expr) => {
            Ok(primitives::<$type>(field, texts, bad, $parse))
        };
    }
    match field.data_type() {
        DataType::Boolean => Ok(booleans(field, texts, bad)),
        DataType::Int8 => primitive!(Int8Type, integer::<Int8Type>),
        DataType::Int16 => primitive!(Int16Type, integer::<Int16Type>),
        DataType::Int32 => primitive!(Int32Type, integer::<Int32Type>),
        DataType::Int64 => primitive!(Int64Type, integer::<Int64Type>),
        DataType::UInt8 => primitive!(UInt8Type, integer::<UInt8Type>),
        DataType::UInt16 => primitive!(UInt16Type, integer::<UInt16Type>),
        DataType::UInt32 => primitive!(UInt32Type, integer::<UInt32Type>),
        DataType::UInt64 => primitive!(UInt64Type, integer::<UInt64Type>),
        DataType::Float32 => {
            primitive!(Float32Type, |text| Float32Type::parse(text)
                .filter(|v| fits(*v as f64, text))
                .map(|v| if v.is_nan() { f32::NAN } else { v }))
        }
        DataType::Float64 => {
            primitive!(Float64Type, |text| Float64Type::parse(text)
                .filter(|v| fits(*v, text))
                .map(|v| if v.is_nan() { f64::NAN } else { v }))
        }
        DataType::Date32 => primitive!(Date32Type, parse_date),
        DataType::Time64(TimeUnit::Nanosecond) => primitive!(Time64NanosecondType, parse_time),
        DataType::Timestamp(unit, zone) => {
            let parser = TimestampParser::new(zone.as_deref())?.or_numbers(Epoch::of(field));
            match unit {
                TimeUnit::Second => primitive!(TimestampSecondType, |text| parser.seconds(text)),
                TimeUnit::Millisecond => {
                    primitive!(TimestampMillisecondType, |text| parser.milliseconds(text))
                }
                TimeUnit::Microsecond => {
                    primitive!(TimestampMicrosecondType, |text| parser.microseconds(text))
                }
                TimeUnit::Nanosecond => primitive!(TimestampNanosecondType, |text| parser.nanoseconds(text)),
            }
        }
        DataType::Utf8 => Ok(strings::<i32>(texts)),
        DataType::LargeUtf8 => Ok(strings::<i64>(texts)),
        DataType::Utf8View => Ok(string_views(texts)),
        DataType::Dictionary(key, value) if value.as_ref() == &DataType::Utf8 => {
            dictionary(field, key, texts, bad)
        }
        nested if nested.is_nested() => {
            nested_texts::column(field, texts, bad, |field, parts, bad| column(field, parts, bad))
        }
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => {
            bytes(field, texts, bad)
        }
        _ => by_cast(field, texts, bad),
    }
}

fn primitives<T: ArrowPrimitiveType>(
    field: &Field,
    texts: &impl Texts,
    bad: &mut BadRows,
    parse: impl Fn(&str) -> Option<T::Native>,
) -> ArrayRef {
    let rows = texts.rows();
    let mut builder = PrimitiveBuilder::<T>::with_capacity(rows).with_data_type(field.data_type().clone());
    for row in 0..rows {
        match texts.get(row) {
            None => builder.append_null(),
            Some(text) => match parse(text) {
                Some(value) => builder.append_value(value),
                None => append_trimmed(&mut builder, field, text, row, rows, bad, &parse),
            },
        }
    }
    Arc::new(builder.finish())
}

/// The text was not understood: trying again without surrounding blanks, which may leave it empty.
#[cold]
fn append_trimmed<T: ArrowPrimitiveType>(
    builder: &mut PrimitiveBuilder<T>,
    field: &Field,
    text: &str,
    row: usize,
    rows: usize,
    bad: &mut BadRows,
    parse: impl Fn(&str) -> Option<T::Native>,
) {
    let trimmed = text.trim_ascii();
    let value = parse(trimmed);
    if value.is_none() && !trimmed.is_empty() {
        bad.mark(row, rows, || mismatch(field, text));
    }
    builder.append_option(value);
}

/// An integer, even if written with a fraction or an exponent (`5.0`, `1e3`).
fn integer<T: Parser>(text: &str) -> Option<T::Native> {
    T::parse(text).or_else(|| {
        const EXACT_MAX: f64 = 9_007_199_254_740_992.0;
        let is_decimal = text.bytes().any(|byte| matches!(byte, b'.' | b'e' | b'E'));
        let value = Float64Type::parse(text).filter(|value| is_decimal && value.fract() == 0.0)?;
        (value.abs() <= EXACT_MAX).then(|| T::parse(&(value as i64).to_string()))?
    })
}

/// A number that is too large would become infinite; only the words for infinity may be.
fn fits(value: f64, text: &str) -> bool {
    value.is_finite() || !text.bytes().any(|byte| byte.is_ascii_digit())
}

fn booleans(field: &Field, texts: &impl Texts, bad: &mut BadRows) -> ArrayRef {
    let rows = texts.rows();
    let mut builder = BooleanBuilder::with_capacity(rows);
    for row in 0..rows {
        let text = texts.get(row).map(str::trim_ascii).filter(|text| !text.is_empty());
        let value = text.and_then(parse_boolean);
        if let (Some(text), None) = (text, value) {
            bad.mark(row, rows, || mismatch(field, text));
        }
        builder.append_option(value);
    }
    Arc::new(builder.finish())
}

/// Returns a truth value as PostgreSQL reads it: `1`, `0`, `on`, and a beginning of `true`, `false`, `yes`, `no` and `off`, in any case.
pub(crate) fn parse_boolean(text: &str) -> Option<bool> {
    let begins = |whole: &str, least: usize| {
        text.len() >= least && whole.get(..text.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(text))
    };
    if text == "1" || begins("true", 1) || begins("yes", 1) || text.eq_ignore_ascii_case("on") {
        Some(true)
    } else if text == "0" || begins("false", 1) || begins("no", 1) || begins("off", 2) {
        Some(false)
    } else {
        None
    }
}

/// Bytes as we write them, two hexadecimal digits each, or as PostgreSQL does, with `\x` in front.
fn bytes(field: &Field, texts: &impl Texts, bad: &mut BadRows) -> Result<ArrayRef, Cause> {
    let rows = texts.rows();
    let mut builder = BinaryBuilder::new();
    for row in 0..rows {
        let value = texts.get(row).map(|text| (text, parse_bytes(text)));
        let fits = |bytes: &Vec<u8>| match field.data_type() {
            DataType::FixedSizeBinary(size) => usize::try_from(*size) == Ok(bytes.len()),
            _ => true,
        };
        match value {
            None => builder.append_null(),
            Some((_, Some(bytes))) if fits(&bytes) => builder.append_value(bytes),
            Some((text, _)) => {
                bad.mark(row, rows, || mismatch(field, text));
                builder.append_null();
            }
        }
    }
    cast_with_options(&builder.finish(), field.data_type(), &CastOptions::default()).map_err(|error| {
        Cause::bug(format!("column '{}' of bytes: {error}", field.name())).with_source(error)
    })
}

fn parse_bytes(text: &str) -> Option<Vec<u8>> {
    let text = text.trim_ascii();
    let digits = text.strip_prefix("\\x").unwrap_or(text).as_bytes();
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let byte = |pair: &[u8]| Some((digit(pair[0])? * 16 + digit(pair[1])?) as u8);
    if digits.len().is_multiple_of(2) { digits.chunks_exact(2).map(byte).collect() } else { None }
}

fn strings<O: OffsetSizeTrait>(texts: &impl Texts) -> ArrayRef {
    let rows = texts.rows();
    let mut builder = GenericStringBuilder::<O>::with_capacity(rows, rows * 12);
    for row in 0..rows {
        builder.append_option(texts.get(row));
    }
    Arc::new(builder.finish())
}

fn string_views(texts: &impl Texts) -> ArrayRef {
    let mut builder = StringViewBuilder::with_capacity(texts.rows());
    for row in 0..texts.rows() {
        builder.append_option(texts.get(row));
    }
    Arc::new(builder.finish())
}

fn dictionary(
    field: &Field,
    key: &DataType,
    texts: &impl Texts,
    bad: &mut BadRows,
) -> Result<ArrayRef, Cause> {
    macro_rules! build {
        ($key:ty) => {{
            let mut builder = StringDictionaryBuilder::<$key>::new();
            for row in 0..texts.rows() {
                match texts.get(row) {
                    None => builder.append_null(),
                    Some(text) => {
                        if builder.append(text).is_err() {
                            bad.mark(row, texts.rows(), || {
                                format!("column '{}' has too many different values", field.name())
                            });
                            builder.append_null();
                        }
                    }
                }
            }
            Ok(Arc::new(builder.finish()))
        }};
    }
    match key {
        DataType::Int8 => build!(Int8Type),
        DataType::Int16 => build!(Int16Type),
        DataType::Int32 => build!(Int32Type),
        DataType::Int64 => build!(Int64Type),
        DataType::UInt8 => build!(UInt8Type),
        DataType::UInt16 => build!(UInt16Type),
        DataType::UInt32 => build!(UInt32Type),
        DataType::UInt64 => build!(UInt64Type),
        other => Err(Cause::bug(format!("a dictionary with keys of type {other}"))),
    }
}

/// All other types, as Arrow casts strings to them. But a bare number is not a time, although Arrow accepts it in the
/// type's own unit (`10` for ten nanoseconds, or for ten months).
fn by_cast(field: &Field, texts: &impl Texts, bad: &mut BadRows) -> Result<ArrayRef, Cause> {
    let rows = texts.rows();
    let text_of = |row| texts.get(row).map(str::trim_ascii).filter(|text| !text.is_empty());
    let is_time = field.data_type().is_temporal();
    let is_castable = |text: &&str| !(is_time && Float64Type::parse(text).is_some());
    let rewrite: fn(&str) -> Option<String> = match field.data_type() {
        DataType::Interval(_) => interval_in_units,
        data_type if data_type.is_decimal() => decimal_in_digits,
        _ => |_| None,
    };
    let written = |text| rewrite(text).map_or(Cow::Borrowed(text), Cow::Owned);
    let strings: StringArray = (0..rows).map(|row| text_of(row).filter(is_castable).map(written)).collect();
    let options = CastOptions { safe: true, ..CastOptions::default() };
    let array = cast_with_options(&strings, field.data_type(), &options).map_err(|error| {
        Cause::user(format!("column '{}' of type {}: {error}", field.name(), sql_type(field.data_type())))
            .with_source(error)
    })?;
    for row in (0..rows).filter(|row| array.is_null(*row)) {
        if let Some(text) = text_of(row) {
            bad.mark(row, rows, || mismatch(field, text));
        }
    }
    Ok(array)
}

/// A batch of the rows that are not bad.
pub(super) fn good_rows(
    schema: SchemaRef,
    mut columns: Vec<ArrayRef>,
    rows: usize,
    bad: &BadRows,
) -> Result<RecordBatch, Cause> {
    let bug = |error: ArrowError| Cause::bug(format!("a batch of decoded rows: {error}")).with_source(error);
    let mut kept = rows;
    columns.iter_mut().for_each(|column| *column = with_one_nan(column));
    if let Some(good) = bad.good() {
        kept = good.true_count();
        for column in &mut columns {
            *column = filter(column, &good).map_err(bug)?;
        }
    }
    let options = RecordBatchOptions::new().with_row_count(Some(kept));
    RecordBatch::try_new_with_options(schema, columns, &options).map_err(bug)
}

/// A column in which every NaN is the positive one: a sign would sort it before all numbers.
fn with_one_nan(column: &ArrayRef) -> ArrayRef {
    fn normal<T: ArrowPrimitiveType>(
        column: &ArrayRef,
        is_negative_nan: impl Fn(T::Native) -> bool,
        nan: T::Native,
    ) -> ArrayRef {
        let values = column.as_primitive::<T>();
        if values.values().iter().any(|value| is_negative_nan(*value)) {
            Arc::new(values.unary::<_, T>(|value| if is_negative_nan(value) { nan } else { value }))
        } else {
            Arc::clone(column)
        }
    }
    match column.data_type() {
        DataType::Float32 => {
            normal::<Float32Type>(column, |value| value.is_nan() && value.is_sign_negative(), f32::NAN)
        }
        DataType::Float64 => {
            normal::<Float64Type>(column, |value| value.is_nan() && value.is_sign_negative(), f64::NAN)
        }
        _ => Arc::clone(column),
    }
}
