//! Limits beside those on functions: on `a || b`, and on large constants that are copied for each row.

use std::any::Any;
use std::sync::Arc;

use datafusion::arrow::array::{RecordBatch, RecordBatchOptions};
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::type_coercion::binary::BinaryTypeCoercer;
use datafusion::logical_expr::{
    BinaryExpr, ColumnarValue, Expr, LogicalPlan, Operator, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature, Volatility,
};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{BinaryExpr as PhysicalBinary, Column};

use super::bounded_functions::{
    BATCH_BYTES_MAX, CONSTANT_SMALL, bounded, is_bounded, size_of, too_much_at_once, unbounded,
    with_bounded_structs, with_bounded_syntax,
};
use crate::logical::datafusion_repairs::arithmetic::rewrite;
use tidemill_trees::nodes::Tree;

/// The plan with a limit on each operator and function that makes more than each of its arguments.
pub(crate) fn with_bounds(plan: LogicalPlan) -> Result<LogicalPlan> {
    rewrite(plan, |part, _| {
        let joined = with_bounded_concatenation(part)?;
        joined.transform_data(with_bounded_syntax)
    })
}

/// The plan with `||` as it was written. `with_bounds_in` limits it again.
pub(crate) fn without_bounds(plan: LogicalPlan) -> Result<LogicalPlan> {
    rewrite(plan, |part, _| match &part {
        Expr::ScalarFunction(ScalarFunction { func, args }) if is_concatenation(func) => {
            let [left, right] = args.as_slice() else { return Ok(Transformed::no(part)) };
            let (left, right) = (Box::new(left.clone()), Box::new(right.clone()));
            Ok(Transformed::yes(Expr::BinaryExpr(BinaryExpr::new(left, Operator::StringConcat, right))))
        }
        _ => Ok(Transformed::no(part)),
    })
}

/// As `with_bounds` with limits on constants, for a plan that DataFusion executes.
pub(crate) fn with_bounds_and_constants(plan: LogicalPlan) -> Result<LogicalPlan> {
    rewrite(with_bounds(plan)?, |part, _| with_bounded_constant(with_bounded_structs(part)))
}

/// An expression with these limits.
pub(crate) fn with_bounds_in(expression: Expr) -> Result<Expr> {
    let limited = expression.rewrite_up(|part| {
        let joined = with_bounded_concatenation(part)?.data;
        with_bounded_constant(with_bounded_structs(with_bounded_syntax(joined)?.data))
    });
    limited.data()
}

fn with_bounded_concatenation(part: Expr) -> Result<Transformed<Expr>> {
    match part {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::StringConcat, right }) => {
            let concatenation = ScalarUDF::new_from_impl(Concatenation::default());
            let concatenation = bounded(&concatenation).unwrap_or(concatenation);
            Ok(Transformed::yes(concatenation.call(vec![*left, *right])))
        }
        other => Ok(Transformed::no(other)),
    }
}

/// Large constants in a call that copies what it takes; functions with a limit know what they copy.
fn with_bounded_constant(part: Expr) -> Result<Transformed<Expr>> {
    match part {
        Expr::Literal(value, _) if size_of(&value) > CONSTANT_SMALL => {
            Ok(Transformed::yes(ScalarUDF::new_from_impl(Constant::new(value)).call(Vec::new())))
        }
        Expr::ScalarFunction(ScalarFunction { func, mut args }) if is_bounded(&func) => {
            for argument in &mut args {
                if let Some(value) = as_constant(argument) {
                    *argument = Expr::Literal(value, None);
                }
            }
            Ok(Transformed::yes(Expr::ScalarFunction(ScalarFunction { func, args })))
        }
        other => Ok(Transformed::no(other)),
    }
}

fn as_constant(argument: &Expr) -> Option<ScalarValue> {
    let Expr::ScalarFunction(call) = argument else { return None };
    let constant: &Constant = (call.func.inner().as_ref() as &dyn Any).downcast_ref()?;
    Some(constant.value.clone())
}

fn is_concatenation(function: &ScalarUDF) -> bool {
    unbounded(function).is_some_and(|inner| (inner.inner().as_ref() as &dyn Any).is::<Concatenation>())
}

/// `||` between texts. Queries cannot name it.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Concatenation {
    signature: Signature,
}

impl Default for Concatenation {
    fn default() -> Self {
        Concatenation { signature: Signature::user_defined(Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for Concatenation {
    fn name(&self) -> &str {
        "||"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    /// The operator's display, because it determines column names.
    fn schema_name(&self, arguments: &[Expr]) -> Result<String> {
        Ok(format!("{} || {}", arguments[0].schema_name(), arguments[1].schema_name()))
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        // The operator's types were coerced before it was replaced.
        Ok(types.to_vec())
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types {
            [left, right] => BinaryTypeCoercer::new(left, &Operator::StringConcat, right).get_result_type(),
            _ => plan_err!("|| takes two texts"),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_constant = args.args.iter().all(|value| matches!(value, ColumnarValue::Scalar(_)));
        let columns = ColumnarValue::values_to_arrays(&args.args)?;
        let fields = args.arg_fields.iter().zip(["left", "right"]);
        let fields = fields.map(|(field, name)| Field::new(name, field.data_type().clone(), true));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let rows = columns.first().map(|column| column.len());
        let options = RecordBatchOptions::new().with_row_count(rows);
        let batch = RecordBatch::try_new_with_options(schema, columns, &options)?;
        let (left, right) = (Arc::new(Column::new("left", 0)), Arc::new(Column::new("right", 1)));
        let joined = PhysicalBinary::new(left, Operator::StringConcat, right).evaluate(&batch)?;
        if is_constant {
            Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&joined.into_array(batch.num_rows())?, 0)?))
        } else {
            Ok(joined)
        }
    }
}

/// A large constant, which is not copied for many rows at once. It counts as volatile: otherwise it would become a literal
/// again.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Constant {
    value: ScalarValue,
    signature: Signature,
}

impl Constant {
    fn new(value: ScalarValue) -> Self {
        Constant { value, signature: Signature::nullary(Volatility::Volatile) }
    }
}

impl ScalarUDFImpl for Constant {
    fn name(&self) -> &str {
        "constant"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn schema_name(&self, _arguments: &[Expr]) -> Result<String> {
        Ok(Expr::Literal(self.value.clone(), None).schema_name().to_string())
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(self.value.data_type())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let bytes = self.value.size().saturating_mul(args.number_rows);
        if args.number_rows > 1 && bytes > BATCH_BYTES_MAX {
            Err(too_much_at_once("a constant", args.number_rows))
        } else {
            Ok(ColumnarValue::Scalar(self.value.clone()))
        }
    }
}
