//! Uniform semantics of floating-point numbers: there is one NaN, which equals itself and is greater than all numbers,
//! and -0 equals 0, as in PostgreSQL.
//!
//! DataFusion orders by IEEE 754's total order, in which a NaN with a sign is below all numbers, and processors differ
//! in the sign of a NaN that they compute. So each computed NaN is made positive. In that order -0 comes before 0, so
//! both are made 0 where DataFusion compares bits: in lists, `CASE x WHEN`, `nullif`, and where it orders or partitions
//! rows.

use std::any::Any;
use std::sync::Arc;

use datafusion::arrow::array::types::{Float32Type, Float64Type};
use datafusion::arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray};
use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{DFSchema, Result, ScalarValue, internal_err};
use datafusion::logical_expr::expr::{Between, Case, InList, InSubquery, ScalarFunction};
use datafusion::logical_expr::{
    BinaryExpr, Cast, ColumnarValue, Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, Operator,
    ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TryCast, Volatility, cast,
};

use super::arithmetic::rewrite;

/// The plan with each computed NaN made positive, including subqueries.
pub(crate) fn with_one_nan(plan: LogicalPlan) -> Result<LogicalPlan> {
    rewrite(plan, |part, schema| Ok(one_nan(part, schema)))
}

/// The same for an expression.
pub(crate) fn with_one_nan_in(expression: Expr, schema: &DFSchema) -> Result<Expr> {
    expression.transform_up(|part| Ok(one_nan(part, schema))).data()
}

fn one_nan(part: Expr, schema: &DFSchema) -> Transformed<Expr> {
    let part = match part {
        Expr::InList(list) if is_floating(&list.expr, schema) => {
            let expr = Box::new(as_key(*list.expr, schema));
            let list = InList { expr, list: as_keys(list.list, schema), negated: list.negated };
            return Transformed::yes(Expr::InList(list));
        }
        Expr::Case(Case { expr: Some(base), when_then_expr, else_expr }) if is_floating(&base, schema) => {
            let when_then_expr = when_then_expr
                .into_iter()
                .map(|(when, then)| (Box::new(as_key(*when, schema)), then))
                .collect();
            let expr = Some(Box::new(as_key(*base, schema)));
            return Transformed::yes(Expr::Case(Case { expr, when_then_expr, else_expr }));
        }
        Expr::ScalarFunction(ScalarFunction { func, args }) if func.name() == "nullif" => {
            Expr::ScalarFunction(ScalarFunction { func, args: as_keys(args, schema) })
        }
        other => other,
    };
    match can_make_nan(&part, schema) && is_floating(&part, schema) {
        true => Transformed::yes(Normal::function(false).call(vec![part])),
        false => Transformed::no(part),
    }
}

/// The original plan: streams do the same when they compile expressions.
pub(crate) fn without_one_nan(plan: LogicalPlan) -> Result<LogicalPlan> {
    rewrite(plan, |part, _| match &part {
        Expr::ScalarFunction(ScalarFunction { func, args }) if is_normal(func) => {
            Ok(Transformed::yes(args[0].clone()))
        }
        _ => Ok(Transformed::no(part)),
    })
}

/// A key of rows, with -0 as 0.
pub(crate) fn as_key(key: Expr, schema: &DFSchema) -> Expr {
    match is_floating(&key, schema) {
        true => Normal::function(true).call(vec![key]),
        false => key,
    }
}

fn as_keys(keys: Vec<Expr>, schema: &DFSchema) -> Vec<Expr> {
    keys.into_iter().map(|key| as_key(key, schema)).collect()
}

