//! Functions that produce much from little input, such as `generate_series(1, 1000000000)`: the output of one call is
//! limited before memory is allocated. If a batch of rows exceeds the limit it is computed in smaller batches, so the
//! limit applies to one row.

use datafusion::arrow::array::{Array, ArrayRef, AsArray, Int64Array};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, FieldRef, Int64Type};
use datafusion::common::{Result, exec_err};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};

/// The most array elements, or bytes of text, that one call may produce.
const MADE_MAX: i128 = 10_000_000;

/// The functions, and how the size of their output is determined.
const BOUNDED: [(&str, Made); 7] = [
    ("range", Made::Range),
    ("generate_series", Made::Range),
    ("array_repeat", Made::Number),
    ("array_resize", Made::Number),
    ("lpad", Made::Number),
    ("rpad", Made::Number),
    ("repeat", Made::Times),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Made {
    /// The integers from the first argument to the second, in steps of the third.
    Range,
    /// As many as the second argument says.
    Number,
    /// The first argument, repeated as often as the second says.
    Times,
}

/// The function with its limit, if it is one of these.
pub(super) fn bounded(function: &ScalarUDF) -> Option<ScalarUDF> {
    let (_, made) = BOUNDED.into_iter().find(|(name, _)| *name == function.name())?;
    Some(ScalarUDF::new_from_impl(Bounded { function: function.clone(), made }))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Bounded {
    function: ScalarUDF,
    made: Made,
}

impl ScalarUDFImpl for Bounded {
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
                "{}() would make {made} elements or bytes, and {MADE_MAX} are allowed in a row",
                self.name()
            ),
        }
    }
}

/// How much a call produces, at least as far as integers determine it.
fn made(made: Made, arguments: &ScalarFunctionArgs) -> Result<i128> {
    // Of constants alone it is one value, however many rows there are.
    let is_constant = arguments.args.iter().all(|argument| matches!(argument, ColumnarValue::Scalar(_)));
    let rows = if is_constant { 1 } else { arguments.number_rows };
    let columns = arguments.args.iter().map(|argument| argument.to_array(rows));
    let columns = columns.collect::<Result<Vec<ArrayRef>>>()?;
    let numbers = columns.iter().map(whole_numbers).collect::<Result<Vec<_>>>()?;
    let number = |column: usize, row: usize| -> Option<i128> {
        let column = numbers.get(column)?.as_ref()?;
        column.is_valid(row).then(|| i128::from(column.value(row)))
    };
    let made_in = |row: usize| -> i128 {
        match made {
            Made::Number => number(1, row).unwrap_or(0).max(0),
            Made::Times => bytes(&columns[0], row) * number(1, row).unwrap_or(0).max(0),
            Made::Range => {
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
