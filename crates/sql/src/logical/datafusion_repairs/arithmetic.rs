//! Overflow of integer sums, differences, products and negations is an error. DataFusion's own operators wrap around
//! where it folds constants and where it answers a query over tables, so they are replaced by functions there.

use std::any::Any;
use std::fmt::{self, Write};
use std::sync::Arc;

use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::compute::kernels::numeric::{add, mul, neg, sub};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::arrow::error::ArrowError;
use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::common::{DFSchema, Result, ScalarValue, exec_err};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    BinaryExpr, ColumnarValue, Expr, LogicalPlan, Operator, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility,
};

use tidemill_trees::nodes::{PlanTree, Tree};

use crate::logical::expression_type::type_of;

/// The plan with functions that detect overflow in place of operators, including subqueries.
pub(crate) fn with_checks(plan: LogicalPlan) -> Result<LogicalPlan> {
    rewrite(plan, |expression, schema| match &expression {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => match checked(*op) {
            Some(function) if is_whole(left, schema) && is_whole(right, schema) => {
                Ok(Transformed::yes(function.call(vec![left.as_ref().clone(), right.as_ref().clone()])))
            }
            _ => Ok(Transformed::no(expression)),
        },
        Expr::Negative(inner) if is_whole(inner, schema) => {
            Ok(Transformed::yes(CheckedArithmetic::function("negative").call(vec![inner.as_ref().clone()])))
        }
        _ => Ok(Transformed::no(expression)),
    })
}

/// The plan with the operators back in place of the functions: streams compute them checked anyway, and faster.
pub(crate) fn without_checks(plan: LogicalPlan) -> Result<LogicalPlan> {
    rewrite(plan, |expression, _| match &expression {
        Expr::ScalarFunction(ScalarFunction { func, args }) if is_checked(func) => {
            let operator = match (func.name(), args.as_slice()) {
                (name, [left, right]) => {
                    let operator = operator(name).unwrap_or(Operator::Plus);
                    Expr::BinaryExpr(BinaryExpr::new(
                        Box::new(left.clone()),
                        operator,
                        Box::new(right.clone()),
                    ))
                }
                (_, [inner]) => Expr::Negative(Box::new(inner.clone())),
                _ => return Ok(Transformed::no(expression)),
            };
            Ok(Transformed::yes(operator))
        }
        _ => Ok(Transformed::no(expression)),
    })
}

/// Rewrites all expressions of a plan; each keeps its name.
pub(crate) fn rewrite(
    plan: LogicalPlan,
    rewritten: impl Fn(Expr, &DFSchema) -> Result<Transformed<Expr>>,
) -> Result<LogicalPlan> {
    plan.rewrite_up_with_subqueries(|node| {
        let schema = match node.inputs().as_slice() {
            [] => node.schema().as_ref().clone(),
            inputs => merge_schema(inputs),
        };
        let names = NamePreserver::new(&node);
        node.rewrite_expressions(|expression| {
            let name = names.save(&expression);
            let done = expression.rewrite_up(|part| rewritten(part, &schema))?;
            Ok(if done.transformed { done.update_data(|expression| name.restore(expression)) } else { done })
        })
    })
    .data()
}

fn is_checked(function: &ScalarUDF) -> bool {
    (function.inner().as_ref() as &dyn Any).is::<CheckedArithmetic>()
}

fn is_whole(expression: &Expr, schema: &DFSchema) -> bool {
    type_of(expression, schema).is_ok_and(|data_type| data_type.is_integer())
}

fn checked(operator: Operator) -> Option<ScalarUDF> {
    let name = match operator {
        Operator::Plus => "plus",
        Operator::Minus => "minus",
        Operator::Multiply => "times",
        _ => return None,
    };
    Some(CheckedArithmetic::function(name))
}

fn operator(name: &str) -> Option<Operator> {
    match name {
        "plus" => Some(Operator::Plus),
        "minus" => Some(Operator::Minus),
        "times" => Some(Operator::Multiply),
        _ => None,
    }
}

/// Writes a name into one text: a text for each operand would copy a long sum once for each of its terms.
fn write_call(name: &mut String, function: &str, arguments: &[Expr]) -> fmt::Result {
    match (operator(function), arguments) {
        (Some(operator), [left, right]) => {
            write_operand(name, left)?;
            write!(name, " {operator} ")?;
            write_operand(name, right)
        }
        _ => {
            name.push_str("(- ");
            arguments.iter().try_for_each(|argument| write_operand(name, argument))?;
            name.push(')');
            Ok(())
        }
    }
}

fn write_operand(name: &mut String, operand: &Expr) -> fmt::Result {
    match operand {
        Expr::ScalarFunction(ScalarFunction { func, args }) if is_checked(func) => {
            write_call(name, func.name(), args)
        }
        other => write!(name, "{}", other.schema_name()),
    }
}

/// `plus`, `minus`, `times` and `negative`. Queries cannot name them.
#[derive(Debug, PartialEq, Eq, Hash)]
struct CheckedArithmetic {
    name: &'static str,
    signature: Signature,
}

impl CheckedArithmetic {
    fn function(name: &'static str) -> ScalarUDF {
        ScalarUDF::new_from_impl(CheckedArithmetic {
            name,
            signature: Signature::variadic_any(Volatility::Immutable),
        })
    }

    fn compute(&self, arguments: &[ArrayRef]) -> Result<ArrayRef, ArrowError> {
        match (self.name, arguments) {
            ("plus", [left, right]) => add(left, right),
            ("minus", [left, right]) => sub(left, right),
            ("times", [left, right]) => mul(left, right),
            (_, [value]) => neg(value.as_ref()),
            _ => Err(ArrowError::InvalidArgumentError(format!("{} has other arguments", self.name))),
        }
    }
}

impl ScalarUDFImpl for CheckedArithmetic {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    /// The operator's display, because it determines column names.
    fn schema_name(&self, arguments: &[Expr]) -> Result<String> {
        let mut name = String::new();
        write_call(&mut name, self.name, arguments)?;
        Ok(name)
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        match arguments.first() {
            Some(data_type) => Ok(data_type.clone()),
            None => exec_err!("{} has no arguments", self.name),
        }
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs) -> Result<FieldRef> {
        let nullable = arguments.arg_fields.iter().any(|field| field.is_nullable());
        let types: Vec<_> = arguments.arg_fields.iter().map(|field| field.data_type().clone()).collect();
        Ok(Arc::new(Field::new(self.name, self.return_type(&types)?, nullable)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_constant = args.args.iter().all(|value| matches!(value, ColumnarValue::Scalar(_)));
        let computed = self.compute(&ColumnarValue::values_to_arrays(&args.args)?)?;
        Ok(if is_constant {
            ColumnarValue::Scalar(ScalarValue::try_from_array(&computed, 0)?)
        } else {
            ColumnarValue::Array(computed)
        })
    }
}
