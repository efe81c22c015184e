//! Sums and numbers of rows per group, on which `sum` and `avg` are built.
//!
//! Integers are summed in 128 bits and decimals in 256, which no number of rows can exceed. Whether a result fits its
//! type is checked when it is needed. So neither results nor errors depend on the order of rows or on how partial
//! results were grouped.

use std::marker::PhantomData;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Decimal256Type, Float64Type, Int64Type};
use arrow_array::{ArrayRef, ArrowPrimitiveType, BooleanArray, Int64Array, PrimitiveArray};
use arrow_buffer::{ArrowNativeType, NullBuffer, i256};
use arrow_schema::DataType;
use tidemill_core::Cause;

use super::selection::{for_each_row, for_each_value, selected};
use super::{Accumulator, wrong_type};

/// A type in which sums are kept.
pub(super) trait Total: ArrowNativeType + Default {
    /// The Arrow type of partial sums.
    type Arrow: ArrowPrimitiveType<Native = Self>;

    /// The sum of two totals.
    fn plus(self, other: Self) -> Self;
}

impl Total for f64 {
    type Arrow = Float64Type;

    #[inline(always)]
    fn plus(self, other: f64) -> f64 {
        self + other
    }
}

impl Total for i128 {
    type Arrow = Decimal128Type;

    #[inline(always)]
    fn plus(self, other: i128) -> i128 {
        self.wrapping_add(other)
    }
}

impl Total for i256 {
    type Arrow = Decimal256Type;

    #[inline(always)]
    fn plus(self, other: i256) -> i256 {
        self.wrapping_add(other)
    }
}

/// A number that can be added to a total without loss.
pub(super) trait Widen<T>: Copy {
    /// The number as a total.
    fn widen(self) -> T;
}

macro_rules! widen {
    ($($native:ty),* => $total:ty) => {
        $(impl Widen<$total> for $native {
            #[inline(always)]
            fn widen(self) -> $total {
                <$total>::from(self)
            }
        })*
    };
}

widen!(i8, i16, i32, i64, u8, u16, u32, u64 => i128);
widen!(f32, f64 => f64);

impl Widen<i256> for i128 {
    #[inline(always)]
    fn widen(self) -> i256 {
        i256::from_i128(self)
    }
}

/// Sum and number of rows of a group.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Slot<S> {
    /// The sum.
    pub sum: S,
    /// How many values or partial sums it has.
    pub rows: i64,
}

/// Makes results from sums and numbers of rows.
pub(super) type Finish<S> =
    Arc<dyn Fn(&mut dyn Iterator<Item = Slot<S>>) -> Result<ArrayRef, Cause> + Send + Sync>;

/// The accumulator of `sum` and `avg` for arguments of type `T`.
pub(super) struct Totals<T, S> {
    slots: Vec<Slot<S>>,
    name: &'static str,
    partial_type: DataType,
    with_rows: bool,
    finish: Finish<S>,
    argument: PhantomData<fn(T)>,
}

impl<T, S> Totals<T, S>
where
    T: ArrowPrimitiveType,
    T::Native: Widen<S>,
    S: Total,
{
    /// An accumulator whose partial results are sums of `partial_type` and, if `with_rows`, the numbers of rows.
    pub fn boxed(
        name: &'static str,
        partial_type: DataType,
        with_rows: bool,
        finish: Finish<S>,
    ) -> Box<dyn Accumulator> {
        Box::new(Self { slots: Vec::new(), name, partial_type, with_rows, finish, argument: PhantomData })
    }

    fn wrong_type(&self, expected: &DataType, given: Option<&ArrayRef>) -> Cause {
        wrong_type(self.name, &expected.to_string(), given)
    }

    fn slots_of<'a>(&'a self, groups: &'a [u32]) -> impl Iterator<Item = Slot<S>> + 'a {
        groups.iter().map(|group| self.slots[*group as usize])
    }
}

