//! Groups by one numeric column of at most 64 bits.
//!
//! As long as the keys are close together, a key's group is found by its distance from the smallest key: one load.
//! Otherwise it is found in a table with open addressing and linear probing, at most half full.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::{Array, ArrayRef, ArrowPrimitiveType, PrimitiveArray};
use arrow_buffer::NullBuffer;
use arrow_schema::{DataType, TimeUnit};
use tidemill_core::Cause;

use super::NONE;
use crate::hash;

/// A number as a key: equal keys have equal `i64`.
trait Key: Copy {
    fn to_i64(self) -> i64;
    fn from_i64(key: i64) -> Self;
}

macro_rules! integer_keys {
    ($($native:ty),*) => {
        $(impl Key for $native {
            #[inline(always)]
            fn to_i64(self) -> i64 {
                self as i64
            }

            fn from_i64(key: i64) -> $native {
                key as $native
            }
        })*
    };
}

integer_keys!(i8, i16, i32, i64, u8, u16, u32, u64);

macro_rules! float_keys {
    ($($native:ty, $bits:ty);*) => {
        $(impl Key for $native {
            #[inline(always)]
            fn to_i64(self) -> i64 {
                // Adding 0 makes -0 to 0 and changes nothing else.
                let normal = if self.is_nan() { <$native>::NAN } else { self + 0.0 };
                i64::from(normal.to_bits() as $bits)
            }

            fn from_i64(key: i64) -> $native {
                <$native>::from_bits(key as $bits as _)
            }
        })*
    };
}

float_keys!(f32, i32; f64, i64);

/// Calls a macro with the Arrow type of a supported type of keys.
macro_rules! for_key_type {
    ($data_type:expr, $call:ident, $otherwise:expr) => {
        match $data_type {
            DataType::Int8 => $call!(Int8Type),
            DataType::Int16 => $call!(Int16Type),
            DataType::Int32 => $call!(Int32Type),
            DataType::Int64 => $call!(Int64Type),
            DataType::UInt8 => $call!(UInt8Type),
            DataType::UInt16 => $call!(UInt16Type),
            DataType::UInt32 => $call!(UInt32Type),
            DataType::UInt64 => $call!(UInt64Type),
            DataType::Float32 => $call!(Float32Type),
            DataType::Float64 => $call!(Float64Type),
            DataType::Date32 => $call!(Date32Type),
            DataType::Date64 => $call!(Date64Type),
            DataType::Timestamp(TimeUnit::Second, _) => $call!(TimestampSecondType),
            DataType::Timestamp(TimeUnit::Millisecond, _) => $call!(TimestampMillisecondType),
            DataType::Timestamp(TimeUnit::Microsecond, _) => $call!(TimestampMicrosecondType),
            DataType::Timestamp(TimeUnit::Nanosecond, _) => $call!(TimestampNanosecondType),
            _ => $otherwise,
        }
    };
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    key: i64,
    group: u32,
}

const FREE: Slot = Slot { key: 0, group: NONE };

/// The groups of a column of numbers.
#[derive(Debug)]
pub(super) struct IntegerTable {
    data_type: DataType,
    /// The key of each group; 0 for that of NULL.
    keys: Vec<i64>,
    null_group: Option<u32>,
    /// The number of rows so far: a sparse direct table is allowed only in proportion to them.
    rows_seen: u64,
    is_hashed: bool,
    /// Direct: the group of key `base + i`.
    base: i64,
    direct: Vec<u32>,
    /// Hashed: slots, a power of two or none.
    slots: Vec<Slot>,
}

impl IntegerTable {
    /// Whether keys of this type are numeric.
    pub fn supports(data_type: &DataType) -> bool {
        macro_rules! yes {
            ($type:ty) => {
                true
            };
        }
        for_key_type!(data_type, yes, false)
    }

