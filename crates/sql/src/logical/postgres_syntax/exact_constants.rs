//! Sums, differences and products of numbers that are written out are exact: `0.1 + 0.2` is 0.3. The result is a number that is written
//! out, too (decision 0137).

use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, UnaryOperator, Value, ValueWithSpan};

/// A number as its digits, and how many of them follow the point.
struct Decimal {
    unscaled: i128,
    scale: u32,
}

/// The number that an operator makes of two; `None` if it has operands of another kind, or whole numbers only: these overflow where
/// columns do.
pub(crate) fn computed(left: &Expr, operator: &BinaryOperator, right: &Expr) -> Option<Expr> {
    if !matches!(operator, BinaryOperator::Plus | BinaryOperator::Minus | BinaryOperator::Multiply) {
        return None;
    }
    let (left, right) = (decimal(left)?, decimal(right)?);
    if left.scale == 0 && right.scale == 0 {
        return None;
    }
    let result = match operator {
        BinaryOperator::Multiply => {
            Decimal { unscaled: left.unscaled.checked_mul(right.unscaled)?, scale: left.scale + right.scale }
        }
        operator => {
            let scale = left.scale.max(right.scale);
            let (left, right) = (widened(&left, scale)?, widened(&right, scale)?);
            let unscaled = match operator {
                BinaryOperator::Plus => left.checked_add(right)?,
                _ => left.checked_sub(right)?,
            };
            Decimal { unscaled, scale }
        }
    };
    Some(written(&result))
}

fn widened(decimal: &Decimal, scale: u32) -> Option<i128> {
    decimal.unscaled.checked_mul(10_i128.checked_pow(scale - decimal.scale)?)
}

fn decimal(expression: &Expr) -> Option<Decimal> {
    match expression {
        Expr::Nested(inner) => decimal(inner),
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => {
            let Decimal { unscaled, scale } = decimal(expr)?;
            Some(Decimal { unscaled: unscaled.checked_neg()?, scale })
        }
        Expr::Value(ValueWithSpan { value: Value::Number(text, _), span: _ }) => {
            let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
            let digits = [whole, fraction].concat();
            let is_plain = digits.bytes().all(|byte| byte.is_ascii_digit());
            let unscaled = digits.parse().ok().filter(|_| is_plain)?;
            Some(Decimal { unscaled, scale: u32::try_from(fraction.len()).ok()? })
        }
        _ => None,
    }
}

fn written(decimal: &Decimal) -> Expr {
    let scale = decimal.scale as usize;
    let digits = format!("{:0>width$}", decimal.unscaled.unsigned_abs(), width = scale + 1);
    let (whole, fraction) = digits.split_at(digits.len() - scale);
    let number = Expr::value(Value::Number(format!("{whole}.{fraction}"), false));
    if decimal.unscaled >= 0 {
        return number;
    }
    let negative = Expr::UnaryOp { op: UnaryOperator::Minus, expr: Box::new(number) };
    Expr::Nested(Box::new(negative))
}
