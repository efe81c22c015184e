//! `var_pop(x)`, `var_samp(x)`, `stddev_pop(x)`, `stddev_samp(x)`.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type};
use arrow_array::{Array, ArrayRef, BooleanArray, Float64Array, Int64Array};
use arrow_schema::DataType;
use tidemill_core::Cause;

use super::selection::{for_each_row, for_each_value, selected};
use super::{Accumulator, Aggregate, not_defined, wrong_type};
use crate::arrow_bug::arrow_bug;

/// Which measure of spread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spread {
    /// `var_pop`: the mean squared distance from the mean.
    PopulationVariance,
    /// `var_samp`: the same, divided by one less than the number of values; NULL for a single value.
    SampleVariance,
    /// `stddev_pop`: the root of the population's variance.
    PopulationDeviation,
    /// `stddev_samp`: the root of the sample's variance; NULL for a single value.
    SampleDeviation,
}

/// Variance or standard deviation of the values that are not NULL, as a Float64; NULL if there are too few.
///
/// Values are added one by one by Welford's method (Technometrics 4, 1962), and partial results are merged by the
/// method of Chan, Golub and LeVeque (1979). Both keep the distance from the mean instead of a difference of large
/// sums.
///
/// ```
/// use std::sync::Arc;
/// use arrow_array::{ArrayRef, Float64Array};
/// use arrow_schema::DataType;
/// use tidemill_operators::aggregate::{Accumulator, Aggregate, Spread, Variance};
///
/// let values = Arc::new(Float64Array::from(vec![1e9 + 4.0, 1e9 + 6.0, 7.0])) as ArrayRef;
/// let mut variance = Variance::new(Spread::SampleVariance, &DataType::Float64).unwrap().accumulator();
/// variance.resize(2);
/// variance.update(&[0, 0, 1], &[values], None).unwrap();
/// assert_eq!(variance.evaluate(&[0, 1]).unwrap().as_ref(), &Float64Array::from(vec![Some(2.0), None]));
/// ```
#[derive(Clone, Debug)]
pub struct Variance {
    spread: Spread,
}

impl Variance {
    /// The spread of values of this type.
    ///
    /// # Errors
    /// If it is not a numeric type.
    pub fn new(spread: Spread, argument: &DataType) -> Result<Variance, Cause> {
        let variance = Variance { spread };
        if argument.is_numeric() {
            Ok(variance)
        } else {
            Err(not_defined(variance.name(), argument, "cast the argument to a number"))
        }
    }
}

impl Aggregate for Variance {
    fn name(&self) -> &str {
        match self.spread {
            Spread::PopulationVariance => "var_pop",
            Spread::SampleVariance => "var_samp",
            Spread::PopulationDeviation => "stddev_pop",
            Spread::SampleDeviation => "stddev_samp",
        }
    }

    fn result_type(&self) -> DataType {
        DataType::Float64
    }

    fn partial_types(&self) -> Vec<DataType> {
        vec![DataType::Int64, DataType::Float64, DataType::Float64]
    }

    fn is_exact(&self) -> bool {
        false
    }

    fn accumulator(&self) -> Box<dyn Accumulator> {
        Box::new(Moments { slots: Vec::new(), spread: self.spread })
    }
}

/// Number of values, their mean, and the sum of their squared distances from it.
#[derive(Clone, Copy, Default)]
struct Slot {
    /// Integers up to 2^53; a float because the division needs one.
    rows: f64,
    mean: f64,
    squares: f64,
}

impl Slot {
    #[inline(always)]
    fn add(&mut self, value: f64) {
        self.rows += 1.0;
        let distance = value - self.mean;
        self.mean += distance / self.rows;
        self.squares += distance * (value - self.mean);
    }

    fn merge(&mut self, other: Slot) {
        if self.rows == 0.0 || other.rows == 0.0 {
            *self = if self.rows == 0.0 { other } else { *self };
            return;
        }
        let rows = self.rows + other.rows;
        let distance = other.mean - self.mean;
        self.mean += distance * other.rows / rows;
        self.squares += other.squares + distance * distance * self.rows * other.rows / rows;
        self.rows = rows;
    }

    fn spread(&self, spread: Spread) -> Option<f64> {
        let variance = match spread {
            Spread::PopulationVariance | Spread::PopulationDeviation => {
                (self.rows > 0.0).then(|| self.squares / self.rows)
            }
            Spread::SampleVariance | Spread::SampleDeviation => {
                (self.rows > 1.0).then(|| self.squares / (self.rows - 1.0))
            }
        };
        match spread {
            Spread::PopulationVariance | Spread::SampleVariance => variance,
            Spread::PopulationDeviation | Spread::SampleDeviation => variance.map(f64::sqrt),
        }
    }
}

struct Moments {
    slots: Vec<Slot>,
    spread: Spread,
}

impl Moments {
    fn slots_of<'a>(&'a self, groups: &'a [u32]) -> impl Iterator<Item = Slot> + 'a {
        groups.iter().map(|group| self.slots[*group as usize])
    }
}

impl Accumulator for Moments {
    fn resize(&mut self, groups: usize) {
        self.slots.resize(groups, Slot::default());
    }

    fn update(
        &mut self,
        groups: &[u32],
        arguments: &[ArrayRef],
        filter: Option<&BooleanArray>,
    ) -> Result<(), Cause> {
        let column = arguments.first().ok_or_else(|| wrong_type("variance", "numbers", None))?;
        let column = match column.data_type() {
            DataType::Float64 => ArrayRef::clone(column),
            _ => arrow_cast::cast(column, &DataType::Float64).map_err(arrow_bug("variance"))?,
        };
        let values = column.as_primitive::<Float64Type>();
        let selected = selected(&[values], filter);
        let slots = self.slots.as_mut_slice();
        for_each_value(groups, values.values(), selected.as_ref(), |group, value| slots[group].add(value));
        Ok(())
    }

    fn merge(&mut self, groups: &[u32], partials: &[ArrayRef]) -> Result<(), Cause> {
        let [rows, mean, squares] = partials else {
            return Err(wrong_type("variance", "three partial results", partials.first()));
        };
        let columns = (
            rows.as_primitive_opt::<Int64Type>(),
            mean.as_primitive_opt::<Float64Type>(),
            squares.as_primitive_opt::<Float64Type>(),
        );
        let (Some(rows), Some(mean), Some(squares)) = columns else {
            return Err(wrong_type("variance", "Int64, Float64, Float64", partials.first()));
        };
        for_each_row(groups, None, |group, row| {
            let rows = rows.value(row) as f64;
            let other = Slot { rows, mean: mean.value(row), squares: squares.value(row) };
            self.slots[group].merge(other);
        });
        Ok(())
    }

    fn partial(&self, groups: &[u32]) -> Result<Vec<ArrayRef>, Cause> {
        let rows = Int64Array::from_iter_values(self.slots_of(groups).map(|slot| slot.rows as i64));
        let mean = Float64Array::from_iter_values(self.slots_of(groups).map(|slot| slot.mean));
        let squares = Float64Array::from_iter_values(self.slots_of(groups).map(|slot| slot.squares));
        Ok(vec![Arc::new(rows), Arc::new(mean), Arc::new(squares)])
    }

    fn evaluate(&self, groups: &[u32]) -> Result<ArrayRef, Cause> {
        let spread = |slot: Slot| slot.spread(self.spread);
        Ok(Arc::new(self.slots_of(groups).map(spread).collect::<Float64Array>()))
    }

    fn clear(&mut self) {
        self.slots.clear();
    }

    fn bytes(&self) -> usize {
        self.slots.capacity() * size_of::<Slot>()
    }
}
