//! Queries over relations of PostgreSQL's catalogue that never have rows here, because there are no such things. Most of them need more of
//! SQL than the language has, but their answer is known.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    self, BinaryOperator, DataType, Expr, Function, FunctionArguments, Ident, JoinOperator, ObjectName,
    Query, Select, SelectItem, SetExpr, SetOperator, TableFactor, TableWithJoins, Value, VisitorMut,
};

use super::calls::{has_aggregate, last};
use super::columns::column_name;
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

/// Functions that give rows which are not there: no relation has a list of privileges, or partitions.
const FUNCTIONS_WITHOUT_ROWS: [&str; 3] = ["aclexplode", "pg_partition_ancestors", "pg_partition_tree"];

fn gives_no_rows(function: &ObjectName) -> bool {
    last(function).is_some_and(|name| FUNCTIONS_WITHOUT_ROWS.contains(&name.as_str()))
}

/// Whether a relation of the catalogue has no rows.
fn is_empty(relation: &TableFactor) -> bool {
    match relation {
        TableFactor::Derived { lateral: false, subquery, .. } => return has_no_rows(subquery),
        TableFactor::NestedJoin { table_with_joins, .. } => return join_has_no_rows(table_with_joins),
        TableFactor::Table { name, args: Some(_), .. } | TableFactor::Function { name, .. } => {
            return gives_no_rows(name);
        }
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

/// Whether a query without its order has no rows.
pub(super) fn body_has_no_rows(body: &SetExpr) -> bool {
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
    // An aggregate of nothing is a row, unless it is one for each group.
    (is_grouped(select) || !has_aggregate(select))
        && !lists_functions(select)
        && (select.from.iter().any(join_has_no_rows)
            || wants_what_is_not(select)
            || has_empty_call(select)
            || wants_nothing(select))
}

/// Whether a query is one that [`without_rows`] has made.
fn wants_nothing(select: &Select) -> bool {
    let is_null = |item: &SelectItem| match item {
        SelectItem::ExprWithAlias { expr: Expr::Cast { expr, .. }, .. } => {
            matches!(expr.as_ref(), Expr::Value(value) if value.value == Value::Null)
        }
        _ => false,
    };
    select.from.is_empty()
        && select.projection.iter().all(is_null)
        && matches!(&select.selection, Some(Expr::Value(value)) if value.value == Value::Boolean(false))
}

fn is_grouped(select: &Select) -> bool {
    !matches!(&select.group_by, ast::GroupByExpr::Expressions(by, _) if by.is_empty())
}

/// Whether one of the columns is a call that gives a row for each thing that is not there.
fn has_empty_call(select: &Select) -> bool {
    select.projection.iter().any(|item| match item {
        SelectItem::UnnamedExpr(Expr::Function(call))
        | SelectItem::ExprWithAlias { expr: Expr::Function(call), .. } => gives_no_rows(&call.name),
        _ => false,
    })
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
    last(&call.name).is_some_and(|name| name == "count")
        && query.with.is_none()
        && !is_grouped(select)
        && select.having.is_none()
        && (select.from.iter().any(join_has_no_rows) || wants_what_is_not(select))
}

/// The kinds of constraints and relations that there are not: only keys are declared here, and there are no sequences, partitions,
/// foreign tables and types of several columns.
const ABSENT_KINDS: [(&str, &[&str]); 2] =
    [("contype", &["f", "c", "x", "t"]), ("relkind", &["", "I", "S", "c", "f", "p", "s", "t"])];

/// Whether a query wants things of a kind that there is not.
fn wants_what_is_not(select: &Select) -> bool {
    fn wants(condition: &Expr) -> bool {
        match condition {
            Expr::Nested(inner) => wants(inner),
            Expr::BinaryOp { left, op: BinaryOperator::And, right } => wants(left) || wants(right),
            Expr::BinaryOp { left, op: BinaryOperator::Eq, right } => is_absent(left, right),
            Expr::InList { expr, list, negated: false } => list.iter().all(|kind| is_absent(expr, kind)),
            _ => false,
        }
    }
    let is_of_catalogue = |from: &TableWithJoins| match &from.relation {
        TableFactor::Table { name, .. } => last(name).is_some_and(|name| name.starts_with("pg_")),
        _ => false,
    };
    select.from.iter().any(is_of_catalogue) && select.selection.as_ref().is_some_and(wants)
}

/// Whether a value is a kind of things that there are not, and this column says of which kind things are.
fn is_absent(column: &Expr, kind: &Expr) -> bool {
    let column = match column {
        Expr::Identifier(column) => column,
        Expr::CompoundIdentifier(parts) => match parts.last() {
            Some(column) => column,
            None => return false,
        },
        _ => return false,
    };
    let Expr::Value(ast::ValueWithSpan { value: Value::SingleQuotedString(kind), .. }) = kind else {
        return false;
    };
    let known = ABSENT_KINDS.iter().find(|(name, _)| column.value.eq_ignore_ascii_case(name));
    known.is_some_and(|(_, absent)| absent.contains(&kind.as_str()))
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

/// No rows of values.
pub(super) fn no_values() -> ast::Values {
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
