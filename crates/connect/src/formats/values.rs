//! Converts texts to typed columns. A text that is not a value of its column's type marks its row as bad.

use std::sync::Arc;

use arrow_array::builder::{
    BooleanBuilder, GenericStringBuilder, PrimitiveBuilder, StringDictionaryBuilder, StringViewBuilder,
};
use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::{
    Array, ArrayRef, ArrowPrimitiveType, BooleanArray, OffsetSizeTrait, RecordBatch, RecordBatchOptions,
    StringArray,
};
use arrow_cast::parse::Parser;
use arrow_cast::{CastOptions, can_cast_types, cast_with_options};
use arrow_schema::{ArrowError, DataType, Field, SchemaRef, TimeUnit};
use arrow_select::filter::filter;
use tidemill_core::error::Cause;
use tidemill_core::source::Faults;

use super::times::{TimestampParser, parse_date, parse_time};
use super::vectors;

/// The most bytes of a value that a message shows.
const SHOWN_BYTES: usize = 60;

/// The texts of one column, by row; `None` is NULL.
pub(crate) trait Texts {
    /// The number of rows.
    fn rows(&self) -> usize;
    /// The text of a row.
    fn get(&self, row: usize) -> Option<&str>;
}

/// Which rows of a block are bad, and the reasons of the first ones.
#[derive(Debug, Default)]
pub(crate) struct BadRows {
    /// Empty as long as all are good.
    bad: Vec<bool>,
    count: u64,
    reasons: Vec<(usize, String)>,
}

impl BadRows {
    /// Marks a row of `rows`. The reason is created only if it is to be shown.
    #[cold]
    pub(crate) fn mark(&mut self, row: usize, rows: usize, reason: impl FnOnce() -> String) {
        self.bad.resize(rows, false);
        if std::mem::replace(&mut self.bad[row], true) {
            return;
        }
        self.count += 1;
        if self.reasons.len() < Faults::SAMPLES_MAX {
            self.reasons.push((row, reason()));
        }
    }

    /// Whether one of these rows is bad.
    pub(crate) fn any_in(&self, rows: std::ops::Range<usize>) -> bool {
        self.count > 0 && self.bad[rows].contains(&true)
    }

    /// Which rows are good; `None`: all.
    pub(crate) fn good(&self) -> Option<BooleanArray> {
        (self.count > 0).then(|| self.bad.iter().map(|bad| Some(!bad)).collect())
    }

    /// Adds them to `faults`; `place` returns the place of a row.
    pub(crate) fn report(mut self, faults: &mut Faults, place: impl Fn(usize) -> String) {
        self.reasons.sort_by_key(|(row, _)| *row);
        let shown = self.reasons.len() as u64;
        for (row, reason) in self.reasons {
            faults.add(format!("{}: {reason}", place(row)));
        }
        faults.count += self.count - shown;
    }
}

/// Whether texts can be converted to this type.
pub(crate) fn is_supported(data_type: &DataType) -> bool {
    match data_type {
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            item.data_type().is_numeric()
        }
        DataType::Dictionary(_, value) => value.as_ref() == &DataType::Utf8,
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => {
            false
        }
        other => !other.is_nested() && can_cast_types(&DataType::Utf8, other),
    }
}

/// Makes a column. Bad values become NULL in rows that are marked; so do NULLs where none are allowed.
pub(crate) fn column(field: &Field, texts: &impl Texts, bad: &mut BadRows) -> Result<ArrayRef, Cause> {
    let array = typed(field, texts, bad)?;
    if !field.is_nullable() && array.logical_null_count() > 0 {
        for row in (0..array.len()).filter(|row| array.is_null(*row)) {
            bad.mark(row, array.len(), || no_value(field));
        }
    }
    Ok(array)
}

