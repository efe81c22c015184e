//! Queries as clients of PostgreSQL write them to read its catalogue: names with the schema `pg_catalog`, types and
//! operators of its own.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    self, ArrayElemTypeDef, BinaryOperator, DataType, Expr, Ident, ObjectName, Query, SetExpr, TableAlias,
    TableAliasColumnDef, TableFactor, Value, Visitor, VisitorMut,
};

use super::calls::{Calls, last};
use super::columns::name_all;
use super::empty::{WithoutEmpty, has_no_rows, has_wildcard, without_rows};
use super::lists::Lists;
use super::made::{call, cast};
use super::names::{Names, schema};
use super::object_names::ObjectNames;
use super::selects::Selects;
use super::unions::EmptyParts;
use crate::statement::StatementKind;
use crate::statement::calls::normal;
use tidemill_trees::syntax::{walk, walk_mut};

/// Functions that give the rows of relations of the catalogue.
const FUNCTIONS_OF_ROWS: [(&str, &str); 8] = [
    ("pg_available_extensions", "pg_available_extensions"),
    ("pg_cursor", "pg_cursors"),
    ("pg_get_keywords", "pg_get_keywords"),
    ("pg_lock_status", "pg_locks"),
    ("pg_prepared_statement", "pg_prepared_statements"),
    ("pg_prepared_xact", "pg_prepared_xacts"),
    ("pg_show_all_settings", "pg_settings"),
    ("pg_timezone_names", "pg_timezone_names"),
];

/// Puts a query into the words of the language, as far as that is possible.
pub(crate) fn translate(kind: &mut StatementKind) {
    match kind {
        StatementKind::Query(query, _) => {
            name_all(query);
            let _ = walk_mut(query, &mut EmptyParts);
            let given = parameters(query);
            if has_no_rows(query) && !has_wildcard(query) {
                without_rows(query);
            }
            let _ = walk_mut(query, &mut WithoutEmpty);
            keep_parameters(query, given);
            let _ = walk_mut(query, &mut ObjectNames);
            let _ = walk_mut(query, &mut Words);
            let _ = walk_mut(query, &mut Lists);
            let _ = walk_mut(query, &mut Selects);
            let _ = walk_mut(query, &mut Calls);
        }
        StatementKind::Explain { statement, .. } | StatementKind::ExplainWhy(statement) => {
            translate(&mut statement.kind)
        }
        _ => {}
    }
}

/// The relations and functions that a query names, the last part of each name, in small letters.
pub(crate) fn names(kind: &StatementKind) -> Vec<String> {
    let mut names = Names(Vec::new());
    if let StatementKind::Query(query, _) = kind {
        let _ = walk(query, &mut names);
    }
    names.0
}

/// The names that could be those of relations which a query reads: as `names`, and all that stand alone, as that of the stream
/// in `tumble(TABLE(clicks), ...)`.
pub(crate) fn possible_relations(kind: &StatementKind) -> Vec<String> {
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

    fn post_visit_table_factor(&mut self, relation: &mut TableFactor) -> ControlFlow<()> {
        // The name of a list's rows is that of their only column, too.
        if let TableFactor::UNNEST { alias: Some(alias), array_exprs, .. } = relation
            && alias.columns.is_empty()
            && array_exprs.len() == 1
        {
            alias.columns.push(TableAliasColumnDef { name: alias.name.clone(), data_type: None });
        }
        if let TableFactor::Table { name, args, alias, .. } = relation
            && args.as_ref().is_some_and(|given| given.args.is_empty())
            && let Some((function, rows)) = last(name)
                .and_then(|name| FUNCTIONS_OF_ROWS.into_iter().find(|(function, _)| *function == name))
        {
            *name = ObjectName::from(vec![Ident::new(rows)]);
            *args = None;
            alias.get_or_insert_with(|| TableAlias {
                explicit: true,
                name: Ident::new(function),
                columns: Vec::new(),
                at: None,
            });
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
    if let DataType::Array(ArrayElemTypeDef::SquareBracket(item, length)) = data_type {
        let item = Box::new(type_of(item)?);
        return Some(DataType::Array(ArrayElemTypeDef::SquareBracket(item, *length)));
    }
    let DataType::Custom(name, _) = data_type else { return None };
    Some(match last(name)?.as_str() {
        "text" | "name" | "char" | "varchar" | "regtype" | "regnamespace" | "regproc" | "regprocedure"
        | "regrole" | "regoper" | "regoperator" | "regcollation" | "regconfig" | "regdictionary" => {
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
