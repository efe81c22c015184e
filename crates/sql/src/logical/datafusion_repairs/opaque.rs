//! Hides expressions from DataFusion's simplifier.
//!
//! DataFusion (55.2) moves casts and functions from one side of a comparison with a constant to the other. It checks
//! whether the constant has a value there, but not whether each value of the column has one:
//!
//! - `TRY_CAST(x AS INT) >= -1` becomes `x >= -1`, which is true where the cast is NULL. The same happens to casts that
//!   round.
//! - `extract(year FROM ts) < 3000` becomes `ts < '3000-01-01'`, which cannot be expressed in nanoseconds, so it is
//!   NULL.
//!
//! It also replaces columns of subqueries by their values, if they are constants. `round(q, n)` has another type where `n`
//! is a literal, but what compares the result has been planned for the type with a column.
//!
//! Such casts and functions are replaced by our own functions while rules are applied. Casts that preserve all values
//! and their order stay, so that comparisons with columns of narrower types and with dictionaries remain fast.

use std::any::Any;
use std::sync::Arc;

use datafusion::arrow::compute::CastOptions;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::format::DEFAULT_FORMAT_OPTIONS;
use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::common::{DFSchema, Result, internal_err};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    Cast, ColumnarValue, Expr, ExprSchemable, LogicalPlan, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, TryCast, Volatility,
};

use tidemill_trees::nodes::PlanTree;

use super::arithmetic::rewrite;
use super::rounding::depends_on_literal;
use crate::logical::expression_type::type_of;

/// DataFusion's functions that know for which arguments they have a value.
const INVERTED: &[&str] = &["date_part", "floor"];

/// The plan with our functions in place of what must be hidden, including subqueries.
pub(crate) fn with_opaque(plan: LogicalPlan) -> Result<LogicalPlan> {
    rewrite(plan, |expression, schema| match expression {
        Expr::Cast(Cast { expr, field }) if is_hidden(&expr, &field, schema) => {
            Ok(Transformed::yes(OpaqueFunction::function(HiddenFunction::Cast(field)).call(vec![*expr])))
        }
        Expr::TryCast(TryCast { expr, field }) if is_hidden(&expr, &field, schema) => {
            Ok(Transformed::yes(OpaqueFunction::function(HiddenFunction::TryCast(field)).call(vec![*expr])))
        }
        Expr::ScalarFunction(ScalarFunction { func, args }) if INVERTED.contains(&func.name()) => {
            Ok(Transformed::yes(OpaqueFunction::function(HiddenFunction::Function(func)).call(args)))
        }
        Expr::ScalarFunction(call) if depends_on_literal(&call, schema) => {
            let data_type = Expr::ScalarFunction(call.clone()).get_type(schema)?;
            Ok(Transformed::yes(
                OpaqueFunction::function(HiddenFunction::Typed(call.func, data_type)).call(call.args),
            ))
        }
        other => Ok(Transformed::no(other)),
    })
}

/// The original plan.
pub(crate) fn without_opaque(plan: LogicalPlan) -> Result<LogicalPlan> {
    rewrite(plan, |expression, schema| {
        let Expr::ScalarFunction(ScalarFunction { func, args }) = &expression else {
            return Ok(Transformed::no(expression));
        };
        let Some(opaque) = (func.inner().as_ref() as &dyn Any).downcast_ref::<OpaqueFunction>() else {
            return Ok(Transformed::no(expression));
        };
        Ok(Transformed::yes(match (&opaque.hidden, args.as_slice()) {
            (HiddenFunction::Cast(field), [argument]) => {
                Expr::Cast(Cast::new_from_field(Box::new(argument.clone()), Arc::clone(field)))
            }
            (HiddenFunction::TryCast(field), [argument]) => {
                Expr::TryCast(TryCast::new_from_field(Box::new(argument.clone()), Arc::clone(field)))
            }
            (HiddenFunction::Function(function), arguments) => function.call(arguments.to_vec()),
            (HiddenFunction::Typed(function, data_type), arguments) => {
                function.call(arguments.to_vec()).cast_to(data_type, schema)?
            }
            _ => return internal_err!("a cast has one argument"),
        }))
    })
}

