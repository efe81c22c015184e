//! The types of parameters that stand where the planner compares nothing: among the arguments of functions, in CASE and LIKE.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr::Placeholder;
use datafusion::logical_expr::type_coercion::functions::{UDFCoercionExt, fields_with_udf};
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan};

use crate::logical::number_arguments;
use crate::statement::number;
use tidemill_trees::nodes::{PlanTree, Tree};

/// What follows for parameters without a type, from 1.
pub(super) fn argument_types(plan: &LogicalPlan) -> Vec<(usize, DataType)> {
    let mut found = Vec::new();
    // What could not be looked at implies nothing.
    let _ = plan.look_through_with_subqueries(|node| {
        let schema = merge_schema(&node.inputs());
        node.look_through_expressions(|expression| {
            expression.look_through(|part| {
                of_part(part, &schema, &mut found);
                Ok(TreeNodeRecursion::Continue)
            })
        })
    });
    found
}

/// The number of a parameter whose type is not known.
fn untyped(expression: &Expr) -> Option<usize> {
    match expression {
        Expr::Placeholder(Placeholder { id, field: None }) => number(id),
        _ => None,
    }
}

fn of_part(part: &Expr, schema: &DFSchema, found: &mut Vec<(usize, DataType)>) {
    match part {
        Expr::ScalarFunction(call) => {
            let numbers = number_arguments(call.func.name());
            for (index, argument) in call.args.iter().enumerate() {
                if let Some(number) = untyped(argument).filter(|_| numbers.contains(&index)) {
                    found.push((number, DataType::Float64));
                }
            }
            of_call(&call.args, call.func.as_ref(), schema, found);
        }
        Expr::AggregateFunction(call) => of_call(&call.params.args, call.func.as_ref(), schema, found),
        Expr::Like(like) | Expr::SimilarTo(like) => {
            let both = [&*like.expr, &*like.pattern];
            found.extend(both.into_iter().filter_map(untyped).map(|number| (number, DataType::Utf8)));
        }
        Expr::Case(case) => {
            let values = case.when_then_expr.iter().map(|(_, value)| &**value);
            of_equals(values.chain(case.else_expr.as_deref()), schema, found);
            let compared = case.when_then_expr.iter().map(|(when, _)| &**when);
            match case.expr.as_deref() {
                Some(what) => of_equals(compared.chain([what]), schema, found),
                None => {
                    found.extend(compared.filter_map(untyped).map(|number| (number, DataType::Boolean)));
                }
            }
        }
        _ => {}
    }
}

/// Expressions that have one type.
fn of_equals<'a>(
    all: impl Iterator<Item = &'a Expr> + Clone,
    schema: &DFSchema,
    found: &mut Vec<(usize, DataType)>,
) {
    let known = all.clone().filter_map(|one| one.get_type(schema).ok()).find(|known| !known.is_null());
    let Some(known) = known else { return };
    found.extend(all.filter_map(untyped).map(|number| (number, known.clone())));
}

/// The types that a function takes in the place of its arguments without types: those to which it would cast NULL.
fn of_call(
    arguments: &[Expr],
    function: &impl UDFCoercionExt,
    schema: &DFSchema,
    found: &mut Vec<(usize, DataType)>,
) {
    if !arguments.iter().any(|argument| untyped(argument).is_some()) {
        return;
    }
    let field = |argument: &Expr| -> Result<FieldRef> {
        Ok(Arc::new(Field::new("argument", argument.get_type(schema)?, true)))
    };
    let Ok(fields) = arguments.iter().map(field).collect::<Result<Vec<_>>>() else { return };
    let Ok(taken) = fields_with_udf(&fields, function) else { return };
    let known = arguments.iter().zip(taken).filter(|(_, taken)| !taken.data_type().is_null());
    found.extend(known.filter_map(|(argument, taken)| Some((untyped(argument)?, taken.data_type().clone()))));
}
