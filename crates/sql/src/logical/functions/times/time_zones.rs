//! `AT TIME ZONE` of times that are known to be UTC: `now()`, and what is cast to TIMESTAMP WITH TIME ZONE. Such values have no zone here,
//! so the planner would take them for the local time of the zone. They are given the zone UTC first.

use std::ops::ControlFlow;

use chrono_tz::TZ_VARIANTS;
use datafusion::arrow::array::timezone::Tz;
use datafusion::common::{DataFusionError, Result};
use datafusion::sql::sqlparser::ast::{
    DataType, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Interval, Spanned,
    TimezoneInfo, TypedString, Value,
};
use tidemill_connect::formats::interval_in_units;

use crate::closest;
use crate::logical::names::AS_WRITTEN;
use crate::refusal::refuse_at;
use tidemill_trees::syntax::{Node, walk_expressions_mut};

/// Functions that give the current time.
const CLOCKS: &[&str] = &["now", "current_timestamp"];

/// Abbreviations that PostgreSQL knows besides the names of zones, with their hours ahead of UTC.
const ABBREVIATIONS: [(&str, &str); 36] = [
    ("acdt", "+10:30"),
    ("acst", "+09:30"),
    ("adt", "-03:00"),
    ("aedt", "+11:00"),
    ("aest", "+10:00"),
    ("akdt", "-08:00"),
    ("akst", "-09:00"),
    ("art", "-03:00"),
    ("ast", "-04:00"),
    ("awst", "+08:00"),
    ("brst", "-02:00"),
    ("brt", "-03:00"),
    ("bst", "+01:00"),
    ("cdt", "-05:00"),
    ("cest", "+02:00"),
    ("cst", "-06:00"),
    ("edt", "-04:00"),
    ("eest", "+03:00"),
    ("hkt", "+08:00"),
    ("idt", "+03:00"),
    ("ist", "+02:00"),
    ("jst", "+09:00"),
    ("kst", "+09:00"),
    ("mdt", "-06:00"),
    ("msk", "+03:00"),
    ("ndt", "-02:30"),
    ("nst", "-03:30"),
    ("nzdt", "+13:00"),
    ("nzst", "+12:00"),
    ("pdt", "-07:00"),
    ("pht", "+08:00"),
    ("pkt", "+05:00"),
    ("pst", "-08:00"),
    ("sgt", "+08:00"),
    ("zulu", "UTC"),
    ("z", "UTC"),
];

/// Says that such times are UTC, where they are moved to another zone, and names each zone as the planner knows it. The third argument
/// of `date_trunc` is a zone, too.
///
/// # Errors
/// If there is no zone of a name.
pub(crate) fn translate(node: &mut impl Node) -> Result<()> {
    let visited = walk_expressions_mut(node, |expression| match with_zone(expression) {
        Ok(()) => ControlFlow::Continue(()),
        Err(error) => ControlFlow::Break(Box::new(error)),
    });
    match visited {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(*error),
    }
}

fn with_zone(expression: &mut Expr) -> Result<()> {
    match expression {
        Expr::AtTimeZone { timestamp, time_zone } => {
            name_zone(time_zone)?;
            if is_utc(timestamp) {
                let time = std::mem::replace(timestamp.as_mut(), Expr::value(Value::Null));
                **timestamp = at_zone(time, utc());
            }
            Ok(())
        }
        Expr::Function(call) => with_zone_argument(call),
        _ => Ok(()),
    }
}

fn utc() -> Expr {
    Expr::value(Value::SingleQuotedString("UTC".to_owned()))
}

fn at_zone(time: Expr, zone: Expr) -> Expr {
    Expr::AtTimeZone { timestamp: Box::new(time), time_zone: Box::new(zone) }
}

