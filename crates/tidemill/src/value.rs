//! Rust types for the values of a column.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::{Array, ArrayRef, BooleanArray, PrimitiveArray, StringArray};
use arrow_cast::cast;
use arrow_schema::{DataType, TimeUnit};
use tidemill_engine::Cause;

/// A time in nanoseconds since 1970 in UTC, as in a timestamp column.
///
/// ```
/// use tidemill::Timestamp;
/// assert!(Timestamp(1_000_000_000) > Timestamp(0));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub i64);

/// A Rust type for the values of a column that is never NULL. For a column that may be NULL, use `Option` of it.
///
/// Numbers, `bool`, `String` and [`Timestamp`] are scalars.
pub trait Scalar: Sized + Send + 'static {
    /// The column from which values are read.
    type Column: Send;

    /// The type of the columns that are written.
    fn data_type() -> DataType;

    /// Whether a column of this type can be read.
    fn accepts(data_type: &DataType) -> bool {
        *data_type == Self::data_type()
    }

    /// The column to read from.
    ///
    /// # Errors
    /// If the type of the column is not accepted.
    fn column(array: &ArrayRef) -> Result<Self::Column, Cause>;

    /// The value of a row, which is not NULL.
    fn get(column: &Self::Column, row: usize) -> Self;

    /// A column of these values.
    fn array(values: Vec<Option<Self>>) -> ArrayRef;
}

/// A Rust type for the values of a column: a [`Scalar`], or `Option` of one if values may be NULL.
///
/// ```
/// use tidemill::Value;
/// assert!(<Option<i64>>::NULLABLE && !String::NULLABLE);
/// ```
pub trait Value: Sized + Send + 'static {
    /// The type of a value that is not NULL.
    type Scalar: Scalar;
    /// Whether values may be NULL.
    const NULLABLE: bool;

    /// Makes the value from a scalar, or from `None` for NULL. Returns `None` if the type does not allow NULL.
    fn from_scalar(scalar: Option<Self::Scalar>) -> Option<Self>;

    /// The value as a scalar; `None` if it is NULL.
    fn into_scalar(self) -> Option<Self::Scalar>;
}

impl<S: Scalar> Value for S {
    type Scalar = S;
    const NULLABLE: bool = false;

    fn from_scalar(scalar: Option<S>) -> Option<S> {
        scalar
    }
    fn into_scalar(self) -> Option<S> {
        Some(self)
    }
}

impl<S: Scalar> Value for Option<S> {
    type Scalar = S;
    const NULLABLE: bool = true;

    fn from_scalar(scalar: Option<S>) -> Option<Option<S>> {
        Some(scalar)
    }
    fn into_scalar(self) -> Option<S> {
        self
    }
}

macro_rules! primitives {
    ($($native:ty, $arrow:ty);*) => {
        $(impl Scalar for $native {
            type Column = PrimitiveArray<$arrow>;

            fn data_type() -> DataType {
                <$arrow>::DATA_TYPE
            }
            fn column(array: &ArrayRef) -> Result<Self::Column, Cause> {
                array.as_primitive_opt().cloned().ok_or_else(|| unexpected::<Self>(array))
            }
            #[inline]
            fn get(column: &Self::Column, row: usize) -> Self {
                column.value(row)
            }
            fn array(values: Vec<Option<Self>>) -> ArrayRef {
                Arc::new(PrimitiveArray::<$arrow>::from_iter(values))
            }
        })*
    };
}

primitives!(
    u8, UInt8Type; u16, UInt16Type; u32, UInt32Type; u64, UInt64Type;
    i8, Int8Type; i16, Int16Type; i32, Int32Type; i64, Int64Type; f32, Float32Type; f64, Float64Type
);

impl Scalar for bool {
    type Column = BooleanArray;

    fn data_type() -> DataType {
        DataType::Boolean
    }
    fn column(array: &ArrayRef) -> Result<BooleanArray, Cause> {
        array.as_boolean_opt().cloned().ok_or_else(|| unexpected::<Self>(array))
    }
    fn get(column: &BooleanArray, row: usize) -> bool {
        column.value(row)
    }
    fn array(values: Vec<Option<bool>>) -> ArrayRef {
        Arc::new(BooleanArray::from(values))
    }
}

impl Scalar for String {
    type Column = StringArray;

    fn data_type() -> DataType {
        DataType::Utf8
    }
    fn accepts(data_type: &DataType) -> bool {
        match data_type {
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => true,
            DataType::Dictionary(_, values) => Self::accepts(values),
            _ => false,
        }
    }
    fn column(array: &ArrayRef) -> Result<StringArray, Cause> {
        if let Some(texts) = array.as_string_opt() {
            return Ok(texts.clone());
        }
        let texts = cast(array, &DataType::Utf8).map_err(|_| unexpected::<Self>(array))?;
        Ok(texts.as_string().clone())
    }
    fn get(column: &StringArray, row: usize) -> String {
        column.value(row).to_owned()
    }
    fn array(values: Vec<Option<String>>) -> ArrayRef {
        Arc::new(StringArray::from(values))
    }
}

impl Scalar for Timestamp {
    type Column = PrimitiveArray<TimestampNanosecondType>;

    fn data_type() -> DataType {
        DataType::Timestamp(TimeUnit::Nanosecond, None)
    }
    fn accepts(data_type: &DataType) -> bool {
        matches!(data_type, DataType::Timestamp(TimeUnit::Nanosecond, _))
    }
    fn column(array: &ArrayRef) -> Result<Self::Column, Cause> {
        array.as_primitive_opt().cloned().ok_or_else(|| unexpected::<Self>(array))
    }
    #[inline]
    fn get(column: &Self::Column, row: usize) -> Timestamp {
        Timestamp(column.value(row))
    }
    fn array(values: Vec<Option<Timestamp>>) -> ArrayRef {
        Arc::new(values.into_iter().map(|time| time.map(|time| time.0)).collect::<Self::Column>())
    }
}

#[cold]
fn unexpected<S: Scalar>(array: &dyn Array) -> Cause {
    Cause::bug(format!("a column that was checked to be {1} is {0}", array.data_type(), S::data_type()))
}
