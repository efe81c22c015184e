//! The columns of queries over PostgreSQL's catalogue, called as PostgreSQL calls them. Clients read their values by these names.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    AccessExpr, ArrayElemTypeDef, DataType, Expr, Ident, ObjectName, Query, SelectItem, SetExpr,
    TimezoneInfo, TrimWhereField, Value, Visitor, VisitorMut,
};

use super::calls::last;
use super::names::schema;
use tidemill_trees::syntax::{walk, walk_mut};

/// The name of a column that has none.
const NAMELESS: &str = "?column?";

/// Functions of PostgreSQL's catalogue whose names do not say so.
const FUNCTIONS: [&str; 16] = [
    "col_description",
    "current_catalog",
    "current_database",
    "current_schema",
    "current_schemas",
    "current_setting",
    "current_user",
    "format_type",
    "obj_description",
    "quote_ident",
    "quote_literal",
    "quote_nullable",
    "session_user",
    "set_config",
    "shobj_description",
    "version",
];

/// Names the columns of a query that reads PostgreSQL's catalogue, and those of its subqueries, unless the query names them.
pub(super) fn name_all(query: &mut Query) {
    if walk(query, &mut OfCatalogue).is_break() {
        let _ = walk_mut(query, &mut Columns);
    }
}

/// Stops at a relation, function or type of the catalogue.
struct OfCatalogue;

impl Visitor for OfCatalogue {
    type Break = ();

    fn pre_visit_relation(&mut self, relation: &ObjectName) -> ControlFlow<()> {
        found(schema(relation).is_some() || last(relation).is_some_and(|name| name.starts_with("pg_")))
    }

    fn pre_visit_expr(&mut self, expression: &Expr) -> ControlFlow<()> {
        found(match expression {
            Expr::Function(call) => {
                let is_known = |name: String| {
                    FUNCTIONS.contains(&name.as_str())
                        || ["inet_", "pg_", "to_reg", "txid_"].iter().any(|start| name.starts_with(start))
                        || (name.starts_with("has_") && name.ends_with("_privilege"))
                };
                schema(&call.name).is_some() || last(&call.name).is_some_and(is_known)
            }
            Expr::Cast { data_type, .. } => type_name(data_type).starts_with("reg"),
            _ => false,
        })
    }
}

fn found(is_found: bool) -> ControlFlow<()> {
    if is_found { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
}

struct Columns;

impl VisitorMut for Columns {
    type Break = ();

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        name_columns(&mut query.body);
        ControlFlow::Continue(())
    }
}

/// Names the columns of the first of the queries that are put together: they are those of all.
fn name_columns(body: &mut SetExpr) {
    match body {
        SetExpr::SetOperation { left, .. } => name_columns(left),
        SetExpr::Select(select) => {
            // The planner knows a name once only. Another column of that name keeps its own.
            let mut names: Vec<String> = select.projection.iter().filter_map(given).collect();
            for item in &mut select.projection {
                let SelectItem::UnnamedExpr(expression) = item else { continue };
                let name = match name_of(expression) {
                    (_, Strength::Column) => continue,
                    (name, _) => name,
                };
                if !names.contains(&name) {
                    let expr = std::mem::replace(expression, Expr::value(Value::Null));
                    names.push(name.clone());
                    *item = SelectItem::ExprWithAlias { expr, alias: Ident::with_quote('"', name) };
                }
            }
        }
        _ => {}
    }
}

/// The name that a query gives to a column.
fn given(item: &SelectItem) -> Option<String> {
    match item {
        SelectItem::ExprWithAlias { alias, .. } => Some(alias.value.clone()),
        SelectItem::UnnamedExpr(expression) => match name_of(expression) {
            (name, Strength::Column) => Some(name),
            _ => None,
        },
        _ => None,
    }
}

/// How much a name says. That of what is inside of a cast or a CASE counts if it says more than the cast or the CASE.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Strength {
    None,
    /// A type.
    Weak,
    /// A function.
    Strong,
    /// A column as it is: it has its name already.
    Column,
}

/// Returns what PostgreSQL calls a column.
pub(super) fn column_name(item: &SelectItem) -> String {
    match item {
        SelectItem::ExprWithAlias { alias, .. } => alias.value.clone(),
        SelectItem::UnnamedExpr(expression) => name_of(expression).0,
        _ => NAMELESS.to_owned(),
    }
}

/// Returns the name that PostgreSQL derives for a selected expression; `None` if it derives none, as for a column.
pub(crate) fn derived_name(expression: &Expr) -> Option<String> {
    match name_of(expression) {
        (name, Strength::Strong | Strength::Weak) => Some(name),
        (_, Strength::None | Strength::Column) => None,
    }
}

