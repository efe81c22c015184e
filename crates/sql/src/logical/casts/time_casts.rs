//! Casts to and from dates, times and intervals, as in PostgreSQL: a local time has an instant also where clocks are changed, a bare
//! number in a text counts the seconds of an interval, and a number is not a time: nobody could tell whether it counts days, seconds or
//! nanoseconds.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, StringArray};
use datafusion::arrow::compute::{CastOptions, cast as cast_array, cast_with_options};
use datafusion::arrow::datatypes::{DataType, FieldRef, IntervalUnit};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Result, exec_err};
use datafusion::logical_expr::{
    Cast, ColumnarValue, Expr, LogicalPlan, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature, TryCast, Volatility,
};
use tidemill_connect::formats::interval_in_units;

use super::local_times::{InstantOfLocalTime, has_clock_changes};
use crate::logical::datafusion_repairs::arithmetic::rewrite;
use crate::logical::expression_type::type_of;
use crate::logical::limits::constant_checks::check_width;
use crate::logical::unary::{applied, result_field};
use crate::refusal::refuse;
use crate::text::wording::sql_types;

const INTERVAL: DataType = DataType::Interval(IntervalUnit::MonthDayNano);

/// Returns the plan with our functions in place of such casts.
///
/// # Errors
/// If a number is cast to a time, or a time to a number.
pub(crate) fn with_time_casts(plan: LogicalPlan) -> Result<LogicalPlan> {
    rewrite(plan, |part, schema| {
        if let Expr::ScalarFunction(call) = &part {
            check_width(call)?;
        }
        let (expr, field, is_try) = match &part {
            Expr::Cast(Cast { expr, field }) => (expr, field, false),
            Expr::TryCast(TryCast { expr, field }) => (expr, field, true),
            _ => return Ok(Transformed::no(part)),
        };
        let Ok(given) = type_of(expr, schema) else { return Ok(Transformed::no(part)) };
        let wanted = field.data_type();
        check_numbers(&given, wanted)?;
        let function = match (&given, wanted) {
            (text, wanted) if text.is_string() && *wanted == INTERVAL => IntervalOfText::function(is_try),
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
            _ => {
                "write to_timestamp_seconds(n), to_timestamp_millis(n), to_timestamp_micros(n) or \
                 to_timestamp_nanos(n), whichever the number counts"
            }
        };
        return Err(refuse(format!("a number ({given_name}) is not a {wanted_name}"), way_out));
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

fn type_name(data_type: &DataType) -> String {
    match data_type {
        DataType::Timestamp(..) => "TIMESTAMP".to_owned(),
        DataType::Date32 | DataType::Date64 => "DATE".to_owned(),
        DataType::Time32(_) | DataType::Time64(_) => "TIME".to_owned(),
        DataType::Interval(_) => "INTERVAL".to_owned(),
        other => sql_types(&other.to_string()),
    }
}

/// An interval that a text names. Queries cannot name it.
#[derive(Debug, PartialEq, Eq, Hash)]
struct IntervalOfText {
    is_try: bool,
    signature: Signature,
}

impl IntervalOfText {
    fn function(is_try: bool) -> ScalarUDF {
        let signature = Signature::any(1, Volatility::Immutable);
        ScalarUDF::new_from_impl(IntervalOfText { is_try, signature })
    }
}

/// Returns the intervals that texts name, in which a bare number counts seconds.
///
/// # Errors
/// At the first text that names none, unless that shall be NULL.
pub(crate) fn intervals_of(texts: &ArrayRef, or_null: bool) -> Result<ArrayRef> {
    let in_units = |text: &str| {
        let text = text.trim();
        match text.parse::<f64>() {
            Ok(number) if number.is_finite() => format!("{text} seconds"),
            _ => interval_in_units(text).unwrap_or_else(|| text.to_owned()),
        }
    };
    let texts = cast_array(texts, &DataType::Utf8)?;
    let texts = texts.as_string::<i32>();
    let written: StringArray = texts.iter().map(|text| text.map(in_units)).collect();
    let options = CastOptions { safe: true, ..CastOptions::default() };
    let read = cast_with_options(&written, &INTERVAL, &options)?;
    match (0..texts.len()).find(|row| !texts.is_null(*row) && read.is_null(*row)) {
        Some(row) if !or_null => {
            exec_err!(
                "'{}' is not an INTERVAL, such as '1 day 2 hours' or '1 day 02:00:00'",
                texts.value(row)
            )
        }
        _ => Ok(read),
    }
}

impl ScalarUDFImpl for IntervalOfText {
    fn name(&self) -> &str {
        "interval of text"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arguments: &[DataType]) -> Result<DataType> {
        Ok(INTERVAL)
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs) -> Result<FieldRef> {
        let field = result_field(self.name(), INTERVAL, &arguments);
        if self.is_try { Ok(Arc::new(field.as_ref().clone().with_nullable(true))) } else { Ok(field) }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        applied(&args, |texts| intervals_of(texts, self.is_try))
    }
}
