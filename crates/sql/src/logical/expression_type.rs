//! The type of an expression, found in one pass.
//!
//! DataFusion (55.2) makes the name of a call before it says what type the call has, and that of each call within it. Where sums
//! have been replaced by calls, the planning of a sum would take time with the third power of its length.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::{ExprSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::type_coercion::binary::BinaryTypeCoercer;
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, ReturnFieldArgs, ScalarUDF, TypeSignature};

/// The type of an expression; the same as that of DataFusion.
///
/// # Errors
/// If it has none, or names a column that does not exist.
pub(super) fn type_of(expression: &Expr, schema: &dyn ExprSchema) -> Result<DataType> {
    match expression {
        Expr::ScalarFunction(ScalarFunction { func, args }) if takes_any(func) => {
            type_of_call(func, args, schema)
        }
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            let (left, right) = (type_of(left, schema)?, type_of(right, schema)?);
            BinaryTypeCoercer::new(&left, op, &right).get_result_type()
        }
        Expr::Negative(inner) => type_of(inner, schema),
        other => other.get_type(schema),
    }
}

/// Whether a function takes its arguments as they are, so that no other types have to be found for them first.
fn takes_any(function: &ScalarUDF) -> bool {
    matches!(function.signature().type_signature, TypeSignature::VariadicAny | TypeSignature::Any(_))
}

fn type_of_call(function: &ScalarUDF, arguments: &[Expr], schema: &dyn ExprSchema) -> Result<DataType> {
    let fields = arguments.iter().map(|argument| {
        let nullable = true;
        Ok(Arc::new(Field::new("", type_of(argument, schema)?, nullable)))
    });
    let fields = fields.collect::<Result<Vec<_>>>()?;
    let scalars: Vec<Option<&ScalarValue>> = arguments.iter().map(constant).collect();
    let called = ReturnFieldArgs { arg_fields: &fields, scalar_arguments: &scalars };
    Ok(function.return_field_from_args(called)?.data_type().clone())
}

fn constant(argument: &Expr) -> Option<&ScalarValue> {
    match argument {
        Expr::Literal(value, _) => Some(value),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::datatypes::Schema;
    use datafusion::common::DFSchema;
    use datafusion::logical_expr::{LogicalPlan, col, lit, table_scan};

    use super::*;
    use crate::logical::datafusion_repairs::arithmetic::with_checks;

    /// The expressions of a plan in which operators have been replaced.
    fn replaced(expressions: Vec<Expr>, schema: &Schema) -> Vec<Expr> {
        let scan = table_scan(Some("t"), schema, None).unwrap();
        let plan = scan.project(expressions).unwrap().build().unwrap();
        let LogicalPlan::Projection(projection) = with_checks(plan).unwrap() else { panic!("no projection") };
        projection.expr.into_iter().map(Expr::unalias).collect()
    }

    #[test]
    fn types_are_those_of_datafusion() {
        let fields = [
            ("whole", DataType::Int64),
            ("small", DataType::Int16),
            ("double", DataType::Float64),
            ("decimal", DataType::Decimal128(10, 2)),
            ("text", DataType::Utf8),
        ];
        let names = fields.each_ref().map(|(name, _)| *name);
        let schema = Schema::new(fields.map(|(name, data_type)| Field::new(name, data_type, true)).to_vec());
        let of_rows = DFSchema::try_from_qualified_schema("t", &schema).unwrap();
        let numbers = ["whole", "small", "double", "decimal"];
        let mut expressions: Vec<Expr> = names.map(col).into();
        for left in numbers {
            expressions.push(-col(left));
            expressions.push(col(left).gt(lit(1)));
            for right in numbers {
                expressions.push(col(left) + col(right) * lit(3_i64));
                expressions.push(-(col(left) - col(right)) % lit(7_i64));
            }
        }
        let replaced = replaced(expressions, &schema);
        assert!(replaced.iter().any(|one| matches!(one, Expr::ScalarFunction(_))));
        for expression in &replaced {
            let expected = expression.get_type(&of_rows).unwrap();
            assert_eq!(type_of(expression, &of_rows).unwrap(), expected, "{expression}");
        }
        assert!(type_of(&(col("nothing") + lit(1)), &of_rows).is_err());
    }
}
