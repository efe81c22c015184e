//! `SELECT set_config('name', 'value', is_local)`: clients of PostgreSQL change settings by a call.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Select, SelectItem,
    SetExpr, TableFactor, Value, Visitor,
};

use super::calls::last;
use crate::TextError;
use crate::statement::{Statement, StatementKind};
use tidemill_trees::syntax::walk;

/// A setting that a call changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingCall {
    /// The setting.
    pub name: String,
    /// `None`: what it was when the session began.
    pub value: Option<String>,
    /// Whether it is so until the transaction ends only.
    pub is_local: bool,
}

impl Statement {
    /// The settings that the calls of `set_config` in this statement change, in their order.
    ///
    /// ```
    /// use tidemill_sql::divide;
    /// let read = |text| divide(text, "example").unwrap()[0].read().unwrap();
    /// let calls = read("SELECT pg_catalog.set_config('search_path', '', false)").setting_calls().unwrap();
    /// assert_eq!((&*calls[0].name, calls[0].value.as_deref(), calls[0].is_local), ("search_path", Some(""), false));
    /// assert!(read("SELECT set_config(name, 'a', true) FROM settings").setting_calls().is_err());
    /// ```
    ///
    /// # Errors
    /// If a call is not a column of a `SELECT` without tables, or has arguments that are not constants.
    pub fn setting_calls(&self) -> Result<Vec<SettingCall>, TextError> {
        let StatementKind::Query(query, _) = &self.kind else { return Ok(Vec::new()) };
        let mut all = CallCount(0);
        let _ = walk(query, &mut all);
        if all.0 == 0 {
            return Ok(Vec::new());
        }
        let calls = match query.body.as_ref() {
            SetExpr::Select(select) if is_once(select) => {
                select.projection.iter().filter_map(column).filter_map(setting_call).collect()
            }
            _ => Vec::new(),
        };
        if calls.len() == all.0 {
            Ok(calls)
        } else {
            let message = "set_config takes constants, and stands alone in SELECT set_config(...)";
            Err(self.error(self.span, message).with_hint("write SET name = value"))
        }
    }
}

/// Whether a SELECT gives one row: it has no tables, or reads the setting of one name.
fn is_once(select: &Select) -> bool {
    match (select.from.as_slice(), &select.selection) {
        ([], None) => true,
        ([from], Some(Expr::BinaryOp { left, op: BinaryOperator::Eq, right })) => {
            let is_settings = matches!(&from.relation, TableFactor::Table { name, .. }
                if last(name).as_deref() == Some("pg_settings"));
            let is_name = matches!(left.as_ref(), Expr::Identifier(column)
                if column.value.eq_ignore_ascii_case("name"));
            is_settings && from.joins.is_empty() && is_name && matches!(constant(right), Some(Some(_)))
        }
        _ => false,
    }
}

fn is_set_config(function: &Function) -> bool {
    last(&function.name).is_some_and(|name| name == "set_config")
}

struct CallCount(usize);

impl Visitor for CallCount {
    type Break = ();

    fn pre_visit_expr(&mut self, expression: &Expr) -> ControlFlow<()> {
        self.0 += usize::from(matches!(expression, Expr::Function(function) if is_set_config(function)));
        ControlFlow::Continue(())
    }
}

fn column(item: &SelectItem) -> Option<&Expr> {
    match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => Some(expr),
        _ => None,
    }
}

fn setting_call(column: &Expr) -> Option<SettingCall> {
    let Expr::Function(function) = column else { return None };
    let FunctionArguments::List(list) = &function.args else { return None };
    let argument = |argument: &FunctionArg| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(value)) => constant(value),
        _ => None,
    };
    let [name, value, is_local] = list.args.as_slice() else { return None };
    let is_local = match argument(is_local)??.to_ascii_lowercase().as_str() {
        "true" | "t" | "on" | "yes" | "1" => true,
        "false" | "f" | "off" | "no" | "0" => false,
        _ => return None,
    };
    let is_call = is_set_config(function);
    is_call.then_some(SettingCall { name: argument(name)??, value: argument(value)?, is_local })
}

/// The text of a constant: `Some(None)` is NULL.
fn constant(expression: &Expr) -> Option<Option<String>> {
    match expression {
        Expr::Cast { expr, .. } | Expr::Nested(expr) => constant(expr),
        Expr::Value(value) => match &value.value {
            Value::Null => Some(None),
            Value::Boolean(value) => Some(Some(value.to_string())),
            Value::Number(text, _) | Value::SingleQuotedString(text) => Some(Some(text.clone())),
            _ => None,
        },
        _ => None,
    }
}
