//! Finds the texts that are JSON. The field of such a column is marked with Arrow's extension type; a cast drops the mark. Arguments of functions
//! that make JSON are marked when these are planned, because a stream does not carry the metadata of fields.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, StructArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Field, Fields};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, ScalarUDF};
use tidemill_connect::formats::{as_json_field, is_json_field};

use crate::logical::datafusion_repairs::arithmetic::rewrite;
use crate::logical::functions::plain_function::function_of_any;

/// The functions that write their arguments as JSON.
const WRITERS: [&str; 3] = ["json_build_array", "json_build_object", "to_json"];
/// The name of the only field of what stands for JSON.
const FIELD: &str = "$json";

/// Returns the field of JSON, which has no name.
pub(in crate::logical) fn json_field() -> Field {
    as_json_field(Field::new("", DataType::Utf8, true))
}

/// Returns whether an expression is known to be JSON.
pub(super) fn is_json(expression: &Expr, schema: &DFSchema) -> bool {
    match expression {
        // They give one of several values, which are of one type.
        Expr::Case(case) => {
            let values = case.when_then_expr.iter().map(|(_, value)| value);
            values.chain(&case.else_expr).any(|value| is_json(value, schema))
        }
        Expr::ScalarFunction(call) if ["coalesce", "nullif"].contains(&call.func.name()) => {
            call.args.iter().any(|value| is_json(value, schema))
        }
        other => other.to_field(schema).is_ok_and(|(_, field)| is_json_field(&field)),
    }
}

/// Returns the plan in which functions that write JSON know which of their arguments are JSON already.
pub(in crate::logical) fn with_json_told(plan: LogicalPlan) -> Result<LogicalPlan> {
    rewrite(plan, |part, schema| {
        let Expr::ScalarFunction(ScalarFunction { func, args }) = part else {
            return Ok(Transformed::no(part));
        };
        let is_told = WRITERS.contains(&func.name()) && args.iter().any(|value| is_json(value, schema));
        if !is_told {
            return Ok(Transformed::no(Expr::ScalarFunction(ScalarFunction { func, args })));
        }
        let told = |value| if is_json(&value, schema) { told().call(vec![value]) } else { value };
        let args = args.into_iter().map(told).collect();
        Ok(Transformed::yes(Expr::ScalarFunction(ScalarFunction { func, args })))
    })
}

fn fields_told() -> Fields {
    vec![Field::new(FIELD, DataType::Utf8, true)].into()
}

/// Returns the function whose value is JSON by its type. Queries cannot name it.
fn told() -> ScalarUDF {
    let result = Field::new("", DataType::Struct(fields_told()), true);
    function_of_any(&["JSON as it is"], 1, result, |columns| {
        let texts = cast(&columns[0], &DataType::Utf8)?;
        let nulls = texts.nulls().cloned();
        Ok(Arc::new(StructArray::new(fields_told(), vec![texts], nulls)))
    })
}

/// Returns the texts of what is JSON by its type.
pub(super) fn told_texts(values: &ArrayRef) -> Option<ArrayRef> {
    let rows = values.as_any().downcast_ref::<StructArray>()?;
    (*rows.fields() == fields_told()).then(|| Arc::clone(rows.column(0)))
}
