//! Rows as values: `(a, b) = (1, 2)`, `(a, b) IN ((1, 2), (3, NULL))`, `(a, b) IN (SELECT ...)`. The planner compares rows as single
//! values, in which NULL equals NULL. Here they are compared column by column, as in PostgreSQL.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, Query, SetExpr,
    TableFactor, UnaryOperator, Value,
};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::parser::Parser;

use tidemill_trees::syntax::{Node, walk_expressions_mut};

/// Compares the columns of rows instead of rows. Rows of different lengths stay.
pub(crate) fn translate(node: &mut impl Node) {
    let mut subqueries = 0;
    let _ = walk_expressions_mut(node, |expression| {
        if let Some(compared) = by_columns(expression, &mut subqueries) {
            *expression = Expr::Nested(Box::new(compared));
        }
        ControlFlow::<()>::Continue(())
    });
}

fn by_columns(expression: &mut Expr, subqueries: &mut usize) -> Option<Expr> {
    match expression {
        Expr::BinaryOp { left, op, right } => comparison(&row(left)?, op, &row(right)?),
        Expr::IsDistinctFrom(left, right) => distinct(&row(left)?, &row(right)?),
        Expr::IsNotDistinctFrom(left, right) => distinct(&row(left)?, &row(right)?).map(not),
        Expr::IsNull(value) => {
            Some(all(row(value)?.into_iter().map(|column| Expr::IsNull(Box::new(column)))))
        }
        Expr::IsNotNull(value) => {
            Some(all(row(value)?.into_iter().map(|column| Expr::IsNotNull(Box::new(column)))))
        }
        Expr::Between { expr, negated, low, high } => {
            let value = row(expr)?;
            let above = comparison(&value, &BinaryOperator::GtEq, &row(low)?)?;
            let between =
                binary(above, BinaryOperator::And, comparison(&value, &BinaryOperator::LtEq, &row(high)?)?);
            Some(negated_if(*negated, between))
        }
        Expr::InList { expr, list, negated } => {
            let value = row(expr)?;
            let equal = list.iter().map(|item| comparison(&value, &BinaryOperator::Eq, &row(item)?));
            Some(negated_if(*negated, any(equal.collect::<Option<Vec<_>>>()?)))
        }
        Expr::InSubquery { expr, subquery, negated } => {
            let compared = with_rows(&row(expr)?, &BinaryOperator::Eq, subquery, subqueries)?;
            Some(negated_if(*negated, compared))
        }
        Expr::AnyOp { left, compare_op, right, is_some: _ } => {
            with_rows(&row(left)?, compare_op, subquery_of(right)?, subqueries)
        }
        Expr::AllOp { left, compare_op, right } => {
            let otherwise = super::any_of_list::opposite(compare_op)?;
            with_rows(&row(left)?, &otherwise, subquery_of(right)?, subqueries).map(not)
        }
        _ => None,
    }
}

/// The columns of a row that is written as such.
fn row(value: &Expr) -> Option<Vec<Expr>> {
    match value {
        Expr::Tuple(columns) if !columns.is_empty() => Some(columns.clone()),
        Expr::Function(call) if call.name.to_string().eq_ignore_ascii_case("row") => {
            let FunctionArguments::List(list) = &call.args else { return None };
            let column = |argument: &FunctionArg| match argument {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(column)) => Some(column.clone()),
                _ => None,
            };
            list.args.iter().map(column).collect::<Option<Vec<_>>>().filter(|columns| !columns.is_empty())
        }
        _ => None,
    }
}

fn subquery_of(value: &mut Expr) -> Option<&mut Box<Query>> {
    if let Expr::Subquery(query) = value { Some(query) } else { None }
}

/// The columns of one row compared with those of another one.
fn comparison(left: &[Expr], op: &BinaryOperator, right: &[Expr]) -> Option<Expr> {
    if left.len() != right.len() {
        return None;
    }
    let pairs = left.iter().zip(right);
    match op {
        BinaryOperator::Eq => {
            pairs.map(|(left, right)| of_columns(left, op, right)).collect::<Option<Vec<_>>>().map(all)
        }
        BinaryOperator::NotEq => {
            pairs.map(|(left, right)| of_columns(left, op, right)).collect::<Option<Vec<_>>>().map(any)
        }
        BinaryOperator::Lt | BinaryOperator::LtEq | BinaryOperator::Gt | BinaryOperator::GtEq => {
            let strict = match op {
                BinaryOperator::LtEq => BinaryOperator::Lt,
                BinaryOperator::GtEq => BinaryOperator::Gt,
                strict => strict.clone(),
            };
            let mut compared: Option<Expr> = None;
            for (left, right) in pairs.rev() {
                compared = Some(match compared {
                    None => of_columns(left, op, right)?,
                    // The next columns decide only where these are equal.
                    Some(next) => {
                        let equal = of_columns(left, &BinaryOperator::Eq, right)?;
                        let first = of_columns(left, &strict, right)?;
                        binary(first, BinaryOperator::Or, binary(equal, BinaryOperator::And, next))
                    }
                });
            }
            compared
        }
        _ => None,
    }
}

