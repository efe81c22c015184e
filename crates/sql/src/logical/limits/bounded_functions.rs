//! Functions with a limit on what one call makes of one row, such as `generate_series(1, 1000000000)`: it is checked
//! before memory is taken. A batch of rows that would make too much at once is computed in pieces.

use std::any::Any;
use std::ops::Range;

use datafusion::arrow::array::{Array, ArrayRef};
use datafusion::arrow::compute::concat;
use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::common::{
    DataFusionError, ExprSchema, Result, ScalarValue, exec_err, resources_datafusion_err,
};
use datafusion::config::ConfigOptions;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::interval_arithmetic::Interval;
use datafusion::logical_expr::preimage::PreimageResult;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, Expr, ExpressionPlacement, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, StructFieldMapping, Volatility,
};

use super::result_size::{ResultSize, WORK_IN_PIECE_MAX};
use super::value_size::sizes;
use crate::planning_limits::{go_on, hold_constant};
use tidemill_engine::bytes_of_column;
use tidemill_trees::nodes::Tree;

/// The most array elements, or bytes of text, that one call may make of one row.
pub(super) const MADE_MAX: i128 = 10_000_000;

/// The most bytes that a call may make of a batch of rows, unless the batch has only one.
pub(crate) const BATCH_BYTES_MAX: usize = 64 << 20;

/// The most pairs of characters or elements that one call may compare for one row.
const WORK_MAX: i128 = 400_000_000;

/// Constants below this size are copied for each row without further thought.
pub(super) const CONSTANT_SMALL: i128 = 1 << 10;

/// DataFusion's functions that stand for syntax (`[1, 2]`, `a || b`, `overlay(... placing ...)`), and that make more
/// than each of their arguments. Its planner names them itself.
const FROM_SYNTAX: [&str; 7] =
    ["array_append", "array_concat", "array_prepend", "concat", "make_array", "map", "overlay"];

/// Functions that DataFusion's rules must recognise, to take a field out of what they put together. Neither copies anything, so it is
/// enough that they have their limit when rules have been applied.
const STRUCTS: [&str; 2] = ["named_struct", "struct"];

/// The function with its limit. Functions that do not compute all their arguments make nothing new of them.
pub(crate) fn bounded(function: &ScalarUDF) -> Option<ScalarUDF> {
    let unlimited = is_bounded(function)
        || function.short_circuits()
        || function.signature().volatility == Volatility::Volatile
        || function.name() == "get_field"
        || STRUCTS.contains(&function.name());
    (!unlimited).then(|| with_limit(function))
}

fn with_limit(function: &ScalarUDF) -> ScalarUDF {
    let made = ResultSize::of(function.name());
    ScalarUDF::new_from_impl(BoundedFunction { function: function.clone(), made })
}

/// A part of an expression, with its limit if it makes a struct.
pub(super) fn with_bounded_structs(part: Expr) -> Expr {
    match part {
        Expr::ScalarFunction(ScalarFunction { func, args })
            if STRUCTS.contains(&func.name()) && !is_bounded(&func) =>
        {
            with_limit(&func).call(args)
        }
        other => other,
    }
}

/// A part of an expression, with its limit if it is a call of a function that stands for syntax.
pub(super) fn with_bounded_syntax(part: Expr) -> Result<Transformed<Expr>> {
    match part {
        Expr::ScalarFunction(ScalarFunction { func, args }) if FROM_SYNTAX.contains(&func.name()) => {
            match bounded(&func) {
                Some(bounded) => Ok(Transformed::yes(bounded.call(args))),
                None => Ok(Transformed::no(Expr::ScalarFunction(ScalarFunction { func, args }))),
            }
        }
        other => Ok(Transformed::no(other)),
    }
}

/// Whether the function has its limit.
pub(super) fn is_bounded(function: &ScalarUDF) -> bool {
    (function.inner().as_ref() as &dyn Any).is::<BoundedFunction>()
}

/// The function below the limit.
pub(super) fn unbounded(function: &ScalarUDF) -> Option<&ScalarUDF> {
    let bounded: Option<&BoundedFunction> = (function.inner().as_ref() as &dyn Any).downcast_ref();
    bounded.map(|bounded| &bounded.function)
}

