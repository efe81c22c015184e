//! Queries as clients of PostgreSQL write them to read its catalogue: names with the schema `pg_catalog`, types and
//! operators of its own, and relations that never have rows here.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    self, BinaryOperator, CastKind, DataType, Expr, Function, FunctionArguments, Ident, JoinOperator,
    ObjectName, Query, Select, SelectItem, SetExpr, SetOperator, TableFactor, TableWithJoins, Value, Visitor,
    VisitorMut,
};

use super::{StatementKind, like_escape};
use crate::text::walk::{walk, walk_mut};

/// The schemas of PostgreSQL's catalogue.
const SCHEMAS: [&str; 2] = ["pg_catalog", "information_schema"];

/// Relations of PostgreSQL's catalogue that have no rows here, because there are no such things.
const WITHOUT_ROWS: [&str; 38] = [
    "pg_attrdef",
    "pg_aggregate",
    "pg_auth_members",
    "pg_cast",
    "pg_collation",
    "pg_constraint",
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
    "pg_index",
    "pg_inherits",
    "pg_language",
    "pg_operator",
    "pg_partitioned_table",
    "pg_policy",
    "pg_proc",
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
    "pg_tablespace",
    "pg_trigger",
    "pg_ts_config",
    "pg_user_mapping",
];

const AGGREGATES: [&str; 10] =
    ["count", "sum", "min", "max", "avg", "string_agg", "array_agg", "bool_and", "bool_or", "every"];

/// Puts a query into the words of the language, as far as that is possible.
pub(super) fn translate(kind: &mut StatementKind) {
    match kind {
        StatementKind::Query(query, _) => {
            if has_no_rows(query) {
                without_rows(query);
            }
            let _ = walk_mut(query, &mut WithoutEmpty);
            let _ = walk_mut(query, &mut Words);
        }
        StatementKind::Explain { statement, .. } => translate(&mut statement.kind),
        _ => {}
    }
}

/// The relations and functions that a query names, the last part of each name, in small letters.
pub(super) fn names(kind: &StatementKind) -> Vec<String> {
    let mut names = Names(Vec::new());
    if let StatementKind::Query(query, _) = kind {
        let _ = walk(query, &mut names);
    }
    names.0
}

struct Names(Vec<String>);

impl Visitor for Names {
    type Break = ();

    fn pre_visit_relation(&mut self, relation: &ObjectName) -> ControlFlow<()> {
        self.0.extend(last(relation));
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expression: &Expr) -> ControlFlow<()> {
        if let Expr::Function(call) = expression {
            self.0.extend(last(&call.name));
        }
        ControlFlow::Continue(())
    }
}

/// The last part of a name, in small letters.
fn last(name: &ObjectName) -> Option<String> {
    Some(name.0.last()?.as_ident()?.value.to_ascii_lowercase())
}

fn schema(name: &ObjectName) -> Option<String> {
    let [schema, _] = name.0.as_slice() else { return None };
    Some(schema.as_ident()?.value.to_ascii_lowercase()).filter(|schema| SCHEMAS.contains(&schema.as_str()))
}

/// Whether a relation of the catalogue has no rows.
fn is_empty(relation: &TableFactor) -> bool {
    let TableFactor::Table { name, args: None, .. } = relation else { return false };
    let is_of_catalogue = name.0.len() == 1 || schema(name).is_some();
    is_of_catalogue && last(name).is_some_and(|last| WITHOUT_ROWS.contains(&last.as_str()))
}

/// Whether a query has no rows, because it joins a relation that has none.
fn has_no_rows(query: &Query) -> bool {
    query.with.is_none() && body_has_no_rows(&query.body)
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
    let has_aggregate = walk(&select.projection, &mut Aggregates { depth: 0 }).is_break();
    !has_aggregate && select.from.iter().any(join_has_no_rows)
}

/// Stops at an aggregate that is not one of a subquery.
struct Aggregates {
    depth: usize,
}

impl Visitor for Aggregates {
    type Break = ();

    fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expression: &Expr) -> ControlFlow<()> {
        let Expr::Function(call) = expression else { return ControlFlow::Continue(()) };
        let is_aggregate = last(&call.name).is_some_and(|name| AGGREGATES.contains(&name.as_str()));
        if is_aggregate && self.depth == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
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
fn without_rows(query: &mut Query) {
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

fn cast(expression: Expr, data_type: DataType) -> Expr {
    let (expr, kind) = (Box::new(expression), CastKind::Cast);
    Expr::Cast { kind, expr, data_type, array: false, format: None }
}

/// Subqueries without rows become what they stand for.
struct WithoutEmpty;

impl VisitorMut for WithoutEmpty {
    type Break = ();

    fn pre_visit_expr(&mut self, expression: &mut Expr) -> ControlFlow<()> {
        let value = match expression {
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
        let value = Expr::value(value);
        *expression = if is_text { cast(value, DataType::Varchar(None)) } else { value };
        ControlFlow::Continue(())
    }
}

/// Names, types and operators of PostgreSQL become those of the language.
struct Words;

impl VisitorMut for Words {
    type Break = ();

    fn post_visit_relation(&mut self, relation: &mut ObjectName) -> ControlFlow<()> {
        let Some(last) = last(relation) else { return ControlFlow::Continue(()) };
        match schema(relation).as_deref() {
            Some("information_schema") => {
                *relation = ObjectName::from(vec![Ident::new(format!("information_schema_{last}"))]);
            }
            Some(_) => *relation = ObjectName::from(vec![Ident::new(last)]),
            None => {}
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expression: &mut Expr) -> ControlFlow<()> {
        match expression {
            Expr::Function(call) if schema(&call.name).is_some() => {
                call.name =
                    ObjectName::from(last(&call.name).map(Ident::new).into_iter().collect::<Vec<_>>());
            }
            Expr::Cast { data_type, expr, .. } => {
                if let Some(meant) = type_of(data_type) {
                    *data_type = meant;
                } else if is_type(data_type, "regclass") {
                    *expression = as_regclass(expr);
                }
            }
            Expr::Like { pattern, escape_char, .. } | Expr::ILike { pattern, escape_char, .. } => {
                like_escape::translate(pattern, escape_char);
            }
            Expr::Collate { expr, collation } if is_default(collation) => {
                let inner = std::mem::replace(&mut **expr, Expr::value(Value::Null));
                *expression = inner;
            }
            Expr::BinaryOp { op, .. } => {
                if let BinaryOperator::PGCustomBinaryOperator(parts) = op
                    && let Some(meant) = operator(parts.last().map(String::as_str))
                {
                    *op = meant;
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

/// `'name'::regclass` is the number of a relation; a number as regclass is its name.
fn as_regclass(expression: &Expr) -> Expr {
    let is_text =
        matches!(expression, Expr::Value(ast::ValueWithSpan { value: Value::SingleQuotedString(_), .. }));
    let name = if is_text { "to_regclass" } else { "regclass_name" };
    let argument = ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(expression.clone()));
    let list =
        ast::FunctionArgumentList { duplicate_treatment: None, args: vec![argument], clauses: Vec::new() };
    Expr::Function(Function {
        name: ObjectName::from(vec![Ident::new(name)]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(list),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}

fn is_default(collation: &ObjectName) -> bool {
    last(collation).is_some_and(|name| ["default", "c", "posix"].contains(&name.as_str()))
}

fn is_type(data_type: &DataType, name: &str) -> bool {
    match data_type {
        DataType::Regclass => name == "regclass",
        DataType::Custom(custom, _) => last(custom).as_deref() == Some(name),
        _ => false,
    }
}

/// The type of the language for one of PostgreSQL's catalogue.
fn type_of(data_type: &DataType) -> Option<DataType> {
    let DataType::Custom(name, _) = data_type else { return None };
    Some(match last(name)?.as_str() {
        "text" | "name" | "char" | "varchar" | "regtype" | "regnamespace" | "regproc" | "regrole" => {
            DataType::Varchar(None)
        }
        "oid" | "int8" | "xid" => DataType::BigInt(None),
        "int4" => DataType::Integer(None),
        "int2" => DataType::SmallInt(None),
        "bool" => DataType::Boolean,
        _ => return None,
    })
}

fn operator(name: Option<&str>) -> Option<BinaryOperator> {
    Some(match name? {
        "~" => BinaryOperator::PGRegexMatch,
        "~*" => BinaryOperator::PGRegexIMatch,
        "!~" => BinaryOperator::PGRegexNotMatch,
        "!~*" => BinaryOperator::PGRegexNotIMatch,
        "~~" => BinaryOperator::PGLikeMatch,
        "!~~" => BinaryOperator::PGNotLikeMatch,
        "=" => BinaryOperator::Eq,
        "<>" => BinaryOperator::NotEq,
        _ => return None,
    })
}