    /// No groups of keys of this type.
    pub fn new(data_type: &DataType) -> Self {
        IntegerTable {
            data_type: data_type.clone(),
            keys: Vec::new(),
            null_group: None,
            rows_seen: 0,
            is_hashed: false,
            base: 0,
            direct: Vec::new(),
            slots: Vec::new(),
        }
    }

    /// The number of groups.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Bytes of memory held.
    pub fn bytes(&self) -> usize {
        8 * self.keys.capacity() + 4 * self.direct.capacity() + size_of::<Slot>() * self.slots.capacity()
    }

    /// Removes all groups.
    pub fn clear(&mut self) {
        if self.is_hashed {
            self.slots.fill(FREE)
        } else {
            self.clear_direct()
        }
        self.keys.clear();
        self.null_group = None;
        self.rows_seen = 0;
        self.is_hashed = false;
    }

    fn clear_direct(&mut self) {
        if self.direct.len() / 8 < self.keys.len() {
            self.direct.fill(NONE);
            return;
        }
        let values = self.keys.iter().enumerate().filter(|(group, _)| Some(*group as u32) != self.null_group);
        for (_, key) in values {
            self.direct[key.wrapping_sub(self.base) as usize] = NONE;
        }
    }

    /// Appends the group of each row.
    pub fn intern(&mut self, column: &ArrayRef, ids: &mut Vec<u32>) -> Result<(), Cause> {
        macro_rules! intern {
            ($type:ty) => {{
                let column = column.as_primitive::<$type>();
                match column.nulls().filter(|nulls| nulls.null_count() > 0) {
                    None => self.intern_values(column.values(), ids),
                    Some(nulls) => self.intern_nullable(column.values(), nulls, ids),
                }
            }};
        }
        for_key_type!(self.data_type, intern, return Err(self.unsupported()));
        Ok(())
    }

    /// The keys of these groups.
    pub fn keys(&self, ids: &[u32]) -> Result<ArrayRef, Cause> {
        macro_rules! keys {
            ($type:ty) => {{
                type Native = <$type as ArrowPrimitiveType>::Native;
                let values =
                    ids.iter().map(|id| Native::from_i64(self.keys[*id as usize])).collect::<Vec<_>>();
                let has_null = self.null_group.is_some_and(|null| ids.contains(&null));
                let nulls = has_null.then(|| ids.iter().map(|id| Some(*id) != self.null_group).collect());
                let keys = PrimitiveArray::<$type>::new(values.into(), nulls);
                Ok(Arc::new(keys.with_data_type(self.data_type.clone())))
            }};
        }
        for_key_type!(self.data_type, keys, Err(self.unsupported()))
    }

    fn unsupported(&self) -> Cause {
        Cause::bug(format!("keys of {} are not numbers", self.data_type))
    }

    fn intern_values<K: Key>(&mut self, values: &[K], ids: &mut Vec<u32>) {
        self.rows_seen += values.len() as u64;
        self.make_direct_for(values.iter().map(|value| value.to_i64()));
        if self.is_hashed {
            ids.extend(values.iter().map(|value| self.hashed(value.to_i64())))
        } else {
            let (keys, direct, base) = (&mut self.keys, self.direct.as_mut_slice(), self.base);
            ids.extend(values.iter().map(|value| direct_group(keys, direct, base, value.to_i64())));
        }
    }

    fn intern_nullable<K: Key>(&mut self, values: &[K], nulls: &NullBuffer, ids: &mut Vec<u32>) {
        self.rows_seen += values.len() as u64;
        self.make_direct_for(nulls.valid_indices().map(|row| values[row].to_i64()));
        let rows = values.iter().enumerate();
        ids.extend(rows.map(|(row, value)| {
            if !nulls.is_valid(row) {
                self.null()
            } else if self.is_hashed {
                self.hashed(value.to_i64())
            } else {
                direct_group(&mut self.keys, &mut self.direct, self.base, value.to_i64())
            }
        }));
    }

    fn null(&mut self) -> u32 {
        let keys = &mut self.keys;
        *self.null_group.get_or_insert_with(|| {
            keys.push(0);
            keys.len() as u32 - 1
        })
    }

