//! The types of rounded decimals.
//!
//! DataFusion (55.2) derives the type of `round(q, 1)` from the 1, if that is a literal. Coercion makes it
//! `CAST(1 AS INT)`, so everything around is planned for a result with all digits of `q`. Later the cast is folded, and
//! the result has one digit. Comparisons then fail, `IN` finds nothing, and `CASE` and `coalesce` lose digits. So the
//! number of digits becomes a literal of the right type before coercion.

use datafusion::arrow::datatypes::{DECIMAL128_MAX_PRECISION, DataType};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::{Cast, Expr, ExprSchemable, cast};
use datafusion::optimizer::simplify_expressions::ExprSimplifier;

use tidemill_trees::nodes::Tree;

/// Functions that round decimals.
const ROUNDING: &[&str] = &["floor", "ceil", "round"];

/// Settles the type of a rounded decimal. Returns whether something has changed.
pub(super) fn settle_type(call: &mut ScalarFunction, schema: &DFSchema) -> bool {
    if !ROUNDING.contains(&call.func.name()) {
        return false;
    }
    let Some((number, digits)) = call.args.split_first_mut() else { return false };
    let is_wider = with_room(number, schema);
    digits.first_mut().is_some_and(as_literal) | is_wider
}

/// Whether the result's type would change if an argument became a literal.
pub(super) fn depends_on_literal(call: &ScalarFunction, schema: &DFSchema) -> bool {
    call.func.name() == "round"
        && matches!(call.args.as_slice(), [number, digits] if !matches!(digits, Expr::Literal(..))
            && number.get_type(schema).is_ok_and(|data_type| data_type.is_decimal()))
}

/// Gives a decimal a digit more, which it may need when it is rounded: -0.99 becomes -1.
fn with_room(number: &mut Expr, schema: &DFSchema) -> bool {
    let digits = |expression: &Expr| match expression.get_type(schema) {
        Ok(DataType::Decimal128(precision, scale)) => Some((precision, scale)),
        _ => None,
    };
    let Some((precision, scale)) =
        digits(number).filter(|(precision, _)| *precision < DECIMAL128_MAX_PRECISION)
    else {
        return false;
    };
    if let Expr::Cast(Cast { expr, .. }) = number
        && digits(expr) == Some((precision - 1, scale))
    {
        return false;
    }
    *number = cast(std::mem::take(number), DataType::Decimal128(precision + 1, scale));
    true
}

/// Makes a constant number of digits a literal of the type that `round` wants.
fn as_literal(digits: &mut Expr) -> bool {
    let Some(value) = constant(digits) else { return false };
    let literal = Expr::Literal(ScalarValue::Int32(value), None);
    let is_new = literal != *digits;
    *digits = literal;
    is_new
}

/// The value of an expression, if it is a whole number or NULL in all rows.
fn constant(expression: &Expr) -> Option<Option<i32>> {
    let is_constant =
        expression.column_refs().is_empty() && !expression.is_volatile() && !has_open_part(expression);
    let none = DFSchema::empty();
    let data_type = expression.get_type(&none).ok().filter(|_| is_constant)?;
    if !data_type.is_integer() && !data_type.is_null() {
        return None;
    }
    let simplifier = ExprSimplifier::new(SimplifyContext::builder().with_schema(none.clone().into()).build());
    let value = simplifier.coerce(expression.clone(), &none).and_then(|value| simplifier.simplify(value));
    let Ok(Expr::Literal(value, _)) = value else { return None };
    match value.cast_to(&DataType::Int32) {
        Ok(ScalarValue::Int32(value)) => Some(value),
        _ => None,
    }
}

/// Whether a part of an expression gets its value only later.
fn has_open_part(expression: &Expr) -> bool {
    let is_open = |part: &Expr| {
        matches!(
            part,
            Expr::ScalarSubquery(_)
                | Expr::Placeholder(_)
                | Expr::OuterReferenceColumn(..)
                | Expr::AggregateFunction(_)
                | Expr::WindowFunction(_)
        )
    };
    expression.contains(|part| Ok(is_open(part))).unwrap_or(true)
}
