//! Numbers with more digits than a floating-point number has. DataFusion (55.2) reads them as floating-point numbers, so a decimal would
//! be compared with another number than the one that is written, and `CAST(12345678901234567890.5 AS DECIMAL(38, 1))` would be another
//! one. Such a number becomes a call with its text. Beside a decimal it is the decimal that the text denotes, elsewhere a
//! floating-point number.

use std::any::Any;
use std::ops::ControlFlow;

use datafusion::arrow::datatypes::{DECIMAL128_MAX_PRECISION, DataType};
use datafusion::common::{Result, ScalarValue, exec_err};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility, lit,
};
use datafusion::sql::sqlparser::ast::{self, FunctionArg, FunctionArgExpr, Ident, UnaryOperator, Value};

use tidemill_trees::syntax::{Node, walk_expressions_mut};

/// The function that stands for such a number.
pub(crate) const WRITTEN_NUMBER: &str = "written number";

/// Functions that give one of their arguments, or compare them.
const COMPARING: &[&str] = &["coalesce", "greatest", "least", "nullif", "nvl", "ifnull"];

/// Functions that join the texts of their arguments.
const JOINING: &[&str] = &["concat", "concat_ws"];

/// Keeps the text of each such number that something is computed from.
pub(crate) fn keep(node: &mut impl Node) {
    let _ = walk_expressions_mut(node, |expression| {
        each_text(expression, &mut write_as_text);
        each_operand(expression, &mut |operand| keep_text(operand, false));
        ControlFlow::<()>::Continue(())
    });
}

/// The parts of an expression that become texts.
fn each_text(expression: &mut ast::Expr, call: &mut dyn FnMut(&mut ast::Expr)) {
    match expression {
        ast::Expr::Cast { expr, data_type: ast::DataType::Text | ast::DataType::Varchar(_), .. } => {
            call(expr)
        }
        ast::Expr::BinaryOp { left, op: ast::BinaryOperator::StringConcat, right } => {
            [left, right].into_iter().for_each(|side| call(side));
        }
        ast::Expr::Function(function) => {
            let name = function.name.to_string().to_lowercase();
            if let (true, ast::FunctionArguments::List(list)) =
                (JOINING.contains(&name.as_str()), &mut function.args)
            {
                for argument in &mut list.args {
                    if let FunctionArg::Unnamed(FunctionArgExpr::Expr(argument)) = argument {
                        call(argument);
                    }
                }
            }
        }
        _ => {}
    }
}

/// Makes a number with a fraction the text that it has: `1.50` has two digits behind the point, which a floating-point number would lose.
fn write_as_text(operand: &mut ast::Expr) {
    let text = match operand {
        ast::Expr::Nested(inner) => return write_as_text(inner),
        ast::Expr::UnaryOp { op: UnaryOperator::Minus, expr } => {
            number_text(expr).map(|text| if is_zero(&text) { text } else { format!("-{text}") })
        }
        ref number => number_text(number),
    };
    if let Some(text) = text {
        *operand = ast::Expr::value(Value::SingleQuotedString(text));
    }
}

fn is_zero(text: &str) -> bool {
    text.bytes().all(|byte| matches!(byte, b'0' | b'.'))
}

/// The text of a number that is written with a fraction or an exponent, without an exponent: `1.5e2` is `150`.
fn number_text(number: &ast::Expr) -> Option<String> {
    let ast::Expr::Value(ast::ValueWithSpan { value: Value::Number(text, _), span: _ }) = number else {
        return None;
    };
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let (digits, exponent) = ([whole, fraction].concat(), exponent.parse::<i32>().ok()?);
    let is_plain = digits.bytes().all(|byte| byte.is_ascii_digit()) && !digits.is_empty();
    let is_whole = !text.contains(['.', 'e', 'E']);
    if !is_plain || is_whole || exponent.abs() > i32::from(DECIMAL128_MAX_PRECISION) {
        return None;
    }
    // Where the point is in the digits.
    let point = whole.len() as i32 + exponent;
    let zeros = |count: i32| "0".repeat(usize::try_from(count).unwrap_or_default());
    let digits = format!("{}{digits}{}", zeros(-point), zeros(point - digits.len() as i32));
    let (whole, fraction) = digits.split_at(point.max(0) as usize);
    let whole = whole.trim_start_matches('0');
    let whole = if whole.is_empty() { "0" } else { whole };
    Some(if fraction.is_empty() { whole.to_owned() } else { format!("{whole}.{fraction}") })
}

/// The parts of an expression that may stand beside a decimal, or become one.
fn each_operand(expression: &mut ast::Expr, call: &mut dyn FnMut(&mut ast::Expr)) {
    match expression {
        ast::Expr::BinaryOp { left, right, op: _ }
        | ast::Expr::IsDistinctFrom(left, right)
        | ast::Expr::IsNotDistinctFrom(left, right) => [left, right].into_iter().for_each(|side| call(side)),
        ast::Expr::Between { expr, low, high, negated: _ } => {
            [expr, low, high].into_iter().for_each(|side| call(side));
        }
        ast::Expr::InList { expr, list, negated: _ } => {
            call(expr);
            list.iter_mut().for_each(call);
        }
        ast::Expr::Cast { expr, .. } => call(expr),
        ast::Expr::Case { operand, conditions, else_result, .. } => {
            operand.iter_mut().chain(else_result).for_each(|part| call(part));
            for when in conditions {
                call(&mut when.condition);
                call(&mut when.result);
            }
        }
        ast::Expr::Function(function) => {
            let name = function.name.to_string().to_lowercase();
            if let (true, ast::FunctionArguments::List(list)) =
                (COMPARING.contains(&name.as_str()), &mut function.args)
            {
                for argument in &mut list.args {
                    if let FunctionArg::Unnamed(FunctionArgExpr::Expr(argument)) = argument {
                        call(argument);
                    }
                }
            }
        }
        _ => {}
    }
}

