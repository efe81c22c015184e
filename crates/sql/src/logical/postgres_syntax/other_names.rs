//! Functions that other systems have, as expressions of ours: `countif(x > 1)` is `count(*) FILTER (WHERE x > 1)`.
//!
//! Columns have been named before, after the expressions as they are written.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Value, ValueWithSpan,
};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::parser::Parser;

use crate::logical::time_units::TimePart;
use tidemill_trees::syntax::walk_expressions_mut;

/// The names of a function, how many arguments it has, and what it means of them.
const MEANINGS: [(&[&str], usize, &str); 11] = [
    (&["age"], 1, "age(CAST(current_date AS TIMESTAMP), $a)"),
    (&["array_fill"], 2, "array_repeat($a, ($b)[1])"),
    (&["count_if", "countif"], 1, "count(*) FILTER (WHERE $a)"),
    (&["date_add"], 2, "$a + $b"),
    (&["date_add", "dateadd", "timestampadd"], 3, "$c + $b * INTERVAL '1 {a}'"),
    (&["date_sub"], 2, "$a - $b"),
    (&["if", "iff"], 3, "CASE WHEN $a THEN $b ELSE $c END"),
    (&["mod"], 2, "$a % $b"),
    (&["quote_literal"], 1, "'''' || replace(CAST($a AS VARCHAR), '''', '''''') || ''''"),
    (&["quote_nullable"], 1, "coalesce('''' || replace(CAST($a AS VARCHAR), '''', '''''') || '''', 'NULL')"),
    (&["timezone"], 2, "$b AT TIME ZONE $a"),
];

/// What stands for the arguments of a call.
const PLACES: [&str; 4] = ["$a", "$b", "$c", "$d"];

/// Functions whose first argument is a unit of time, which some systems write without quotes.
const OF_UNITS: [&str; 6] = ["date_add", "date_diff", "dateadd", "datediff", "timestampadd", "timestampdiff"];

/// Returns what a call means; `None` if it is a call of the language.
pub(super) fn meant(name: &str, call: &mut Function) -> Option<Expr> {
    if OF_UNITS.contains(&name) {
        quote_unit(call);
    }
    let arguments = arguments(call)?;
    let is_meant =
        |(names, count, _): &&(&[&str], usize, &str)| names.contains(&name) && *count == arguments.len();
    let (_, _, meaning) = MEANINGS.iter().find(is_meant)?;
    let text = match arguments.first().and_then(unit) {
        Some(unit) => meaning.replace("{a}", unit.name()),
        None if meaning.contains("{a}") => return None,
        None => (*meaning).to_owned(),
    };
    with_clauses(expression(&text, &arguments)?, call)
}

/// Returns the meaning of a call with the FILTER and OVER of the call; `None` if it has them, but does not mean an aggregate.
fn with_clauses(mut meaning: Expr, call: &Function) -> Option<Expr> {
    if call.filter.is_none() && call.over.is_none() {
        return Some(meaning);
    }
    let Expr::Function(aggregate) = &mut meaning else { return None };
    let own = aggregate.filter.take()?;
    aggregate.over.clone_from(&call.over);
    aggregate.filter = Some(match &call.filter {
        None => own,
        Some(filter) => {
            let (left, right) = (Box::new(nested(*own)), Box::new(nested(filter.as_ref().clone())));
            Box::new(Expr::BinaryOp { left, op: BinaryOperator::And, right })
        }
    });
    Some(meaning)
}

/// Returns what `(a, b) OVERLAPS (c, d)` means: each pair is a time from the earlier of its two until the later, which is not in it
/// unless it is the earlier, too. `None` if the operands are not pairs.
pub(super) fn overlap(left: &Expr, right: &Expr) -> Option<Expr> {
    let (Expr::Tuple(left), Expr::Tuple(right)) = (left, right) else { return None };
    let [2, 2] = [left.len(), right.len()] else { return None };
    let begin = |one, other| format!("least({one}, {other})");
    let end = |one, other| {
        format!("CASE WHEN {one} IS NULL OR {other} IS NULL THEN NULL ELSE greatest({one}, {other}) END")
    };
    let (begin_1, end_1) = (begin("$a", "$b"), end("$a", "$b"));
    let (begin_2, end_2) = (begin("$c", "$d"), end("$c", "$d"));
    // Whether a time is before an end; where that end is not known, or the other one, the answer is not known unless it is yes.
    let is_before = |time, end, other_end| {
        format!("{time} < {end} OR CASE WHEN {other_end} IS NULL THEN NULL ELSE false END")
    };
    let (first_later, second_later) =
        (is_before(&begin_1, &end_2, &end_1), is_before(&begin_2, &end_1, &end_2));
    let text = format!(
        "CASE WHEN {begin_1} > {begin_2} THEN {first_later} WHEN {begin_2} > {begin_1} THEN {second_later} \
         WHEN {end_1} IS NULL OR {end_2} IS NULL THEN NULL ELSE {begin_1} = {begin_2} END"
    );
    expression(&text, &[left.as_slice(), right.as_slice()].concat())
}

/// Reads an expression in which `$a` is the first argument, `$b` the second, and so on.
fn expression(text: &str, arguments: &[Expr]) -> Option<Expr> {
    let parsed =
        Parser::new(&GenericDialect {}).try_with_sql(text).and_then(|mut parser| parser.parse_expr());
    let mut expression = parsed.ok()?;
    let _ = walk_expressions_mut(&mut expression, |part| {
        if let Expr::Value(ValueWithSpan { value: Value::Placeholder(name), .. }) = part
            && let Some(place) = PLACES.iter().position(|place| place == name)
            && let Some(argument) = arguments.get(place)
        {
            *part = nested(argument.clone());
        }
        ControlFlow::<()>::Continue(())
    });
    Some(nested(expression))
}

/// In parentheses, unless it needs none: a constant has to be one for what wants one.
fn nested(expression: Expr) -> Expr {
    match expression {
        Expr::Value(_) | Expr::Identifier(_) | Expr::Function(_) | Expr::Nested(_) => expression,
        other => Expr::Nested(Box::new(other)),
    }
}

/// Returns the arguments of a call, if they are plain expressions without DISTINCT or an order.
fn arguments(call: &Function) -> Option<Vec<Expr>> {
    let FunctionArguments::List(list) = &call.args else { return None };
    let is_plain = list.clauses.is_empty() && list.duplicate_treatment.is_none();
    let argument = |argument: &FunctionArg| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(argument)) => Some(argument.clone()),
        _ => None,
    };
    list.args.iter().map(argument).collect::<Option<Vec<_>>>().filter(|_| is_plain)
}

/// Makes a text of a unit of time that is written as a word.
fn quote_unit(call: &mut Function) {
    let FunctionArguments::List(list) = &mut call.args else { return };
    let is_of_unit = list.args.len() == 3;
    if let Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(first))) = list.args.first_mut()
        && let Expr::Identifier(word) = &*first
        && is_of_unit
        && word.quote_style.is_none()
        && let Some(unit) = TimePart::named(&word.value)
    {
        *first = Expr::value(Value::SingleQuotedString(unit.name().to_owned()));
    }
}

/// The unit of time that a text names.
fn unit(text: &Expr) -> Option<TimePart> {
    match text {
        Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(text), .. }) => TimePart::named(text),
        _ => None,
    }
}
