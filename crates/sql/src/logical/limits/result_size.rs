//! How much a call of a function makes of its arguments, computed before it runs: in array elements, and bytes of text.

use datafusion::arrow::array::{Array, ArrayRef, AsArray, Int64Array, IntervalMonthDayNanoArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Int64Type, IntervalUnit, TimeUnit};
use datafusion::common::{Result, ScalarValue, exec_err};
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs};

use super::value_size::{elements, sizes};

/// The functions that make more than their arguments together, and how the size of their output is determined.
const GROWING: [(&str, ResultSize); 17] = [
    ("range", ResultSize::Range),
    ("generate_series", ResultSize::Range),
    ("array_repeat", ResultSize::Times),
    ("array_replace", ResultSize::ElementReplaced),
    ("array_replace_all", ResultSize::ElementsReplaced),
    ("array_replace_n", ResultSize::ElementsReplaced),
    ("array_resize", ResultSize::Resized),
    ("array_to_string", ResultSize::Joined),
    ("arrays_zip", ResultSize::Zipped),
    ("concat_ws", ResultSize::Separated),
    ("encode", ResultSize::Doubled),
    ("lpad", ResultSize::Number),
    ("rpad", ResultSize::Number),
    ("repeat", ResultSize::Times),
    ("replace", ResultSize::Replaced),
    ("regexp_replace", ResultSize::ReplacedAnywhere),
    ("translate", ResultSize::Doubled),
];

/// The most characters that a number, a time or a truth value has as text.
const TEXT_OF_ELEMENT: i128 = 32;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum ResultSize {
    /// At most the arguments together.
    Arguments,
    /// Twice the arguments together.
    Doubled,
    /// The integers, dates or times from the first argument to the second, in steps of the third.
    Range,
    /// As many as the second argument says.
    Number,
    /// The first argument, with as many elements as the second says; the third one fills up.
    Resized,
    /// The first argument, repeated the number of times that the second one says.
    Times,
    /// The first argument, in which each occurrence of the second becomes the third.
    Replaced,
    /// The first argument, in which what the second describes becomes the third: at most between all characters.
    ReplacedAnywhere,
    /// The first argument, in which one element becomes the third.
    ElementReplaced,
    /// The first argument, in which each element may become the third.
    ElementsReplaced,
    /// The elements of the first argument as text, with the second between them; NULL becomes the third.
    Joined,
    /// All arguments but the first, with the first between them.
    Separated,
    /// As many elements as the longest argument has, of each.
    Zipped,
}

impl ResultSize {
    pub fn of(function: &str) -> Self {
        let growing = GROWING.into_iter().find(|(name, _)| *name == function);
        growing.map_or(ResultSize::Arguments, |(_, size)| size)
    }

    /// At most how much each row of a call makes. Of constants alone it is one value, however many rows there are.
    pub fn of_rows(self, arguments: &ScalarFunctionArgs) -> Result<Vec<i128>> {
        let is_constant = arguments.args.iter().all(|argument| matches!(argument, ColumnarValue::Scalar(_)));
        let rows = if is_constant { 1 } else { arguments.number_rows };
        let arguments = arguments.args.iter().map(Argument::of).collect::<Result<Vec<_>>>()?;
        if let (ResultSize::Range, [from, to, step]) = (self, &arguments[..])
            && let DataType::Interval(IntervalUnit::MonthDayNano) = step.values.data_type()
        {
            return ranges_of_times(from, to, step, rows);
        }
        (0..rows).map(|row| self.of_row(&arguments, row)).collect()
    }

    /// How much work each row of a call is, in pairs of characters or elements that are compared; none if its work grows with its arguments only.
    pub fn work_of_rows(self, function: &str, arguments: &ScalarFunctionArgs) -> Result<Vec<i128>> {
        if function.starts_with("regexp_") {
            return compiled_patterns(arguments);
        }
        let of_elements = match function {
            "levenshtein" => false,
            "array_has_all" | "array_has_any" => true,
            _ => return Ok(Vec::new()),
        };
        let is_constant = arguments.args.iter().all(|argument| matches!(argument, ColumnarValue::Scalar(_)));
        let rows = if is_constant { 1 } else { arguments.number_rows };
        let arguments = arguments.args.iter().map(Argument::of).collect::<Result<Vec<_>>>()?;
        let size =
            |argument: &Argument, row| if of_elements { argument.elements(row) } else { argument.size(row) };
        Ok((0..rows).map(|row| arguments.iter().map(|argument| size(argument, row)).product()).collect())
    }

    fn of_row(self, arguments: &[Argument], row: usize) -> Result<i128> {
        let size = |index: usize| arguments.get(index).map_or(0, |argument| argument.size(row));
        let number = |index: usize| arguments.get(index).and_then(|argument| argument.number(row));
        let elements = |index: usize| arguments.get(index).map_or(0, |argument| argument.elements(row));
        let times = |index: usize| number(index).unwrap_or(0).max(0);
        let together = || (0..arguments.len()).map(size).sum::<i128>();
        Ok(match self {
            ResultSize::Arguments => together(),
            ResultSize::Doubled => 2 * together(),
            ResultSize::Number => times(1),
            ResultSize::Resized => size(0) + times(1) * size(2).max(1),
            ResultSize::Times => size(0) * times(1),
            ResultSize::Replaced => {
                let from = arguments.get(1).map_or(0, |argument| argument.length(row));
                replaced(size(0), from, size(2))
            }
            ResultSize::ReplacedAnywhere => {
                // Each match may also put in what it has found, by its number.
                let references = arguments.get(2).map_or(0, |argument| argument.references(row));
                let is_global = arguments.get(3).is_some_and(|flags| flags.contains(row, 'g'));
                let matches = if is_global { size(0) + 1 } else { 1 };
                (1 + references) * size(0) + matches * size(2)
            }
            ResultSize::ElementReplaced => size(0) + size(2),
            ResultSize::ElementsReplaced => {
                let most = number(3).map_or(i128::MAX, |count| count.max(0));
                size(0) + elements(0).min(most) * size(2)
            }
            ResultSize::Joined => {
                let between = size(1) + arguments.get(2).map_or(0, |null| null.size(row));
                arguments.first().map_or(0, |list| list.text(row)) + elements(0) * between
            }
            ResultSize::Separated => together() + size(0) * arguments.len() as i128,
            ResultSize::Zipped => {
                let longest = (0..arguments.len()).map(elements).max().unwrap_or(0);
                together() + longest * arguments.len() as i128
            }
            ResultSize::Range => {
                let (from, to) = match arguments.len() {
                    1 => (Some(0), number(0)),
                    _ => (number(0), number(1)),
                };
                let step = number(2).unwrap_or(1);
                match (from, to) {
                    (Some(from), Some(to)) if step != 0 => ((to - from) / step + 1).max(0),
                    _ => 0,
                }
            }
        })
    }
}

