//! Calls as clients of PostgreSQL write them to read its catalogue: functions that give several rows, fields of what they give,
//! functions with other numbers of arguments, and subqueries for each row.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    self, AccessExpr, DataType, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident,
    ObjectName, Query, Select, SelectItem, SetExpr, Subscript, TableAlias, TableAliasColumnDef, TableFactor,
    TableFunctionArgs, Value, Visitor, VisitorMut,
};

use super::format;
use super::made::{call, cast, null, number, text};
use crate::statement::{StatementKind, parse};
use tidemill_trees::syntax::walk;

/// Functions that PostgreSQL knows with several numbers of arguments: how many they have here, and what an absent one is.
const ARGUMENTS: [(&str, usize, Absent); 10] = [
    ("current_setting", 1, Absent::No),
    ("format_type", 2, Absent::Null),
    ("obj_description", 2, Absent::Text("pg_class")),
    ("pg_get_constraintdef", 2, Absent::No),
    ("pg_get_expr", 2, Absent::No),
    ("pg_get_viewdef", 2, Absent::No),
    ("pg_get_userbyid", 1, Absent::No),
    ("pg_relation_size", 1, Absent::No),
    ("shobj_description", 2, Absent::Text("pg_database")),
    ("to_regclass", 1, Absent::No),
];

#[derive(Clone, Copy)]
enum Absent {
    No,
    Null,
    Text(&'static str),
}

const AGGREGATES: [&str; 10] =
    ["count", "sum", "min", "max", "avg", "string_agg", "array_agg", "bool_and", "bool_or", "every"];

/// Columns of the catalogue that are times.
const TIMES: [&str; 5] = ["backend_start", "state_change", "query_start", "xact_start", "prepared"];

/// Puts the calls of a query into the words of the language.
pub(crate) struct Calls;

impl VisitorMut for Calls {
    type Break = ();

    fn post_visit_expr(&mut self, expression: &mut Expr) -> ControlFlow<()> {
        match expression {
            Expr::InSubquery { expr, subquery, negated } if reads_search_path(subquery) => {
                let schema = std::mem::replace(&mut **expr, null());
                let path = call("current_schemas", vec![Expr::value(Value::Boolean(false))]);
                let is_in = call("array_has", vec![path, schema]);
                *expression = if *negated {
                    Expr::UnaryOp { op: ast::UnaryOperator::Not, expr: Box::new(is_in) }
                } else {
                    is_in
                };
            }
            Expr::Function(call) => {
                if let Some(meant) = meant(call) {
                    *expression = meant;
                }
            }
            Expr::CompoundFieldAccess { root, access_chain } => {
                let name = match access_chain.as_slice() {
                    [AccessExpr::Subscript(_)] => is_vector(root),
                    [AccessExpr::Dot(column), AccessExpr::Subscript(_)] => is_vector(column),
                    _ => false,
                };
                if let (true, Some(AccessExpr::Subscript(Subscript::Index { index }))) =
                    (name, access_chain.last_mut())
                {
                    // Vectors of the catalogue begin with 0, lists with 1.
                    let place = std::mem::replace(index, null());
                    *index = Expr::Nested(Box::new(Expr::BinaryOp {
                        left: Box::new(place),
                        op: ast::BinaryOperator::Plus,
                        right: Box::new(number(1)),
                    }));
                    return ControlFlow::Continue(());
                }
                if let [AccessExpr::Dot(Expr::Identifier(field))] = access_chain.as_slice() {
                    let (root, field) = (std::mem::replace(&mut **root, null()), field.value.to_lowercase());
                    let subscript = ast::Subscript::Index { index: text(&field) };
                    *expression = Expr::CompoundFieldAccess {
                        root: Box::new(root),
                        access_chain: vec![AccessExpr::Subscript(subscript)],
                    };
                }
            }
            Expr::Subquery(query) => as_aggregate(query),
            Expr::Substring { expr, substring_from: Some(pattern), substring_for: None, .. }
                if is_text_literal(pattern) =>
            {
                // A pattern finds its first group, or everything that fits.
                let given = [expr, pattern].map(|part| std::mem::replace(&mut **part, null()));
                *expression = Expr::CompoundFieldAccess {
                    root: Box::new(call("regexp_match", given.into())),
                    access_chain: vec![AccessExpr::Subscript(Subscript::Index { index: number(1) })],
                };
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        if let SetExpr::Select(select) = &mut *query.body {
            for item in &mut select.projection {
                let alias = match item {
                    SelectItem::ExprWithAlias { expr: Expr::Exists { .. }, alias } => alias.clone(),
                    SelectItem::UnnamedExpr(Expr::Exists { .. }) => Ident::new("exists"),
                    _ => continue,
                };
                if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item
                    && let Some(there) = exists(expr)
                {
                    *item = SelectItem::ExprWithAlias { expr: there, alias };
                }
            }
        }
        ControlFlow::Continue(())
    }

    fn post_visit_table_factor(&mut self, relation: &mut TableFactor) -> ControlFlow<()> {
        if let TableFactor::Table {
            name, args: Some(TableFunctionArgs { args, settings: None }), alias, ..
        } = relation
            && last(name).is_some_and(|name| name == "generate_series")
            && let Some(rows) = series(std::mem::take(args), alias.take())
        {
            *relation = rows;
        }
        ControlFlow::Continue(())
    }
}

/// The arguments of a call that names none of them.
pub(super) fn arguments(call: &Function) -> Option<Vec<Expr>> {
    let FunctionArguments::List(list) = &call.args else { return None };
    let argument = |argument: &FunctionArg| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expression)) => Some(expression.clone()),
        _ => None,
    };
    list.args.iter().map(argument).collect()
}

