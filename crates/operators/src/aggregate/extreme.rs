//! `min(x)` and `max(x)`.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::{ArrayRef, ArrowPrimitiveType, BooleanArray, PrimitiveArray};
use arrow_buffer::i256;
use arrow_schema::{DataType, TimeUnit};
use tidemill_core::Cause;

use super::extreme_of_bytes::ExtremeBytes;
use super::selection::{for_each_value, selected};
use super::{Accumulator, Aggregate, Retractable, not_defined, retract, wrong_type};
use crate::arrow_bug::arrow_bug;

/// The smallest or largest of the values that are not NULL; NULL if there are none.
///
/// For numbers, booleans, decimals, dates, times, strings and bytes. Among floating-point numbers NaN is the largest
/// (as in PostgreSQL), and -0 is below 0. The result has the type of the argument; for a dictionary, the type of its
/// values.
///
/// ```
/// use std::sync::Arc;
/// use arrow_array::{ArrayRef, StringArray};
/// use arrow_schema::DataType;
/// use tidemill_operators::aggregate::{Accumulator, Aggregate, Extreme};
///
/// let names = Arc::new(StringArray::from(vec![Some("b"), None, Some("a")])) as ArrayRef;
/// let mut minimum = Extreme::minimum(&DataType::Utf8).unwrap().accumulator();
/// minimum.resize(1);
/// minimum.update(&[0, 0, 0], &[names], None).unwrap();
/// assert_eq!(minimum.evaluate(&[0]).unwrap().as_ref(), &StringArray::from(vec!["a"]));
/// ```
#[derive(Clone, Debug)]
pub struct Extreme {
    argument: DataType,
    is_maximum: bool,
}

impl Extreme {
    /// `min` of values of this type.
    ///
    /// # Errors
    /// If its values have no order.
    pub fn minimum(argument: &DataType) -> Result<Extreme, Cause> {
        Extreme::new(argument, false)
    }

    /// `max` of values of this type.
    ///
    /// # Errors
    /// If its values have no order.
    pub fn maximum(argument: &DataType) -> Result<Extreme, Cause> {
        Extreme::new(argument, true)
    }

    fn new(argument: &DataType, is_maximum: bool) -> Result<Extreme, Cause> {
        let argument = match argument {
            DataType::Dictionary(_, values) => values.as_ref().clone(),
            other => other.clone(),
        };
        let extreme = Extreme { argument, is_maximum };
        match extreme.find_accumulator() {
            Some(_) => Ok(extreme),
            None => Err(not_defined(
                extreme.name(),
                &extreme.argument,
                "cast the argument to a type with an order",
            )),
        }
    }

    fn find_accumulator(&self) -> Option<Box<dyn Accumulator>> {
        let name = if self.is_maximum { "max" } else { "min" };
        let data_type = &self.argument;
        if let Some(bytes) = ExtremeBytes::new(name, data_type, self.is_maximum) {
            return Some(Box::new(bytes));
        }
        if *data_type == DataType::Boolean {
            let inner = primitive(name, &DataType::UInt8, self.is_maximum)?;
            return Some(Box::new(Cast {
                inner,
                outer_type: DataType::Boolean,
                inner_type: DataType::UInt8,
            }));
        }
        let inner = primitive(name, data_type, self.is_maximum)?;
        Some(Box::new(Cast { inner, outer_type: data_type.clone(), inner_type: data_type.clone() }))
    }
}

impl Aggregate for Extreme {
    fn name(&self) -> &str {
        if self.is_maximum { "max" } else { "min" }
    }

    fn result_type(&self) -> DataType {
        self.argument.clone()
    }

    fn partial_types(&self) -> Vec<DataType> {
        vec![self.argument.clone()]
    }

    fn is_exact(&self) -> bool {
        true
    }

    fn accumulator(&self) -> Box<dyn Accumulator> {
        self.find_accumulator().expect("it was found when the function was made")
    }

    fn retractable(&self) -> Option<Box<dyn Retractable>> {
        retract::Extremes::boxed(if self.is_maximum { "max" } else { "min" }, &self.argument, self.is_maximum)
    }
}

