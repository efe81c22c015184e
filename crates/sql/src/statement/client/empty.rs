//! Queries over relations of PostgreSQL's catalogue that never have rows here, because there are no such things. Most of them need more of
//! SQL than the language has, but their answer is known.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    self, BinaryOperator, DataType, Expr, Function, FunctionArguments, Ident, JoinOperator, Query, Select,
    SelectItem, SetExpr, SetOperator, TableFactor, TableWithJoins, Value, VisitorMut,
};

use super::calls::{has_aggregate, last};
use super::made::cast;
use super::names::{Names, schema};
use tidemill_trees::syntax::walk;

/// Relations of PostgreSQL's catalogue that have no rows here, because there are no such things.
const WITHOUT_ROWS: [&str; 33] = [
    "pg_attrdef",
    "pg_aggregate",
    "pg_auth_members",
    "pg_cast",
    "pg_collation",
    "pg_conversion",
    "pg_db_role_setting",
    "pg_default_acl",
    "pg_depend",
    "pg_description",
    "pg_enum",
    "pg_event_trigger",
    "pg_extension",
    "pg_foreign_data_wrapper",
    "pg_foreign_server",
    "pg_foreign_table",
    "pg_inherits",
    "pg_operator",
    "pg_partitioned_table",
    "pg_policy",
    "pg_publication",
    "pg_publication_namespace",
    "pg_publication_rel",
    "pg_range",
    "pg_rewrite",
    "pg_seclabel",
    "pg_sequence",
    "pg_shdescription",
    "pg_statistic_ext",
    "pg_subscription",
    "pg_trigger",
    "pg_ts_config",
    "pg_user_mapping",
];

/// Whether a relation of the catalogue has no rows.
fn is_empty(relation: &TableFactor) -> bool {
    match relation {
        TableFactor::Derived { lateral: false, subquery, .. } => return has_no_rows(subquery),
        TableFactor::NestedJoin { table_with_joins, .. } => return join_has_no_rows(table_with_joins),
        _ => {}
    }
    let TableFactor::Table { name, args: None, .. } = relation else { return false };
    let is_of_catalogue = name.0.len() == 1 || schema(name).is_some();
    is_of_catalogue && last(name).is_some_and(|last| WITHOUT_ROWS.contains(&last.as_str()))
}

/// Whether a query has no rows, because it joins a relation that has none.
pub(super) fn has_no_rows(query: &Query) -> bool {
    query.with.is_none() && body_has_no_rows(&query.body)
}

/// Whether a query shows all columns of a relation, whose names only the relation has.
pub(super) fn has_wildcard(query: &Query) -> bool {
    let SetExpr::Select(select) = &*query.body else { return false };
    select
        .projection
        .iter()
        .any(|item| matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..)))
}

fn body_has_no_rows(body: &SetExpr) -> bool {
    match body {
        SetExpr::Select(select) => select_has_no_rows(select),
        SetExpr::Query(query) => has_no_rows(query),
        SetExpr::SetOperation { op: SetOperator::Union, left, right, .. } => {
            body_has_no_rows(left) && body_has_no_rows(right)
        }
        _ => false,
    }
}

fn select_has_no_rows(select: &Select) -> bool {
    // An aggregate of nothing is a row.
    !has_aggregate(select)
        && !lists_functions(select)
        && (select.from.iter().any(join_has_no_rows) || wants_what_is_not(select))
}

/// Whether a query shows functions with their arguments, as psql's `\df` does. There are such functions.
fn lists_functions(select: &Select) -> bool {
    let mut names = Names(Vec::new());
    let _ = walk(select, &mut names);
    names.0.iter().any(|name| name == "pg_get_function_arguments")
}

/// Whether a query is `SELECT count(...)` of a relation that has no rows.
fn counts_nothing(query: &Query) -> bool {
    let SetExpr::Select(select) = &*query.body else { return false };
    let [
        SelectItem::UnnamedExpr(Expr::Function(call))
        | SelectItem::ExprWithAlias { expr: Expr::Function(call), .. },
    ] = select.projection.as_slice()
    else {
        return false;
    };
    let is_grouped = !matches!(&select.group_by, ast::GroupByExpr::Expressions(by, _) if by.is_empty());
    last(&call.name).is_some_and(|name| name == "count")
        && query.with.is_none()
        && !is_grouped
        && select.having.is_none()
        && (select.from.iter().any(join_has_no_rows) || wants_what_is_not(select))
}

/// Whether a query wants constraints of a kind that there is not: only keys are declared here.
fn wants_what_is_not(select: &Select) -> bool {
    fn wants(condition: &Expr) -> bool {
        match condition {
            Expr::Nested(inner) => wants(inner),
            Expr::BinaryOp { left, op: BinaryOperator::And, right } => wants(left) || wants(right),
            Expr::BinaryOp { left, op: BinaryOperator::Eq, right } => {
                let is_kind = match left.as_ref() {
                    Expr::Identifier(column) => column.value.eq_ignore_ascii_case("contype"),
                    Expr::CompoundIdentifier(parts) => {
                        parts.last().is_some_and(|column| column.value.eq_ignore_ascii_case("contype"))
                    }
                    _ => false,
                };
                let absent = |kind: &str| ["f", "c", "x", "t"].contains(&kind);
                is_kind
                    && matches!(right.as_ref(), Expr::Value(literal)
                        if matches!(&literal.value, Value::SingleQuotedString(kind) if absent(kind)))
            }
            _ => false,
        }
    }
    select.selection.as_ref().is_some_and(wants)
}