/// Returns `(SELECT count(1) > 0 FROM ...)` for `EXISTS (SELECT ... FROM ...)` over the catalogue, as a column of a query.
fn exists(expression: &Expr) -> Option<Expr> {
    let Expr::Exists { subquery, negated } = expression else { return None };
    let is_whole = subquery.with.is_none() && subquery.limit_clause.is_none() && subquery.fetch.is_none();
    let mut counted = subquery.clone();
    let SetExpr::Select(select) = &mut *counted.body else { return None };
    if !is_whole || !reads_catalogue(select) || has_aggregate(select) || select.having.is_some() {
        return None;
    }
    let op = if *negated { ast::BinaryOperator::Eq } else { ast::BinaryOperator::Gt };
    let (left, right) = (Box::new(call("count", vec![number(1)])), Box::new(number(0)));
    select.projection = vec![SelectItem::UnnamedExpr(Expr::BinaryOp { left, op, right })];
    select.distinct = None;
    counted.order_by = None;
    Some(Expr::Subquery(counted))
}

/// What a call means in the language; `None` if it is a call of the language.
fn meant(function: &Function) -> Option<Expr> {
    let name = last(&function.name)?;
    let mut given = arguments(function)?;
    if (name.starts_with("has_") && name.ends_with("_privilege")) || name == "pg_has_role" {
        return Some(Expr::value(Value::Boolean(true)));
    }
    match name.as_str() {
        "_pg_expandarray" => Some(call("unnest", vec![call("pg_expandarray", given)])),
        "generate_subscripts" => {
            // Vectors of the catalogue begin with 0, lists with 1.
            let first = usize::from(!is_vector(given.first()?));
            given.push(number(first));
            Some(call("unnest", vec![call("pg_subscripts", given)]))
        }
        "array_lower" => {
            given.truncate(1);
            // An empty list has no first item.
            let first = call("least", vec![number(1), call("array_length", given)]);
            Some(cast(call("nullif", vec![first, number(0)]), DataType::BigInt(None)))
        }
        "format" => format::concatenated(given),
        "array_upper" => Some(cast(call("array_length", given), DataType::BigInt(None))),
        "pg_relation_size"
        | "pg_table_size"
        | "pg_total_relation_size"
        | "pg_indexes_size"
        | "pg_get_viewdef"
            if given.first().is_some_and(is_text_literal) =>
        {
            given[0] = call("to_regclass", vec![given[0].clone()]);
            let is_flagged = name == "pg_get_viewdef";
            given.truncate(1 + usize::from(is_flagged));
            if is_flagged && given.len() < 2 {
                given.push(Expr::value(Value::Boolean(false)));
            }
            Some(call(&name, given))
        }
        "pg_database_size" => {
            let database = cast(given.pop()?, DataType::Varchar(None));
            Some(call(&name, vec![database]))
        }
        "oidvectortypes" => Some(call("array_to_string", vec![call("type_names", given), text(", ")])),
        "to_char" => {
            let [Expr::Identifier(time), Expr::Value(pattern)] = given.as_mut_slice() else { return None };
            let Value::SingleQuotedString(pattern) = &mut pattern.value else { return None };
            if !TIMES.contains(&time.value.to_ascii_lowercase().as_str()) || !pattern.ends_with("TZ") {
                return None;
            }
            // Times of the catalogue are those of UTC.
            *pattern = format!("{}\"UTC\"", &pattern[..pattern.len() - 2]);
            Some(call(&name, given))
        }
        "age" if matches!(given.as_slice(), [one] if is_transaction(one)) => {
            Some(call("transaction_age", given))
        }
        "pg_get_indexdef" => {
            given.extend(
                [number(0), Expr::value(Value::Boolean(false))].into_iter().skip(given.len().max(1) - 1),
            );
            Some(call(&name, given))
        }
        _ => {
            let (_, count, absent) = ARGUMENTS.iter().find(|(known, ..)| *known == name)?;
            if given.len() == *count {
                return None;
            }
            given.truncate(*count);
            let rest = (given.len()..*count).map(|_| match absent {
                Absent::No => Expr::value(Value::Boolean(false)),
                Absent::Null => null(),
                Absent::Text(value) => text(value),
            });
            given.extend(rest.collect::<Vec<_>>());
            Some(call(&name, given))
        }
    }
}

