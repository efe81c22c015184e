//! Uniform semantics of floating-point numbers: there is one NaN, which equals itself and is greater than all numbers,
//! and -0 equals 0, as in PostgreSQL.
//!
//! DataFusion orders by IEEE 754's total order, in which a NaN with a sign is below all numbers, and processors differ
//! in the sign of a NaN that they compute. So each computed NaN is made positive. In that order -0 comes before 0, so
//! both are made 0 where DataFusion compares bits: in lists, `CASE x WHEN`, `nullif`, and where it orders or partitions
//! rows.

use std::any::Any;
use std::sync::Arc;

use datafusion::arrow::array::types::{Decimal128Type, Float32Type, Float64Type};
use datafusion::arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray};
use datafusion::arrow::datatypes::{DECIMAL128_MAX_PRECISION, DataType, FieldRef};
use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::common::{Column, DFSchema, Result, ScalarValue, internal_err};
use datafusion::logical_expr::expr::{Between, Case, InList, InSubquery, ScalarFunction};
use datafusion::logical_expr::{
    BinaryExpr, Cast, ColumnarValue, Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, Operator,
    ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TryCast, Union, Volatility,
    cast,
};

use tidemill_trees::nodes::{PlanTree, Tree};

use super::arithmetic::rewrite;
use super::interval_lengths::as_length_key;
use super::rounding::settle_type;
use super::written_numbers;
use crate::logical::expression_type::type_of;

/// Functions that give one of their arguments.
const CHOICES: &[&str] = &["coalesce", "greatest", "least", "nullif", "nvl", "ifnull"];

/// The plan with each computed NaN made positive, including subqueries.
pub(crate) fn with_one_nan(plan: LogicalPlan) -> Result<LogicalPlan> {
    rewrite(plan, |part, schema| Ok(one_nan(part, schema)))
}

/// The same for an expression.
pub(crate) fn with_one_nan_in(expression: Expr, schema: &DFSchema) -> Result<Expr> {
    expression.rewrite_up(|part| Ok(one_nan(part, schema))).data()
}

fn one_nan(part: Expr, schema: &DFSchema) -> Transformed<Expr> {
    let part = match part {
        Expr::InList(list) if is_floating(&list.expr, schema) => {
            let expr = Box::new(as_value(*list.expr, schema));
            let list = InList { expr, list: as_values(list.list, schema), negated: list.negated };
            return Transformed::yes(Expr::InList(list));
        }
        Expr::Case(Case { expr: Some(base), when_then_expr, else_expr }) if is_floating(&base, schema) => {
            let when_then_expr = when_then_expr
                .into_iter()
                .map(|(when, then)| (Box::new(as_value(*when, schema)), then))
                .collect();
            let expr = Some(Box::new(as_value(*base, schema)));
            return Transformed::yes(Expr::Case(Case { expr, when_then_expr, else_expr }));
        }
        Expr::ScalarFunction(ScalarFunction { func, args }) if func.name() == "nullif" => {
            Expr::ScalarFunction(ScalarFunction { func, args: as_values(args, schema) })
        }
        other => other,
    };
    if can_make_nan(&part, schema) && is_floating(&part, schema) || may_not_fit(&part, schema) {
        Transformed::yes(Normal::function(false).call(vec![part]))
    } else {
        Transformed::no(part)
    }
}

/// The original plan: streams do the same when they compile expressions.
pub(crate) fn without_one_nan(plan: LogicalPlan) -> Result<LogicalPlan> {
    rewrite(plan, |part, _| match &part {
        // A constant decimal that does not fit is reported when it is computed.
        Expr::ScalarFunction(ScalarFunction { func, args })
            if is_normal(func) && !matches!(args[0], Expr::Literal(ScalarValue::Decimal128(..), _)) =>
        {
            Ok(Transformed::yes(args[0].clone()))
        }
        _ => Ok(Transformed::no(part)),
    })
}

/// A key by which rows are ordered or counted: -0 is 0, and an interval is its length.
pub(crate) fn as_key(key: Expr, schema: &DFSchema) -> Expr {
    as_length_key(as_value(key, schema), schema)
}

/// A value that is compared, with -0 as 0.
pub(super) fn as_value(value: Expr, schema: &DFSchema) -> Expr {
    if is_floating(&value, schema) { Normal::function(true).call(vec![value]) } else { value }
}

fn as_values(values: Vec<Expr>, schema: &DFSchema) -> Vec<Expr> {
    values.into_iter().map(|value| as_value(value, schema)).collect()
}

