//! The body of a function when it is defined: what it calls, what it may name, and with which values it is tried.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    self, DataType, Expr, GroupByExpr, Ident, OrderByKind, PipeOperator, Query, Select, SelectItem,
    TableFactor, Value, Visitor,
};
use datafusion::sql::sqlparser::tokenizer::Span as TokenSpan;

use super::values::{as_written, typed, with_values};
use crate::statement::{FunctionResult, TypedName, called, normal};
use tidemill_trees::syntax::walk;

/// What is wrong with a body.
pub(crate) struct Wrong {
    pub place: TokenSpan,
    pub message: String,
    pub hint: &'static str,
}

/// Checks that an expression names its parameters, all of them, and nothing else.
pub(crate) fn check(
    body: &Expr,
    parameters: &[TypedName],
    is_aggregate: impl Fn(&str) -> bool,
) -> Result<(), Wrong> {
    let mut names = Names { parameters, is_aggregate, used: vec![false; parameters.len()] };
    if let ControlFlow::Break(wrong) = walk(body, &mut names) {
        return Err(wrong);
    }
    match names.used.iter().position(|used| !used) {
        None => Ok(()),
        Some(unused) => Err(Wrong {
            place: TokenSpan::empty(),
            message: format!("the function does not use its parameter `{}`", parameters[unused].name),
            hint: "remove the parameter",
        }),
    }
}

struct Names<'a, F> {
    parameters: &'a [TypedName],
    is_aggregate: F,
    used: Vec<bool>,
}

