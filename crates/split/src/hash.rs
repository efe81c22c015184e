//! Hashing of rows by key columns. Hashes are the same on every machine and in every run, because logical partitions
//! depend on them.

use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::{Array, ArrayRef, ArrowPrimitiveType, RecordBatch, downcast_dictionary_array};
use arrow_row::{RowConverter, SortField};
use arrow_schema::DataType;

use crate::route::Route;

const SEED: u64 = 0x243F_6A88_85A3_08D3;
const MULTIPLIER: u64 = 0x9E37_79B9_7F4A_7C15;
/// The hash of a null of any type.
const NULL: u64 = 0x1319_8A2E_0370_7344;

/// Routes by the hash of one or more columns of any types. Equal keys go to one partition; nulls are equal, and so are
/// 0.0 and -0.0. Without columns everything goes to partition 0.
///
/// ```
/// use std::sync::Arc;
/// use arrow_array::{RecordBatch, StringArray};
/// let route = tidemill_split::route_by_hash(vec![0], 8);
/// let hosts = StringArray::from(vec![Some("a"), None, Some("a")]);
/// let rows = RecordBatch::try_from_iter([("host", Arc::new(hosts) as _)]).unwrap();
/// let mut destinations = Vec::new();
/// route(&rows, &mut destinations);
/// assert_eq!(destinations[0], destinations[2]);
/// assert!(destinations.iter().all(|destination| *destination < 8));
/// ```
pub fn route_by_hash(columns: Vec<usize>, partitions: u32) -> Box<Route> {
    Box::new(move |rows: &RecordBatch, destinations: &mut Vec<u32>| {
        if columns.is_empty() || partitions == 1 {
            destinations.resize(destinations.len() + rows.num_rows(), 0);
            return;
        }
        let mut hashes = vec![SEED; rows.num_rows()];
        for column in &columns {
            add_column(rows.column(*column), &mut hashes);
        }
        // The high half of the product of hash and count is a fair share without a division.
        destinations
            .extend(hashes.iter().map(|hash| (((mix(*hash) >> 32) * u64::from(partitions)) >> 32) as u32));
    })
}

/// Adds a column's values to the hashes of its rows.
fn add_column(column: &ArrayRef, hashes: &mut [u64]) {
    macro_rules! integers {
        ($type:ty) => {
            add_primitive::<$type>(column, hashes, |value| value as u64)
        };
    }
    match column.data_type() {
        DataType::Int8 => integers!(Int8Type),
        DataType::Int16 => integers!(Int16Type),
        DataType::Int32 => integers!(Int32Type),
        DataType::Int64 => integers!(Int64Type),
        DataType::UInt8 => integers!(UInt8Type),
        DataType::UInt16 => integers!(UInt16Type),
        DataType::UInt32 => integers!(UInt32Type),
        DataType::UInt64 => integers!(UInt64Type),
        DataType::Date32 => integers!(Date32Type),
        DataType::Date64 => integers!(Date64Type),
        DataType::Timestamp(arrow_schema::TimeUnit::Second, _) => integers!(TimestampSecondType),
        DataType::Timestamp(arrow_schema::TimeUnit::Millisecond, _) => integers!(TimestampMillisecondType),
        DataType::Timestamp(arrow_schema::TimeUnit::Microsecond, _) => integers!(TimestampMicrosecondType),
        DataType::Timestamp(arrow_schema::TimeUnit::Nanosecond, _) => integers!(TimestampNanosecondType),
        DataType::Float32 => add_primitive::<Float32Type>(column, hashes, |v| normal(f64::from(v))),
        DataType::Float64 => add_primitive::<Float64Type>(column, hashes, normal),
        DataType::Boolean => add_values(column.as_boolean().iter().map(|v| v.map(u64::from)), hashes),
        DataType::Utf8 => add_bytes(column.as_string::<i32>().iter().map(|v| v.map(str::as_bytes)), hashes),
        DataType::LargeUtf8 => {
            add_bytes(column.as_string::<i64>().iter().map(|v| v.map(str::as_bytes)), hashes);
        }
        DataType::Utf8View => add_bytes(column.as_string_view().iter().map(|v| v.map(str::as_bytes)), hashes),
        DataType::Binary => add_bytes(column.as_binary::<i32>().iter(), hashes),
        DataType::Dictionary(_, _) => add_dictionary(column, hashes),
        _ => add_other(column, hashes),
    }
}