/// The plan in which decimals are compared with floating-point numbers as floating-point numbers. DataFusion converts
/// the number to a decimal with 15 digits after the point, which cannot represent infinities, NaN and large numbers. A
/// literal is converted to the decimal that it denotes, also where it is cast to a decimal.
pub(crate) fn with_decimals_compared(plan: LogicalPlan) -> Result<LogicalPlan> {
    let plan = with_decimals_joined(plan)?;
    rewrite(plan, |part, schema| {
        let mut part = part;
        if let Expr::InSubquery(list) = &mut part {
            return Ok(if compared_as_floats(list, schema)? {
                Transformed::yes(part)
            } else {
                Transformed::no(part)
            });
        }
        let mut changed = match &mut part {
            Expr::ScalarFunction(call) => settle_type(call, schema),
            Expr::Cast(Cast { expr, field }) | Expr::TryCast(TryCast { expr, field })
                if field.data_type().is_decimal() =>
            {
                as_decimal(expr)
            }
            _ => false,
        };
        for sides in of_one_type(&mut part) {
            changed |= as_one_type(sides, schema);
        }
        Ok(if changed { Transformed::yes(part) } else { Transformed::no(part) })
    })
}

/// The parts of an expression that DataFusion makes values of one type, group by group: what is compared, and what is
/// the result in one case or another.
pub(crate) fn of_one_type(part: &mut Expr) -> Vec<Vec<&mut Expr>> {
    match part {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if op.supports_propagation() || is_equal(*op) => {
            vec![vec![left, right]]
        }
        Expr::Between(Between { expr, low, high, .. }) => vec![vec![expr, low, high]],
        Expr::InList(InList { expr, list, .. }) => {
            vec![std::iter::once(expr.as_mut()).chain(list.iter_mut()).collect()]
        }
        Expr::Case(Case { expr, when_then_expr, else_expr }) => {
            let (mut compared, mut results): (Vec<&mut Expr>, Vec<&mut Expr>) =
                when_then_expr.iter_mut().map(|(when, then)| (when.as_mut(), then.as_mut())).unzip();
            results.extend(else_expr.iter_mut().map(|result| result.as_mut()));
            match expr {
                Some(base) => compared.push(base),
                None => compared.clear(),
            }
            vec![compared, results]
        }
        Expr::ScalarFunction(ScalarFunction { func, args }) if CHOICES.contains(&func.name()) => {
            vec![args.iter_mut().collect()]
        }
        _ => Vec::new(),
    }
}

/// Makes a number that is written out a decimal. As a floating-point number it is rounded twice on its way to another decimal.
fn as_decimal(number: &mut Expr) -> bool {
    let decimal = written_decimal(number);
    decimal.map(|decimal| *number = decimal).is_some()
}

/// Makes decimals floating-point numbers beside such, and numbers that are written out decimals beside decimals.
fn as_one_type(mut sides: Vec<&mut Expr>, schema: &DFSchema) -> bool {
    if !sides.iter().any(|side| is_decimal(side, schema)) && !are_exact(&sides, schema) {
        return false;
    }
    for side in &mut sides {
        if let Some(decimal) = written_decimal(side) {
            **side = decimal;
        }
    }
    if sides.iter().any(|side| is_floating(side, schema)) {
        for side in sides.into_iter().filter(|side| is_decimal(side, schema)) {
            *side = cast(std::mem::take(side), DataType::Float64);
        }
    }
    true
}

/// Whether there is a number with more digits than a floating-point number has, beside others that are exact.
fn are_exact(sides: &[&mut Expr], schema: &DFSchema) -> bool {
    let is_exact =
        |side: &Expr| written_decimal(side).is_some() || has_type(side, schema, DataType::is_integer);
    sides.iter().any(|side| written_numbers::decimal_of(side).is_some())
        && sides.iter().all(|side| is_exact(side))
}

