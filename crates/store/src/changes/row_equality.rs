//! Whether two rows are equal, as in GROUP BY, and a hash that equal rows share.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    BinaryType, BinaryViewType, ByteArrayType, ByteViewType, Float16Type, Float32Type, Float64Type,
    LargeBinaryType, LargeUtf8Type, StringViewType, Utf8Type,
};
use arrow_array::{
    Array, ArrayRef, ArrowNativeTypeOp, ArrowPrimitiveType, RecordBatch, downcast_primitive, make_array,
};
use arrow_buffer::ToByteSlice;
use arrow_row::{RowConverter, SortField};
use arrow_schema::{ArrowError, DataType, Fields};
use tidemill_core::Cause;

/// Whether a value of one column equals one of another.
type IsEqual = fn(&dyn Array, usize, &dyn Array, usize) -> bool;
/// Adds the values of a column to the hashes of its rows.
type AddTo = fn(&dyn Array, &mut [u64]);

/// The hash of NULL in any column.
const NULL: u64 = 0x1319_8A2E_0370_7344;
const MULTIPLIER: u64 = 0x9E37_79B9_7F4A_7C15;

/// Compares rows: NULL equals NULL, NaN equals NaN, and -0.0 equals 0.0. Two stores hash differently, so no sender can choose
/// rows that collide; no result depends on it.
pub(crate) struct RowEquality {
    columns: Vec<ColumnEquality>,
    seed: u64,
}

enum ColumnEquality {
    /// Values that can be compared where they are.
    Plain { is_equal: IsEqual, add_to: AddTo },
    /// Nested values: they are compared as bytes.
    Encoded(RowConverter),
}

impl RowEquality {
    /// Compares rows by these columns.
    ///
    /// # Errors
    /// [`Cause::user`] if the values of a column cannot be compared.
    pub fn new(fields: &Fields) -> Result<RowEquality, Cause> {
        let column = |field: &Arc<arrow_schema::Field>| {
            if let Some((is_equal, add_to)) = plain(field.data_type()) {
                return Ok(ColumnEquality::Plain { is_equal, add_to });
            }
            let converter = RowConverter::new(vec![SortField::new(field.data_type().clone())]);
            converter.map(ColumnEquality::Encoded).map_err(|error| {
                Cause::user(format!(
                    "column '{}' of rows that change cannot be compared: {error}; cast it",
                    field.name()
                ))
                .with_source(error)
            })
        };
        let columns = fields.iter().map(column).collect::<Result<_, Cause>>()?;
        Ok(RowEquality { columns, seed: RandomState::new().hash_one(0_u64) })
    }

    /// The hash of each row. Columns behind those that are compared do not count.
    pub fn hashes(&self, rows: &RecordBatch) -> Result<Vec<u64>, Cause> {
        let mut hashes = vec![self.seed; rows.num_rows()];
        for (equality, column) in self.columns.iter().zip(rows.columns()) {
            match equality {
                ColumnEquality::Plain { add_to, .. } => add_to(column.as_ref(), &mut hashes),
                ColumnEquality::Encoded(converter) => {
                    let encoded = encoded(converter, column)?;
                    for (hash, value) in hashes.iter_mut().zip(encoded.iter()) {
                        *hash = mixed(*hash ^ of_bytes(value.data()));
                    }
                }
            }
        }
        Ok(hashes)
    }