/// The accumulator for a primitive type.
fn primitive(name: &'static str, data_type: &DataType, is_maximum: bool) -> Option<Box<dyn Accumulator>> {
    macro_rules! extremes {
        ($($pattern:pat => $type:ty),* $(,)?) => {
            match data_type {
                $($pattern if is_maximum => Some(Extremes::<$type, true>::boxed(name, data_type)),
                $pattern => Some(Extremes::<$type, false>::boxed(name, data_type)),)*
                _ => None,
            }
        };
    }
    use TimeUnit::*;
    extremes!(
        DataType::Int8 => Int8Type, DataType::Int16 => Int16Type,
        DataType::Int32 => Int32Type, DataType::Int64 => Int64Type,
        DataType::UInt8 => UInt8Type, DataType::UInt16 => UInt16Type,
        DataType::UInt32 => UInt32Type, DataType::UInt64 => UInt64Type,
        DataType::Float32 => Float32Type, DataType::Float64 => Float64Type,
        DataType::Decimal128(_, _) => Decimal128Type, DataType::Decimal256(_, _) => Decimal256Type,
        DataType::Date32 => Date32Type, DataType::Date64 => Date64Type,
        DataType::Time32(Second) => Time32SecondType, DataType::Time32(Millisecond) => Time32MillisecondType,
        DataType::Time64(Microsecond) => Time64MicrosecondType,
        DataType::Time64(Nanosecond) => Time64NanosecondType,
        DataType::Timestamp(Second, _) => TimestampSecondType,
        DataType::Timestamp(Millisecond, _) => TimestampMillisecondType,
        DataType::Timestamp(Microsecond, _) => TimestampMicrosecondType,
        DataType::Timestamp(Nanosecond, _) => TimestampNanosecondType,
        DataType::Duration(Second) => DurationSecondType,
        DataType::Duration(Millisecond) => DurationMillisecondType,
        DataType::Duration(Microsecond) => DurationMicrosecondType,
        DataType::Duration(Nanosecond) => DurationNanosecondType,
    )
}

/// Maps a value to a number that compares as the value does.
trait Ranked: Copy {
    /// The numbers.
    type Rank: Copy + Ord + Send;
    /// The smallest.
    const LOWEST: Self::Rank;
    /// The largest.
    const HIGHEST: Self::Rank;

    /// The value's number.
    fn rank(self) -> Self::Rank;
    /// The value with this number.
    fn from_rank(rank: Self::Rank) -> Self;
}

macro_rules! ranked_integers {
    ($($native:ty),*) => {
        $(impl Ranked for $native {
            type Rank = $native;
            const LOWEST: $native = <$native>::MIN;
            const HIGHEST: $native = <$native>::MAX;

            #[inline(always)]
            fn rank(self) -> $native {
                self
            }

            #[inline(always)]
            fn from_rank(rank: $native) -> $native {
                rank
            }
        })*
    };
}

ranked_integers!(i8, i16, i32, i64, u8, u16, u32, u64, i128, i256);

/// IEEE 754's total order, with all NaN as one value, so that no NaN has the lowest or highest number.
macro_rules! ranked_floats {
    ($($native:ty, $bits:ty);*) => {
        $(impl Ranked for $native {
            type Rank = $bits;
            const LOWEST: $bits = <$bits>::MIN;
            const HIGHEST: $bits = <$bits>::MAX;

            #[inline(always)]
            fn rank(self) -> $bits {
                let bits = if self.is_nan() { <$native>::NAN.to_bits() } else { self.to_bits() } as $bits;
                bits ^ ((bits >> (<$bits>::BITS - 1)) & <$bits>::MAX)
            }

            #[inline(always)]
            fn from_rank(rank: $bits) -> $native {
                <$native>::from_bits((rank ^ ((rank >> (<$bits>::BITS - 1)) & <$bits>::MAX)) as _)
            }
        })*
    };
}

ranked_floats!(f32, i32; f64, i64);

/// The extremes of groups as ranks. A group without values has the rank that every value replaces.
struct Extremes<T: ArrowPrimitiveType, const MAXIMUM: bool>
where
    T::Native: Ranked,
{
    name: &'static str,
    data_type: DataType,
    extremes: Vec<<T::Native as Ranked>::Rank>,
    /// Whether the group has that rank because a value has it. As long as needed, which is rarely.
    is_real: Vec<bool>,
}

impl<T, const MAXIMUM: bool> Extremes<T, MAXIMUM>
where
    T: ArrowPrimitiveType,
    T::Native: Ranked,
{
    const NONE: <T::Native as Ranked>::Rank = if MAXIMUM { T::Native::LOWEST } else { T::Native::HIGHEST };

    fn boxed(name: &'static str, data_type: &DataType) -> Box<dyn Accumulator> {
        let data_type = data_type.clone();
        Box::new(Extremes::<T, MAXIMUM> { name, data_type, extremes: Vec::new(), is_real: Vec::new() })
    }

    fn value(&self, group: u32) -> Option<T::Native> {
        let rank = self.extremes[group as usize];
        let is_real = rank != Self::NONE || self.is_real.get(group as usize).is_some_and(|is_real| *is_real);
        is_real.then(|| T::Native::from_rank(rank))
    }
}