impl<F: Fn(&str) -> bool> Visitor for Names<'_, F> {
    type Break = Wrong;

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<Wrong> {
        ControlFlow::Break(Wrong {
            place: ast::Spanned::span(query),
            message: "a function of values cannot contain a query".to_owned(),
            hint: "pass the value as an argument, or define a function that RETURNS TABLE (...)",
        })
    }

    fn pre_visit_expr(&mut self, expression: &Expr) -> ControlFlow<Wrong> {
        let wrong = |place, message, hint| ControlFlow::Break(Wrong { place, message, hint });
        match expression {
            Expr::Identifier(ident) => {
                let name = normal(ident);
                match self.parameters.iter().position(|parameter| parameter.name.as_str() == name) {
                    Some(index) => self.used[index] = true,
                    None => {
                        let message = format!("`{ident}` is not a parameter of the function");
                        let hint = "a function sees only its parameters: add one, and pass the column";
                        return wrong(ident.span, message, hint);
                    }
                }
            }
            Expr::CompoundIdentifier(parts) => {
                let name = parts.iter().map(|part| part.value.as_str()).collect::<Vec<_>>().join(".");
                let message = format!("`{name}` is a column, and a function sees only its parameters");
                return wrong(
                    ast::Spanned::span(expression),
                    message,
                    "add a parameter, and pass the column",
                );
            }
            Expr::Function(call) => {
                let name = called(&call.name).unwrap_or_default();
                if call.over.is_some() || (self.is_aggregate)(&name) {
                    let message = format!("{name} is computed over several rows, and a function over one");
                    let hint = "pass its result as an argument";
                    return wrong(ast::Spanned::span(expression), message, hint);
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

/// Refuses to group or to order by a parameter: it is the same in all rows, and was probably taken for a column.
pub(crate) fn check_keys(body: &Query, parameters: &[TypedName]) -> Result<(), Wrong> {
    match walk(body, &mut Keys { parameters }) {
        ControlFlow::Break(wrong) => Err(wrong),
        ControlFlow::Continue(()) => Ok(()),
    }
}

struct Keys<'a> {
    parameters: &'a [TypedName],
}

impl Keys<'_> {
    fn check<'k>(&self, clause: &str, mut keys: impl Iterator<Item = &'k Expr>) -> ControlFlow<Wrong> {
        let found = keys.find_map(|key| {
            let ident = name_of(key)?;
            let name = normal(ident);
            self.parameters.iter().any(|parameter| parameter.name.as_str() == name).then_some(ident)
        });
        match found {
            None => ControlFlow::Continue(()),
            Some(ident) => ControlFlow::Break(Wrong {
                place: ident.span,
                message: format!("{clause} `{ident}`: this is a parameter, which is the same in all rows"),
                hint: "write table.column for a column of this name, or give the parameter another name",
            }),
        }
    }
}

impl Visitor for Keys<'_> {
    type Break = Wrong;

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<Wrong> {
        if let Some(OrderByKind::Expressions(keys)) = query.order_by.as_ref().map(|order| &order.kind) {
            self.check("ORDER BY", keys.iter().map(|key| &key.expr))?;
        }
        for pipe in &query.pipe_operators {
            match pipe {
                PipeOperator::OrderBy { exprs } => {
                    self.check("ORDER BY", exprs.iter().map(|key| &key.expr))?;
                }
                PipeOperator::Aggregate { group_by_expr, .. } => {
                    self.check("GROUP BY", group_by_expr.iter().map(|key| &key.expr.expr))?;
                }
                _ => {}
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<Wrong> {
        match &select.group_by {
            GroupByExpr::Expressions(keys, _) => self.check("GROUP BY", keys.iter()),
            GroupByExpr::All(_) => ControlFlow::Continue(()),
        }
    }
}

/// The name that an expression is, with or without parentheses and sign.
fn name_of(expression: &Expr) -> Option<&Ident> {
    match expression {
        Expr::Identifier(ident) => Some(ident),
        Expr::Nested(inner) | Expr::UnaryOp { expr: inner, .. } => name_of(inner),
        _ => None,
    }
}

/// The body of a function of rows with the declared columns: each cast to its type, under its name.
///
/// The columns are renamed by `template`, which selects nothing from one relation; `function` is the name of what they are
/// columns of. With it, they cannot be taken for parameters of the same name.
pub(crate) fn rows_query(template: Query, body: Query, function: &str, result: &FunctionResult) -> Query {
    let (FunctionResult::Rows(columns), mut query) = (result, template) else { return body };
    let ident = |column: &TypedName| Ident::with_quote('"', column.name.as_str());
    let item = |column: &TypedName| {
        let qualified = vec![Ident::with_quote('"', function), ident(column)];
        SelectItem::ExprWithAlias {
            expr: typed(Expr::CompoundIdentifier(qualified), &column.data_type),
            alias: ident(column),
        }
    };
    if let ast::SetExpr::Select(select) = &mut *query.body {
        select.projection = columns.iter().map(item).collect();
        if let Some(from) = select.from.first_mut() {
            let named = |column| ast::TableAliasColumnDef { name: ident(column), data_type: None };
            let alias = ast::TableAlias {
                explicit: true,
                name: Ident::with_quote('"', function),
                columns: columns.iter().map(named).collect(),
                at: None,
            };
            let subquery = Box::new(body);
            from.relation =
                TableFactor::Derived { lateral: false, subquery, alias: Some(alias), sample: None };
        }
    }
    query
}

/// The query of a function of rows with some value for each parameter, to be planned when it is defined.
pub(crate) fn with_samples(query: &Query, parameters: &[(String, DataType)]) -> Query {
    let values: Vec<Expr> =
        parameters.iter().map(|(_, data_type)| as_written(typed(sample(data_type), data_type))).collect();
    let mut query = query.clone();
    with_values(&mut query, parameters, &values);
    query
}

/// With which values a query is tried when it is defined, in words.
pub(crate) fn tried_with(parameters: &[(String, DataType)]) -> String {
    let values = parameters.iter().map(|(name, data_type)| format!("{name} = {}", sample(data_type)));
    format!("its definition was tried with {}", values.collect::<Vec<_>>().join(", "))
}

/// Some value of a type, so that windows of a length and `LIMIT` can be planned with it.
fn sample(data_type: &DataType) -> Expr {
    let text = |value: &str| Expr::value(Value::SingleQuotedString(value.to_owned()));
    match data_type {
        DataType::Varchar(_) | DataType::Text | DataType::Char(_) | DataType::String(_) => text(""),
        DataType::Boolean | DataType::Bool => Expr::value(Value::Boolean(true)),
        DataType::Date | DataType::Timestamp(..) | DataType::Datetime(_) => text("2026-01-01"),
        DataType::Interval { .. } => Expr::Interval(ast::Interval {
            value: Box::new(text("1 second")),
            leading_field: None,
            leading_precision: None,
            last_field: None,
            fractional_seconds_precision: None,
        }),
        DataType::Bytea | DataType::Time(..) | DataType::Array(_) => Expr::value(Value::Null),
        _ => Expr::value(Value::Number("1".to_owned(), false)),
    }
}
