//! Expressions that fail for every row, because of a constant in them: an unknown unit, a bad regular expression, a division by 0. They
//! are refused when a query is planned; otherwise each row would be skipped, and a view would stay empty.

use datafusion::arrow::array::{RecordBatch, RecordBatchOptions};
use datafusion::arrow::datatypes::{DataType, IntervalUnit, Schema, TimeUnit};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DFSchema, DataFusionError, Result, ScalarValue};
use datafusion::logical_expr::execution_props::ExecutionProps;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{BinaryExpr, Expr, LogicalPlan, Operator, Volatility};
use datafusion::physical_expr::create_physical_expr;
use std::sync::Arc;

use super::bounded_operators::with_bounds_in;
use crate::limit_reached::stops;
use crate::logical::expression_type::type_of;
use crate::refusal::{Refusal, refuse, refuse_for};
use crate::text::Problem;
use crate::text::wording::{Wording, reword};
use tidemill_trees::nodes::{PlanTree, Tree};

/// Functions that fail for each row if a constant argument is wrong, and only then.
const CHECKED: [&str; 13] = [
    "date_bin",
    "date_part",
    "date_trunc",
    "digest",
    "encode",
    "regexp_count",
    "regexp_instr",
    "regexp_like",
    "regexp_match",
    "regexp_replace",
    "split_part",
    "substr",
    "substring",
];

/// Functions of which an argument must be a constant, with its place.
const CONSTANT: [(&str, usize, &str); 3] = [
    ("date_bin", 0, "the width of bins must be a constant: date_bin(INTERVAL '15 minutes', time)"),
    ("date_part", 0, "write the part itself: extract(hour FROM time)"),
    ("date_trunc", 0, "write the unit itself: date_trunc('hour', time)"),
];

/// Checks all expressions of a plan, but for those in the branches of a CASE, which may be there for rows that do not come.
///
/// # Errors
/// If one fails for every row.
pub(crate) fn check_constants(plan: &LogicalPlan) -> Result<()> {
    plan.look_through_with_subqueries(|node| {
        let schema = match node.inputs().as_slice() {
            [] => node.schema().as_ref().clone(),
            inputs => merge_schema(inputs),
        };
        node.look_through_expressions(|expression| {
            expression.look_through(|part| match part {
                Expr::Case(_) => Ok(TreeNodeRecursion::Jump),
                part => check(part, &schema).map(|()| TreeNodeRecursion::Continue),
            })
        })
    })?;
    Ok(())
}

fn check(part: &Expr, schema: &DFSchema) -> Result<()> {
    match part {
        Expr::ScalarFunction(call) => {
            check_given(call)?;
            let all = call.args.iter().all(is_literal);
            let is_pure = call.func.signature().volatility == Volatility::Immutable;
            let some = CHECKED.contains(&call.func.name()) && call.args.iter().any(is_literal);
            if is_pure && (all || some) && !call.func.short_circuits() {
                check_samples(part, schema)?;
            }
        }
        Expr::BinaryExpr(BinaryExpr { op, right, left }) => {
            let can_fail = matches!(
                op,
                Operator::Divide
                    | Operator::Modulo
                    | Operator::RegexMatch
                    | Operator::RegexIMatch
                    | Operator::RegexNotMatch
                    | Operator::RegexNotIMatch
            );
            if is_literal(right) && (can_fail || is_literal(left)) {
                check_samples(part, schema)?;
            }
        }
        _ => {}
    }
    Ok(())
}

fn is_literal(expression: &Expr) -> bool {
    matches!(expression, Expr::Literal(..))
}

fn check_given(call: &ScalarFunction) -> Result<()> {
    let name = call.func.name();
    let Some((_, place, way_out)) = CONSTANT.iter().find(|(function, ..)| *function == name) else {
        return Ok(());
    };
    let Some(argument) = call.args.get(*place) else { return Ok(()) };
    let is_open = is_literal(argument)
        || argument.contains(|part| Ok(matches!(part, Expr::Placeholder(_) | Expr::ScalarSubquery(_))))?;
    if !is_open {
        return Err(refuse(format!("{name} needs a constant as its argument {}", place + 1), way_out));
    }
    Ok(())
}