/// One column compared with another one, each of which may be a row.
fn of_columns(left: &Expr, op: &BinaryOperator, right: &Expr) -> Option<Expr> {
    match (row(left), row(right)) {
        (Some(left), Some(right)) => comparison(&left, op, &right),
        _ => Some(binary(left.clone(), op.clone(), right.clone())),
    }
}

fn distinct(left: &[Expr], right: &[Expr]) -> Option<Expr> {
    let differ = left.iter().zip(right).map(|(left, right)| {
        Expr::Nested(Box::new(Expr::IsDistinctFrom(Box::new(left.clone()), Box::new(right.clone()))))
    });
    (left.len() == right.len()).then(|| any(differ))
}

/// Whether a row compares so with any row of a subquery: true if there is one, otherwise NULL if there is one for which the comparison
/// is NULL.
fn with_rows(
    left: &[Expr],
    op: &BinaryOperator,
    subquery: &mut Box<Query>,
    subqueries: &mut usize,
) -> Option<Expr> {
    let rows = left.iter().enumerate().map(|(index, _)| {
        let (alias, column) =
            (Ident::new(format!("__row_{subqueries}")), Ident::new(format!("__column_{index}")));
        Expr::CompoundIdentifier(vec![alias, column])
    });
    let compared = comparison(left, op, &rows.collect::<Vec<_>>())?;
    let found = exists(&compared, left.len(), subquery, *subqueries)?;
    let unknown = Expr::IsNull(Box::new(Expr::Nested(Box::new(compared))));
    let unknown = exists(&unknown, left.len(), subquery, *subqueries)?;
    *subqueries += 1;
    let mut three = parsed("CASE WHEN true THEN true WHEN false THEN CAST(NULL AS BOOLEAN) ELSE false END")?;
    let Expr::Case { conditions, .. } = &mut three else { return None };
    for (branch, condition) in conditions.iter_mut().zip([found, unknown]) {
        branch.condition = condition;
    }
    Some(three)
}

/// Whether a subquery has rows for which a condition is true.
fn exists(condition: &Expr, columns: usize, subquery: &Query, number: usize) -> Option<Expr> {
    let names = (0..columns).map(|index| format!("__column_{index}")).collect::<Vec<_>>().join(", ");
    let mut exists =
        parsed(&format!("EXISTS (SELECT 1 FROM (SELECT 1) AS __row_{number} ({names}) WHERE true)"))?;
    let Expr::Exists { subquery: outer, .. } = &mut exists else { return None };
    let SetExpr::Select(select) = outer.body.as_mut() else { return None };
    let TableFactor::Derived { subquery: inner, .. } = &mut select.from.first_mut()?.relation else {
        return None;
    };
    **inner = subquery.clone();
    select.selection = Some(condition.clone());
    Some(exists)
}

fn parsed(text: &str) -> Option<Expr> {
    Parser::new(&GenericDialect {}).try_with_sql(text).ok()?.parse_expr().ok()
}

fn negated_if(negated: bool, condition: Expr) -> Expr {
    if negated { not(condition) } else { condition }
}

fn not(condition: Expr) -> Expr {
    Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(Expr::Nested(Box::new(condition))) }
}

fn binary(left: Expr, op: BinaryOperator, right: Expr) -> Expr {
    let combined = Expr::BinaryOp { left: Box::new(left), op, right: Box::new(right) };
    Expr::Nested(Box::new(combined))
}

fn all(conditions: impl IntoIterator<Item = Expr>) -> Expr {
    joined(conditions.into_iter().collect(), &BinaryOperator::And)
}

fn any(conditions: impl IntoIterator<Item = Expr>) -> Expr {
    joined(conditions.into_iter().collect(), &BinaryOperator::Or)
}

/// All conditions in one, by halves: a chain of them could be too deep.
fn joined(mut conditions: Vec<Expr>, op: &BinaryOperator) -> Expr {
    if conditions.len() > 1 {
        let rest = conditions.split_off(conditions.len() / 2);
        binary(joined(conditions, op), op.clone(), joined(rest, op))
    } else {
        conditions.pop().unwrap_or_else(|| Expr::value(Value::Boolean(true)))
    }
}
