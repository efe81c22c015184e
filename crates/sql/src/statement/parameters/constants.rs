//! Parameters where only a constant can stand: the zone of `AT TIME ZONE $1`, the pattern of `to_char(at, $1)`, and the text of
//! `INTERVAL $1`. Their values are put in before the statement is planned.

use datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion::sql::sqlparser::ast::{
    CaseWhen, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, ObjectName, Value,
    ValueWithSpan,
};

use crate::statement::client::calls::last;

/// Functions whose second argument is a pattern.
const OF_PATTERNS: [&str; 5] = ["to_char", "to_timestamp", "to_date", "date_format", "strftime"];

/// Returns the parameter of an expression that stands for a constant.
pub(super) fn constant_in(expression: &Expr) -> Option<&Expr> {
    let place = match expression {
        Expr::AtTimeZone { time_zone, .. } => time_zone.as_ref(),
        Expr::Interval(interval) => interval.value.as_ref(),
        Expr::Function(call) if takes_pattern(&call.name) => match &call.args {
            FunctionArguments::List(list) => match list.args.get(1)? {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(pattern)) => pattern,
                _ => return None,
            },
            _ => return None,
        },
        _ => return None,
    };
    matches!(place, Expr::Value(ValueWithSpan { value: Value::Placeholder(_), .. })).then_some(place)
}

/// Returns the same to be replaced, and a value for which the expression has the type that it has for each other one.
pub(crate) fn constant(expression: &mut Expr) -> Option<(&mut Expr, &'static str)> {
    constant_in(expression)?;
    match expression {
        Expr::AtTimeZone { time_zone, .. } => Some((time_zone.as_mut(), "UTC")),
        Expr::Interval(interval) => Some((interval.value.as_mut(), "0")),
        Expr::Function(Function { args: FunctionArguments::List(list), .. }) => match list.args.get_mut(1)? {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(pattern)) => Some((pattern, "YYYY")),
            _ => None,
        },
        _ => None,
    }
}

fn takes_pattern(name: &ObjectName) -> bool {
    last(name).is_some_and(|name| OF_PATTERNS.contains(&name.as_str()))
}

/// Returns NULL of the type that an expression has.
pub(super) fn null_of(expression: Expr) -> Expr {
    Expr::Case {
        case_token: AttachedToken::empty(),
        end_token: AttachedToken::empty(),
        operand: None,
        conditions: vec![CaseWhen { condition: Expr::value(Value::Boolean(false)), result: expression }],
        else_result: None,
    }
}