impl<T, const MAXIMUM: bool> Accumulator for Extremes<T, MAXIMUM>
where
    T: ArrowPrimitiveType,
    T::Native: Ranked,
{
    fn resize(&mut self, groups: usize) {
        self.extremes.resize(groups, Self::NONE);
    }

    fn update(
        &mut self,
        groups: &[u32],
        arguments: &[ArrayRef],
        filter: Option<&BooleanArray>,
    ) -> Result<(), Cause> {
        let values = arguments.first().and_then(|column| column.as_primitive_opt::<T>());
        let expected = || wrong_type(self.name, &self.data_type.to_string(), arguments.first());
        let values = values.ok_or_else(expected)?;
        let selected = selected(&[values], filter);
        let extremes = self.extremes.as_mut_slice();
        let mut has_none_rank = false;
        for_each_value(groups, values.values(), selected.as_ref(), |group, value| {
            let rank = value.rank();
            let extreme = &mut extremes[group];
            *extreme = if MAXIMUM { rank.max(*extreme) } else { rank.min(*extreme) };
            has_none_rank |= rank == Self::NONE;
        });
        if has_none_rank {
            self.is_real.resize(self.extremes.len(), false);
            let is_real = self.is_real.as_mut_slice();
            for_each_value(groups, values.values(), selected.as_ref(), |group, value| {
                is_real[group] |= value.rank() == Self::NONE;
            });
        }
        Ok(())
    }

    fn merge(&mut self, groups: &[u32], partials: &[ArrayRef]) -> Result<(), Cause> {
        self.update(groups, partials, None)
    }

    fn partial(&self, groups: &[u32]) -> Result<Vec<ArrayRef>, Cause> {
        Ok(vec![self.evaluate(groups)?])
    }

    fn evaluate(&self, groups: &[u32]) -> Result<ArrayRef, Cause> {
        let values = groups.iter().map(|group| self.value(*group)).collect::<PrimitiveArray<T>>();
        Ok(Arc::new(values.with_data_type(self.data_type.clone())))
    }

    fn clear(&mut self) {
        self.extremes.clear();
        self.is_real.clear();
    }

    fn bytes(&self) -> usize {
        self.extremes.capacity() * size_of::<<T::Native as Ranked>::Rank>() + self.is_real.capacity()
    }
}

/// An accumulator over columns that are cast to its type first; results are cast back.
struct Cast {
    inner: Box<dyn Accumulator>,
    inner_type: DataType,
    outer_type: DataType,
}

impl Cast {
    fn cast(columns: &[ArrayRef], data_type: &DataType) -> Result<Vec<ArrayRef>, Cause> {
        let cast = |column: &ArrayRef| {
            if column.data_type() == data_type {
                Ok(ArrayRef::clone(column))
            } else {
                arrow_cast::cast(column, data_type).map_err(arrow_bug("min or max"))
            }
        };
        columns.iter().map(cast).collect()
    }
}

impl Accumulator for Cast {
    fn resize(&mut self, groups: usize) {
        self.inner.resize(groups);
    }

    fn update(
        &mut self,
        groups: &[u32],
        arguments: &[ArrayRef],
        filter: Option<&BooleanArray>,
    ) -> Result<(), Cause> {
        self.inner.update(groups, &Cast::cast(arguments, &self.inner_type)?, filter)
    }

    fn merge(&mut self, groups: &[u32], partials: &[ArrayRef]) -> Result<(), Cause> {
        self.inner.merge(groups, &Cast::cast(partials, &self.inner_type)?)
    }

    fn partial(&self, groups: &[u32]) -> Result<Vec<ArrayRef>, Cause> {
        Cast::cast(&self.inner.partial(groups)?, &self.outer_type)
    }

    fn evaluate(&self, groups: &[u32]) -> Result<ArrayRef, Cause> {
        let value = self.inner.evaluate(groups)?;
        arrow_cast::cast(&value, &self.outer_type).map_err(arrow_bug("min or max"))
    }

    fn clear(&mut self) {
        self.inner.clear();
    }

    fn bytes(&self) -> usize {
        self.inner.bytes()
    }
}