/// The plan with visible casts where they are keys of joins: the projection that DataFusion makes for keys names only
/// casts. A key is not compared with a constant, so no rule looks into such a cast.
pub(crate) fn with_plain_keys(plan: LogicalPlan) -> Result<LogicalPlan> {
    let shown = |key: &mut Expr| {
        let Expr::ScalarFunction(ScalarFunction { func, args }) = key else { return };
        let Some(opaque) = (func.inner().as_ref() as &dyn Any).downcast_ref::<OpaqueFunction>() else {
            return;
        };
        let Some(argument) = args.pop().map(Box::new) else { return };
        *key = match &opaque.hidden {
            HiddenFunction::Cast(field) => Expr::Cast(Cast::new_from_field(argument, Arc::clone(field))),
            HiddenFunction::TryCast(field) => {
                Expr::TryCast(TryCast::new_from_field(argument, Arc::clone(field)))
            }
            HiddenFunction::Function(_) | HiddenFunction::Typed(..) => {
                args.push(*argument);
                return;
            }
        };
    };
    plan.rewrite_up_with_subqueries(|node| match node {
        LogicalPlan::Join(mut join) => {
            join.on.iter_mut().for_each(|(left, right)| {
                shown(left);
                shown(right);
            });
            Ok(Transformed::yes(LogicalPlan::Join(join)))
        }
        other => Ok(Transformed::no(other)),
    })
    .data()
}

fn is_hidden(argument: &Expr, to: &FieldRef, schema: &DFSchema) -> bool {
    // An error of a constant is reported when the query is planned, if it is seen to be a cast.
    let is_constant = matches!(argument, Expr::Literal(_, _));
    !is_constant && !type_of(argument, schema).is_ok_and(|from| keeps_values(&from, to.data_type()))
}

/// Whether each value has a distinct counterpart in the other type, in the same order.
fn keeps_values(from: &DataType, to: &DataType) -> bool {
    use DataType::{Decimal128, Dictionary, Float32, Float64, LargeUtf8, Utf8, Utf8View};
    match (from, to) {
        (from, to) if from == to => true,
        (Float32, Float64) => true,
        (Dictionary(_, from), to) => keeps_values(from, to),
        (from, Dictionary(_, to)) => keeps_values(from, to),
        (Utf8 | LargeUtf8 | Utf8View, Utf8 | LargeUtf8 | Utf8View) => true,
        (Decimal128(precision, scale), Decimal128(wider, finer)) => {
            let digits = |precision: u8, scale: i8| i16::from(precision) - i16::from(scale);
            scale <= finer && digits(*precision, *scale) <= digits(*wider, *finer)
        }
        (from, Decimal128(precision, scale)) => {
            bits(from).is_some_and(|bits| digits_of(bits) <= i16::from(*precision) - i16::from(*scale))
        }
        (from, to) => match (bits(from), bits(to)) {
            (Some(narrow), Some(wide)) => match (from.is_signed_integer(), to.is_signed_integer()) {
                (true, false) => false,
                (false, true) => narrow < wide,
                _ => narrow <= wide,
            },
            _ => false,
        },
    }
}

/// The size of an integer type.
fn bits(data_type: &DataType) -> Option<u32> {
    match data_type {
        integer if integer.is_integer() => integer.primitive_width().map(|bytes| 8 * bytes as u32),
        _ => None,
    }
}

