//! A text that is written beside a value of another type is a value of that type, as in PostgreSQL: `ready = 't'`, `coalesce(ready, 'false')`,
//! `bytes = '\x00'`, `'2' + 1`. DataFusion (55.2) refuses some of these, and compares bytes with the letters of the text.

use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result, ScalarValue, plan_err};
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExprSchemable, LogicalPlan, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, cast,
};
use datafusion::sql::sqlparser::ast::BinaryOperator;

use super::arithmetic::rewrite;
use super::floats::of_one_type;
use crate::logical::expression_type::type_of;
use crate::logical::postgres_syntax::postgres_words::bytes_of;

/// The plan in which such texts are values.
///
/// # Errors
/// If a text is not a value of the type.
pub(crate) fn with_values(plan: LogicalPlan) -> Result<LogicalPlan> {
    rewrite(plan, |mut part, schema| {
        let mut changed = false;
        for sides in of_one_type(&mut part) {
            changed |= as_values(sides, schema)?;
        }
        Ok(if changed { Transformed::yes(part) } else { Transformed::no(part) })
    })
}

/// Plans operators with such a text before the planner asks for the types of their operands.
#[derive(Debug)]
pub(crate) struct TextOperands;

impl ExprPlanner for TextOperands {
    fn plan_binary_op(&self, expr: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
        let RawBinaryExpr { op, mut left, mut right } = expr;
        match op {
            BinaryOperator::Eq
            | BinaryOperator::NotEq
            | BinaryOperator::Lt
            | BinaryOperator::LtEq
            | BinaryOperator::Gt
            | BinaryOperator::GtEq => {
                as_values(vec![&mut left, &mut right], schema)?;
            }
            BinaryOperator::Plus
            | BinaryOperator::Minus
            | BinaryOperator::Multiply
            | BinaryOperator::Divide
            | BinaryOperator::Modulo => as_number(&mut left, &mut right, schema),
            _ => {}
        }
        Ok(PlannerResult::Original(RawBinaryExpr { op, left, right }))
    }
}

fn as_values(sides: Vec<&mut Expr>, schema: &DFSchema) -> Result<bool> {
    let types = sides.iter().filter(|side| written(side).is_none());
    let types: Vec<DataType> = types.filter_map(|side| type_of(side, schema).ok()).collect();
    if types.contains(&DataType::Boolean) && types.iter().any(DataType::is_string) {
        return plan_err!(
            "a BOOLEAN and a VARCHAR stand where one type is needed; convert one of them with CAST(... AS ...)"
        );
    }
    if !sides.iter().any(|side| written(side).is_some()) {
        return Ok(false);
    }
    let read: fn(&str) -> Result<ScalarValue> = if types.contains(&DataType::Boolean) {
        boolean
    } else if types.contains(&DataType::Binary) {
        |text| Ok(ScalarValue::Binary(Some(bytes_of(text)?)))
    } else {
        return Ok(false);
    };
    // With other types beside it, the planner says what does not fit.
    if !types.iter().all(|one| *one == types[0] || one.is_null()) {
        return Ok(false);
    }
    for side in sides {
        if let Some(text) = written(side) {
            *side = Expr::Literal(read(text)?, None);
        }
    }
    Ok(true)
}

/// The text of a constant.
fn written(side: &Expr) -> Option<&str> {
    match side {
        Expr::Literal(ScalarValue::Utf8(Some(text)), _) => Some(text),
        _ => None,
    }
}

/// A truth value as PostgreSQL reads it: also a beginning of `true`, `false`, `yes` and `no`.
fn boolean(text: &str) -> Result<ScalarValue> {
    let word = text.trim().to_ascii_lowercase();
    let begins = |whole: &str, least: usize| word.len() >= least && whole.starts_with(&word);
    if begins("true", 1) || begins("yes", 1) || word == "on" || word == "1" {
        Ok(ScalarValue::Boolean(Some(true)))
    } else if begins("false", 1) || begins("no", 1) || begins("off", 2) || word == "0" {
        Ok(ScalarValue::Boolean(Some(false)))
    } else {
        plan_err!("'{text}' is not a BOOLEAN: write 'true' or 'false'")
    }
}

/// Makes a text in arithmetic with a number a number of its type.
fn as_number(left: &mut Expr, right: &mut Expr, schema: &DFSchema) {
    let (text, other) = match (written(left), written(right)) {
        (Some(_), None) => (left, right),
        (None, Some(_)) => (right, left),
        _ => return,
    };
    if let Ok(number) = other.get_type(schema)
        && number.is_numeric()
    {
        *text = cast(std::mem::take(text), number);
    }
}

/// `coalesce` with a text beside truth values or bytes: the planner asks for the type of a call before the text can become a value.
pub(crate) fn coalesce(function: ScalarUDF) -> ScalarUDF {
    ScalarUDF::new_from_impl(Coalesce { function })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Coalesce {
    function: ScalarUDF,
}

impl ScalarUDFImpl for Coalesce {
    fn name(&self) -> &str {
        self.function.name()
    }

    fn aliases(&self) -> &[String] {
        self.function.aliases()
    }

    fn signature(&self) -> &Signature {
        self.function.signature()
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let texts = |one: &&DataType| !one.is_string() && !one.is_null();
        match types.iter().find(texts) {
            Some(one @ (DataType::Boolean | DataType::Binary))
                if types.iter().any(DataType::is_string)
                    && types.iter().filter(texts).all(|other| other == one) =>
            {
                Ok(vec![one.clone(); types.len()])
            }
            _ => self.function.inner().coerce_types(types),
        }
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.function.inner().return_type(types)
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs) -> Result<FieldRef> {
        self.function.inner().return_field_from_args(arguments)
    }

    fn simplify(&self, arguments: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        self.function.inner().simplify(arguments, info)
    }

    fn short_circuits(&self) -> bool {
        self.function.inner().short_circuits()
    }

    fn conditional_arguments<'a>(&self, arguments: &'a [Expr]) -> Option<(Vec<&'a Expr>, Vec<&'a Expr>)> {
        self.function.inner().conditional_arguments(arguments)
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        self.function.inner().invoke_with_args(arguments)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn truth_values_are_those_that_postgresql_reads() {
        for text in ["t", "tr", "TRUE", " yes ", "y", "on", "1"] {
            assert_eq!(boolean(text).unwrap(), ScalarValue::Boolean(Some(true)), "{text}");
        }
        for text in ["f", "False", "no", "n", "of", "off", "0"] {
            assert_eq!(boolean(text).unwrap(), ScalarValue::Boolean(Some(false)), "{text}");
        }
        for text in ["", "o", "2", "truth", "tt", "nope"] {
            assert!(boolean(text).is_err(), "{text}");
        }
    }
}
