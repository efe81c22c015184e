//! Sums and means of integers and decimals that come and go.

use std::marker::PhantomData;

use arrow_array::cast::AsArray;
use arrow_array::{ArrayRef, ArrowPrimitiveType, BooleanArray};
use arrow_buffer::i256;
use arrow_cast::cast;
use arrow_schema::DataType;
use tidemill_core::{Cause, SnapshotReader, SnapshotWriter, State};

use super::Retractable;
use crate::aggregate::selection::{for_each_row, selected};
use crate::aggregate::totals::{Finish, Slot, Total};
use crate::aggregate::wrong_type;
use crate::arrow_bug::arrow_bug;

/// A total of values that are there several times.
pub(in crate::aggregate) trait TakenBack<N>: Total {
    /// The total of a value that is there `weight` times.
    fn times(value: N, weight: i64) -> Self;

    /// The total in two words of 128 bits.
    fn words(self) -> (u128, i128);

    /// The total of these words.
    fn of_words(words: (u128, i128)) -> Self;
}

macro_rules! integers {
    ($($native:ty),*) => {
        $(impl TakenBack<$native> for i128 {
            #[inline(always)]
            fn times(value: $native, weight: i64) -> i128 {
                i128::from(value).wrapping_mul(i128::from(weight))
            }

            fn words(self) -> (u128, i128) {
                (self as u128, 0)
            }

            fn of_words(words: (u128, i128)) -> i128 {
                words.0 as i128
            }
        })*
    };
}

integers!(i64, u64);

impl TakenBack<i128> for i256 {
    #[inline(always)]
    fn times(value: i128, weight: i64) -> i256 {
        i256::from_i128(value).wrapping_mul(i256::from_i128(weight.into()))
    }

    fn words(self) -> (u128, i128) {
        self.to_parts()
    }

    fn of_words(words: (u128, i128)) -> i256 {
        i256::from_parts(words.0, words.1)
    }
}

/// `sum(x)` and `avg(x)` of values that are read as `T`.
pub(in crate::aggregate) struct IntegersBack<T, S> {
    name: &'static str,
    argument: DataType,
    slots: Vec<Slot<S>>,
    finish: Finish<S>,
    values: PhantomData<fn(T)>,
}

impl<T, S> IntegersBack<T, S>
where
    T: ArrowPrimitiveType,
    S: TakenBack<T::Native>,
{
    /// Makes an accumulator without groups, of values that are cast to a type of `T`.
    pub fn boxed(name: &'static str, argument: DataType, finish: Finish<S>) -> Box<dyn Retractable> {
        Box::new(Self { name, argument, slots: Vec::new(), finish, values: PhantomData })
    }
}

impl<T, S> Retractable for IntegersBack<T, S>
where
    T: ArrowPrimitiveType,
    S: TakenBack<T::Native>,
{
    fn needs_order(&self) -> bool {
        false
    }

    fn resize(&mut self, groups: usize) {
        self.slots.resize(groups, Slot::default());
    }

    fn update(
        &mut self,
        groups: &[u32],
        weights: &[i64],
        arguments: &[ArrayRef],
        filter: Option<&BooleanArray>,
    ) -> Result<u64, Cause> {
        let wrong = || wrong_type(self.name, &self.argument.to_string(), arguments.first());
        let values = cast(arguments.first().ok_or_else(wrong)?, &self.argument);
        let values = values.map_err(arrow_bug(self.name))?;
        let values = values.as_primitive_opt::<T>().ok_or_else(wrong)?;
        let selected = selected(&[values], filter);
        let (slots, values) = (self.slots.as_mut_slice(), values.values());
        for_each_row(groups, selected.as_ref(), |group, row| {
            let slot = &mut slots[group];
            slot.sum = slot.sum.plus(S::times(values[row], weights[row]));
            slot.rows = slot.rows.saturating_add(weights[row]);
        });
        Ok(0)
    }

    fn reset(&mut self, group: u32) {
        self.slots[group as usize] = Slot::default();
    }

    fn evaluate(&self, groups: &[u32]) -> Result<ArrayRef, Cause> {
        (self.finish)(&mut groups.iter().map(|group| {
            let slot = self.slots[*group as usize];
            // A source may take back values that it never gave.
            Slot { rows: slot.rows.max(0), ..slot }
        }))
    }

    fn bytes(&self) -> usize {
        self.slots.capacity() * size_of::<Slot<S>>()
    }

    fn snapshot(&self, groups: &[u32], writer: &mut SnapshotWriter) {
        for group in groups {
            let slot = &self.slots[*group as usize];
            let (low, high) = slot.sum.words();
            (low as u64, (low >> 64) as u64, high as u64, (high >> 64) as u64, slot.rows).write(writer);
        }
    }

    fn restore(&mut self, groups: usize, reader: &mut SnapshotReader<'_>) -> Result<(), Cause> {
        for _ in 0..groups {
            let [a, b, c, d] = [reader.u64()?, reader.u64()?, reader.u64()?, reader.u64()?].map(u128::from);
            let sum = S::of_words((a | b << 64, (c | d << 64) as i128));
            self.slots.push(Slot { sum, rows: reader.i64()? });
        }
        Ok(())
    }
}