/// Marks the rows that [`column`] would mark, for a column that nobody reads.
pub(crate) fn check(field: &Field, texts: &impl Texts, bad: &mut BadRows) -> Result<(), Cause> {
    if !is_plain_text(field.data_type()) {
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
    !field.is_nullable() || !is_plain_text(field.data_type())
}

fn is_plain_text(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

/// The message for a missing required value.
pub(super) fn no_value(field: &Field) -> String {
    format!("column '{}' is NOT NULL, but there is no value", field.name())
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
            primitive!(Float32Type, |text| Float32Type::parse(text).filter(|v| fits(*v as f64, text)))
        }
        DataType::Float64 => {
            primitive!(Float64Type, |text| Float64Type::parse(text).filter(|v| fits(*v, text)))
        }
        DataType::Date32 => primitive!(Date32Type, parse_date),
        DataType::Time64(TimeUnit::Nanosecond) => primitive!(Time64NanosecondType, parse_time),
        DataType::Timestamp(unit, zone) => {
            let parser = TimestampParser::new(zone.as_deref())?;
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
        DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(..) => {
            vectors::column(field, texts, bad)
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

/// `true`, `t`, `1`, `false`, `f`, `0`, in any case.
pub(crate) fn parse_boolean(text: &str) -> Option<bool> {
    match text {
        "1" => Some(true),
        "0" => Some(false),
        _ if text.eq_ignore_ascii_case("true") || text.eq_ignore_ascii_case("t") => Some(true),
        _ if text.eq_ignore_ascii_case("false") || text.eq_ignore_ascii_case("f") => Some(false),
        _ => None,
    }
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
    let strings: StringArray = (0..rows).map(|row| text_of(row).filter(is_castable)).collect();
    let options = CastOptions { safe: true, ..CastOptions::default() };
    let array = cast_with_options(&strings, field.data_type(), &options).map_err(|error| {
        Cause::user(format!("column '{}' of type {}: {error}", field.name(), sql_type(field.data_type())))
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
    let bug = |error: ArrowError| Cause::bug(format!("a batch of decoded rows: {error}"));
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
        match values.values().iter().any(|value| is_negative_nan(*value)) {
            true => Arc::new(values.unary::<_, T>(|value| if is_negative_nan(value) { nan } else { value })),
            false => Arc::clone(column),
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

/// Why a text is not a value of a column.
pub(super) fn mismatch(field: &Field, text: &str) -> String {
    let shown = match text.char_indices().find(|(at, _)| *at >= SHOWN_BYTES) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    };
    let name = sql_type(field.data_type());
    let is_number = Float64Type::parse(text.trim_ascii()).is_some();
    match field.data_type().is_integer() && is_number {
        true => format!("column '{}': {shown} does not fit into {name}", field.name()),
        false => format!("column '{}': '{}' is not a {name}", field.name(), shown.escape_debug()),
    }
}

/// The name of a type in SQL, for messages.
///
/// ```
/// use tidemill_core::arrow::schema::{DataType, TimeUnit};
/// use tidemill_connect::formats::sql_type;
/// assert_eq!(sql_type(&DataType::Int64), "BIGINT");
/// assert_eq!(sql_type(&DataType::Timestamp(TimeUnit::Nanosecond, None)), "TIMESTAMP");
/// ```
pub fn sql_type(data_type: &DataType) -> String {
    let name = match data_type {
        DataType::Boolean => "BOOLEAN",
        DataType::Int8 => "TINYINT",
        DataType::Int16 => "SMALLINT",
        DataType::Int32 => "INT",
        DataType::Int64 => "BIGINT",
        DataType::UInt8 => "TINYINT UNSIGNED",
        DataType::UInt16 => "SMALLINT UNSIGNED",
        DataType::UInt32 => "INT UNSIGNED",
        DataType::UInt64 => "BIGINT UNSIGNED",
        DataType::Float32 => "REAL",
        DataType::Float64 => "DOUBLE",
        DataType::Date32 | DataType::Date64 => "DATE",
        DataType::Time32(_) | DataType::Time64(_) => "TIME",
        DataType::Timestamp(_, None) => "TIMESTAMP",
        DataType::Timestamp(_, Some(_)) => "TIMESTAMP WITH TIME ZONE",
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => "VARCHAR",
        DataType::Interval(_) => "INTERVAL",
        DataType::Dictionary(_, value) => return sql_type(value),
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            return format!("{}[]", sql_type(item.data_type()));
        }
        DataType::Decimal32(precision, scale)
        | DataType::Decimal64(precision, scale)
        | DataType::Decimal128(precision, scale)
        | DataType::Decimal256(precision, scale) => return format!("DECIMAL({precision}, {scale})"),
        other => return other.to_string(),
    };
    name.to_owned()
}