impl<T, S> Accumulator for Totals<T, S>
where
    T: ArrowPrimitiveType,
    T::Native: Widen<S>,
    S: Total,
{
    fn resize(&mut self, groups: usize) {
        self.slots.resize(groups, Slot::default());
    }

    fn update(
        &mut self,
        groups: &[u32],
        arguments: &[ArrayRef],
        filter: Option<&BooleanArray>,
    ) -> Result<(), Cause> {
        let values = arguments.first().and_then(|column| column.as_primitive_opt::<T>());
        let values = values.ok_or_else(|| self.wrong_type(&T::DATA_TYPE, arguments.first()))?;
        let selected = selected(&[values], filter);
        let slots = self.slots.as_mut_slice();
        for_each_value(groups, values.values(), selected.as_ref(), |group, value| {
            let slot = &mut slots[group];
            slot.sum = slot.sum.plus(value.widen());
            slot.rows += 1;
        });
        Ok(())
    }

    fn merge(&mut self, groups: &[u32], partials: &[ArrayRef]) -> Result<(), Cause> {
        let sums = partials.first().and_then(|column| column.as_primitive_opt::<S::Arrow>());
        let sums = sums.ok_or_else(|| self.wrong_type(&self.partial_type, partials.first()))?;
        let rows = if self.with_rows {
            let rows = partials.get(1).and_then(|column| column.as_primitive_opt::<Int64Type>());
            Some(rows.ok_or_else(|| self.wrong_type(&DataType::Int64, partials.get(1)))?.values())
        } else {
            None
        };
        let selected = selected(&[sums], None);
        for_each_row(groups, selected.as_ref(), |group, row| {
            let slot = &mut self.slots[group];
            slot.sum = slot.sum.plus(sums.value(row));
            // As in `count`: damaged numbers must not panic.
            slot.rows = slot.rows.wrapping_add(rows.map_or(1, |rows| rows[row]));
        });
        Ok(())
    }

    fn partial(&self, groups: &[u32]) -> Result<Vec<ArrayRef>, Cause> {
        let sums = self.slots_of(groups).map(|slot| slot.sum).collect::<Vec<_>>();
        let has_rows = NullBuffer::from_iter(self.slots_of(groups).map(|slot| slot.rows > 0));
        let sums = PrimitiveArray::<S::Arrow>::new(sums.into(), Some(has_rows));
        let mut columns = vec![Arc::new(sums.with_data_type(self.partial_type.clone())) as ArrayRef];
        if self.with_rows {
            columns.push(Arc::new(Int64Array::from_iter_values(self.slots_of(groups).map(|slot| slot.rows))));
        }
        Ok(columns)
    }

    fn evaluate(&self, groups: &[u32]) -> Result<ArrayRef, Cause> {
        (self.finish)(&mut self.slots_of(groups))
    }

    fn clear(&mut self) {
        self.slots.clear();
    }

    fn bytes(&self) -> usize {
        self.slots.capacity() * size_of::<Slot<S>>()
    }
}

/// Calls a generic function with the type of each kind of integer.
macro_rules! for_integer_type {
    ($data_type:expr, $call:ident) => {
        match $data_type {
            DataType::Int8 => $call!(arrow_array::types::Int8Type),
            DataType::Int16 => $call!(arrow_array::types::Int16Type),
            DataType::Int32 => $call!(arrow_array::types::Int32Type),
            DataType::Int64 => $call!(arrow_array::types::Int64Type),
            DataType::UInt8 => $call!(arrow_array::types::UInt8Type),
            DataType::UInt16 => $call!(arrow_array::types::UInt16Type),
            DataType::UInt32 => $call!(arrow_array::types::UInt32Type),
            _ => $call!(arrow_array::types::UInt64Type),
        }
    };
}

/// Calls a generic function with the type of each kind of floating-point number.
macro_rules! for_float_type {
    ($data_type:expr, $call:ident) => {
        match $data_type {
            DataType::Float32 => $call!(arrow_array::types::Float32Type),
            _ => $call!(arrow_array::types::Float64Type),
        }
    };
}

pub(super) use {for_float_type, for_integer_type};
