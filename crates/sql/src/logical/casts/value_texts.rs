//! Values as texts, as PostgreSQL writes them: `2026-01-31 12:30:00.25`, `1 day 02:00:00`, `1e+20`, `{a,"b c"}`, `\x0aff`. Arrow (59) writes a T in a
//! time, `[a, b c]` for a list, and takes bytes for letters.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, ListArray, StringArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    BinaryExpr, Cast, ColumnarValue, Expr, LogicalPlan, Operator, ReturnFieldArgs, ScalarFunctionArgs,
    ScalarUDF, ScalarUDFImpl, Signature, TryCast, Volatility,
};

use crate::logical::datafusion_repairs::arithmetic::rewrite;
use crate::logical::expression_type::type_of;
use crate::logical::unary::{applied, result_field};
use crate::value_text;

/// The plan in which values that are cast to a text are written as in PostgreSQL.
pub(crate) fn with_texts(plan: LogicalPlan) -> Result<LogicalPlan> {
    rewrite(plan, |part, schema| match part {
        Expr::Cast(Cast { expr, field }) | Expr::TryCast(TryCast { expr, field })
            if *field.data_type() == DataType::Utf8
                && type_of(&expr, schema).is_ok_and(|data_type| is_written(&data_type)) =>
        {
            Ok(Transformed::yes(TextForm::Cast.of(*expr)))
        }
        other => Ok(Transformed::no(other)),
    })
}

/// The plan in which functions and operators that join texts get texts, before DataFusion casts what they join, or refuses it.
pub(crate) fn with_texts_joined(plan: LogicalPlan) -> Result<LogicalPlan> {
    rewrite(plan, |part, schema| match part {
        Expr::ScalarFunction(ScalarFunction { func, mut args }) => {
            let form = match func.name() {
                "concat" | "concat_ws" => TextForm::Output,
                "array_to_string" => TextForm::Items,
                _ => return Ok(Transformed::no(Expr::ScalarFunction(ScalarFunction { func, args }))),
            };
            let before = args.clone();
            let first = if form == TextForm::Items { &mut args[..1] } else { &mut args[..] };
            first.iter_mut().for_each(|argument| {
                if form.applies(argument, schema) {
                    *argument = form.of(std::mem::take(argument));
                }
            });
            let is_changed = args != before;
            Ok(Transformed::new_transformed(Expr::ScalarFunction(ScalarFunction { func, args }), is_changed))
        }
        Expr::BinaryExpr(BinaryExpr { mut left, op: Operator::StringConcat, mut right }) => {
            let is_text = |side: &Expr| type_of(side, schema).is_ok_and(|data_type| data_type.is_string());
            let is_joined = |side: &Expr| {
                TextForm::Cast.applies(side, schema) && !type_of(side, schema).is_ok_and(|of| is_list(&of))
            };
            let (joins_left, joins_right) =
                (is_text(&right) && is_joined(&left), is_text(&left) && is_joined(&right));
            for (side, is_due) in [(&mut left, joins_left), (&mut right, joins_right)] {
                if is_due {
                    **side = TextForm::Cast.of(std::mem::take(&mut **side));
                }
            }
            let is_changed = joins_left || joins_right;
            let joined = Expr::BinaryExpr(BinaryExpr { left, op: Operator::StringConcat, right });
            Ok(Transformed::new_transformed(joined, is_changed))
        }
        other => Ok(Transformed::no(other)),
    })
}

/// Which text a value has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum TextForm {
    /// That of a cast.
    Cast,
    /// That of a value among others, which is `t` for true.
    Output,
    /// A list, whose values are texts.
    Items,
}