fn add_primitive<T: ArrowPrimitiveType>(
    column: &ArrayRef,
    hashes: &mut [u64],
    bits: impl Fn(T::Native) -> u64,
) {
    let values = column.as_primitive::<T>();
    if values.null_count() == 0 {
        for (hash, value) in hashes.iter_mut().zip(values.values()) {
            *hash = mix(*hash ^ bits(*value));
        }
    } else {
        add_values(values.iter().map(|value| value.map(&bits)), hashes);
    }
}

fn add_values(values: impl Iterator<Item = Option<u64>>, hashes: &mut [u64]) {
    for (hash, value) in hashes.iter_mut().zip(values) {
        *hash = mix(*hash ^ value.unwrap_or(NULL));
    }
}

fn add_bytes<'a>(values: impl Iterator<Item = Option<&'a [u8]>>, hashes: &mut [u64]) {
    for (hash, value) in hashes.iter_mut().zip(values) {
        *hash = mix(*hash ^ value.map_or(NULL, hash_bytes));
    }
}

/// Hashes each value of a dictionary once, as the value that it stands for.
fn add_dictionary(column: &ArrayRef, hashes: &mut [u64]) {
    let column = column.as_ref();
    downcast_dictionary_array!(
        column => {
            let mut of_values = vec![0; column.values().len()];
            add_column(column.values(), &mut of_values);
            let of_key = |key: Option<usize>| key.map_or(mix(NULL), |key| of_values[key]);
            for (hash, key) in hashes.iter_mut().zip(column.keys_iter()) {
                *hash = mix(*hash ^ of_key(key));
            }
        },
        _ => unreachable!("only dictionaries come here"),
    );
}

/// Types that are rarely keys are hashed by their bytes in Arrow's row format.
fn add_other(column: &ArrayRef, hashes: &mut [u64]) {
    let field = SortField::new(column.data_type().clone());
    let rows = RowConverter::new(vec![field])
        .and_then(|converter| converter.convert_columns(std::slice::from_ref(column)));
    // A type without a row format cannot be a key: all its values go to one partition, and the operator refuses them.
    let Ok(rows) = rows else { return };
    for (hash, row) in hashes.iter_mut().zip(rows.iter()) {
        *hash = mix(*hash ^ hash_bytes(row.as_ref()));
    }
}

fn normal(value: f64) -> u64 {
    if value == 0.0 {
        0
    } else if value.is_nan() {
        f64::NAN.to_bits()
    } else {
        value.to_bits()
    }
}

#[inline]
fn mix(value: u64) -> u64 {
    let product = u128::from(value ^ SEED) * u128::from(MULTIPLIER);
    (product >> 64) as u64 ^ product as u64
}

fn hash_bytes(bytes: &[u8]) -> u64 {
    let mut hash = bytes.len() as u64;
    let (chunks, rest) = bytes.as_chunks::<8>();
    for chunk in chunks {
        hash = mix(hash ^ u64::from_le_bytes(*chunk));
    }
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    mix(hash ^ u64::from_le_bytes(last))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{DictionaryArray, Float64Array, Int64Array, StringArray, StringViewArray};

    use super::*;

    fn hashes(column: ArrayRef) -> Vec<u64> {
        let mut hashes = vec![SEED; column.len()];
        add_column(&column, &mut hashes);
        hashes
    }

    #[test]
    fn equal_values_have_equal_hashes_whatever_holds_them() {
        let words = vec![Some("view"), None, Some("a word of more than eight bytes"), Some("")];
        let plain = hashes(Arc::new(StringArray::from(words.clone())));
        assert_eq!(plain, hashes(Arc::new(StringViewArray::from(words))));
        let single = |text: &str| hashes(Arc::new(StringArray::from(vec![text])))[0];
        assert_ne!(single("a"), single("a\0"));
        let dictionary: DictionaryArray<Int8Type> = ["x", "y", "x"].into_iter().collect();
        let hashed = hashes(Arc::new(dictionary));
        assert!(hashed[0] == hashed[2] && hashed[0] != hashed[1]);
    }

    #[test]
    fn zeros_are_equal_and_keys_spread() {
        let zeros = hashes(Arc::new(Float64Array::from(vec![0.0, -0.0, f64::NAN, -f64::NAN])));
        assert!(zeros[0] == zeros[1] && zeros[2] == zeros[3]);
        let rows = RecordBatch::try_from_iter([(
            "key",
            Arc::new(Int64Array::from_iter_values((0..16_000).map(|key| key * 1024))) as ArrayRef,
        )]);
        let mut destinations = Vec::new();
        route_by_hash(vec![0], 16)(&rows.unwrap(), &mut destinations);
        for partition in 0..16 {
            let share = destinations.iter().filter(|destination| **destination == partition).count();
            assert!((800..1200).contains(&share), "partition {partition} has {share} of 16,000 keys");
        }
    }
}