/// Checks that the bins of `date_bin` have a width, before it is computed: DataFusion (55.2) accepts a negative one.
///
/// # Errors
/// If they have none.
pub(crate) fn check_width(call: &ScalarFunction) -> Result<()> {
    let width = match call.args.first() {
        Some(Expr::Literal(ScalarValue::IntervalMonthDayNano(Some(width)), _)) => width,
        _ => return Ok(()),
    };
    let parts = [i64::from(width.months), i64::from(width.days), width.nanoseconds];
    if call.func.name() == "date_bin" && (parts.iter().any(|part| *part < 0) || parts == [0; 3]) {
        return Err(refuse("date_bin needs bins of a width of more than 0", CONSTANT[0].2));
    }
    Ok(())
}

/// Computes an expression with samples in place of what is not constant.
fn check_samples(part: &Expr, schema: &DFSchema) -> Result<()> {
    let mut failed = None;
    for sample in 0..2 {
        let Some(constant) = with_samples(part, schema, sample) else { return Ok(()) };
        match computed(&constant) {
            Ok(()) => return Ok(()),
            Err(error) if stops(&error).is_some() => return Ok(()),
            Err(error) => failed = Some(error),
        }
    }
    match failed {
        Some(error) => Err(fails_always(part, &error)),
        None => Ok(()),
    }
}

fn fails_always(part: &Expr, error: &DataFusionError) -> DataFusionError {
    if let DataFusionError::External(inner) = error.find_root()
        && let Some(Refusal { reason, way_out, problem }) = inner.downcast_ref()
    {
        return refuse_for(*problem, reason.clone(), way_out);
    }
    let Wording { message: reason, hint, at: _ } = reword(&error.strip_backtrace());
    let reason = match part {
        Expr::ScalarFunction(call)
            if CHECKED.contains(&call.func.name()) && !reason.contains(call.func.name()) =>
        {
            format!("{} fails for every row: {reason}", call.func.name())
        }
        _ => reason,
    };
    refuse_for(Problem::Other, reason, hint.as_deref().unwrap_or("correct the constant"))
}

/// Returns the expression with literals as arguments, if there is a sample of each type.
fn with_samples(part: &Expr, schema: &DFSchema, sample: usize) -> Option<Expr> {
    let literal = |argument: &Expr| match argument {
        Expr::Literal(..) => Some(argument.clone()),
        other => sample_of(&type_of(other, schema).ok()?, sample).map(|value| Expr::Literal(value, None)),
    };
    Some(match part {
        Expr::ScalarFunction(call) => {
            let args = call.args.iter().map(literal).collect::<Option<_>>()?;
            Expr::ScalarFunction(ScalarFunction { func: Arc::clone(&call.func), args })
        }
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            Expr::BinaryExpr(BinaryExpr::new(Box::new(literal(left)?), *op, Box::new(literal(right)?)))
        }
        _ => return None,
    })
}

fn sample_of(data_type: &DataType, sample: usize) -> Option<ScalarValue> {
    let text = ["", "ab"][sample];
    let number = ScalarValue::Int64(Some([1, 2][sample]));
    match data_type {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => {
            ScalarValue::from(text).cast_to(data_type).ok()
        }
        DataType::Binary => Some(ScalarValue::Binary(Some(text.as_bytes().to_vec()))),
        DataType::Boolean => Some(ScalarValue::Boolean(Some(sample == 1))),
        data_type if data_type.is_numeric() => number.cast_to(data_type).ok(),
        DataType::Timestamp(TimeUnit::Nanosecond, _) | DataType::Date32 => {
            ScalarValue::TimestampNanosecond(Some([0, 1_767_225_600_000_000_000][sample]), None)
                .cast_to(data_type)
                .ok()
        }
        DataType::Interval(IntervalUnit::MonthDayNano) => {
            Some(ScalarValue::new_interval_mdn(0, [1, 2][sample], 0))
        }
        _ => None,
    }
}

fn computed(constant: &Expr) -> Result<()> {
    let schema = DFSchema::empty();
    let constant = with_bounds_in(constant.clone())?;
    let physical = create_physical_expr(&constant, &schema, &ExecutionProps::new(), &Default::default())?;
    let options = RecordBatchOptions::new().with_row_count(Some(1));
    let row = RecordBatch::try_new_with_options(Arc::new(Schema::empty()), Vec::new(), &options)?;
    physical.evaluate(&row).map(drop)
}