fn name_of(expression: &Expr) -> (String, Strength) {
    let strong = |name: &str| (name.to_owned(), Strength::Strong);
    let inner = |expression: &Expr| {
        let (name, strength) = name_of(expression);
        (name, strength.min(Strength::Strong))
    };
    let stronger = |within: (String, Strength), name: String| match within {
        (_, Strength::None | Strength::Weak) => (name, Strength::Weak),
        within => within,
    };
    match expression {
        Expr::Identifier(column) => (column.value.clone(), Strength::Column),
        Expr::CompoundIdentifier(parts) => {
            (parts.last().map_or_else(String::new, |part| part.value.clone()), Strength::Column)
        }
        Expr::Function(call) => strong(&last(&call.name).unwrap_or_default()),
        Expr::Nested(expression) | Expr::Collate { expr: expression, .. } => inner(expression),
        Expr::Cast { expr, data_type, .. } => stronger(inner(expr), type_name(data_type)),
        Expr::Case { else_result, .. } => {
            let within = else_result.as_ref().map_or((String::new(), Strength::None), |value| inner(value));
            stronger(within, "case".to_owned())
        }
        Expr::CompoundFieldAccess { root, access_chain } => {
            let field = access_chain.iter().rev().find_map(|access| match access {
                AccessExpr::Dot(Expr::Identifier(field)) => Some(field.value.as_str()),
                _ => None,
            });
            field.map_or_else(|| inner(root), strong)
        }
        Expr::Subquery(query) => match &*query.body {
            SetExpr::Select(select) => select.projection.first().map_or_else(
                || (NAMELESS.to_owned(), Strength::None),
                |item| (column_name(item), Strength::Strong),
            ),
            _ => (NAMELESS.to_owned(), Strength::None),
        },
        Expr::Exists { negated: false, .. } => strong("exists"),
        Expr::Array(_) => strong("array"),
        Expr::Tuple(_) => strong("row"),
        Expr::Extract { .. } => strong("extract"),
        Expr::Position { .. } => strong("position"),
        Expr::Substring { .. } => strong("substring"),
        Expr::Overlay { .. } => strong("overlay"),
        Expr::Ceil { .. } => strong("ceil"),
        Expr::Floor { .. } => strong("floor"),
        Expr::AtTimeZone { .. } => strong("timezone"),
        Expr::Trim { trim_where, .. } => strong(match trim_where {
            Some(TrimWhereField::Leading) => "ltrim",
            Some(TrimWhereField::Trailing) => "rtrim",
            _ => "btrim",
        }),
        Expr::TypedString(typed) => (type_name(&typed.data_type), Strength::Weak),
        Expr::Interval(_) => ("interval".to_owned(), Strength::Weak),
        _ => (NAMELESS.to_owned(), Strength::None),
    }
}

/// What PostgreSQL calls a type within itself. A list has the name of its items.
fn type_name(data_type: &DataType) -> String {
    let name = match data_type {
        DataType::BigInt(_) | DataType::Int8(_) => "int8",
        DataType::Int(_) | DataType::Integer(_) | DataType::Int4(_) => "int4",
        DataType::SmallInt(_) | DataType::Int2(_) => "int2",
        DataType::Varchar(_) | DataType::CharacterVarying(_) => "varchar",
        DataType::Char(_) | DataType::Character(_) => "bpchar",
        DataType::Text => "text",
        DataType::Bool | DataType::Boolean => "bool",
        DataType::Double(_) | DataType::DoublePrecision | DataType::Float8 | DataType::Float(_) => "float8",
        DataType::Real | DataType::Float4 => "float4",
        DataType::Numeric(_) | DataType::Decimal(_) | DataType::Dec(_) => "numeric",
        DataType::Timestamp(_, TimezoneInfo::WithTimeZone | TimezoneInfo::Tz) => "timestamptz",
        DataType::Timestamp(..) => "timestamp",
        DataType::Time(..) => "time",
        DataType::Date => "date",
        DataType::Interval { .. } => "interval",
        DataType::Bytea => "bytea",
        DataType::JSON => "json",
        DataType::JSONB => "jsonb",
        DataType::Uuid => "uuid",
        DataType::Regclass => "regclass",
        DataType::Array(ArrayElemTypeDef::SquareBracket(item, _)) => return type_name(item),
        DataType::Custom(name, _) => return last(name).unwrap_or_default(),
        other => return other.to_string().to_lowercase(),
    };
    name.to_owned()
}
