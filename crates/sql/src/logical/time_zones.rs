//! `AT TIME ZONE` of times that are known to be UTC: `now()`, and what is cast to TIMESTAMP WITH TIME ZONE. Such values have no zone here,
//! so the planner would take them for the local time of the zone. They are given the zone UTC first.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    DataType, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, TimezoneInfo, TypedString,
    Value,
};

use super::names::AS_WRITTEN;
use tidemill_trees::syntax::{Node, walk_expressions_mut};

/// Functions that give the current time.
const CLOCKS: &[&str] = &["now", "current_timestamp"];

/// Says that such times are UTC, where they are moved to another zone.
pub(super) fn translate(node: &mut impl Node) {
    let _ = walk_expressions_mut(node, |expression| {
        if let Expr::AtTimeZone { timestamp, time_zone: _ } = expression
            && is_utc(timestamp)
        {
            let time = std::mem::replace(timestamp.as_mut(), Expr::value(Value::Null));
            let time_zone = Box::new(Expr::value(Value::SingleQuotedString("UTC".to_owned())));
            **timestamp = Expr::AtTimeZone { timestamp: Box::new(time), time_zone };
        }
        ControlFlow::<()>::Continue(())
    });
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
