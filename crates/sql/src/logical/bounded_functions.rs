//! Functions that produce much from little input, such as `generate_series(1, 1000000000)`: the output of one call is
//! limited before memory is allocated. If a batch of rows exceeds the limit it is computed in smaller batches, so the
//! limit applies to one row.

use datafusion::arrow::array::{Array, ArrayRef, AsArray, Int64Array, IntervalMonthDayNanoArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, FieldRef, Int64Type, IntervalUnit, TimeUnit};
use datafusion::common::{Result, exec_err};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};

/// The most array elements, or bytes of text, that one call may produce.
const MADE_MAX: i128 = 10_000_000;

/// The functions, and how the size of their output is determined.
const BOUNDED: [(&str, ResultSize); 9] = [
    ("range", ResultSize::Range),
    ("generate_series", ResultSize::Range),
    ("array_repeat", ResultSize::Times),
    ("array_resize", ResultSize::Number),
    ("lpad", ResultSize::Number),
    ("rpad", ResultSize::Number),
    ("repeat", ResultSize::Times),
    ("replace", ResultSize::Replaced),
    ("regexp_replace", ResultSize::ReplacedAnywhere),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum ResultSize {
    /// The integers, dates or times from the first argument to the second, in steps of the third.
    Range,
    /// As many as the second argument says.
    Number,
    /// The first argument, repeated the number of times that the second one says.
    Times,
    /// The first argument, in which each occurrence of the second becomes the third.
    Replaced,
    /// The first argument, in which what the second describes becomes the third: at most between all characters.
    ReplacedAnywhere,
}

/// The function with its limit, if it is one of these.
pub(super) fn bounded(function: &ScalarUDF) -> Option<ScalarUDF> {
    let (_, made) = BOUNDED.into_iter().find(|(name, _)| *name == function.name())?;
    Some(ScalarUDF::new_from_impl(BoundedFunction { function: function.clone(), made }))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct BoundedFunction {
    function: ScalarUDF,
    made: ResultSize,
}

impl ScalarUDFImpl for BoundedFunction {
    fn name(&self) -> &str {
        self.function.name()
    }

    fn aliases(&self) -> &[String] {
        self.function.aliases()
    }

    fn signature(&self) -> &Signature {
        self.function.signature()
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        self.function.inner().return_type(arguments)
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        self.function.inner().return_field_from_args(arguments)
    }

    fn coerce_types(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        self.function.inner().coerce_types(arguments)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.function.inner().documentation()
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let made = made(self.made, &arguments)?;
        match made <= MADE_MAX {
            true => self.function.inner().invoke_with_args(arguments),
            false => exec_err!(
                "{}() would make {made} elements or bytes, but at most {MADE_MAX} are allowed per row",
                self.name()
            ),
        }
    }
}

/// How much a call produces, as far as integers, dates and times determine it.
fn made(made: ResultSize, arguments: &ScalarFunctionArgs) -> Result<i128> {
    // Of constants alone it is one value, however many rows there are.
    let is_constant = arguments.args.iter().all(|argument| matches!(argument, ColumnarValue::Scalar(_)));
    let rows = if is_constant { 1 } else { arguments.number_rows };
    let columns = arguments.args.iter().map(|argument| argument.to_array(rows));
    let columns = columns.collect::<Result<Vec<ArrayRef>>>()?;
    if let (ResultSize::Range, [from, to, step]) = (made, &columns[..])
        && let DataType::Interval(IntervalUnit::MonthDayNano) = step.data_type()
    {
        return range_of_times(from, to, step.as_primitive());
    }
    let numbers = columns.iter().map(whole_numbers).collect::<Result<Vec<_>>>()?;
    let number = |column: usize, row: usize| -> Option<i128> {
        let column = numbers.get(column)?.as_ref()?;
        column.is_valid(row).then(|| i128::from(column.value(row)))
    };
    let made_in = |row: usize| -> i128 {
        match made {
            ResultSize::Number => number(1, row).unwrap_or(0).max(0),
            ResultSize::Times => bytes(&columns[0], row) * number(1, row).unwrap_or(0).max(0),
            ResultSize::Replaced => replaced(&columns, row, bytes(&columns[1], row).max(1)),
            ResultSize::ReplacedAnywhere => {
                // Each match may also put in what it has found, by its number.
                replaced(&columns, row, 1) + bytes(&columns[0], row)
            }
            ResultSize::Range => {
                let (from, to) = match columns.len() {
                    1 => (Some(0), number(0, row)),
                    _ => (number(0, row), number(1, row)),
                };
                let step = number(2, row).unwrap_or(1);
                match (from, to) {
                    (Some(from), Some(to)) if step != 0 => ((to - from) / step + 1).max(0),
                    _ => 0,
                }
            }
        }
    };
    Ok((0..rows).map(made_in).sum())
}

/// At most the bytes of a text after what has this length was replaced in it.
fn replaced(columns: &[ArrayRef], row: usize, length: i128) -> i128 {
    let text = bytes(&columns[0], row);
    let with = columns.get(2).map_or(0, |with| bytes(with, row));
    match with > length {
        true => text + (text / length + 1) * (with - length),
        false => text,
    }
}

/// At most how many dates or times there are from each of these to its end, in these steps.
fn range_of_times(from: &ArrayRef, to: &ArrayRef, steps: &IntervalMonthDayNanoArray) -> Result<i128> {
    let (Some(from), Some(to)) = (instants_ns(from)?, instants_ns(to)?) else { return Ok(0) };
    let mut made = 0;
    for (row, step) in steps.iter().enumerate() {
        let (Some(from), Some(to), Some(step)) = (from[row], to[row], step) else { continue };
        let parts = [i128::from(step.months), i128::from(step.days), i128::from(step.nanoseconds)];
        let goes_back = parts.iter().any(|part| *part < 0);
        if goes_back && parts.iter().any(|part| *part > 0) {
            // A month minus 30 days may come to nothing, and the range to no end.
            return exec_err!(
                "the step of a range must not go forward and back at once; give months, days and times the \
                 same sign"
            );
        }
        let length_ns = if goes_back { from - to } else { to - from };
        let step_ns: i128 =
            parts.iter().zip([28 * DAY_NS, DAY_NS, 1]).map(|(part, unit_ns)| part.abs() * unit_ns).sum();
        if length_ns >= 0 && step_ns > 0 {
            made += length_ns / step_ns + 1;
        }
    }
    Ok(made)
}

/// The shortest day of a time zone has 23 hours.
const DAY_NS: i128 = 23 * 3_600_000_000_000;

/// Dates or times as nanoseconds, if the column has these. Days count as 23 hours, as in steps of days.
fn instants_ns(column: &ArrayRef) -> Result<Option<Vec<Option<i128>>>> {
    let unit_ns = match column.data_type() {
        DataType::Date32 => DAY_NS,
        DataType::Date64 | DataType::Timestamp(TimeUnit::Millisecond, _) => 1_000_000,
        DataType::Timestamp(TimeUnit::Second, _) => 1_000_000_000,
        DataType::Timestamp(TimeUnit::Microsecond, _) => 1_000,
        DataType::Timestamp(TimeUnit::Nanosecond, _) => 1,
        _ => return Ok(None),
    };
    let numbers = match column.data_type() {
        DataType::Date32 => cast(&cast(column, &DataType::Int32)?, &DataType::Int64)?,
        _ => cast(column, &DataType::Int64)?,
    };
    let numbers = numbers.as_primitive::<Int64Type>();
    Ok(Some(numbers.iter().map(|number| number.map(|number| i128::from(number) * unit_ns)).collect()))
}

/// The column as integers, if that is its type.
fn whole_numbers(column: &ArrayRef) -> Result<Option<Int64Array>> {
    match column.data_type().is_integer() {
        true => Ok(Some(cast(column, &DataType::Int64)?.as_primitive::<Int64Type>().clone())),
        false => Ok(None),
    }
}

/// The length of a text.
fn bytes(column: &ArrayRef, row: usize) -> i128 {
    let length = match column.data_type() {
        _ if column.is_null(row) => 0,
        DataType::Utf8 => column.as_string::<i32>().value(row).len(),
        DataType::LargeUtf8 => column.as_string::<i64>().value(row).len(),
        DataType::Utf8View => column.as_string_view().value(row).len(),
        _ => 1,
    };
    length as i128
}
