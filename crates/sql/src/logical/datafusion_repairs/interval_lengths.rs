//! Intervals are compared by their lengths, with days of 24 hours and months of 30 days, as in PostgreSQL. DataFusion (55.2) compares
//! months first, then days, then the rest: for it, 25 hours are less than a day, and so is the difference of any two times.

use std::sync::Arc;

use datafusion::arrow::array::types::{
    DurationMicrosecondType, DurationMillisecondType, DurationNanosecondType, DurationSecondType,
    IntervalDayTimeType, IntervalMonthDayNanoType, IntervalYearMonthType,
};
use datafusion::arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, Decimal128Array};
use datafusion::arrow::datatypes::{DECIMAL128_MAX_PRECISION, DataType, FieldRef, IntervalUnit, TimeUnit};
use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::common::{DFSchema, Result, ScalarValue, exec_err};
use datafusion::functions_aggregate::first_last::first_value_udaf;
use datafusion::logical_expr::expr::{
    AggregateFunction, AggregateFunctionParams, Case, InList, InSubquery, ScalarFunction, WindowFunction,
};
use datafusion::logical_expr::{
    Between, BinaryExpr, ColumnarValue, Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, Operator,
    ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, SortExpr, Volatility, cast,
    lit,
};
use tidemill_connect::formats::interval_in_units;

use super::arithmetic::rewrite;
use crate::logical::unary::{applied, result_field};
use crate::refusal::refuse;
use tidemill_trees::nodes::{PlanTree, Tree};

const DAY_NS: i128 = 86_400_000_000_000;
const MONTH_NS: i128 = 30 * DAY_NS;
/// The name of the function that gives the length of an interval.
pub(crate) const LENGTH_OF_INTERVAL: &str = "length of interval";
/// The type of a length: nanoseconds. The longest interval has 25 digits.
const LENGTH: DataType = DataType::Decimal128(DECIMAL128_MAX_PRECISION, 0);
const INTERVAL: DataType = DataType::Interval(IntervalUnit::MonthDayNano);
/// Functions that compare their arguments and give one of them.
const EXTREMES: &[&str] = &["min", "max", "greatest", "least"];

/// The plan in which intervals are compared by their lengths.
///
/// # Errors
/// If it asks for the least or the largest of some intervals: several that are written differently may be equally long.
pub(crate) fn with_lengths_compared(plan: LogicalPlan) -> Result<LogicalPlan> {
    let plan = with_lengths_joined(plan)?;
    rewrite(plan, |mut part, schema| {
        if let Some(extreme) = extreme_of_rows(&part, schema) {
            return Ok(Transformed::yes(extreme));
        }
        check_extremes(&part, schema)?;
        let changed = match &mut part {
            Expr::InSubquery(list) => compared_with_rows(list, schema)?,
            Expr::WindowFunction(call) => ordered_by_lengths(&mut call.params.order_by, schema),
            Expr::AggregateFunction(AggregateFunction { func, params })
                if func.name() == "count" && params.distinct =>
            {
                let is_counted = params.args.iter().any(|value| is_interval(value, schema));
                let values = std::mem::take(&mut params.args).into_iter();
                params.args = values.map(|value| as_length_key(value, schema)).collect();
                is_counted
            }
            // WITHIN GROUP orders what the function is computed of.
            Expr::AggregateFunction(AggregateFunction { func, params })
                if !func.supports_within_group_clause() =>
            {
                let changed = ordered_by_lengths(&mut params.order_by, schema);
                if changed && params.distinct {
                    return Err(refuse(
                        format!("{}(DISTINCT ...) cannot order by INTERVAL", func.name()),
                        "take the distinct rows in a subquery, and aggregate them in order",
                    ));
                }
                changed
            }
            part => compared(part).is_some_and(|sides| as_lengths(sides, schema)),
        };
        Ok(if changed { Transformed::yes(part) } else { Transformed::no(part) })
    })
}

/// An expression with intervals in the place of their lengths, as people read it.
pub(crate) fn without_lengths(expression: Expr) -> Result<Expr> {
    let interval = |length_ns: i64| lit(ScalarValue::new_interval_mdn(0, 0, length_ns));
    let shown = expression.rewrite_up(|part| match &part {
        Expr::ScalarFunction(call) if call.func.name() == LENGTH_OF_INTERVAL => {
            Ok(Transformed::yes(call.args[0].clone()))
        }
        Expr::Literal(ScalarValue::Decimal128(Some(length_ns), DECIMAL128_MAX_PRECISION, 0), _) => {
            let length_ns = i64::try_from(*length_ns).ok();
            Ok(length_ns.map_or(Transformed::no(part), |length_ns| Transformed::yes(interval(length_ns))))
        }
        _ => Ok(Transformed::no(part)),
    });
    shown.data()
}

