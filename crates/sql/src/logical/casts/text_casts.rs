//! Texts that become times, dates, intervals, decimals, truth values, bytes, lists and rows are read by one set of rules, wherever they stand: in
//! a cast, as a constant, beside such a value, and in INSERT. They are the rules of the text formats, so a file and a query
//! read a text alike. DataFusion (55.2) has rules of its own: it refuses `2026-01-31 12:30` and `1e3`, and names another
//! type than the one that is written.

use std::borrow::Cow;
use std::hash::Hash;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray, BinaryArray};
use datafusion::arrow::compute::cast as cast_array;
use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DataFusionError, Result, ScalarValue, plan_err};
use datafusion::logical_expr::{
    Cast, ColumnarValue, Expr, ExprSchemable, LogicalPlan, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, TryCast, Volatility,
};
use tidemill_connect::formats::{sql_type, text_values};

use crate::logical::datafusion_repairs::arithmetic::rewrite;
use crate::logical::postgres_syntax::postgres_words::bytes_of;
use crate::logical::unary::{applied, result_field};

/// The plan in which such texts are read by these rules.
pub(crate) fn with_texts_read(plan: LogicalPlan) -> Result<LogicalPlan> {
    rewrite(plan, |part, schema| {
        let (inner, field, is_safe) = match &part {
            Expr::Cast(Cast { expr, field }) => (expr, field, false),
            Expr::TryCast(TryCast { expr, field }) => (expr, field, true),
            _ => return Ok(Transformed::no(part)),
        };
        let is_read =
            is_read(field.data_type()) && inner.get_type(schema).is_ok_and(|data_type| is_text(&data_type));
        if !is_read {
            return Ok(Transformed::no(part));
        }
        let read = TextValue::new(field.data_type().clone(), is_safe);
        Ok(Transformed::yes(match inner.as_ref() {
            Expr::Literal(text, metadata) => Expr::Literal(read.of_constant(text)?, metadata.clone()),
            inner => ScalarUDF::new_from_impl(read).call(vec![inner.clone()]),
        }))
    })
}

/// Whether texts become values of this type by these rules.
pub(crate) fn is_read(data_type: &DataType) -> bool {
    let is_listed = matches!(
        data_type,
        DataType::Timestamp(..)
            | DataType::Date32
            | DataType::Time64(_)
            | DataType::Interval(_)
            | DataType::Boolean
            | DataType::Binary
            | DataType::List(_)
            | DataType::LargeList(_)
            | DataType::FixedSizeList(..)
            | DataType::Struct(_)
            | DataType::Map(..)
    );
    is_listed || data_type.is_decimal()
}

fn is_text(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

/// Reads a text as a value. Queries cannot name it.
#[derive(Debug, PartialEq, Eq, Hash)]
struct TextValue {
    data_type: DataType,
    /// Whether a text without a value is NULL.
    is_safe: bool,
    signature: Signature,
}

impl TextValue {
    fn new(data_type: DataType, is_safe: bool) -> TextValue {
        TextValue { data_type, is_safe, signature: Signature::any(1, Volatility::Immutable) }
    }

    fn of_constant(&self, text: &ScalarValue) -> Result<ScalarValue> {
        ScalarValue::try_from_array(&self.values(&text.to_array()?)?, 0)
    }

    fn values(&self, texts: &ArrayRef) -> Result<ArrayRef> {
        values_of_texts(texts, &self.data_type, self.is_safe)
    }
}

/// Returns the values that texts denote. A type must be one that [`is_read`].
///
/// # Errors
/// At the first text that denotes none, unless that shall be NULL.
pub(crate) fn values_of_texts(texts: &ArrayRef, data_type: &DataType, or_null: bool) -> Result<ArrayRef> {
    let texts = cast_array(texts, &DataType::Utf8)?;
    let mut texts = texts.as_string::<i32>().clone();
    match data_type {
        // Files have bytes as mere digits; a text in a query may be letters.
        DataType::Binary => {
            let bytes = texts.iter().map(|text| match text.map(bytes_of).transpose() {
                Err(_) if or_null => Ok(None),
                bytes => bytes,
            });
            let bytes: Vec<Option<Vec<u8>>> = bytes.collect::<Result<_>>()?;
            return Ok(Arc::new(BinaryArray::from_iter(bytes)));
        }
        DataType::Interval(_) => texts = texts.iter().map(|text| text.map(with_unit)).collect(),
        _ => {}
    }
    let read =
        text_values(&texts, data_type).map_err(|cause| DataFusionError::Execution(cause.to_string()))?;
    match read.refused {
        Some(reason) if !or_null => plan_err!("{reason}"),
        _ => Ok(read.values),
    }
}

/// An interval that is a mere number counts seconds, as in PostgreSQL.
fn with_unit(text: &str) -> Cow<'_, str> {
    let is_number = text.trim_ascii().parse::<f64>().is_ok_and(f64::is_finite);
    if is_number { Cow::Owned(format!("{} seconds", text.trim_ascii())) } else { Cow::Borrowed(text) }
}

impl ScalarUDFImpl for TextValue {
    fn name(&self) -> &str {
        "value of text"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn display_name(&self, args: &[Expr]) -> Result<String> {
        let cast = if self.is_safe { "TRY_CAST" } else { "CAST" };
        Ok(format!("{cast}({} AS {})", args[0], sql_type(&self.data_type)))
    }

    /// A cast has the name of what is cast.
    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        Ok(args[0].schema_name().to_string())
    }

    fn return_type(&self, _arguments: &[DataType]) -> Result<DataType> {
        Ok(self.data_type.clone())
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs) -> Result<FieldRef> {
        let field = result_field(self.name(), self.data_type.clone(), &arguments);
        if self.is_safe { Ok(Arc::new(field.as_ref().clone().with_nullable(true))) } else { Ok(field) }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        applied(&args, |texts| self.values(texts))
    }
}
