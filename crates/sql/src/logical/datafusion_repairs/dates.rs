//! A date plus or minus an interval. DataFusion 55 gives a date, and drops the hours of the interval. PostgreSQL gives a time, and
//! so does this language if the interval has hours or is computed.

use datafusion::arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, LogicalPlan, Operator, cast};

use super::arithmetic::rewrite;

const DAY_NS: i64 = 86_400_000_000_000;

/// The plan in which a date is made a time before hours are added.
pub(crate) fn with_times(plan: LogicalPlan) -> Result<LogicalPlan> {
    rewrite(plan, |part, schema| match part {
        Expr::BinaryExpr(BinaryExpr { left, op: op @ (Operator::Plus | Operator::Minus), right }) => {
            let adds = |date: &Expr, interval: &Expr| is_date(date, schema) && has_time(interval, schema);
            let (left, right, changed) =
                match (adds(&left, &right), op == Operator::Plus && adds(&right, &left)) {
                    (true, _) => (Box::new(midnight(*left)), right, true),
                    (_, true) => (left, Box::new(midnight(*right)), true),
                    _ => (left, right, false),
                };
            let part = Expr::BinaryExpr(BinaryExpr { left, op, right });
            Ok(if changed { Transformed::yes(part) } else { Transformed::no(part) })
        }
        part => Ok(Transformed::no(part)),
    })
}

fn midnight(date: Expr) -> Expr {
    cast(date, DataType::Timestamp(TimeUnit::Nanosecond, None))
}

fn is_date(part: &Expr, schema: &DFSchema) -> bool {
    part.get_type(schema).is_ok_and(|data_type| matches!(data_type, DataType::Date32 | DataType::Date64))
}

/// Whether an interval has hours, or could have.
fn has_time(part: &Expr, schema: &DFSchema) -> bool {
    match part {
        Expr::Literal(ScalarValue::IntervalMonthDayNano(interval), _) => {
            interval.is_some_and(|interval| interval.nanoseconds % DAY_NS != 0)
        }
        Expr::Literal(ScalarValue::IntervalYearMonth(_), _) => false,
        part => part.get_type(schema).is_ok_and(|data_type| matches!(data_type, DataType::Interval(_))),
    }
}