/// Whether a subquery takes the setting `search_path` apart, as Grafana does: its rows are the schemas in which names are looked up.
fn reads_search_path(query: &Query) -> bool {
    let SetExpr::Select(select) = &*query.body else { return false };
    let is_path = |argument: &FunctionArg| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Function(call))) => {
            last(&call.name).as_deref() == Some("current_setting")
                && arguments(call).is_some_and(|given| given.first() == Some(&text("search_path")))
        }
        _ => false,
    };
    let is_taken_apart = |from: &ast::TableWithJoins| match &from.relation {
        TableFactor::Table { name, args: Some(TableFunctionArgs { args, .. }), .. } => {
            last(name).as_deref() == Some("string_to_array") && args.first().is_some_and(is_path)
        }
        _ => false,
    };
    select.from.iter().any(is_taken_apart)
}

/// Whether an expression is the number of a transaction: a column of such numbers, or what is cast to them.
fn is_transaction(expression: &Expr) -> bool {
    const COLUMNS: [&str; 6] =
        ["xmin", "transactionid", "backend_xid", "backend_xmin", "relfrozenxid", "datfrozenxid"];
    let column = match expression {
        Expr::Identifier(column) => Some(column),
        Expr::CompoundIdentifier(parts) => parts.last(),
        // `xid` has become a number.
        Expr::Cast { data_type, .. } => return matches!(data_type, DataType::BigInt(_)),
        _ => None,
    };
    column.is_some_and(|column| COLUMNS.contains(&column.value.to_ascii_lowercase().as_str()))
}

fn is_text_literal(expression: &Expr) -> bool {
    matches!(expression, Expr::Value(value) if matches!(value.value, Value::SingleQuotedString(_)))
}

fn is_vector(list: &Expr) -> bool {
    let column = match list {
        Expr::Identifier(column) => Some(column),
        Expr::CompoundIdentifier(parts) => parts.last(),
        _ => None,
    };
    let vectors = ["indkey", "indclass", "indoption", "indcollation", "proargtypes"];
    column.is_some_and(|column| vectors.contains(&column.value.to_ascii_lowercase().as_str()))
}

/// A subquery that gives a value of the catalogue for each row. It has one row at most, so its value is its largest one; the
/// planner wants an aggregate to be sure of that.
fn as_aggregate(query: &mut Query) {
    let is_whole = query.with.is_none() && query.limit_clause.is_none() && query.fetch.is_none();
    let SetExpr::Select(select) = &mut *query.body else { return };
    if !is_whole || !reads_catalogue(select) || has_aggregate(select) {
        return;
    }
    if let [SelectItem::UnnamedExpr(value) | SelectItem::ExprWithAlias { expr: value, .. }] =
        select.projection.as_mut_slice()
    {
        *value = call("max", vec![std::mem::replace(value, null())]);
        query.order_by = None;
    }
}

/// Whether a query reads relations of the catalogue only, and is not grouped.
pub(super) fn reads_catalogue(select: &Select) -> bool {
    let is_of_catalogue = |relation: &TableFactor| match relation {
        TableFactor::Table { name, args: None, .. } => last(name).is_some_and(|name| name.starts_with("pg_")),
        _ => false,
    };
    let is_grouped = match &select.group_by {
        ast::GroupByExpr::Expressions(groups, _) => !groups.is_empty(),
        ast::GroupByExpr::All(_) => true,
    };
    !select.from.is_empty() && !is_grouped && select.from.iter().all(|from| is_of_catalogue(&from.relation))
}

/// The rows of `generate_series(from, to) AS name(column)`.
fn series(args: Vec<FunctionArg>, alias: Option<TableAlias>) -> Option<TableFactor> {
    let values = args.into_iter().map(|argument| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(value)) => Some(value),
        _ => None,
    });
    let rows = call("unnest", vec![call("pg_series", values.collect::<Option<Vec<_>>>()?)]);
    let statement = parse("SELECT placeholder", "template").ok()?.into_iter().next()?;
    let StatementKind::Query(mut query, _) = statement.kind else { return None };
    let SetExpr::Select(select) = &mut *query.body else { return None };
    let column = Ident::new("generate_series");
    select.projection = vec![SelectItem::ExprWithAlias { expr: rows, alias: column.clone() }];
    let mut alias =
        alias.unwrap_or(TableAlias { explicit: true, name: column, columns: Vec::new(), at: None });
    if alias.columns.is_empty() {
        alias.columns.push(TableAliasColumnDef { name: alias.name.clone(), data_type: None });
    }
    Some(TableFactor::Derived { lateral: false, subquery: query, alias: Some(alias), sample: None })
}

/// The last part of a name, in small letters.
pub(crate) fn last(name: &ObjectName) -> Option<String> {
    Some(name.0.last()?.as_ident()?.value.to_ascii_lowercase())
}

/// Whether one of the columns is an aggregate.
pub(super) fn has_aggregate(select: &Select) -> bool {
    walk(&select.projection, &mut Aggregates { depth: 0 }).is_break()
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