/// Makes a number a call if a floating-point number would be another one.
fn keep_text(operand: &mut ast::Expr, is_negative: bool) {
    match operand {
        ast::Expr::Nested(inner) => keep_text(inner, is_negative),
        ast::Expr::UnaryOp { op: UnaryOperator::Minus, expr } => keep_text(expr, !is_negative),
        ast::Expr::UnaryOp { op: UnaryOperator::Plus, expr } => keep_text(expr, is_negative),
        ast::Expr::Value(ast::ValueWithSpan { value: Value::Number(text, _), span: _ })
            if is_rounded(text, is_negative) =>
        {
            let text = ast::Expr::value(Value::SingleQuotedString(text.clone()));
            *operand = ast::Expr::Function(ast::Function {
                name: ast::ObjectName::from(vec![Ident::with_quote('"', WRITTEN_NUMBER)]),
                uses_odbc_syntax: false,
                parameters: ast::FunctionArguments::None,
                args: ast::FunctionArguments::List(ast::FunctionArgumentList {
                    duplicate_treatment: None,
                    args: vec![FunctionArg::Unnamed(FunctionArgExpr::Expr(text))],
                    clauses: Vec::new(),
                }),
                filter: None,
                null_treatment: None,
                over: None,
                within_group: Vec::new(),
            });
        }
        _ => {}
    }
}

/// Whether a number would be read as a floating-point number, and that is another one.
fn is_rounded(text: &str, is_negative: bool) -> bool {
    let is_whole =
        if is_negative { format!("-{text}").parse::<i64>().is_ok() } else { text.parse::<u64>().is_ok() };
    let (Some(written), Ok(read)) = (decimal(text), text.parse::<f64>()) else { return false };
    !is_whole && decimal(&read.to_string()) != Some(written)
}

/// A decimal without the zeros at its end: its digits, and how many of them follow the point. `None` if it has too many digits, or
/// an exponent.
fn decimal(text: &str) -> Option<(i128, u8)> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let fraction = fraction.trim_end_matches('0');
    let digits = [whole, fraction].concat();
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let unscaled: i128 = digits.parse().ok()?;
    let count = unscaled.checked_ilog10().map_or(1, |digits| digits as usize + 1);
    let precision = count.max(fraction.len());
    (precision <= usize::from(DECIMAL128_MAX_PRECISION)).then_some((unscaled, fraction.len() as u8))
}

/// The decimal that such a call denotes.
pub(super) fn decimal_of(expression: &Expr) -> Option<Expr> {
    let (call, sign) = match expression {
        Expr::Negative(inner) => (inner.as_ref(), -1),
        other => (other, 1),
    };
    let Expr::ScalarFunction(ScalarFunction { func, args }) = call else { return None };
    let is_written = (func.inner().as_ref() as &dyn Any).is::<WrittenNumber>();
    let (unscaled, scale) = decimal(written(args).filter(|_| is_written)?)?;
    let digits = unscaled.checked_ilog10().map_or(1, |digits| digits as u8 + 1);
    Some(lit(ScalarValue::Decimal128(Some(sign * unscaled), digits.max(scale), scale as i8)))
}

fn written(args: &[Expr]) -> Option<&str> {
    match args {
        [Expr::Literal(ScalarValue::Utf8(Some(text)), _)] => Some(text),
        _ => None,
    }
}

/// The function that is the number which its argument denotes.
pub(crate) fn written_number() -> ScalarUDF {
    let signature = Signature::exact(vec![DataType::Utf8], Volatility::Immutable);
    ScalarUDF::new_from_impl(WrittenNumber { signature })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct WrittenNumber {
    signature: Signature,
}

impl ScalarUDFImpl for WrittenNumber {
    fn name(&self) -> &str {
        WRITTEN_NUMBER
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        Ok(written(args).unwrap_or(WRITTEN_NUMBER).to_owned())
    }

    fn return_type(&self, _arguments: &[DataType]) -> Result<DataType> {
        Ok(DataType::Float64)
    }

    fn simplify(&self, args: Vec<Expr>, _: &SimplifyContext) -> Result<ExprSimplifyResult> {
        Ok(match written(&args).and_then(|text| text.parse::<f64>().ok()) {
            Some(value) => ExprSimplifyResult::Simplified(lit(value)),
            None => ExprSimplifyResult::Original(args),
        })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match args.args.as_slice() {
            [ColumnarValue::Scalar(ScalarValue::Utf8(Some(text)))] => match text.parse::<f64>() {
                Ok(value) => Ok(ColumnarValue::Scalar(ScalarValue::Float64(Some(value)))),
                Err(_) => exec_err!("'{text}' is not a number"),
            },
            _ => exec_err!("a number that is written out is a constant"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_numbers_that_would_be_rounded_keep_their_text() {
        for text in [
            "99999999999999999999.5",
            "12345678.123456789012",
            "18446744073709551616",
            "0.12345678901234567890",
        ] {
            assert!(is_rounded(text, false), "{text}");
        }
        assert!(is_rounded("9223372036854775809", true));
        for text in [
            "0.1",
            "1.50000000000000000000000",
            "18446744073709551615",
            "1e300",
            "7",
            "100000000000000000000.0",
        ] {
            assert!(!is_rounded(text, false), "{text}");
        }
        assert!(!is_rounded("9223372036854775808", true));
        // No decimal has so many digits.
        assert!(!is_rounded("0.123456789012345678901234567890123456789", false));
    }
}