/// The most decimal digits of integers with this many bits.
fn digits_of(bits: u32) -> i16 {
    match bits {
        8 => 3,
        16 => 5,
        32 => 10,
        _ => 20,
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
enum HiddenFunction {
    Cast(FieldRef),
    TryCast(FieldRef),
    Function(Arc<ScalarUDF>),
    /// A function whose result keeps this type.
    Typed(Arc<ScalarUDF>, DataType),
}

/// A cast or a function under a name that no rule knows and no query can use.
#[derive(Debug, PartialEq, Eq, Hash)]
struct OpaqueFunction {
    hidden: HiddenFunction,
    signature: Signature,
}

impl OpaqueFunction {
    fn function(hidden: HiddenFunction) -> ScalarUDF {
        ScalarUDF::new_from_impl(OpaqueFunction {
            hidden,
            signature: Signature::variadic_any(Volatility::Immutable),
        })
    }
}

impl ScalarUDFImpl for OpaqueFunction {
    fn name(&self) -> &str {
        match &self.hidden {
            HiddenFunction::Cast(_) => "hidden cast",
            HiddenFunction::TryCast(_) => "hidden try_cast",
            HiddenFunction::Function(function) | HiddenFunction::Typed(function, _) => function.name(),
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    /// The display of what is hidden, because it determines column names.
    fn schema_name(&self, arguments: &[Expr]) -> Result<String> {
        match &self.hidden {
            HiddenFunction::Function(function) | HiddenFunction::Typed(function, _) => {
                function.schema_name(arguments)
            }
            _ => Ok(arguments[0].schema_name().to_string()),
        }
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        match &self.hidden {
            HiddenFunction::Cast(field) | HiddenFunction::TryCast(field) => Ok(field.data_type().clone()),
            HiddenFunction::Function(function) => function.return_type(arguments),
            HiddenFunction::Typed(_, data_type) => Ok(data_type.clone()),
        }
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs) -> Result<FieldRef> {
        match &self.hidden {
            HiddenFunction::Cast(field) => {
                let nullable = arguments.arg_fields.iter().any(|field| field.is_nullable());
                Ok(Arc::new(field.as_ref().clone().with_nullable(nullable)))
            }
            HiddenFunction::TryCast(field) => Ok(Arc::new(field.as_ref().clone().with_nullable(true))),
            HiddenFunction::Function(function) => function.return_field_from_args(arguments),
            HiddenFunction::Typed(_, data_type) => {
                let nullable = arguments.arg_fields.iter().any(|field| field.is_nullable());
                Ok(Arc::new(Field::new(self.name(), data_type.clone(), nullable)))
            }
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let cast = |field: &FieldRef, safe: bool| {
            let options = CastOptions { safe, format_options: DEFAULT_FORMAT_OPTIONS };
            args.args[0].cast_to(field.data_type(), Some(&options))
        };
        match &self.hidden {
            HiddenFunction::Cast(field) => cast(field, false),
            HiddenFunction::TryCast(field) => cast(field, true),
            HiddenFunction::Function(function) | HiddenFunction::Typed(function, _) => {
                function.invoke_with_args(args)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn casts_that_keep_values_are_seen() {
        use DataType::{Date32, Decimal128, Float64, Int8, Int32, Int64, UInt32, UInt64, Utf8};
        let words = DataType::Dictionary(Box::new(Int32), Box::new(Utf8));
        for (from, to) in [
            (Int32, Int64),
            (UInt32, Int64),
            (Int8, Decimal128(3, 0)),
            (Int64, Decimal128(20, 0)),
            (Decimal128(10, 2), Decimal128(12, 4)),
            (words.clone(), Utf8),
            (Utf8, words),
        ] {
            assert!(keeps_values(&from, &to), "{from} to {to}");
        }
        let time = DataType::Timestamp(datafusion::arrow::datatypes::TimeUnit::Nanosecond, None);
        for (from, to) in [
            (Int64, Int32),
            (Int64, UInt64),
            (UInt64, Int64),
            (Int64, Float64),
            (Int64, Decimal128(20, 2)),
            (Decimal128(10, 2), Decimal128(10, 1)),
            (Decimal128(10, 2), Decimal128(10, 3)),
            (Utf8, Int64),
            (time.clone(), Date32),
            (Date32, time),
        ] {
            assert!(!keeps_values(&from, &to), "{from} to {to}");
        }
    }
}