/// `date_trunc(unit, time, zone)` truncates the local time of the zone.
fn with_zone_argument(call: &mut Function) -> Result<()> {
    let FunctionArguments::List(list) = &mut call.args else { return Ok(()) };
    let is_truncation = ["date_trunc", "datetrunc"].contains(&call.name.to_string().to_lowercase().as_str());
    let [
        _,
        FunctionArg::Unnamed(FunctionArgExpr::Expr(time)),
        FunctionArg::Unnamed(FunctionArgExpr::Expr(zone)),
    ] = list.args.as_mut_slice()
    else {
        return Ok(());
    };
    if !is_truncation {
        return Ok(());
    }
    name_zone(zone)?;
    let (given, zone) = (time.clone(), zone.clone());
    *time = at_zone(at_zone(given, utc()), zone);
    list.args.truncate(2);
    Ok(())
}

/// Writes a zone as the planner knows it.
fn name_zone(zone: &mut Expr) -> Result<()> {
    let place = zone.span();
    if let Expr::Nested(inner) = zone {
        return name_zone(inner);
    }
    let named = match zone {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) => zone_named(text).ok_or_else(|| unknown(text, place))?,
            _ => return Ok(()),
        },
        Expr::Interval(interval) => offset_of(interval).ok_or_else(|| {
            refuse_at(
                place,
                "a time zone cannot be this interval",
                "write an interval of less than a day, such as INTERVAL '2 hours', or the name of the zone",
            )
        })?,
        _ => return Ok(()),
    };
    *zone = Expr::value(Value::SingleQuotedString(named));
    Ok(())
}

/// Finds the zone of a name in any case, or of an offset such as `+02:00`.
fn zone_named(text: &str) -> Option<String> {
    let text = text.trim();
    if let Some(zone) = TZ_VARIANTS.iter().find(|zone| zone.name().eq_ignore_ascii_case(text)) {
        return Some(zone.name().to_owned());
    }
    let of_abbreviation = ABBREVIATIONS.iter().find(|(name, _)| name.eq_ignore_ascii_case(text));
    if let Some((_, offset)) = of_abbreviation {
        return Some((*offset).to_owned());
    }
    text.parse::<Tz>().is_ok().then(|| text.to_owned())
}

fn unknown(text: &str, place: datafusion::sql::sqlparser::tokenizer::Span) -> DataFusionError {
    let near = closest(text, TZ_VARIANTS.iter().map(|zone| zone.name()));
    let way_out = match near {
        Some(near) => format!("did you mean '{near}'?"),
        None => "write a name such as 'Europe/Berlin', or an offset such as '+02:00'".to_owned(),
    };
    refuse_at(place, format!("there is no time zone '{text}'"), &way_out)
}

/// Returns an interval as an offset from UTC.
fn offset_of(interval: &Interval) -> Option<String> {
    use datafusion::arrow::compute::kernels::cast_utils::parse_interval_month_day_nano;
    let Expr::Value(value) = interval.value.as_ref() else { return None };
    let Value::SingleQuotedString(text) = &value.value else { return None };
    let text = match &interval.leading_field {
        Some(unit) => format!("{text} {unit}"),
        None => interval_in_units(text).unwrap_or_else(|| text.clone()),
    };
    let length = parse_interval_month_day_nano(&text).ok()?;
    let minutes = length.nanoseconds / 60_000_000_000;
    let is_offset = length.months == 0 && length.days == 0 && minutes.abs() < 24 * 60;
    let sign = if minutes < 0 { '-' } else { '+' };
    is_offset.then(|| format!("{sign}{:02}:{:02}", minutes.abs() / 60, minutes.abs() % 60))
}

fn is_utc(time: &Expr) -> bool {
    match time {
        Expr::Nested(inner) => is_utc(inner),
        Expr::Cast { data_type, .. } | Expr::TypedString(TypedString { data_type, .. }) => {
            matches!(data_type, DataType::Timestamp(_, TimezoneInfo::WithTimeZone | TimezoneInfo::Tz))
        }
        Expr::Function(Function { name, args, .. }) => {
            let name = name.to_string();
            match (name.trim_matches('"') == AS_WRITTEN, args) {
                (true, FunctionArguments::List(list)) => match list.args.first() {
                    Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(inner))) => is_utc(inner),
                    _ => false,
                },
                _ => CLOCKS.contains(&name.to_lowercase().as_str()),
            }
        }
        _ => false,
    }
}