fn join_has_no_rows(from: &TableWithJoins) -> bool {
    let inner = |join: &ast::Join| {
        let is_inner = matches!(
            join.join_operator,
            JoinOperator::Join(_) | JoinOperator::Inner(_) | JoinOperator::CrossJoin(_)
        );
        is_inner && is_empty(&join.relation)
    };
    let keeps_right = |join: &ast::Join| {
        !matches!(
            join.join_operator,
            JoinOperator::Join(_)
                | JoinOperator::Inner(_)
                | JoinOperator::CrossJoin(_)
                | JoinOperator::Left(_)
                | JoinOperator::LeftOuter(_)
        )
    };
    let keeps = from.joins.iter().any(keeps_right);
    !keeps && (is_empty(&from.relation) || from.joins.iter().any(inner))
}

/// Keeps of a query without rows only what its columns are called.
pub(crate) fn without_rows(query: &mut Query) {
    query.order_by = None;
    query.limit_clause = None;
    let body = std::mem::replace(&mut *query.body, SetExpr::Values(no_values()));
    let Some(mut select) = first_select(body) else { return };
    let mut names = Vec::new();
    for item in &select.projection {
        let mut name = column_name(item);
        while names.contains(&name) {
            name.push('_');
        }
        names.push(name);
    }
    let null = |name: String| SelectItem::ExprWithAlias {
        expr: cast(Expr::value(Value::Null), DataType::Varchar(None)),
        alias: Ident::with_quote('"', name),
    };
    select.projection = names.into_iter().map(null).collect();
    select.from.clear();
    select.distinct = None;
    select.having = None;
    select.group_by = ast::GroupByExpr::Expressions(Vec::new(), Vec::new());
    select.selection = Some(Expr::value(Value::Boolean(false)));
    *query.body = SetExpr::Select(select);
}

fn no_values() -> ast::Values {
    ast::Values { explicit_row: false, rows: Vec::new(), value_keyword: false }
}

/// The first of the queries that are put together, whose names the columns have.
fn first_select(body: SetExpr) -> Option<Box<Select>> {
    match body {
        SetExpr::Select(select) => Some(select),
        SetExpr::SetOperation { left, .. } => first_select(*left),
        SetExpr::Query(query) => first_select(*query.body),
        _ => None,
    }
}

/// The list without texts.
fn no_texts() -> Expr {
    let texts = ast::ArrayElemTypeDef::SquareBracket(Box::new(DataType::Varchar(None)), None);
    cast(Expr::Array(ast::Array { elem: Vec::new(), named: true }), DataType::Array(texts))
}

/// What PostgreSQL calls a column.
fn column_name(item: &SelectItem) -> String {
    let of_expression = |expression: &Expr| match expression {
        Expr::Identifier(ident) => ident.value.clone(),
        Expr::CompoundIdentifier(parts) => parts.last().map_or_else(String::new, |ident| ident.value.clone()),
        Expr::Function(call) => last(&call.name).unwrap_or_default(),
        _ => "?column?".to_owned(),
    };
    match item {
        SelectItem::ExprWithAlias { alias, .. } => alias.value.clone(),
        SelectItem::UnnamedExpr(expression) => of_expression(expression),
        _ => "?column?".to_owned(),
    }
}

/// Subqueries without rows become what they stand for.
pub(super) struct WithoutEmpty;

impl VisitorMut for WithoutEmpty {
    type Break = ();

    fn pre_visit_expr(&mut self, expression: &mut Expr) -> ControlFlow<()> {
        let value = match expression {
            Expr::Subquery(query) if counts_nothing(query) => Value::Number("0".to_owned(), false),
            Expr::Subquery(query) if has_no_rows(query) => Value::Null,
            Expr::Exists { subquery, negated } if has_no_rows(subquery) => Value::Boolean(*negated),
            Expr::InSubquery { subquery, negated, .. } if has_no_rows(subquery) => Value::Boolean(*negated),
            Expr::Function(Function { args: FunctionArguments::Subquery(query), .. })
                if has_no_rows(query) =>
            {
                Value::Null
            }
            _ => return ControlFlow::Continue(()),
        };
        let is_text = matches!(value, Value::Null);
        let is_list = matches!(expression, Expr::Function(_));
        let value = Expr::value(value);
        *expression = match (is_text, is_list) {
            (true, true) => no_texts(),
            (true, false) => cast(value, DataType::Varchar(None)),
            (false, _) => value,
        };
        ControlFlow::Continue(())
    }
}
