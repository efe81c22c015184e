//! Times and bytes as texts, as PostgreSQL writes them: `2026-01-31 12:30:00.25`, `\x0aff`. Arrow (59) writes a T in a time, and takes bytes
//! for letters.

use std::fmt::Write;
use std::sync::Arc;

use datafusion::arrow::array::timezone::Tz;
use datafusion::arrow::array::types::{
    ArrowTimestampType, Time32MillisecondType, Time32SecondType, Time64MicrosecondType, Time64NanosecondType,
    TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType,
};
use datafusion::arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, StringArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, FieldRef, TimeUnit};
use datafusion::arrow::temporal_conversions::{as_datetime, as_datetime_with_timezone, as_time};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Result, exec_datafusion_err};
use datafusion::logical_expr::{
    Cast, ColumnarValue, Expr, LogicalPlan, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature, TryCast, Volatility,
};

use crate::logical::datafusion_repairs::arithmetic::rewrite;
use crate::logical::expression_type::type_of;
use crate::logical::unary::{applied, result_field};

/// The plan in which times and bytes that are cast to a text are written as in PostgreSQL.
pub(crate) fn with_texts(plan: LogicalPlan) -> Result<LogicalPlan> {
    rewrite(plan, |part, schema| match part {
        Expr::Cast(Cast { expr, field }) | Expr::TryCast(TryCast { expr, field })
            if *field.data_type() == DataType::Utf8
                && type_of(&expr, schema).is_ok_and(|data_type| is_written(&data_type)) =>
        {
            Ok(Transformed::yes(text().call(vec![*expr])))
        }
        other => Ok(Transformed::no(other)),
    })
}

fn is_written(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Timestamp(..) | DataType::Time32(_) | DataType::Time64(_) | DataType::Binary
    )
}

fn text() -> ScalarUDF {
    ScalarUDF::new_from_impl(ValueText { signature: Signature::any(1, Volatility::Immutable) })
}

/// The text of a time or of bytes. Queries cannot name it.
#[derive(Debug, PartialEq, Eq, Hash)]
struct ValueText {
    signature: Signature,
}

impl ScalarUDFImpl for ValueText {
    fn name(&self) -> &str {
        "text of"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    /// The argument's display, as that of a cast, because it determines column names.
    fn schema_name(&self, arguments: &[Expr]) -> Result<String> {
        Ok(arguments[0].schema_name().to_string())
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs) -> Result<FieldRef> {
        Ok(result_field(self.name(), DataType::Utf8, &arguments))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        applied(&args, |values| Ok(Arc::new(texts(values)?)))
    }
}

/// A text for each value.
pub(crate) fn texts(values: &ArrayRef) -> Result<StringArray> {
    match values.data_type() {
        DataType::Timestamp(unit, zone) => {
            let zone = zone.as_deref().map(str::parse::<Tz>).transpose()?;
            match unit {
                TimeUnit::Second => timestamps::<TimestampSecondType>(values, zone),
                TimeUnit::Millisecond => timestamps::<TimestampMillisecondType>(values, zone),
                TimeUnit::Microsecond => timestamps::<TimestampMicrosecondType>(values, zone),
                TimeUnit::Nanosecond => timestamps::<TimestampNanosecondType>(values, zone),
            }
        }
        DataType::Time32(TimeUnit::Second) => times::<Time32SecondType>(values),
        DataType::Time32(_) => times::<Time32MillisecondType>(values),
        DataType::Time64(TimeUnit::Microsecond) => times::<Time64MicrosecondType>(values),
        DataType::Time64(_) => times::<Time64NanosecondType>(values),
        DataType::Binary => Ok(values.as_binary::<i32>().iter().map(|bytes| bytes.map(of_bytes)).collect()),
        _ => Ok(cast(values, &DataType::Utf8)?.as_string::<i32>().clone()),
    }
}

fn of_bytes(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 + 2 * bytes.len());
    text.push_str("\\x");
    // Writing into a string cannot fail.
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// Without the zeros at the end of the fraction of a second.
fn trimmed(time: &str) -> &str {
    if time.contains('.') { time.trim_end_matches('0').trim_end_matches('.') } else { time }
}

fn timestamps<T: ArrowTimestampType>(values: &ArrayRef, zone: Option<Tz>) -> Result<StringArray> {
    let text = |value: i64| -> Option<String> {
        match zone {
            None => Some(trimmed(&as_datetime::<T>(value)?.to_string()).to_owned()),
            Some(zone) => {
                let time = as_datetime_with_timezone::<T>(value, zone)?;
                let local = time.naive_local().to_string();
                // `+01:00` is written as `+01`.
                let offset = time.format("%:z").to_string();
                Some(format!("{}{}", trimmed(&local), offset.strip_suffix(":00").unwrap_or(&offset)))
            }
        }
    };
    written(values.as_primitive::<T>().iter(), text)
}

fn times<T: ArrowPrimitiveType>(values: &ArrayRef) -> Result<StringArray>
where
    i64: From<T::Native>,
{
    let text = |value: T::Native| Some(trimmed(&as_time::<T>(i64::from(value))?.to_string()).to_owned());
    written(values.as_primitive::<T>().iter(), text)
}

fn written<V>(
    values: impl Iterator<Item = Option<V>>,
    text: impl Fn(V) -> Option<String>,
) -> Result<StringArray> {
    let missing = || exec_datafusion_err!("a time is too far from 1970 to be written");
    values.map(|value| value.map(|value| text(value).ok_or_else(missing)).transpose()).collect()
}
