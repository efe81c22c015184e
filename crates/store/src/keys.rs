//! Keys of rows: their hashes, and whether two are equal.

use std::hash::{BuildHasher, RandomState};

use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_ord::ord::{DynComparator, make_comparator};
use arrow_row::{RowConverter, SortField};
use arrow_schema::{SchemaRef, SortOptions};
use tidemill_core::Cause;

use crate::columns;

/// Hashes the keys of rows. Two stores hash differently, so no sender can choose keys that collide; no result depends
/// on it.
pub(crate) struct KeyHasher {
    columns: Vec<usize>,
    /// Converts key columns to bytes that are equal if the keys are; `None` if the key is at most one integer.
    converter: Option<RowConverter>,
    random: RandomState,
    seed: u64,
}

impl KeyHasher {
    /// Hashes these columns of a schema.
    pub fn new(schema: &SchemaRef, key: &[usize]) -> Result<KeyHasher, Cause> {
        let types: Vec<_> = key.iter().map(|column| schema.field(*column).data_type().clone()).collect();
        let is_plain = match types.as_slice() {
            [] => true,
            [one] => columns::is_time(one),
            _ => false,
        };
        let converter = if is_plain {
            None
        } else {
            let fields = types.into_iter().map(SortField::new).collect();
            Some(RowConverter::new(fields).map_err(|error| {
                Cause::user(format!("a column cannot be part of a key: {error}; cast it")).with_source(error)
            })?)
        };
        let random = RandomState::new();
        let seed = random.hash_one(0_u64);
        Ok(KeyHasher { columns: key.to_vec(), converter, random, seed })
    }

    /// Whether keys with equal hashes are equal if both are NULL or none is.
    pub fn is_exact(&self) -> bool {
        self.converter.is_none()
    }

    /// The key's columns of these rows.
    pub fn key_of(&self, rows: &RecordBatch) -> Vec<ArrayRef> {
        self.columns.iter().map(|column| rows.column(*column).clone()).collect()
    }

    /// The hash of each of these keys.
    pub fn hashes(&self, key: &[ArrayRef], rows: usize) -> Result<Vec<u64>, Cause> {
        if let Some(converter) = &self.converter {
            let keys = converter.convert_columns(key).map_err(|error| {
                Cause::bug(format!("rows do not have the columns of the key: {error}")).with_source(error)
            })?;
            return Ok(keys.iter().map(|key| self.random.hash_one(key.data())).collect());
        }
        let Some(column) = key.first() else { return Ok(vec![self.seed; rows]) };
        let Some((values, nulls)) = columns::integers(column) else {
            return Err(Cause::bug(format!("a key has the type {}", column.data_type())));
        };
        let hash = |(row, value): (usize, &i64)| match &nulls {
            Some(nulls) if nulls.is_null(row) => self.seed,
            _ => mixed(*value as u64 ^ self.seed),
        };
        Ok(values.iter().enumerate().map(hash).collect())
    }
}

/// Mixes all bits; no two integers give the same (the finaliser of SplitMix64).
fn mixed(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    value ^ (value >> 31)
}

/// Compares the keys of two batches that have equal hashes.
pub(crate) enum KeyEquality {
    /// Only NULLs need to be compared.
    Nulls(Option<(ArrayRef, ArrayRef)>),
    Columns(Vec<DynComparator>),
}

impl KeyEquality {
    pub fn new(hasher: &KeyHasher, left: &[ArrayRef], right: &[ArrayRef]) -> Result<KeyEquality, Cause> {
        if hasher.is_exact() {
            let columns = left.first().zip(right.first());
            let columns = columns.filter(|(left, right)| left.null_count() + right.null_count() > 0);
            return Ok(KeyEquality::Nulls(columns.map(|(left, right)| (left.clone(), right.clone()))));
        }
        let compare = |(left, right): (&ArrayRef, &ArrayRef)| {
            make_comparator(left, right, SortOptions::default())
                .map_err(|error| Cause::bug(format!("keys cannot be compared: {error}")).with_source(error))
        };
        Ok(KeyEquality::Columns(left.iter().zip(right).map(compare).collect::<Result<_, _>>()?))
    }

    pub fn is_equal(&self, left: usize, right: usize) -> bool {
        match self {
            KeyEquality::Nulls(None) => true,
            KeyEquality::Nulls(Some((lefts, rights))) => lefts.is_null(left) == rights.is_null(right),
            KeyEquality::Columns(columns) => columns.iter().all(|compare| compare(left, right).is_eq()),
        }
    }
}