/// Converts the decimals of `IN (SELECT ...)` to floating-point numbers, if the other side has floating-point numbers.
fn compared_as_floats(list: &mut InSubquery, schema: &DFSchema) -> Result<bool> {
    let inner = Arc::clone(&list.subquery.subquery);
    let Some(value) = inner.schema().columns().into_iter().next().map(Expr::Column) else { return Ok(false) };
    if is_decimal(&list.expr, schema) && is_floating(&value, inner.schema()) {
        *list.expr = cast(std::mem::take(list.expr.as_mut()), DataType::Float64);
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

/// The same for what `USING`, `EXCEPT` and `INTERSECT` compare, and for columns that `UNION` makes one.
fn with_decimals_joined(plan: LogicalPlan) -> Result<LogicalPlan> {
    plan.rewrite_up_with_subqueries(|node| match node {
        LogicalPlan::Union(union) => Ok(Transformed::yes(LogicalPlan::Union(with_floats(union)?))),
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

/// A union whose columns are floating-point numbers in all inputs, if they are such in one and decimals in another.
fn with_floats(union: Union) -> Result<Union> {
    let has = |column: usize, is: fn(&DataType) -> bool| {
        union.inputs.iter().any(|input| is(input.schema().field(column).data_type()))
    };
    let mixed = |column: &usize| has(*column, DataType::is_decimal) && has(*column, DataType::is_floating);
    let mixed: Vec<usize> = (0..union.schema.fields().len()).filter(mixed).collect();
    if mixed.is_empty() {
        return Ok(union);
    }
    let inputs = union.inputs.iter().map(|input| {
        let schema = input.schema();
        let column = |(index, column): (usize, Column)| {
            let is_cast = mixed.contains(&index) && schema.field(index).data_type().is_decimal();
            let name = (column.relation.clone(), column.name.clone());
            if is_cast {
                cast(Expr::Column(column), DataType::Float64).alias_qualified(name.0, name.1)
            } else {
                Expr::Column(column)
            }
        };
        let columns = schema.columns().into_iter().enumerate().map(column).collect::<Vec<_>>();
        Ok(Arc::new(LogicalPlanBuilder::from(Arc::clone(input)).project(columns)?.build()?))
    });
    Union::try_new_with_loose_types(inputs.collect::<Result<_>>()?)
}

fn is_decimal(expression: &Expr, schema: &DFSchema) -> bool {
    has_type(expression, schema, DataType::is_decimal)
}

fn is_equal(operator: Operator) -> bool {
    matches!(operator, Operator::IsDistinctFrom | Operator::IsNotDistinctFrom)
}

/// A floating-point constant as the decimal that its shortest text denotes, if there is one.
pub(crate) fn written_decimal(side: &Expr) -> Option<Expr> {
    if let Some(decimal) = written_numbers::decimal_of(side) {
        return Some(decimal);
    }
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

/// Whether a decimal may be computed that has more digits than any decimal: Arrow (59) notices only that it has more than 127 bits,
/// which is a little later.
fn may_not_fit(part: &Expr, schema: &DFSchema) -> bool {
    matches!(part, Expr::BinaryExpr(BinaryExpr { op, .. }) if op.is_numerical_operators())
        && has_type(part, schema, |data_type| {
            matches!(data_type, DataType::Decimal128(DECIMAL128_MAX_PRECISION, _))
        })
}

fn is_floating(expression: &Expr, schema: &DFSchema) -> bool {
    has_type(expression, schema, |data_type| matches!(data_type, DataType::Float32 | DataType::Float64))
}

/// Whether the values are of such a type. That of CASE is settled by all of its results, and its first one may be a whole
/// number.
fn has_type(expression: &Expr, schema: &DFSchema, is: fn(&DataType) -> bool) -> bool {
    match expression {
        Expr::Case(Case { when_then_expr, else_expr, .. }) => {
            let mut results = when_then_expr.iter().map(|(_, then)| then).chain(else_expr);
            results.any(|result| has_type(result, schema, is))
        }
        other => type_of(other, schema).is_ok_and(|data_type| is(&data_type)),
    }
}

fn is_normal(function: &ScalarUDF) -> bool {
    (function.inner().as_ref() as &dyn Any).is::<Normal>()
}

/// A number with every NaN made positive and, optionally, -0 made 0; a decimal that has no more digits than it may have. Queries
/// cannot name it.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Normal {
    zero: bool,
    signature: Signature,
}

impl Normal {
    fn function(zero: bool) -> ScalarUDF {
        ScalarUDF::new_from_impl(Normal { zero, signature: Signature::any(1, Volatility::Immutable) })
    }

    fn values(&self, values: &ArrayRef) -> Result<ArrayRef> {
        fn normal<T: ArrowPrimitiveType>(
            values: &ArrayRef,
            is_wrong: impl Fn(T::Native) -> bool,
            right: impl Fn(T::Native) -> T::Native,
        ) -> ArrayRef {
            let numbers = values.as_primitive::<T>();
            if numbers.values().iter().any(|value| is_wrong(*value)) {
                Arc::new(numbers.unary::<_, T>(right))
            } else {
                Arc::clone(values)
            }
        }
        macro_rules! normal {
            ($type:ty, $native:ty) => {{
                let zero = self.zero;
                let is_wrong = move |value: $native| {
                    value.is_sign_negative() && (value.is_nan() || (zero && value == 0.0))
                };
                normal::<$type>(
                    values,
                    is_wrong,
                    move |value| {
                        if is_wrong(value) { value.abs() } else { value }
                    },
                )
            }};
        }
        Ok(match values.data_type() {
            DataType::Float32 => normal!(Float32Type, f32),
            DataType::Float64 => normal!(Float64Type, f64),
            DataType::Decimal128(precision, _) => {
                values.as_primitive::<Decimal128Type>().validate_decimal_precision(*precision)?;
                Arc::clone(values)
            }
            _ => Arc::clone(values),
        })
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
            ColumnarValue::Array(values) => Ok(ColumnarValue::Array(self.values(values)?)),
            ColumnarValue::Scalar(value) => {
                let value = self.values(&value.to_array()?)?;
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
            let normal =
                Normal { zero, signature: Signature::any(1, Volatility::Immutable) }.values(&values).unwrap();
            let normal = normal.as_primitive::<Float64Type>();
            normal.iter().map(|value| value.map(f64::is_sign_negative)).collect()
        };
        assert_eq!(signs(false), [Some(false), Some(true), None, Some(true)]);
        assert_eq!(signs(true), [Some(false), Some(false), None, Some(true)]);
    }
}