/// The shortest or the longest interval of some rows is the first of them in the order of their lengths, then as they are written.
fn extreme_of_rows(part: &Expr, schema: &DFSchema) -> Option<Expr> {
    let Expr::AggregateFunction(AggregateFunction { func, params }) = part else { return None };
    let is_shortest = match func.name() {
        "min" => true,
        "max" => false,
        _ => return None,
    };
    let [interval] = params.args.as_slice() else { return None };
    if !is_interval(interval, schema) {
        return None;
    }
    let is_there = interval.clone().is_not_null();
    let filter = match &params.filter {
        Some(filter) => filter.as_ref().clone().and(is_there),
        None => is_there,
    };
    let length = Length::function().call(vec![interval.clone()]);
    let order_by =
        vec![SortExpr::new(length, is_shortest, false), SortExpr::new(interval.clone(), true, false)];
    let params = AggregateFunctionParams {
        args: params.args.clone(),
        distinct: false,
        filter: Some(Box::new(filter)),
        order_by,
        null_treatment: None,
    };
    Some(Expr::AggregateFunction(AggregateFunction { func: first_value_udaf(), params }))
}

/// An interval as a key by which rows are ordered; anything else as it is.
pub(super) fn as_length_key(key: Expr, schema: &DFSchema) -> Expr {
    if is_interval(&key, schema) { Length::function().call(vec![key]) } else { key }
}

/// What an expression compares with each other.
fn compared(part: &mut Expr) -> Option<Vec<&mut Expr>> {
    Some(match part {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if is_comparison(*op) => vec![left, right],
        Expr::Between(Between { expr, low, high, negated: _ }) => vec![expr, low, high],
        Expr::InList(InList { expr, list, negated: _ }) => {
            std::iter::once(expr.as_mut()).chain(list.iter_mut()).collect()
        }
        Expr::Case(Case { expr: Some(base), when_then_expr, else_expr: _ }) => std::iter::once(base.as_mut())
            .chain(when_then_expr.iter_mut().map(|(when, _)| when.as_mut()))
            .collect(),
        _ => return None,
    })
}

fn is_comparison(operator: Operator) -> bool {
    use Operator::{Eq, Gt, GtEq, IsDistinctFrom, IsNotDistinctFrom, Lt, LtEq, NotEq};
    matches!(operator, Eq | NotEq | Lt | LtEq | Gt | GtEq | IsDistinctFrom | IsNotDistinctFrom)
}

/// Replaces intervals and what is compared with them by their lengths; whether there was something to replace. What cannot be
/// compared with an interval stays, and is refused with its types.
fn as_lengths(sides: Vec<&mut Expr>, schema: &DFSchema) -> bool {
    let types: Vec<_> = sides.iter().filter_map(|side| side.get_type(schema).ok()).collect();
    let is_comparable = |data_type: &DataType| {
        matches!(data_type, DataType::Interval(_) | DataType::Duration(_) | DataType::Null)
            || data_type.is_string()
    };
    let has_interval = types.iter().any(|data_type| matches!(data_type, DataType::Interval(_)));
    if !has_interval || types.len() < sides.len() || !types.iter().all(is_comparable) {
        return false;
    }
    for (side, data_type) in sides.into_iter().zip(types) {
        let given = std::mem::take(side);
        let interval = if data_type.is_string() { cast(in_units(given), INTERVAL) } else { given };
        *side = if data_type.is_null() { interval } else { Length::function().call(vec![interval]) };
    }
    true
}

/// A constant text in units that the planner reads.
fn in_units(text: Expr) -> Expr {
    let Expr::Literal(ScalarValue::Utf8(Some(written)), _) = &text else { return text };
    interval_in_units(written).map_or(text, lit)
}

/// Orders the rows of a function by the lengths of intervals and durations; whether there was something to replace.
fn ordered_by_lengths(orders: &mut [SortExpr], schema: &DFSchema) -> bool {
    let mut changed = false;
    for order in orders {
        if is_length(&order.expr, schema) {
            order.expr = Length::function().call(vec![std::mem::take(&mut order.expr)]);
            changed = true;
        }
    }
    changed
}

/// Compares the lengths of intervals with those of rows: `IN (SELECT ...)`.
fn compared_with_rows(list: &mut InSubquery, schema: &DFSchema) -> Result<bool> {
    let inner = Arc::clone(&list.subquery.subquery);
    let Some(value) = inner.schema().columns().into_iter().next().map(Expr::Column) else { return Ok(false) };
    let (mut one, mut other) = (list.expr.as_ref().clone(), value);
    let has_interval = is_interval(&one, schema) || is_interval(&other, inner.schema());
    if !has_interval || !is_length(&one, schema) || !is_length(&other, inner.schema()) {
        return Ok(false);
    }
    one = Length::function().call(vec![one]);
    other = Length::function().call(vec![other]).alias(inner.schema().field(0).name());
    *list.expr = one;
    list.subquery =
        list.subquery.with_plan(Arc::new(LogicalPlanBuilder::from(inner).project([other])?.build()?));
    Ok(true)
}

