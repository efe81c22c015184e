//! `count(*)` and `count(x)`.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{ArrayRef, BooleanArray, Int64Array};
use arrow_schema::DataType;
use tidemill_core::Cause;

use super::selection::{for_each_row, for_each_value, selected};
use super::{Accumulator, Aggregate, Retractable, retract, wrong_type};

/// Counts rows, or the rows in which all arguments have a value. The result is an Int64, 0 for a group without such
/// rows.
///
/// ```
/// use std::sync::Arc;
/// use arrow_array::{ArrayRef, Int64Array, StringArray};
/// use tidemill_operators::aggregate::{Accumulator, Aggregate, Count};
///
/// let names = Arc::new(StringArray::from(vec![Some("a"), None, Some("b")])) as ArrayRef;
/// let mut count = Count::values().accumulator();
/// count.resize(2);
/// count.update(&[0, 0, 1], &[names], None).unwrap();
/// assert_eq!(count.evaluate(&[0, 1]).unwrap().as_ref(), &Int64Array::from(vec![1, 1]));
/// ```
#[derive(Clone, Debug)]
pub struct Count {
    name: &'static str,
}

impl Count {
    /// `count(*)`: all rows.
    pub fn rows() -> Count {
        Count { name: "count(*)" }
    }

    /// `count(x)`: the rows in which no argument is NULL.
    pub fn values() -> Count {
        Count { name: "count" }
    }
}

impl Aggregate for Count {
    fn name(&self) -> &str {
        self.name
    }

    fn result_type(&self) -> DataType {
        DataType::Int64
    }

    fn partial_types(&self) -> Vec<DataType> {
        vec![DataType::Int64]
    }

    fn is_exact(&self) -> bool {
        true
    }

    fn accumulator(&self) -> Box<dyn Accumulator> {
        Box::new(Counts::default())
    }

    fn retractable(&self) -> Option<Box<dyn Retractable>> {
        Some(Box::new(retract::Counts::default()))
    }
}

#[derive(Default)]
struct Counts {
    counts: Vec<i64>,
}

impl Accumulator for Counts {
    fn resize(&mut self, groups: usize) {
        self.counts.resize(groups, 0);
    }

    fn update(
        &mut self,
        groups: &[u32],
        arguments: &[ArrayRef],
        filter: Option<&BooleanArray>,
    ) -> Result<(), Cause> {
        let columns = arguments.iter().map(|column| column.as_ref()).collect::<Vec<_>>();
        let selected = selected(&columns, filter);
        if let [count] = self.counts.as_mut_slice() {
            *count += (groups.len() - selected.map_or(0, |selected| selected.null_count())) as i64;
            return Ok(());
        }
        let counts = self.counts.as_mut_slice();
        for_each_row(groups, selected.as_ref(), |group, _| counts[group] += 1);
        Ok(())
    }

    fn merge(&mut self, groups: &[u32], partials: &[ArrayRef]) -> Result<(), Cause> {
        let partial = partials.first().and_then(|column| column.as_primitive_opt::<Int64Type>());
        let partial = partial.ok_or_else(|| wrong_type("count", "Int64", partials.first()))?;
        let counts = self.counts.as_mut_slice();
        // The sum of true counts fits; those of a damaged snapshot must not panic.
        for_each_value(groups, partial.values(), None, |group, count| {
            counts[group] = counts[group].wrapping_add(count);
        });
        Ok(())
    }

    fn partial(&self, groups: &[u32]) -> Result<Vec<ArrayRef>, Cause> {
        Ok(vec![self.evaluate(groups)?])
    }

    fn evaluate(&self, groups: &[u32]) -> Result<ArrayRef, Cause> {
        let counts = groups.iter().map(|group| self.counts[*group as usize]);
        Ok(Arc::new(Int64Array::from_iter_values(counts)))
    }

    fn clear(&mut self) {
        self.counts.clear();
    }

    fn bytes(&self) -> usize {
        self.counts.capacity() * size_of::<i64>()
    }
}
