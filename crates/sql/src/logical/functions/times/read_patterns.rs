//! Reads times by a pattern, as PostgreSQL does. DataFusion (55.2) silently drops an hour without minutes, or without `AM` and `PM`.

use std::sync::Arc;

use chrono::format::{Item, ParseError, Parsed, StrftimeItems, parse};
use chrono::{DateTime, NaiveDateTime, NaiveTime, TimeDelta, Weekday};
use datafusion::arrow::array::{ArrayRef, AsArray, Int64Array, TimestampNanosecondArray};
use datafusion::arrow::compute::cast as cast_array;
use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Result, exec_datafusion_err, exec_err};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExprSchemable, LogicalPlan, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility, cast,
};

use super::time_parts::text_of;
use super::time_patterns::READ;
use crate::logical::datafusion_repairs::arithmetic::rewrite;
use crate::logical::unary::{applied, result_field};

/// Returns the plan in which our functions read times by patterns, and texts without one as `CAST` does.
pub(crate) fn with_times_read(plan: LogicalPlan) -> Result<LogicalPlan> {
    rewrite(plan, |part, schema| {
        let Expr::ScalarFunction(ScalarFunction { func, args }) = &part else {
            return Ok(Transformed::no(part));
        };
        let Some((text, patterns)) = args.split_first().filter(|_| READ.contains(&func.name())) else {
            return Ok(Transformed::no(part));
        };
        let is_text = text.get_type(schema).is_ok_and(|data_type| data_type.is_string());
        let wanted = part.get_type(schema);
        let (true, Ok(wanted)) = (is_text, wanted) else { return Ok(Transformed::no(part)) };
        let constants: Option<Vec<String>> = patterns.iter().map(constant).collect();
        Ok(match constants {
            Some(patterns) if patterns.is_empty() && wanted != DataType::Int64 => {
                Transformed::yes(cast(text.clone(), wanted))
            }
            // DataFusion reads the names of zones itself.
            Some(patterns) if !patterns.is_empty() && !patterns.iter().any(|one| one.contains("%Z")) => {
                Transformed::yes(TimeByPattern::function(patterns, wanted).call(vec![text.clone()]))
            }
            _ => Transformed::no(part),
        })
    })
}

fn constant(pattern: &Expr) -> Option<String> {
    match pattern {
        Expr::Literal(value, _) => text_of(value).map(str::to_owned),
        _ => None,
    }
}

/// A time that a text names by the first of several patterns that fits. Queries cannot name it.
#[derive(Debug, PartialEq, Eq, Hash)]
struct TimeByPattern {
    patterns: Vec<String>,
    wanted: DataType,
    signature: Signature,
}

impl TimeByPattern {
    fn function(patterns: Vec<String>, wanted: DataType) -> ScalarUDF {
        let signature = Signature::any(1, Volatility::Immutable);
        ScalarUDF::new_from_impl(TimeByPattern { patterns, wanted, signature })
    }

    fn read(&self, texts: &ArrayRef) -> Result<ArrayRef> {
        let items: Vec<Vec<Item<'_>>> =
            self.patterns.iter().map(|pattern| StrftimeItems::new(pattern).collect()).collect();
        let time = |text: &str| {
            let mut error = None;
            for items in &items {
                match time_of(text, items) {
                    Ok(time) => return Ok(time),
                    Err(said) => error = error.or(Some(said)),
                }
            }
            let (said, pattern) = (error, self.patterns.join("' or '"));
            let said = said.unwrap_or_else(|| "there is no pattern".to_owned());
            Err(exec_datafusion_err!("'{text}' is not a time of the pattern '{pattern}': {said}"))
        };
        let texts = cast_array(texts, &DataType::Utf8)?;
        let times = texts.as_string::<i32>().iter().map(|text| text.map(time).transpose());
        let times: Vec<Option<NaiveDateTime>> = times.collect::<Result<_>>()?;
        if self.wanted == DataType::Int64 {
            let seconds = times.iter().map(|time| time.map(|time| time.and_utc().timestamp()));
            return Ok(Arc::new(seconds.collect::<Int64Array>()));
        }
        let days = matches!(self.wanted, DataType::Date32 | DataType::Date64);
        let ns = times.iter().map(|time| {
            let time = time.map(|time| if days { time.date().and_time(NaiveTime::MIN) } else { time });
            match time.map(|time| time.and_utc().timestamp_nanos_opt()) {
                Some(None) => {
                    exec_err!("a time is beyond the years 1677 to 2262, which a TIMESTAMP can have")
                }
                time => Ok(time.flatten()),
            }
        });
        let ns: TimestampNanosecondArray = ns.collect::<Result<Vec<_>>>()?.into();
        Ok(match &self.wanted {
            DataType::Timestamp(_, Some(zone)) => {
                cast_array(&ns.with_timezone(Arc::clone(zone)), &self.wanted)?
            }
            wanted => cast_array(&ns, wanted)?,
        })
    }
}

fn time_of(text: &str, items: &[Item<'_>]) -> std::result::Result<NaiveDateTime, String> {
    let parsed = parts_of(text, items).map_err(|error| error.to_string())?;
    let out_of_range = || "it is out of range".to_owned();
    if let Some(seconds) = parsed.timestamp() {
        let time = DateTime::from_timestamp(seconds, parsed.nanosecond().unwrap_or(0));
        return time.map(|time| time.naive_utc()).ok_or_else(out_of_range);
    }
    let day = parsed.to_naive_date().map_err(|error| error.to_string())?;
    let time = parsed.to_naive_time().map_err(|error| error.to_string())?;
    let offset = TimeDelta::seconds(parsed.offset().unwrap_or(0).into());
    day.and_time(time).checked_sub_signed(offset).ok_or_else(out_of_range)
}

/// What the pattern does not name is the first of its kind: January, the first day, midnight, `AM`.
fn parts_of(text: &str, items: &[Item<'_>]) -> std::result::Result<Parsed, ParseError> {
    let mut parsed = Parsed::new();
    parse(&mut parsed, text.trim(), items.iter())?;
    if parsed.timestamp().is_some() {
        return Ok(parsed);
    }
    let has_week =
        parsed.isoweek().is_some() || parsed.week_from_sun().is_some() || parsed.week_from_mon().is_some();
    if parsed.ordinal().is_none() && !has_week {
        if parsed.month().is_none() && parsed.day().is_none() {
            let first = parsed.quarter().map_or(1, |quarter| i64::from(quarter) * 3 - 2);
            parsed.set_month(first)?;
        }
        if parsed.day().is_none() && parsed.month().is_some() {
            parsed.set_day(1)?;
        }
    }
    if has_week && parsed.weekday().is_none() {
        parsed.set_weekday(Weekday::Mon)?;
    }
    match (parsed.hour_div_12(), parsed.hour_mod_12()) {
        (None, None) => parsed.set_hour(0)?,
        (None, Some(_)) => parsed.set_ampm(false)?,
        (Some(_), None) => parsed.set_hour12(12)?,
        (Some(_), Some(_)) => {}
    };
    if parsed.minute().is_none() {
        parsed.set_minute(0)?;
    }
    if parsed.second().is_none() {
        parsed.set_second(0)?;
    }
    Ok(parsed)
}

impl ScalarUDFImpl for TimeByPattern {
    fn name(&self) -> &str {
        "time by pattern"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arguments: &[DataType]) -> Result<DataType> {
        Ok(self.wanted.clone())
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs) -> Result<FieldRef> {
        Ok(result_field(self.name(), self.wanted.clone(), &arguments))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        applied(&args, |texts| self.read(texts))
    }
}
