//! The types of a statement's parameters that are arguments of functions: `$1` in `mph($1)` is a DOUBLE.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, FunctionArguments, ObjectName, Query, TableFactor, Value,
    ValueWithSpan, Visitor,
};

use super::DefinedFunctions;
use crate::statement::{ParameterType, called, kind_of, number};
use tidemill_trees::syntax::walk;

/// The numbers and types of the parameters that are whole arguments.
pub(crate) fn parameter_types(query: &Query, functions: &DefinedFunctions) -> Vec<(usize, ParameterType)> {
    let mut search = Arguments { functions, known: Vec::new() };
    if !functions.is_empty() {
        let _ = walk(query, &mut search);
    }
    search.known
}

struct Arguments<'a> {
    functions: &'a DefinedFunctions,
    known: Vec<(usize, ParameterType)>,
}

impl Arguments<'_> {
    fn call(&mut self, name: &ObjectName, args: &[FunctionArg]) {
        let Some(function) = called(name).and_then(|name| self.functions.get(&name)) else { return };
        for (arg, (_, data_type)) in args.iter().zip(&function.parameters) {
            if let FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(ValueWithSpan { value, .. }))) = arg
                && let Value::Placeholder(placeholder) = value
            {
                self.known.extend(number(placeholder).zip(kind_of(data_type)));
            }
        }
    }
}

impl Visitor for Arguments<'_> {
    type Break = ();

    fn pre_visit_expr(&mut self, expression: &Expr) -> ControlFlow<()> {
        if let Expr::Function(call) = expression
            && let FunctionArguments::List(list) = &call.args
        {
            self.call(&call.name, &list.args);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, relation: &TableFactor) -> ControlFlow<()> {
        if let TableFactor::Table { name, args: Some(args), .. } = relation {
            self.call(name, &args.args);
        }
        ControlFlow::Continue(())
    }
}