/// The same for what `USING` compares.
fn with_lengths_joined(plan: LogicalPlan) -> Result<LogicalPlan> {
    plan.rewrite_up_with_subqueries(|node| match node {
        LogicalPlan::Join(mut join) => {
            let (left, right) = (join.left.schema(), join.right.schema());
            for (one, other) in &mut join.on {
                if is_interval(one, left) && is_interval(other, right) {
                    *one = as_length_key(std::mem::take(one), left);
                    *other = as_length_key(std::mem::take(other), right);
                }
            }
            Ok(Transformed::yes(LogicalPlan::Join(join)))
        }
        other => Ok(Transformed::no(other)),
    })
    .data()
}

fn check_extremes(part: &Expr, schema: &DFSchema) -> Result<()> {
    let (name, arguments) = match part {
        Expr::ScalarFunction(ScalarFunction { func, args }) => (func.name(), args),
        Expr::AggregateFunction(AggregateFunction { func, params }) => (func.name(), &params.args),
        Expr::WindowFunction(call) => {
            let WindowFunction { fun, params } = call.as_ref();
            (fun.name(), &params.args)
        }
        _ => return Ok(()),
    };
    let way_out = match name {
        "nullif" => "write CASE WHEN one = other THEN NULL ELSE one END".to_owned(),
        name if EXTREMES.contains(&name) => {
            format!("use their lengths in seconds: {name}(extract(epoch FROM interval))")
        }
        _ => return Ok(()),
    };
    if arguments.iter().any(|argument| is_interval(argument, schema)) {
        Err(refuse(
            format!(
                "{name} is not defined for INTERVAL: intervals that are written differently may be equally long"
            ),
            &way_out,
        ))
    } else {
        Ok(())
    }
}

fn is_length(expression: &Expr, schema: &DFSchema) -> bool {
    let is = |data_type| matches!(data_type, DataType::Interval(_) | DataType::Duration(_));
    expression.get_type(schema).is_ok_and(is)
}

fn is_interval(expression: &Expr, schema: &DFSchema) -> bool {
    expression.get_type(schema).is_ok_and(|data_type| matches!(data_type, DataType::Interval(_)))
}

/// The length of an interval or a duration in nanoseconds. Queries cannot name it.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Length {
    signature: Signature,
}

impl Length {
    fn function() -> ScalarUDF {
        ScalarUDF::new_from_impl(Length { signature: Signature::any(1, Volatility::Immutable) })
    }
}

fn lengths(values: &ArrayRef) -> Result<Decimal128Array> {
    fn of<T: ArrowPrimitiveType>(values: &ArrayRef, length: impl Fn(T::Native) -> i128) -> Decimal128Array {
        values.as_primitive::<T>().iter().map(|value| value.map(&length)).collect()
    }
    let lengths = match values.data_type() {
        DataType::Interval(IntervalUnit::YearMonth) => {
            of::<IntervalYearMonthType>(values, |months| i128::from(months) * MONTH_NS)
        }
        DataType::Interval(IntervalUnit::DayTime) => of::<IntervalDayTimeType>(values, |value| {
            i128::from(value.days) * DAY_NS + i128::from(value.milliseconds) * 1_000_000
        }),
        DataType::Interval(IntervalUnit::MonthDayNano) => of::<IntervalMonthDayNanoType>(values, |value| {
            i128::from(value.months) * MONTH_NS
                + i128::from(value.days) * DAY_NS
                + i128::from(value.nanoseconds)
        }),
        DataType::Duration(TimeUnit::Second) => {
            of::<DurationSecondType>(values, |value| i128::from(value) * 1_000_000_000)
        }
        DataType::Duration(TimeUnit::Millisecond) => {
            of::<DurationMillisecondType>(values, |value| i128::from(value) * 1_000_000)
        }
        DataType::Duration(TimeUnit::Microsecond) => {
            of::<DurationMicrosecondType>(values, |value| i128::from(value) * 1_000)
        }
        DataType::Duration(TimeUnit::Nanosecond) => of::<DurationNanosecondType>(values, i128::from),
        other => return exec_err!("{other} has no length"),
    };
    Ok(lengths.with_data_type(LENGTH))
}

impl ScalarUDFImpl for Length {
    fn name(&self) -> &str {
        LENGTH_OF_INTERVAL
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arguments: &[DataType]) -> Result<DataType> {
        Ok(LENGTH)
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs) -> Result<FieldRef> {
        Ok(result_field(self.name(), LENGTH, &arguments))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        applied(&args, |values| Ok(Arc::new(lengths(values)?)))
    }
}