/// A column of patterns counts as work, because each is compiled and kept until the call ends: some kilobytes, and megabytes if a part of it is
/// repeated by a number.
fn compiled_patterns(arguments: &ScalarFunctionArgs) -> Result<Vec<i128>> {
    let Some(patterns @ ColumnarValue::Array(_)) = arguments.args.get(1) else { return Ok(Vec::new()) };
    let patterns = Argument::of(patterns)?;
    let at_once = |row| if patterns.contains(row, '{') { 8 } else { 256 };
    Ok((0..arguments.number_rows).map(|row| WORK_IN_PIECE_MAX / at_once(row)).collect())
}

/// The most work that is done before it is checked whether the query is still wanted.
pub(super) const WORK_IN_PIECE_MAX: i128 = 10_000_000;

/// An argument of a call, with what is needed to say what becomes of it.
struct Argument {
    /// One value if it is a constant.
    values: ArrayRef,
    is_constant: bool,
    sizes: Vec<u64>,
    elements: Vec<u64>,
    numbers: Option<Int64Array>,
}

impl Argument {
    fn of(value: &ColumnarValue) -> Result<Self> {
        let (values, is_constant) = match value {
            ColumnarValue::Scalar(value) => (value.to_array()?, true),
            ColumnarValue::Array(values) => (ArrayRef::clone(values), false),
        };
        let numbers = if values.data_type().is_integer() {
            Some(cast(&values, &DataType::Int64)?.as_primitive::<Int64Type>().clone())
        } else {
            None
        };
        Ok(Argument {
            sizes: sizes(values.as_ref()),
            elements: elements(values.as_ref()),
            values,
            is_constant,
            numbers,
        })
    }

    fn place(&self, row: usize) -> usize {
        if self.is_constant { 0 } else { row }
    }

    fn size(&self, row: usize) -> i128 {
        i128::from(self.sizes[self.place(row)])
    }

    fn elements(&self, row: usize) -> i128 {
        i128::from(self.elements[self.place(row)])
    }

    fn number(&self, row: usize) -> Option<i128> {
        let numbers = self.numbers.as_ref()?;
        let place = self.place(row);
        numbers.is_valid(place).then(|| i128::from(numbers.value(place)))
    }

    /// What its elements are as text, without anything between them.
    fn text(&self, row: usize) -> i128 {
        let mut inner = self.values.data_type();
        while let DataType::List(field) | DataType::LargeList(field) | DataType::FixedSizeList(field, _) =
            inner
        {
            inner = field.data_type();
        }
        if inner.is_string() { self.size(row) } else { self.elements(row) * TEXT_OF_ELEMENT }
    }

    fn as_text(&self, row: usize) -> Option<String> {
        match ScalarValue::try_from_array(&self.values, self.place(row)).ok()? {
            ScalarValue::Utf8(text) | ScalarValue::LargeUtf8(text) | ScalarValue::Utf8View(text) => text,
            _ => None,
        }
    }

    /// The bytes of a text, which may be none.
    fn length(&self, row: usize) -> i128 {
        self.as_text(row).map_or(0, |text| text.len() as i128)
    }

    fn contains(&self, row: usize, part: char) -> bool {
        self.as_text(row).is_some_and(|text| text.contains(part))
    }

    /// How often a replacement may refer to what was found.
    fn references(&self, row: usize) -> i128 {
        self.as_text(row).map_or(0, |text| text.matches(['\\', '$']).count() as i128)
    }
}

/// At most the bytes of a text after what has this length was replaced in it. What is empty is found between all
/// characters.
fn replaced(text: i128, length: i128, with: i128) -> i128 {
    match length {
        0 => text + (text + 1) * with,
        length if with > length => text + (text / length + 1) * (with - length),
        _ => text,
    }
}

/// At most how many dates or times there are from each of these to its end, in these steps.
fn ranges_of_times(from: &Argument, to: &Argument, steps: &Argument, rows: usize) -> Result<Vec<i128>> {
    let (Some(starts), Some(ends)) = (instants_ns(&from.values)?, instants_ns(&to.values)?) else {
        return Ok(vec![0; rows]);
    };
    let lengths: &IntervalMonthDayNanoArray = steps.values.as_primitive();
    let mut made = vec![0; rows];
    for (row, made) in made.iter_mut().enumerate() {
        let (from, to, step) = (starts[from.place(row)], ends[to.place(row)], steps.place(row));
        let (Some(from), Some(to), true) = (from, to, lengths.is_valid(step)) else { continue };
        let step = lengths.value(step);
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
            *made = length_ns / step_ns + 1;
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