/// Why rows are computed in smaller batches.
pub(crate) fn too_much_at_once(what: &str, rows: usize) -> DataFusionError {
    resources_datafusion_err!(
        "{what} would make more than {} MB of {rows} rows at once; use smaller cycles (cycle_events), or make less of \
         each row",
        BATCH_BYTES_MAX >> 20
    )
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct BoundedFunction {
    function: ScalarUDF,
    made: ResultSize,
}

impl BoundedFunction {
    /// Consecutive rows that are computed together.
    fn pieces(&self, arguments: &ScalarFunctionArgs) -> Result<Vec<Range<usize>>> {
        let is_scalar = |argument: &ColumnarValue| matches!(argument, ColumnarValue::Scalar(_));
        let is_constant = arguments.args.iter().all(is_scalar);
        let grows = !is_of_fixed_size(arguments.return_field.data_type());
        let made = if grows { self.made.of_rows(arguments)? } else { Vec::new() };
        if let Some(made) = made.iter().find(|made| **made > MADE_MAX) {
            return exec_err!(
                "{}() would make {made} elements or bytes, but at most {MADE_MAX} are allowed per row",
                self.name()
            );
        }
        let work = self.made.work_of_rows(self.name(), arguments)?;
        if let Some(work) = work.iter().find(|work| **work > WORK_MAX) {
            return exec_err!(
                "{}() would compare {work} pairs of parts, but at most {WORK_MAX} are allowed per row",
                self.name()
            );
        }
        let rows = arguments.number_rows;
        if is_constant {
            return Ok(std::iter::once(0..rows).collect());
        }
        // Most functions copy constants for each row.
        let copied = arguments.args.iter().map(size_of_constant).sum::<i128>();
        let copied = if copied > CONSTANT_SMALL { copied } else { 0 };
        let mut pieces = Vec::new();
        let (mut start, mut sum, mut worked) = (0, 0, 0);
        for row in 0..rows {
            let size = copied + made.get(row).copied().unwrap_or(0);
            let work = work.get(row).copied().unwrap_or(0);
            if (sum + size > MADE_MAX || worked + work > WORK_IN_PIECE_MAX) && row > start {
                pieces.push(start..row);
                (start, sum, worked) = (row, 0, 0);
            }
            (sum, worked) = (sum + size, worked + work);
        }
        pieces.push(start..rows);
        Ok(pieces)
    }

    fn in_pieces(&self, arguments: &ScalarFunctionArgs, pieces: Vec<Range<usize>>) -> Result<ColumnarValue> {
        let mut parts: Vec<ArrayRef> = Vec::with_capacity(pieces.len());
        let mut bytes = 0;
        for piece in pieces {
            go_on()?;
            let slice = |argument: &ColumnarValue| match argument {
                ColumnarValue::Array(values) => ColumnarValue::Array(values.slice(piece.start, piece.len())),
                constant => constant.clone(),
            };
            let rows = ScalarFunctionArgs {
                args: arguments.args.iter().map(slice).collect(),
                number_rows: piece.len(),
                ..arguments.clone()
            };
            let part = self.function.inner().invoke_with_args(rows)?.into_array(piece.len())?;
            bytes += bytes_of_column(&part);
            if bytes > BATCH_BYTES_MAX && arguments.number_rows > 1 {
                return Err(too_much_at_once(&format!("{}()", self.name()), arguments.number_rows));
            }
            parts.push(part);
        }
        let parts: Vec<&dyn Array> = parts.iter().map(|part| part.as_ref()).collect();
        Ok(ColumnarValue::Array(concat(&parts)?))
    }
}

/// The memory of what a call has made.
fn memory_of(made: &ColumnarValue) -> u64 {
    match made {
        ColumnarValue::Scalar(value) => value.size() as u64,
        ColumnarValue::Array(values) => bytes_of_column(values) as u64,
    }
}

/// Whether all values of a type take the same memory.
fn is_of_fixed_size(data_type: &DataType) -> bool {
    data_type.is_primitive() || matches!(data_type, DataType::Boolean | DataType::Null)
}

fn size_of_constant(argument: &ColumnarValue) -> i128 {
    match argument {
        ColumnarValue::Scalar(value) => size_of(value),
        ColumnarValue::Array(_) => 0,
    }
}

/// The size of one value.
pub(crate) fn size_of(value: &ScalarValue) -> i128 {
    if is_of_fixed_size(&value.data_type()) {
        1
    } else {
        value.to_array().map_or(1, |value| i128::from(sizes(value.as_ref())[0]))
    }
}

/// Everything but the call itself is as without the limit.
impl ScalarUDFImpl for BoundedFunction {
    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let pieces = self.pieces(&arguments)?;
        match pieces.len() {
            1 => {
                go_on()?;
                let made = self.function.inner().invoke_with_args(arguments)?;
                // It is copied into the plan.
                hold_constant(self.name(), || 2 * memory_of(&made))?;
                Ok(made)
            }
            _ => self.in_pieces(&arguments, pieces),
        }
    }

    fn simplify(&self, arguments: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        let constant = |argument: &Expr| match argument {
            Expr::Literal(value, _) => size_of(value),
            _ => 0,
        };
        // Simplification would put the constants together, however long they are; the call is computed instead, or refused.
        let joins = matches!(self.name(), "concat" | "concat_ws");
        if joins && arguments.iter().map(constant).sum::<i128>() > CONSTANT_SMALL {
            return Ok(ExprSimplifyResult::Original(arguments));
        }
        Ok(match self.function.inner().simplify(arguments, info)? {
            ExprSimplifyResult::Simplified(expression) => {
                ExprSimplifyResult::Simplified(expression.rewrite_up(with_bounded_syntax).data()?)
            }
            original => original,
        })
    }

    fn name(&self) -> &str {
        self.function.name()
    }

    fn aliases(&self) -> &[String] {
        self.function.aliases()
    }

    fn display_name(&self, arguments: &[Expr]) -> Result<String> {
        #[allow(deprecated)]
        self.function.inner().display_name(arguments)
    }

    fn schema_name(&self, arguments: &[Expr]) -> Result<String> {
        self.function.inner().schema_name(arguments)
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

    fn is_nullable(&self, arguments: &[Expr], schema: &dyn ExprSchema) -> bool {
        #[allow(deprecated)]
        self.function.inner().is_nullable(arguments, schema)
    }

    fn is_strict(&self) -> bool {
        self.function.inner().is_strict()
    }

    fn with_updated_config(&self, config: &ConfigOptions) -> Option<ScalarUDF> {
        let function = self.function.inner().with_updated_config(config)?;
        Some(bounded(&function).unwrap_or(function))
    }

    fn preimage(&self, arguments: &[Expr], value: &Expr, info: &SimplifyContext) -> Result<PreimageResult> {
        self.function.inner().preimage(arguments, value, info)
    }

    fn short_circuits(&self) -> bool {
        self.function.inner().short_circuits()
    }

    fn conditional_arguments<'a>(&self, arguments: &'a [Expr]) -> Option<(Vec<&'a Expr>, Vec<&'a Expr>)> {
        self.function.inner().conditional_arguments(arguments)
    }

    fn evaluate_bounds(&self, input: &[&Interval]) -> Result<Interval> {
        self.function.inner().evaluate_bounds(input)
    }

    fn propagate_constraints(
        &self,
        interval: &Interval,
        inputs: &[&Interval],
    ) -> Result<Option<Vec<Interval>>> {
        self.function.inner().propagate_constraints(interval, inputs)
    }

    fn output_ordering(&self, inputs: &[ExprProperties]) -> Result<SortProperties> {
        self.function.inner().output_ordering(inputs)
    }

    fn preserves_lex_ordering(&self, inputs: &[ExprProperties]) -> Result<bool> {
        self.function.inner().preserves_lex_ordering(inputs)
    }

    fn strictly_order_preserving(&self, inputs: &[ExprProperties]) -> Result<bool> {
        self.function.inner().strictly_order_preserving(inputs)
    }

    fn coerce_types(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        self.function.inner().coerce_types(arguments)
    }

    fn struct_field_mapping(&self, literals: &[Option<ScalarValue>]) -> Option<StructFieldMapping> {
        self.function.inner().struct_field_mapping(literals)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.function.inner().documentation()
    }

    fn placement(&self, arguments: &[ExpressionPlacement]) -> ExpressionPlacement {
        self.function.inner().placement(arguments)
    }
}
