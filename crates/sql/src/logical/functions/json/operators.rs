//! The operators of JSON, as in PostgreSQL: `->`, `->>`, `#>`, `#>>`, `@>`, `<@`, `?`, `?|`, `?&` and `#-` of texts. `||` and `-` mean those of JSON
//! where a side is known to be JSON, or is a constant.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::{DFSchema, Result, ScalarValue, plan_err};
use datafusion::functions::core::expr_fn::get_field;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::{Expr, ExprSchemable, ScalarUDF, cast};
use datafusion::sql::sqlparser::ast::BinaryOperator;
use tidemill_connect::formats::sql_type;

use super::kind::is_json;
use super::{built, edited, read};

/// Plans the operators of texts, and `->` and `->>` of the fields of a STRUCT.
#[derive(Debug)]
pub(in crate::logical) struct JsonOperators;

impl ExprPlanner for JsonOperators {
    fn plan_binary_op(&self, expr: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
        let (Ok(left), Ok(right)) = (expr.left.get_type(schema), expr.right.get_type(schema)) else {
            return Ok(PlannerResult::Original(expr));
        };
        let is_text = left.is_string() && right.is_string();
        let planned = |function: ScalarUDF, expr: RawBinaryExpr| {
            Ok(PlannerResult::Planned(function.call(vec![expr.left, expr.right])))
        };
        match expr.op {
            BinaryOperator::StringConcat if is_text && are_json(&expr, schema) => {
                return planned(edited::joined(), expr);
            }
            BinaryOperator::Minus
                if is_json(&expr.left, schema)
                    && (right.is_string() || right.is_integer() || right.is_list()) =>
            {
                return planned(edited::without(), expr);
            }
            BinaryOperator::AtArrow if is_text => return planned(read::contains(), expr),
            BinaryOperator::ArrowAt if is_text => {
                return Ok(PlannerResult::Planned(read::contains().call(vec![expr.right, expr.left])));
            }
            BinaryOperator::Question if is_text => return planned(read::exists(), expr),
            BinaryOperator::QuestionPipe if left.is_string() => return planned(edited::has_any(), expr),
            BinaryOperator::QuestionAnd if left.is_string() => return planned(edited::has_all(), expr),
            BinaryOperator::HashMinus if left.is_string() => return planned(edited::without_at(), expr),
            _ => {}
        }
        let function: fn() -> ScalarUDF = match expr.op {
            BinaryOperator::Arrow => read::part,
            BinaryOperator::LongArrow => read::part_as_text,
            BinaryOperator::HashArrow => read::part_at,
            BinaryOperator::HashLongArrow => read::part_at_as_text,
            _ => return Ok(PlannerResult::Original(expr)),
        };
        let as_text = expr.op == BinaryOperator::LongArrow;
        match left {
            DataType::Null => planned(function(), expr),
            left if left.is_string() => planned(function(), expr),
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

/// Whether both sides are JSON, of which one may be an untyped constant.
fn are_json(expr: &RawBinaryExpr, schema: &DFSchema) -> bool {
    let is = |side: &Expr| is_json(side, schema);
    let may_be = |side: &Expr| is(side) || matches!(side, Expr::Literal(..));
    (is(&expr.left) && may_be(&expr.right)) || (may_be(&expr.left) && is(&expr.right))
}
