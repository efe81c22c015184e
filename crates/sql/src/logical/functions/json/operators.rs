//! The operators that take JSON apart, as in PostgreSQL: `->`, `->>`, `#>`, `#>>`, `@>` and `<@` of texts, and a cast to JSON or JSONB.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::{DFSchema, Result, ScalarValue, plan_err};
use datafusion::functions::core::expr_fn::get_field;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::{Expr, ExprSchemable, ScalarUDF, cast};
use datafusion::sql::sqlparser::ast::BinaryOperator;
use tidemill_connect::formats::sql_type;

use super::{built, read};

/// Plans the operators of texts, and `->` and `->>` of the fields of a STRUCT.
#[derive(Debug)]
pub(in crate::logical) struct JsonOperators;

impl ExprPlanner for JsonOperators {
    fn plan_binary_op(&self, expr: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
        let (Ok(left), Ok(right)) = (expr.left.get_type(schema), expr.right.get_type(schema)) else {
            return Ok(PlannerResult::Original(expr));
        };
        let function: fn() -> ScalarUDF = match expr.op {
            BinaryOperator::Arrow => read::part,
            BinaryOperator::LongArrow => read::part_as_text,
            BinaryOperator::HashArrow => read::part_at,
            BinaryOperator::HashLongArrow => read::part_at_as_text,
            BinaryOperator::AtArrow if left.is_string() && right.is_string() => read::contains,
            BinaryOperator::ArrowAt if left.is_string() && right.is_string() => {
                return Ok(PlannerResult::Planned(read::contains().call(vec![expr.right, expr.left])));
            }
            _ => return Ok(PlannerResult::Original(expr)),
        };
        let as_text = expr.op == BinaryOperator::LongArrow;
        match left {
            DataType::Null => Ok(PlannerResult::Planned(function().call(vec![expr.left, expr.right]))),
            left if left.is_string() => {
                Ok(PlannerResult::Planned(function().call(vec![expr.left, expr.right])))
            }
            DataType::Struct(_) if as_text || expr.op == BinaryOperator::Arrow => {
                let Expr::Literal(ScalarValue::Utf8(Some(name)), _) = expr.right else {
                    return plan_err!("the name of a field is a constant: {} 'name'", expr.op);
                };
                let field = get_field(expr.left, name);
                let field = match field.get_type(schema)? {
                    _ if !as_text => field,
                    value if value.is_nested() => built::to_json().call(vec![field]),
                    _ => cast(field, DataType::Utf8),
                };
                Ok(PlannerResult::Planned(field))
            }
            other => plan_err!("{} takes JSON, which is a VARCHAR, but not {}", expr.op, sql_type(&other)),
        }
    }
}