/// The plan in which decimals are compared with floating-point numbers as floating-point numbers. DataFusion converts
/// the number to a decimal with 15 digits after the point, which cannot represent infinities, NaN and large numbers. A
/// literal is converted to the decimal that it denotes.
pub(crate) fn with_decimals_compared(plan: LogicalPlan) -> Result<LogicalPlan> {
    let plan = with_decimals_joined(plan)?;
    rewrite(plan, |part, schema| {
        let mut part = part;
        if let Expr::InSubquery(list) = &mut part {
            return Ok(match compared_as_floats(list, schema)? {
                true => Transformed::yes(part),
                false => Transformed::no(part),
            });
        }
        let mut sides: Vec<&mut Expr> = Vec::new();
        match &mut part {
            Expr::BinaryExpr(BinaryExpr { left, op, right })
                if op.supports_propagation() || is_equal(*op) =>
            {
                sides.extend([left.as_mut(), right.as_mut()]);
            }
            Expr::Between(Between { expr, low, high, .. }) => {
                sides.extend([expr.as_mut(), low.as_mut(), high.as_mut()]);
            }
            Expr::InList(InList { expr, list, .. }) => {
                sides.push(expr.as_mut());
                sides.extend(list.iter_mut());
            }
            Expr::Case(Case { expr: Some(base), when_then_expr, .. }) => {
                sides.push(base.as_mut());
                sides.extend(when_then_expr.iter_mut().map(|(when, _)| when.as_mut()));
            }
            _ => return Ok(Transformed::no(part)),
        }
        if !sides.iter().any(|side| is_decimal(side, schema)) {
            return Ok(Transformed::no(part));
        }
        for side in &mut sides {
            if let Some(decimal) = written_decimal(side) {
                **side = decimal;
            }
        }
        if !sides.iter().any(|side| is_floating(side, schema)) {
            return Ok(Transformed::yes(part));
        }
        for side in sides.into_iter().filter(|side| is_decimal(side, schema)) {
            *side = cast(std::mem::take(side), DataType::Float64);
        }
        Ok(Transformed::yes(part))
    })
}

/// Makes the decimals of `IN (SELECT ...)` floating-point numbers, if the other side has such.
fn compared_as_floats(list: &mut InSubquery, schema: &DFSchema) -> Result<bool> {
    let inner = Arc::clone(&list.subquery.subquery);
    let Some(value) = inner.schema().columns().into_iter().next().map(Expr::Column) else { return Ok(false) };
    if is_decimal(&list.expr, schema) && is_floating(&value, inner.schema()) {
        list.expr = Box::new(cast(std::mem::take(list.expr.as_mut()), DataType::Float64));
        return Ok(true);
    }
    if is_floating(&list.expr, schema) && is_decimal(&value, inner.schema()) {
        let name = inner.schema().field(0).name().clone();
        let values =
            LogicalPlanBuilder::from(inner).project([cast(value, DataType::Float64).alias(name)])?.build()?;
        list.subquery = list.subquery.with_plan(Arc::new(values));
        return Ok(true);
    }
    Ok(false)
}

/// The same for what `USING`, `EXCEPT` and `INTERSECT` compare.
fn with_decimals_joined(plan: LogicalPlan) -> Result<LogicalPlan> {
    plan.transform_up_with_subqueries(|node| match node {
        LogicalPlan::Join(mut join) => {
            let (left, right) = (join.left.schema(), join.right.schema());
            for (one, other) in &mut join.on {
                if is_decimal(one, left) && is_floating(other, right) {
                    *one = cast(std::mem::take(one), DataType::Float64);
                } else if is_floating(one, left) && is_decimal(other, right) {
                    *other = cast(std::mem::take(other), DataType::Float64);
                }
            }
            Ok(Transformed::yes(LogicalPlan::Join(join)))
        }
        other => Ok(Transformed::no(other)),
    })
    .data()
}

fn is_decimal(expression: &Expr, schema: &DFSchema) -> bool {
    expression.get_type(schema).is_ok_and(|data_type| data_type.is_decimal())
}

fn is_equal(operator: Operator) -> bool {
    matches!(operator, Operator::IsDistinctFrom | Operator::IsNotDistinctFrom)
}

/// A floating-point constant as the decimal that its shortest text denotes, if there is one.
pub(super) fn written_decimal(side: &Expr) -> Option<Expr> {
    let Expr::Literal(ScalarValue::Float64(Some(value)), metadata) = side else { return None };
    let text = format!("{value}");
    let scale = text.split_once('.').map_or(0, |(_, digits)| digits.len());
    let unscaled: i128 = text.replace('.', "").parse().ok()?;
    let digits = unscaled.unsigned_abs().max(1).ilog10() as usize + 1;
    if digits.max(scale) > 30 {
        return None;
    }
    let decimal = ScalarValue::Decimal128(Some(unscaled), digits.max(scale) as u8, scale as i8);
    Some(Expr::Literal(decimal, metadata.clone()))
}

