//! Casts between dates, times and other types, as in PostgreSQL: a local time has an instant also where clocks are changed, and a number
//! is not a time, because nobody could tell whether it counts days, seconds or nanoseconds. Texts have rules of their own
//! (`text_casts.rs`).

use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::{Cast, Expr, LogicalPlan, TryCast};

use super::local_times::{InstantOfLocalTime, has_clock_changes};
use crate::logical::datafusion_repairs::arithmetic::rewrite;
use crate::logical::expression_type::type_of;
use crate::logical::limits::constant_checks::check_width;
use crate::refusal::refuse;
use crate::text::wording::sql_types;

/// Returns the plan with our functions in place of such casts.
///
/// # Errors
/// If a number is cast to a time, or a time to a number.
pub(crate) fn with_time_casts(plan: LogicalPlan) -> Result<LogicalPlan> {
    rewrite(plan, |part, schema| {
        if let Expr::ScalarFunction(call) = &part {
            check_width(call)?;
        }
        let (expr, field) = match &part {
            Expr::Cast(Cast { expr, field }) | Expr::TryCast(TryCast { expr, field }) => (expr, field),
            _ => return Ok(Transformed::no(part)),
        };
        let Ok(given) = type_of(expr, schema) else { return Ok(Transformed::no(part)) };
        let wanted = field.data_type();
        check_numbers(&given, wanted)?;
        let function = match (&given, wanted) {
            (
                DataType::Timestamp(_, None) | DataType::Date32 | DataType::Date64,
                DataType::Timestamp(_, Some(zone)),
            ) if has_clock_changes(zone) => InstantOfLocalTime::function(wanted.clone()),
            _ => return Ok(Transformed::no(part)),
        };
        Ok(Transformed::yes(function.call(vec![expr.as_ref().clone()])))
    })
}

fn is_time(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Timestamp(..)
            | DataType::Date32
            | DataType::Date64
            | DataType::Time32(_)
            | DataType::Time64(_)
            | DataType::Interval(_)
    )
}

/// Refuses to take a number for a time, or a time for a number.
///
/// # Errors
/// With the function to use.
pub(crate) fn check_numbers(given: &DataType, wanted: &DataType) -> Result<()> {
    let is_number = |data_type: &DataType| data_type.is_numeric() && !data_type.is_temporal();
    let (given_name, wanted_name) = (type_name(given), type_name(wanted));
    if is_number(given) && is_time(wanted) {
        let way_out = match wanted {
            DataType::Date32 | DataType::Date64 => {
                "write DATE '1970-01-01' + n for days since 1970, or CAST(to_timestamp_seconds(n) AS DATE)"
            }
            DataType::Time32(_) | DataType::Time64(_) => {
                "write CAST(to_timestamp_seconds(n) AS TIME) for seconds since midnight"
            }
            DataType::Interval(_) => "write n * INTERVAL '1 second', with the unit that the number counts",
            _ => {
                "write to_timestamp_seconds(n), to_timestamp_millis(n), to_timestamp_micros(n) or \
                 to_timestamp_nanos(n), whichever the number counts"
            }
        };
        return Err(refuse(
            format!("a number ({given_name}) is not {} {wanted_name}", article(&wanted_name)),
            way_out,
        ));
    }
    // DataFusion subtracts times of day as numbers.
    if matches!(given, DataType::Timestamp(..) | DataType::Date32 | DataType::Date64) && is_number(wanted) {
        return Err(refuse(
            format!("a {given_name} is not a number ({wanted_name})"),
            "write extract(epoch FROM time), which counts seconds since 1970",
        ));
    }
    Ok(())
}

fn article(name: &str) -> &'static str {
    if name.starts_with('I') { "an" } else { "a" }
}

fn type_name(data_type: &DataType) -> String {
    match data_type {
        DataType::Timestamp(..) => "TIMESTAMP".to_owned(),
        DataType::Date32 | DataType::Date64 => "DATE".to_owned(),
        DataType::Time32(_) | DataType::Time64(_) => "TIME".to_owned(),
        DataType::Interval(_) => "INTERVAL".to_owned(),
        other => sql_types(&other.to_string()),
    }
}
