//! Typed columns under construction.

use std::sync::Arc;

use arrow_array::types::*;
use arrow_array::{ArrayRef, ArrowPrimitiveType, PrimitiveArray};
use arrow_schema::DataType;

/// A column of primitive values without nulls that grows row by row and becomes an Arrow array without a
/// copy.
#[derive(Debug)]
pub enum Column {
    /// `UInt8`
    UInt8(Vec<u8>),
    /// `UInt16`
    UInt16(Vec<u16>),
    /// `UInt32`
    UInt32(Vec<u32>),
    /// `UInt64`
    UInt64(Vec<u64>),
    /// `Int8`
    Int8(Vec<i8>),
    /// `Int16`
    Int16(Vec<i16>),
    /// `Int32`
    Int32(Vec<i32>),
    /// `Int64`
    Int64(Vec<i64>),
    /// `Float32`
    Float32(Vec<f32>),
    /// `Float64`
    Float64(Vec<f64>),
}

/// A Rust type that has a [`Column`].
pub trait Native: Copy + Send + 'static {
    /// The Arrow type of its columns.
    const DATA_TYPE: DataType;

    /// Its values in a column.
    ///
    /// # Panics
    /// If the column has another type, which is a bug of an operator that writes other types than it declares.
    fn values(column: &mut Column) -> &mut Vec<Self>;
}

macro_rules! natives {
    ($($variant:ident $native:ty, $arrow:ty);*) => {
        impl Column {
            /// An empty column, or `None` if columns of this type cannot be built row by row.
            pub fn new(data_type: &DataType) -> Option<Column> {
                match data_type {
                    $(DataType::$variant => Some(Column::$variant(Vec::new())),)*
                    _ => None,
                }
            }

            /// Takes the values out as an Arrow array and leaves the column empty.
            pub fn finish(&mut self) -> ArrayRef {
                match self {
                    $(Column::$variant(values) => array::<$arrow>(take(values)),)*
                }
            }

            /// Makes room for `rows` more rows.
            pub fn reserve(&mut self, rows: usize) {
                match self {
                    $(Column::$variant(values) => values.reserve(rows),)*
                }
            }
        }
        $(impl Native for $native {
            const DATA_TYPE: DataType = DataType::$variant;
            #[inline]
            fn values(column: &mut Column) -> &mut Vec<$native> {
                match column {
                    Column::$variant(values) => values,
                    _ => wrong_type(stringify!($variant)),
                }
            }
        })*
    };
}

natives!(
    UInt8 u8, UInt8Type; UInt16 u16, UInt16Type; UInt32 u32, UInt32Type; UInt64 u64, UInt64Type;
    Int8 i8, Int8Type; Int16 i16, Int16Type; Int32 i32, Int32Type; Int64 i64, Int64Type;
    Float32 f32, Float32Type; Float64 f64, Float64Type
);

/// Takes the values out and reserves room for about as many, because cycles resemble each other.
pub(crate) fn take<T>(values: &mut Vec<T>) -> Vec<T> {
    let room = Vec::with_capacity(values.len() + values.len() / 4);
    std::mem::replace(values, room)
}

fn array<T: ArrowPrimitiveType>(values: Vec<T::Native>) -> ArrayRef {
    Arc::new(PrimitiveArray::<T>::new(values.into(), None))
}

#[cold]
fn wrong_type(expected: &str) -> ! {
    panic!("a value of type {expected} was written to a column of another type")
}

/// A row of primitive values, as a tuple.
pub trait Row {
    /// The columns that such rows are appended to, their types checked.
    type Columns<'a>;
    /// The Arrow types of its values.
    fn types() -> Vec<DataType>;
    /// Checks the types of the columns.
    ///
    /// # Panics
    /// If number or types differ, which is a bug of an operator that writes other rows than it declares.
    fn columns(columns: &mut [Column]) -> Self::Columns<'_>;
    /// Appends one value to each column.
    fn push(self, columns: &mut Self::Columns<'_>);
}

macro_rules! rows {
    ($(($count:literal $($name:ident $index:tt)*))*) => {
        $(impl<$($name: Native),*> Row for ($($name,)*) {
            type Columns<'a> = ($(&'a mut Vec<$name>,)*);

            fn types() -> Vec<DataType> {
                vec![$($name::DATA_TYPE),*]
            }

            #[inline]
            #[allow(non_snake_case, reason = "the macro names a column's values like its type")]
            fn columns(columns: &mut [Column]) -> Self::Columns<'_> {
                let columns: &mut [Column; $count] =
                    columns.try_into().expect("a row has as many values as the port has columns");
                let [$($name),*] = columns;
                ($($name::values($name),)*)
            }

            #[inline]
            fn push(self, columns: &mut Self::Columns<'_>) {
                $(columns.$index.push(self.$index);)*
            }
        })*
    };
}

rows!(
    (1 A 0) (2 A 0 B 1) (3 A 0 B 1 C 2) (4 A 0 B 1 C 2 D 3) (5 A 0 B 1 C 2 D 3 E 4) (6 A 0 B 1 C 2 D 3 E 4 F 5)
    (7 A 0 B 1 C 2 D 3 E 4 F 5 G 6) (8 A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7)
);