/// Columns and constants are left as they are; these expressions compute.
fn can_make_nan(part: &Expr, schema: &DFSchema) -> bool {
    match part {
        Expr::BinaryExpr(BinaryExpr { op, .. }) => op.is_numerical_operators(),
        Expr::Negative(_) => true,
        Expr::ScalarFunction(ScalarFunction { func, .. }) => !is_normal(func),
        // '-nan' is a text for it.
        Expr::Cast(Cast { expr, .. }) | Expr::TryCast(TryCast { expr, .. }) => {
            expr.get_type(schema).is_ok_and(|data_type| data_type.is_string())
        }
        _ => false,
    }
}

fn is_floating(expression: &Expr, schema: &DFSchema) -> bool {
    let data_type = expression.get_type(schema);
    data_type.is_ok_and(|data_type| matches!(data_type, DataType::Float32 | DataType::Float64))
}

fn is_normal(function: &ScalarUDF) -> bool {
    (function.inner().as_ref() as &dyn Any).is::<Normal>()
}

/// A number with every NaN made positive and, optionally, -0 made 0. Queries cannot name it.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Normal {
    zero: bool,
    signature: Signature,
}

impl Normal {
    fn function(zero: bool) -> ScalarUDF {
        ScalarUDF::new_from_impl(Normal { zero, signature: Signature::any(1, Volatility::Immutable) })
    }

    fn values(&self, values: &ArrayRef) -> ArrayRef {
        fn normal<T: ArrowPrimitiveType>(
            values: &ArrayRef,
            is_wrong: impl Fn(T::Native) -> bool,
            right: impl Fn(T::Native) -> T::Native,
        ) -> ArrayRef {
            let numbers = values.as_primitive::<T>();
            match numbers.values().iter().any(|value| is_wrong(*value)) {
                true => Arc::new(numbers.unary::<_, T>(right)),
                false => Arc::clone(values),
            }
        }
        macro_rules! normal {
            ($type:ty, $native:ty) => {{
                let zero = self.zero;
                let is_wrong = move |value: $native| {
                    value.is_sign_negative() && (value.is_nan() || (zero && value == 0.0))
                };
                normal::<$type>(values, is_wrong, move |value| match is_wrong(value) {
                    true => value.abs(),
                    false => value,
                })
            }};
        }
        match values.data_type() {
            DataType::Float32 => normal!(Float32Type, f32),
            DataType::Float64 => normal!(Float64Type, f64),
            _ => Arc::clone(values),
        }
    }
}

impl ScalarUDFImpl for Normal {
    fn name(&self) -> &str {
        "normal"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    /// The argument's display, because it determines column names.
    fn schema_name(&self, arguments: &[Expr]) -> Result<String> {
        Ok(arguments[0].schema_name().to_string())
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        match arguments {
            [number] => Ok(number.clone()),
            _ => internal_err!("{} has one argument", self.name()),
        }
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs) -> Result<FieldRef> {
        Ok(Arc::clone(&arguments.arg_fields[0]))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match &args.args[0] {
            ColumnarValue::Array(values) => Ok(ColumnarValue::Array(self.values(values))),
            ColumnarValue::Scalar(value) => {
                let value = self.values(&value.to_array()?);
                Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&value, 0)?))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::arrow::array::Float64Array;
    use datafusion::logical_expr::lit;

    #[test]
    fn a_written_number_is_the_decimal_that_it_says() {
        let decimal = |value: f64| match written_decimal(&lit(value)) {
            Some(Expr::Literal(ScalarValue::Decimal128(Some(unscaled), precision, scale), _)) => {
                Some((unscaled, precision, scale))
            }
            _ => None,
        };
        assert_eq!(decimal(0.1), Some((1, 1, 1)));
        assert_eq!(decimal(-12.5), Some((-125, 3, 1)));
        assert_eq!(decimal(3.0), Some((3, 1, 0)));
        assert_eq!(decimal(1e300), None);
        assert_eq!(decimal(f64::NAN), None);
    }

    #[test]
    fn nan_loses_its_sign_and_zero_where_it_is_a_key() {
        let values =
            Arc::new(Float64Array::from(vec![Some(-f64::NAN), Some(-0.0), None, Some(-1.5)])) as ArrayRef;
        let signs = |zero: bool| -> Vec<Option<bool>> {
            let normal = Normal { zero, signature: Signature::any(1, Volatility::Immutable) }.values(&values);
            let normal = normal.as_primitive::<Float64Type>();
            normal.iter().map(|value| value.map(f64::is_sign_negative)).collect()
        };
        assert_eq!(signs(false), [Some(false), Some(true), None, Some(true)]);
        assert_eq!(signs(true), [Some(false), Some(false), None, Some(true)]);
    }
}