    /// Whether two rows are equal.
    pub fn is_equal(
        &self,
        (left, left_row): (&RecordBatch, usize),
        (right, right_row): (&RecordBatch, usize),
    ) -> Result<bool, Cause> {
        for ((equality, left), right) in self.columns.iter().zip(left.columns()).zip(right.columns()) {
            let is_equal = match equality {
                ColumnEquality::Plain { is_equal, .. } => {
                    is_equal(left.as_ref(), left_row, right.as_ref(), right_row)
                }
                ColumnEquality::Encoded(converter) => {
                    let left = encoded(converter, &left.slice(left_row, 1))?;
                    let right = encoded(converter, &right.slice(right_row, 1))?;
                    left.row(0).data() == right.row(0).data()
                }
            };
            if !is_equal {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Nested values as bytes that are equal if the values are.
fn encoded(converter: &RowConverter, column: &ArrayRef) -> Result<arrow_row::Rows, Cause> {
    normalised(column).and_then(|column| converter.convert_columns(&[column])).map_err(|error| {
        Cause::bug(format!("values of the type {} cannot be compared: {error}", column.data_type()))
            .with_source(error)
    })
}

/// The column with -0.0 as 0.0 and all NaN as one value, however deep they are.
pub(crate) fn normalised(column: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    fn floats<T: ArrowPrimitiveType>(column: &ArrayRef) -> ArrayRef {
        Arc::new(column.as_primitive::<T>().unary::<_, T>(normal::<T>))
    }
    if !has_floats(column.data_type()) {
        return Ok(column.clone());
    }
    Ok(match column.data_type() {
        DataType::Float16 => floats::<Float16Type>(column),
        DataType::Float32 => floats::<Float32Type>(column),
        DataType::Float64 => floats::<Float64Type>(column),
        _ => {
            let data = column.to_data();
            let children = data.child_data().iter().map(|child| {
                let child = normalised(&make_array(child.clone()))?;
                Ok(child.to_data())
            });
            let children = children.collect::<Result<_, ArrowError>>()?;
            make_array(data.into_builder().child_data(children).build()?)
        }
    })
}

fn has_floats(data_type: &DataType) -> bool {
    use DataType::{
        Dictionary, FixedSizeList, Float16, Float32, Float64, LargeList, LargeListView, List, ListView, Map,
        RunEndEncoded, Struct, Union,
    };
    match data_type {
        Float16 | Float32 | Float64 => true,
        List(field) | LargeList(field) | ListView(field) | LargeListView(field) => {
            has_floats(field.data_type())
        }
        FixedSizeList(field, _) | Map(field, _) | RunEndEncoded(_, field) => has_floats(field.data_type()),
        Struct(fields) => fields.iter().any(|field| has_floats(field.data_type())),
        Union(fields, _) => fields.iter().any(|(_, field)| has_floats(field.data_type())),
        Dictionary(_, values) => has_floats(values),
        _ => false,
    }
}

/// How values of this type are compared where they are.
fn plain(data_type: &DataType) -> Option<(IsEqual, AddTo)> {
    macro_rules! primitive {
        ($type:ty) => {
            (is_equal_primitive::<$type> as IsEqual, add_primitive::<$type> as AddTo)
        };
    }
    Some(downcast_primitive! {
        data_type => (primitive),
        DataType::Null => (|_, _, _, _| true, |_, _| {}),
        DataType::Boolean => (is_equal_boolean, add_boolean),
        DataType::Utf8 => (is_equal_bytes::<Utf8Type>, add_bytes::<Utf8Type>),
        DataType::LargeUtf8 => (is_equal_bytes::<LargeUtf8Type>, add_bytes::<LargeUtf8Type>),
        DataType::Binary => (is_equal_bytes::<BinaryType>, add_bytes::<BinaryType>),
        DataType::LargeBinary => (is_equal_bytes::<LargeBinaryType>, add_bytes::<LargeBinaryType>),
        DataType::Utf8View => (is_equal_view::<StringViewType>, add_view::<StringViewType>),
        DataType::BinaryView => (is_equal_view::<BinaryViewType>, add_view::<BinaryViewType>),
        DataType::FixedSizeBinary(_) => (is_equal_fixed, add_fixed),
        _ => return None
    })
}

/// A value such that equal values have equal bits.
fn normal<T: ArrowPrimitiveType>(value: T::Native) -> T::Native {
    if value.is_zero() {
        T::Native::ZERO
    } else if value.partial_cmp(&value).is_none() {
        // A NaN like any other.
        T::Native::MAX_TOTAL_ORDER
    } else {
        value
    }
}

fn are_equal(is_null: (bool, bool), are_values_equal: impl FnOnce() -> bool) -> bool {
    if is_null.0 || is_null.1 { is_null.0 == is_null.1 } else { are_values_equal() }
}

fn is_equal_primitive<T: ArrowPrimitiveType>(
    left: &dyn Array,
    left_row: usize,
    right: &dyn Array,
    right_row: usize,
) -> bool {
    let (left, right) = (left.as_primitive::<T>(), right.as_primitive::<T>());
    are_equal((left.is_null(left_row), right.is_null(right_row)), || {
        normal::<T>(left.value(left_row)).is_eq(normal::<T>(right.value(right_row)))
    })
}

fn add_primitive<T: ArrowPrimitiveType>(column: &dyn Array, hashes: &mut [u64]) {
    let column = column.as_primitive::<T>();
    let of_value = |value: T::Native| {
        let value = [normal::<T>(value)];
        let bytes = value.to_byte_slice();
        if bytes.len() > 8 {
            return of_bytes(bytes);
        }
        let mut word = [0; 8];
        word[..bytes.len()].copy_from_slice(bytes);
        u64::from_le_bytes(word)
    };
    if column.null_count() == 0 {
        for (hash, value) in hashes.iter_mut().zip(column.values().iter()) {
            *hash = mixed(*hash ^ of_value(*value));
        }
    } else {
        add(column.iter().map(|value| value.map(of_value)), hashes);
    }
}

fn is_equal_boolean(left: &dyn Array, left_row: usize, right: &dyn Array, right_row: usize) -> bool {
    let (left, right) = (left.as_boolean(), right.as_boolean());
    are_equal((left.is_null(left_row), right.is_null(right_row)), || {
        left.value(left_row) == right.value(right_row)
    })
}

fn add_boolean(column: &dyn Array, hashes: &mut [u64]) {
    add(column.as_boolean().iter().map(|value| value.map(u64::from)), hashes);
}

fn is_equal_bytes<T: ByteArrayType>(
    left: &dyn Array,
    left_row: usize,
    right: &dyn Array,
    right_row: usize,
) -> bool {
    let (left, right) = (left.as_bytes::<T>(), right.as_bytes::<T>());
    are_equal((left.is_null(left_row), right.is_null(right_row)), || {
        let (left, right): (&[u8], &[u8]) = (left.value(left_row).as_ref(), right.value(right_row).as_ref());
        left == right
    })
}

fn add_bytes<T: ByteArrayType>(column: &dyn Array, hashes: &mut [u64]) {
    add(column.as_bytes::<T>().iter().map(|value| value.map(|value| of_bytes(value.as_ref()))), hashes);
}

fn is_equal_view<T: ByteViewType>(
    left: &dyn Array,
    left_row: usize,
    right: &dyn Array,
    right_row: usize,
) -> bool {
    let (left, right) = (left.as_byte_view::<T>(), right.as_byte_view::<T>());
    are_equal((left.is_null(left_row), right.is_null(right_row)), || {
        let (left, right): (&[u8], &[u8]) = (left.value(left_row).as_ref(), right.value(right_row).as_ref());
        left == right
    })
}

fn add_view<T: ByteViewType>(column: &dyn Array, hashes: &mut [u64]) {
    add(column.as_byte_view::<T>().iter().map(|value| value.map(|value| of_bytes(value.as_ref()))), hashes);
}

fn is_equal_fixed(left: &dyn Array, left_row: usize, right: &dyn Array, right_row: usize) -> bool {
    let (left, right) = (left.as_fixed_size_binary(), right.as_fixed_size_binary());
    are_equal((left.is_null(left_row), right.is_null(right_row)), || {
        left.value(left_row) == right.value(right_row)
    })
}

fn add_fixed(column: &dyn Array, hashes: &mut [u64]) {
    add(column.as_fixed_size_binary().iter().map(|value| value.map(of_bytes)), hashes);
}

fn add(values: impl Iterator<Item = Option<u64>>, hashes: &mut [u64]) {
    for (hash, value) in hashes.iter_mut().zip(values) {
        *hash = mixed(*hash ^ value.unwrap_or(NULL));
    }
}

fn mixed(value: u64) -> u64 {
    let product = u128::from(value) * u128::from(MULTIPLIER);
    (product >> 64) as u64 ^ product as u64
}

fn of_bytes(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    let words = words.iter().map(|word| u64::from_le_bytes(*word)).chain([u64::from_le_bytes(last)]);
    words.fold(bytes.len() as u64, |hash, word| mixed(hash ^ word))
}

#[cfg(test)]
mod tests {
    use arrow_array::builder::{Float64Builder, ListBuilder};
    use arrow_array::types::Int32Type;
    use arrow_array::{
        BooleanArray, Decimal128Array, DictionaryArray, FixedSizeBinaryArray, Float32Array, Float64Array,
        Int64Array, NullArray, StringArray, StringViewArray, StructArray, TimestampMillisecondArray,
    };
    use arrow_schema::{Field, Schema};

    use super::*;

    /// Each column has two equal values, then two that differ from those and from each other.
    fn columns() -> Vec<ArrayRef> {
        let other_nan = f64::from_bits(0xFFF8_0000_0000_0123);
        let mut lists = ListBuilder::new(Float64Builder::new());
        lists.append_value([Some(0.0), None, Some(f64::NAN)]);
        lists.append_value([Some(-0.0), None, Some(other_nan)]);
        lists.append_value([Some(0.0), Some(0.0), Some(f64::NAN)]);
        lists.append_null();
        let words = ["one", "one", "two"].map(Some).into_iter().chain([None]);
        let inner: ArrayRef = Arc::new(Float32Array::from(vec![-0.0, 0.0, 1.0, f32::NAN]));
        let field = Arc::new(Field::new("inner", DataType::Float32, true));
        let fixed = vec![Some([1_u8, 2]), Some([1, 2]), Some([1, 3]), None].into_iter();
        let long = ["a text of more than twelve bytes", "a text of more than twelve bytes", "", "b"];
        vec![
            Arc::new(Float64Array::from(vec![Some(0.0), Some(-0.0), Some(f64::NAN), None])),
            Arc::new(Float64Array::from(vec![Some(other_nan), Some(f64::NAN), Some(f64::INFINITY), None])),
            Arc::new(Int64Array::from(vec![None, None, Some(0), Some(i64::MIN)])),
            Arc::new(StringArray::from_iter(words.clone())),
            Arc::new(StringViewArray::from_iter_values(long)),
            Arc::new(words.collect::<DictionaryArray<Int32Type>>()),
            Arc::new(BooleanArray::from(vec![Some(true), Some(true), Some(false), None])),
            Arc::new(TimestampMillisecondArray::from(vec![5, 5, 6, 7])),
            Arc::new(Decimal128Array::from(vec![1 << 90, 1 << 90, 1, 1 << 91])),
            Arc::new(FixedSizeBinaryArray::try_from_sparse_iter_with_size(fixed, 2).unwrap()),
            Arc::new(lists.finish()),
            Arc::new(StructArray::from(vec![(field, inner)])),
        ]
    }

    #[test]
    fn rows_are_equal_as_in_group_by() {
        for column in columns() {
            let data_type = column.data_type().clone();
            let schema = Schema::new(vec![Field::new("value", data_type.clone(), true)]);
            let equality = RowEquality::new(schema.fields()).unwrap();
            let rows = RecordBatch::try_new(Arc::new(schema), vec![column]).unwrap();
            let hashes = equality.hashes(&rows).unwrap();
            // In another batch, at another place.
            let behind = rows.slice(1, 3);
            let hashes_behind = equality.hashes(&behind).unwrap();
            for (left, hash) in hashes.iter().enumerate() {
                for (right, hash_behind) in hashes_behind.iter().enumerate() {
                    let expected = left == right + 1 || left == 0 && right == 0;
                    let is_equal = equality.is_equal((&rows, left), (&behind, right)).unwrap();
                    assert_eq!(is_equal, expected, "{left} and {} of {data_type}", right + 1);
                    assert_eq!(hash == hash_behind, expected, "{left} and {} of {data_type}", right + 1);
                }
            }
        }
    }

    #[test]
    fn rows_of_several_columns_or_none_are_compared() {
        let pairs = |values: Vec<i64>, texts: Vec<&str>| {
            let columns: [(_, ArrayRef); 3] = [
                ("value", Arc::new(Int64Array::from(values))),
                ("nothing", Arc::new(NullArray::new(2))),
                ("text", Arc::new(StringArray::from(texts))),
            ];
            RecordBatch::try_from_iter(columns).unwrap()
        };
        let rows = pairs(vec![1, 2], vec!["b", "a"]);
        let equality = RowEquality::new(rows.schema().fields()).unwrap();
        let hashes = equality.hashes(&rows).unwrap();
        assert_ne!(hashes[0], hashes[1]);
        let swapped = pairs(vec![2, 1], vec!["a", "a"]);
        assert!(equality.is_equal((&rows, 1), (&swapped, 0)).unwrap());
        assert!(!equality.is_equal((&rows, 0), (&swapped, 1)).unwrap());
        let nothing = RowEquality::new(&Fields::empty()).unwrap();
        assert!(nothing.is_equal((&rows, 0), (&rows, 1)).unwrap());
    }
}