impl TextForm {
    /// Whether a value has to be written so, because DataFusion would not.
    fn applies(self, expression: &Expr, schema: &DFSchema) -> bool {
        type_of(expression, schema).is_ok_and(|data_type| match self {
            TextForm::Cast => is_written(&data_type),
            TextForm::Output => is_written(&data_type) || data_type == DataType::Boolean,
            TextForm::Items => {
                let items = items_of(&data_type);
                items.is_some_and(|items| is_written(items) || *items == DataType::Boolean)
            }
        })
    }

    fn of(self, expression: Expr) -> Expr {
        let signature = Signature::any(1, Volatility::Immutable);
        ScalarUDF::new_from_impl(ValueText { form: self, signature }).call(vec![expression])
    }
}

/// Whether Arrow writes another text of it.
fn is_written(data_type: &DataType) -> bool {
    let is_same = data_type.is_integer() || data_type.is_string() || data_type.is_null();
    !is_same && !matches!(data_type, DataType::Boolean | DataType::Union(..))
}

fn is_list(data_type: &DataType) -> bool {
    items_of(data_type).is_some()
}

fn items_of(data_type: &DataType) -> Option<&DataType> {
    match data_type {
        DataType::List(items) | DataType::LargeList(items) | DataType::FixedSizeList(items, _) => {
            Some(items.data_type())
        }
        _ => None,
    }
}

/// A list of texts of the same depth.
fn texts_of_items(data_type: &DataType) -> DataType {
    match items_of(data_type) {
        None => DataType::Utf8,
        Some(items) => DataType::List(Arc::new(Field::new_list_field(texts_of_items(items), true))),
    }
}

/// The text of a value. Queries cannot name it.
#[derive(Debug, PartialEq, Eq, Hash)]
struct ValueText {
    form: TextForm,
    signature: Signature,
}

impl ScalarUDFImpl for ValueText {
    fn name(&self) -> &str {
        match self.form {
            TextForm::Cast => "text of",
            TextForm::Output => "text among others of",
            TextForm::Items => "texts of",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    /// The argument's display, as that of a cast, because it determines column names.
    fn schema_name(&self, arguments: &[Expr]) -> Result<String> {
        Ok(arguments[0].schema_name().to_string())
    }

    fn return_type(&self, given: &[DataType]) -> Result<DataType> {
        Ok(match self.form {
            TextForm::Cast | TextForm::Output => DataType::Utf8,
            TextForm::Items => texts_of_items(&given[0]),
        })
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs) -> Result<FieldRef> {
        let data_type = self.return_type(&[arguments.arg_fields[0].data_type().clone()])?;
        Ok(result_field(self.name(), data_type, &arguments))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        applied(&args, |values| match self.form {
            TextForm::Cast => Ok(Arc::new(texts(values)?)),
            TextForm::Output => Ok(Arc::new(outputs(values)?)),
            TextForm::Items => lists_of_texts(values),
        })
    }
}

/// A text for each value, as a cast gives it.
pub(crate) fn texts(values: &ArrayRef) -> Result<StringArray> {
    if is_written(values.data_type()) {
        outputs(values)
    } else {
        Ok(cast(values, &DataType::Utf8)?.as_string::<i32>().clone())
    }
}

/// A text for each value, as PostgreSQL gives it to clients.
fn outputs(values: &ArrayRef) -> Result<StringArray> {
    let text = |row| values.is_valid(row).then(|| value_text::exact_text(values.as_ref(), row)).flatten();
    Ok((0..values.len()).map(text).collect())
}

fn lists_of_texts(values: &ArrayRef) -> Result<ArrayRef> {
    let Some(items) = items_of(values.data_type()) else { return Ok(Arc::new(outputs(values)?)) };
    let list = DataType::List(Arc::new(Field::new_list_field(items.clone(), true)));
    let (_, offsets, items, nulls) = cast(values, &list)?.as_list::<i32>().clone().into_parts();
    let items = lists_of_texts(&items)?;
    let field = Arc::new(Field::new_list_field(items.data_type().clone(), true));
    Ok(Arc::new(ListArray::try_new(field, offsets, items, nulls)?))
}
