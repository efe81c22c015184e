//! A scalar subquery without rows is NULL. DataFusion (55.2) takes it to be never NULL if the column of its rows never is, and answers
//! `IS NULL` and `coalesce` without looking.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Result, internal_err};
use datafusion::logical_expr::{
    ColumnarValue, Expr, LogicalPlan, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature, Volatility,
};

use super::arithmetic::rewrite;
use super::scalar_rows::is_one_row;

/// The plan in which each scalar subquery that may have no row may be NULL.
pub(crate) fn with_absent_rows(plan: LogicalPlan) -> Result<LogicalPlan> {
    rewrite(plan, |part, _| {
        let Expr::ScalarSubquery(subquery) = &part else { return Ok(Transformed::no(part)) };
        let rows = &subquery.subquery;
        let is_known = is_one_row(rows) || rows.schema().fields().iter().all(|field| field.is_nullable());
        Ok(if is_known { Transformed::no(part) } else { Transformed::yes(value_or_null().call(vec![part])) })
    })
}

/// Returns the function whose value is its argument, and that may be NULL. Queries cannot name it.
fn value_or_null() -> ScalarUDF {
    ScalarUDF::new_from_impl(ValueOrNull { signature: Signature::any(1, Volatility::Immutable) })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct ValueOrNull {
    signature: Signature,
}

impl ScalarUDFImpl for ValueOrNull {
    fn name(&self) -> &str {
        "value or NULL"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types {
            [value] => Ok(value.clone()),
            _ => internal_err!("{} has one argument", self.name()),
        }
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs) -> Result<FieldRef> {
        let value = arguments.arg_fields[0].data_type().clone();
        Ok(Arc::new(Field::new(self.name(), value, true)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Ok(args.args[0].clone())
    }
}
