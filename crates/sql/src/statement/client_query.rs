//! Queries as clients of PostgreSQL write them to read its catalogue: names with the schema `pg_catalog`, types and
//! operators of its own, and relations that never have rows here.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    self, BinaryOperator, DataType, Expr, Function, FunctionArguments, Ident, JoinOperator, ObjectName,
    Query, Select, SelectItem, SetExpr, SetOperator, TableFactor, TableWithJoins, Value, Visitor, VisitorMut,
};

use super::StatementKind;
use super::calls::normal;
use super::client_calls::{Calls, has_aggregate, last};
use super::client_lists::Lists;
use super::made::{call, cast};
use tidemill_trees::syntax::{walk, walk_mut};

/// The schemas of PostgreSQL's catalogue.
const SCHEMAS: [&str; 2] = ["pg_catalog", "information_schema"];

/// Relations of PostgreSQL's catalogue that have no rows here, because there are no such things.
const WITHOUT_ROWS: [&str; 36] = [
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

/// Puts a query into the words of the language, as far as that is possible.
pub(super) fn translate(kind: &mut StatementKind) {
    match kind {
        StatementKind::Query(query, _) => {
            let given = parameters(query);
            if has_no_rows(query) {
                without_rows(query);
            }
            let _ = walk_mut(query, &mut WithoutEmpty);
            keep_parameters(query, given);
            let _ = walk_mut(query, &mut Words);
            let _ = walk_mut(query, &mut Lists);
            let _ = walk_mut(query, &mut Calls);
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

/// The names that could be those of relations which a query reads: as `names`, and all that stand alone, as that of the stream
/// in `tumble(TABLE(clicks), ...)`.
pub(super) fn possible_relations(kind: &StatementKind) -> Vec<String> {
    let mut alone = NamesAlone(names(kind));
    if let StatementKind::Query(query, _) = kind {
        let _ = walk(query, &mut alone);
    }
    alone.0
}

struct NamesAlone(Vec<String>);

impl Visitor for NamesAlone {
    type Break = ();

    fn pre_visit_expr(&mut self, expression: &Expr) -> ControlFlow<()> {
        if let Expr::Identifier(ident) = expression {
            self.0.push(normal(ident));
        }
        ControlFlow::Continue(())
    }
}

fn schema(name: &ObjectName) -> Option<String> {
    let [schema, _] = name.0.as_slice() else { return None };
    Some(schema.as_ident()?.value.to_ascii_lowercase()).filter(|schema| SCHEMAS.contains(&schema.as_str()))
}

/// The parameters of a query, with the type to which each is cast.
fn parameters(query: &Query) -> BTreeMap<String, Option<DataType>> {
    struct Parameters(BTreeMap<String, Option<DataType>>);

    impl Visitor for Parameters {
        type Break = ();

        fn pre_visit_expr(&mut self, expression: &Expr) -> ControlFlow<()> {
            let (value, data_type) = match expression {
                Expr::Cast { expr, data_type, .. } => (expr.as_ref(), Some(data_type)),
                other => (other, None),
            };
            if let Expr::Value(ast::ValueWithSpan { value: Value::Placeholder(name), .. }) = value {
                let known = self.0.entry(name.clone()).or_default();
                *known = known.take().or(data_type.cloned());
            }
            ControlFlow::Continue(())
        }
    }

    let mut parameters = Parameters(BTreeMap::new());
    let _ = walk(query, &mut parameters);
    parameters.0
}

/// Clients give a value for each parameter, also for those of what was left out.
fn keep_parameters(query: &mut Query, given: BTreeMap<String, Option<DataType>>) {
    let left = parameters(query);
    let SetExpr::Select(select) = &mut *query.body else { return };
    for (name, data_type) in given.into_iter().filter(|(name, _)| !left.contains_key(name)) {
        let data_type = data_type.unwrap_or(DataType::Varchar(None));
        let value = cast(Expr::value(Value::Placeholder(name)), data_type);
        let is_any = Expr::BinaryOp {
            left: Box::new(Expr::IsNull(Box::new(value.clone()))),
            op: BinaryOperator::Or,
            right: Box::new(Expr::IsNotNull(Box::new(value))),
        };
        let is_any = Expr::Nested(Box::new(is_any));
        select.selection = Some(match select.selection.take() {
            None => is_any,
            Some(condition) => Expr::BinaryOp {
                left: Box::new(Expr::Nested(Box::new(condition))),
                op: BinaryOperator::And,
                right: Box::new(is_any),
            },
        });
    }
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
    !has_aggregate(select) && !lists_functions(select) && select.from.iter().any(join_has_no_rows)
}

/// Whether a query shows functions with their arguments, as psql's `\df` does. There are such functions.
fn lists_functions(select: &Select) -> bool {
    let mut names = Names(Vec::new());
    let _ = walk(select, &mut names);
    names.0.iter().any(|name| name == "pg_get_function_arguments")
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
                    if is_type(data_type, "regproc") {
                        without_schema(expr);
                    }
                    *data_type = meant;
                } else if is_type(data_type, "regclass") {
                    *expression = as_regclass(expr);
                }
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

/// `'name'::regclass` is the number of a relation, and so is a parameter; a number as regclass is its name.
fn as_regclass(expression: &Expr) -> Expr {
    let is_text = match expression {
        Expr::Value(ast::ValueWithSpan { value, .. }) => {
            matches!(value, Value::SingleQuotedString(_) | Value::Placeholder(_))
        }
        Expr::Function(call) => {
            last(&call.name).is_some_and(|name| ["concat", "format", "quote_ident"].contains(&name.as_str()))
        }
        _ => false,
    };
    let is_number =
        matches!(expression, Expr::Function(call) if last(&call.name).as_deref() == Some("to_regclass"));
    if is_number {
        expression.clone()
    } else if is_text {
        call("to_regclass", vec![cast(expression.clone(), DataType::Varchar(None))])
    } else {
        call("regclass_name", vec![expression.clone()])
    }
}

/// `'pg_catalog.array_in'::regproc` is the name without its schema.
fn without_schema(expression: &mut Expr) {
    if let Expr::Value(ast::ValueWithSpan { value: Value::SingleQuotedString(name), .. }) = expression
        && let Some(rest) = name.strip_prefix("pg_catalog.")
    {
        *name = rest.to_owned();
    }
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
