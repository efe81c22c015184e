//! Parameters where only a constant can stand: the zone of `AT TIME ZONE $1`, the pattern of `to_char(at, $1)`, the unit of
//! `date_trunc($1, at)`, and the text of `INTERVAL $1`. Their values are put in before the statement is planned.

use datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion::sql::sqlparser::ast::{
    CaseWhen, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, ObjectName, Value,
    ValueWithSpan,
};

use crate::statement::client::calls::last;

/// Functions with an argument that is a constant: which one it is, and a value that it can have.
const WITH_CONSTANTS: [(&str, usize, &str); 7] = [
    ("date_format", 1, "YYYY"),
    ("date_part", 0, "day"),
    ("date_trunc", 0, "day"),
    ("strftime", 1, "YYYY"),
    ("to_char", 1, "YYYY"),
    ("to_date", 1, "YYYY"),
    ("to_timestamp", 1, "YYYY"),
];

/// Returns the parameter of an expression that stands for a constant.
pub(super) fn constant_in(expression: &Expr) -> Option<&Expr> {
    let place = match expression {
        Expr::AtTimeZone { time_zone, .. } => time_zone.as_ref(),
        Expr::Interval(interval) => interval.value.as_ref(),
        Expr::Function(call) => {
            let (place, _) = constant_of(&call.name)?;
            let FunctionArguments::List(list) = &call.args else { return None };
            match list.args.get(place)? {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(argument)) => argument,
                _ => return None,
            }
        }
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
        Expr::Function(Function { name, args: FunctionArguments::List(list), .. }) => {
            let (place, value) = constant_of(name)?;
            match list.args.get_mut(place)? {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(argument)) => Some((argument, value)),
                _ => None,
            }
        }
        _ => None,
    }
}

/// Returns which argument of a function is a constant, and a value that it can have.
fn constant_of(function: &ObjectName) -> Option<(usize, &'static str)> {
    let name = last(function)?;
    WITH_CONSTANTS.iter().find(|(known, ..)| *known == name).map(|(_, place, value)| (*place, *value))
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