    /// Makes the direct table cover these keys, or switches to hashing if that takes too much memory.
    fn make_direct_for(&mut self, keys: impl Iterator<Item = i64>) {
        if self.is_hashed {
            return;
        }
        let bounds = keys.fold(None, |bounds: Option<(i64, i64)>, key| match bounds {
            None => Some((key, key)),
            Some((least, most)) => Some((least.min(key), most.max(key))),
        });
        let Some((least, most)) = bounds else { return };
        if self.covers(least) && self.covers(most) {
            return;
        }
        let is_new = self.keys.is_empty() || self.direct.is_empty();
        let last = self.base.wrapping_add(self.direct.len() as i64 - 1);
        let (first, last) = if is_new { (least, most) } else { (least.min(self.base), most.max(last)) };
        let length = (last.wrapping_sub(first) as u64).saturating_add(1);
        if length > self.direct_length_max() {
            return self.change_to_hashing();
        }
        if is_new {
            self.base = first;
            self.direct.clear();
        } else if first < self.base {
            self.extend_down(first);
        }
        let length = last.wrapping_sub(self.base) as usize + 1;
        self.direct.resize(length.max(self.direct.len()), NONE);
    }

    /// Lowers the base at least to `first`, and further, so that steadily falling keys do not move it each time.
    fn extend_down(&mut self, first: i64) {
        let room = self.direct.len() as i64;
        let base = first.saturating_sub(room);
        let added = self.base.wrapping_sub(base) as usize;
        self.direct.splice(0..0, std::iter::repeat_n(NONE, added));
        self.base = base;
    }

    fn covers(&self, key: i64) -> bool {
        key >= self.base && (key.wrapping_sub(self.base) as u64) < self.direct.len() as u64
    }

    /// 128 bytes for each row so far, up to 4 MiB, or 32 bytes for each group.
    fn direct_length_max(&self) -> u64 {
        (32 * self.rows_seen).min(1 << 20).max(8 * self.keys.len() as u64)
    }

    fn change_to_hashing(&mut self) {
        self.clear_direct();
        self.is_hashed = true;
        self.rehash((2 * self.keys.len()).max(self.slots.len()));
    }

    fn rehash(&mut self, slots_min: usize) {
        self.slots.clear();
        self.slots.resize(slots_min.next_power_of_two().max(64), FREE);
        for group in 0..self.keys.len() {
            if Some(group as u32) != self.null_group {
                let key = self.keys[group];
                let index = self.find(key);
                self.slots[index] = Slot { key, group: group as u32 };
            }
        }
    }

    /// The slot that holds the key, or the free slot where it belongs.
    #[inline(always)]
    fn find(&self, key: i64) -> usize {
        let mask = self.slots.len() - 1;
        let mut index = hash::of_integer(key as u64) as usize & mask;
        loop {
            let slot = self.slots[index];
            if slot.key == key || slot.group == NONE {
                // A free slot's key is 0, so key 0 may stop at one: that is right, for it belongs there.
                return index;
            }
            index = (index + 1) & mask;
        }
    }

    #[inline(always)]
    fn hashed(&mut self, key: i64) -> u32 {
        let index = self.find(key);
        match self.slots[index].group {
            NONE => self.insert(key, index),
            group => group,
        }
    }

    #[cold]
    fn insert(&mut self, key: i64, index: usize) -> u32 {
        let group = self.keys.len() as u32;
        self.keys.push(key);
        if self.keys.len() * 2 > self.slots.len() {
            self.rehash(self.slots.len() * 2)
        } else {
            self.slots[index] = Slot { key, group }
        }
        group
    }
}

#[inline(always)]
fn direct_group(keys: &mut Vec<i64>, direct: &mut [u32], base: i64, key: i64) -> u32 {
    let entry = &mut direct[key.wrapping_sub(base) as usize];
    if *entry == NONE {
        *entry = keys.len() as u32;
        keys.push(key);
    }
    *entry
}
