//! `count(DISTINCT x)`, exact.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BooleanArray, Int64Array, ListArray, UInt64Array, new_empty_array};
use arrow_buffer::OffsetBuffer;
use arrow_schema::{DataType, Field, FieldRef};
use arrow_select::filter::filter;
use tidemill_core::{Cause, StateLimit};

use super::selection::selected;
use super::{Accumulator, Aggregate, Retractable, retract, wrong_type};
use crate::Groups;
use crate::arrow_bug::arrow_bug;

/// The number of different values that are not NULL, as an Int64. 0 equals -0, and NaN equals NaN.
///
/// It keeps all values. Their number over all groups of an operator's partition, or of a pane of windows, is limited.
///
/// ```
/// use std::sync::Arc;
/// use arrow_array::{ArrayRef, Int64Array, StringArray};
/// use arrow_schema::DataType;
/// use tidemill_operators::aggregate::{Accumulator, Aggregate, CountDistinct};
///
/// let names = Arc::new(StringArray::from(vec![Some("a"), Some("b"), Some("a"), None])) as ArrayRef;
/// let mut count = CountDistinct::new(&DataType::Utf8, 1000).unwrap().accumulator();
/// count.resize(1);
/// count.update(&[0, 0, 0, 0], &[names], None).unwrap();
/// assert_eq!(count.evaluate(&[0]).unwrap().as_ref(), &Int64Array::from(vec![2]));
/// ```
#[derive(Clone, Debug)]
pub struct CountDistinct {
    argument: DataType,
    values_max: usize,
}

impl CountDistinct {
    /// Counts different values of this type, at most `values_max` over all groups.
    ///
    /// # Errors
    /// If values of the type cannot be compared.
    pub fn new(argument: &DataType, values_max: usize) -> Result<CountDistinct, Cause> {
        let argument = match argument {
            DataType::Dictionary(_, values) => values.as_ref().clone(),
            other => other.clone(),
        };
        Distinct::new(&argument, values_max)?;
        Ok(CountDistinct { argument, values_max })
    }
}

impl Aggregate for CountDistinct {
    fn name(&self) -> &str {
        "count(distinct)"
    }

    fn result_type(&self) -> DataType {
        DataType::Int64
    }

    fn partial_types(&self) -> Vec<DataType> {
        vec![DataType::List(item(&self.argument))]
    }

    fn is_exact(&self) -> bool {
        true
    }

    fn accumulator(&self) -> Box<dyn Accumulator> {
        Box::new(Distinct::new(&self.argument, self.values_max).expect("it was made with the function"))
    }

    fn retractable(&self) -> Option<Box<dyn Retractable>> {
        retract::Distinct::boxed(&self.argument)
    }
}

fn item(argument: &DataType) -> FieldRef {
    Arc::new(Field::new_list_field(argument.clone(), true))
}

/// Values and pairs of group and value, both numbered.
struct Distinct {
    argument: DataType,
    values_max: usize,
    /// The values of all groups.
    values: Groups,
    /// The pairs that have occurred, as `group << 32 | value`.
    pairs: Groups,
    /// The same pairs in the order of occurrence.
    members: Vec<(u32, u32)>,
    counts: Vec<i64>,
    value_ids: Vec<u32>,
    pair_ids: Vec<u32>,
}

impl Distinct {
    fn new(argument: &DataType, values_max: usize) -> Result<Distinct, Cause> {
        Ok(Distinct {
            argument: argument.clone(),
            values_max,
            values: Groups::new(std::slice::from_ref(argument), usize::MAX)?,
            pairs: Groups::new(&[DataType::UInt64], usize::MAX)?,
            members: Vec::new(),
            counts: Vec::new(),
            value_ids: Vec::new(),
            pair_ids: Vec::new(),
        })
    }

    /// Adds values; none of them is NULL.
    fn add(&mut self, groups: &[u32], values: ArrayRef) -> Result<(), Cause> {
        self.values.intern(&[values], groups.len(), &mut self.value_ids)?;
        let pairs = groups.iter().zip(&self.value_ids);
        let pairs =
            pairs.map(|(group, value)| u64::from(*group) << 32 | u64::from(*value)).collect::<Vec<_>>();
        let column = Arc::new(UInt64Array::from(pairs)) as ArrayRef;
        self.pairs.intern(&[column], groups.len(), &mut self.pair_ids)?;
        for (row, pair) in self.pair_ids.iter().enumerate() {
            if *pair as usize == self.members.len() {
                self.members.push((groups[row], self.value_ids[row]));
                self.counts[groups[row] as usize] += 1;
            }
        }
        if self.members.len() <= self.values_max {
            Ok(())
        } else {
            Err(StateLimit::MAX_GROUPS.reached(format!(
                "count(distinct) keeps more than {} values in one partition; use an approximate count, or \
                 raise max_groups",
                self.values_max
            )))
        }
    }
}

impl Accumulator for Distinct {
    fn resize(&mut self, groups: usize) {
        self.counts.resize(groups, 0);
    }

    fn update(
        &mut self,
        groups: &[u32],
        arguments: &[ArrayRef],
        condition: Option<&BooleanArray>,
    ) -> Result<(), Cause> {
        let Some(column) = arguments.first() else {
            return Err(wrong_type("count(distinct)", &self.argument.to_string(), None));
        };
        let column = if *column.data_type() == self.argument {
            ArrayRef::clone(column)
        } else {
            arrow_cast::cast(column, &self.argument).map_err(arrow_bug("count(distinct)"))?
        };
        let Some(selected) = selected(&[&column], condition) else {
            return self.add(groups, column);
        };
        let values = filter(&column, &BooleanArray::new(selected.inner().clone(), None));
        let groups = selected.valid_indices().map(|row| groups[row]).collect::<Vec<_>>();
        self.add(&groups, values.map_err(arrow_bug("count(distinct)"))?)
    }

    fn merge(&mut self, groups: &[u32], partials: &[ArrayRef]) -> Result<(), Cause> {
        let lists = partials.first().and_then(|column| column.as_list_opt::<i32>());
        let lists = lists.ok_or_else(|| wrong_type("count(distinct)", "a list", partials.first()))?;
        let offsets = lists.value_offsets();
        let (first, last) = (offsets[0] as usize, offsets[lists.len()] as usize);
        let repeat =
            |(list, group): (usize, &u32)| std::iter::repeat_n(*group, lists.value_length(list) as usize);
        let groups = groups.iter().enumerate().flat_map(repeat).collect::<Vec<_>>();
        self.add(&groups, lists.values().slice(first, last - first))
    }

    fn partial(&self, groups: &[u32]) -> Result<Vec<ArrayRef>, Cause> {
        let lengths = groups.iter().map(|group| self.counts[*group as usize] as usize);
        if lengths.clone().sum::<usize>() > i32::MAX as usize {
            return Err(Cause::resource("count(distinct) keeps more than 2^31 values; lower max_groups"));
        }
        let offsets = OffsetBuffer::<i32>::from_lengths(lengths);
        // Where the values of each group go; the counts are decremented as they are placed.
        let mut next = vec![None; self.counts.len()];
        groups
            .iter()
            .zip(offsets.iter())
            .for_each(|(group, start)| next[*group as usize] = Some(*start as usize));
        let mut ids = vec![0; *offsets.last().unwrap_or(&0) as usize];
        for (group, value) in &self.members {
            if let Some(next) = &mut next[*group as usize] {
                ids[*next] = *value;
                *next += 1;
            }
        }
        let mut values = self.values.keys(&ids)?;
        let values = values.pop().unwrap_or_else(|| new_empty_array(&self.argument));
        Ok(vec![Arc::new(ListArray::new(item(&self.argument), offsets, values, None))])
    }

    fn evaluate(&self, groups: &[u32]) -> Result<ArrayRef, Cause> {
        let counts = groups.iter().map(|group| self.counts[*group as usize]);
        Ok(Arc::new(Int64Array::from_iter_values(counts)))
    }

    fn clear(&mut self) {
        self.values.clear();
        self.pairs.clear();
        self.members.clear();
        self.counts.clear();
    }

    fn bytes(&self) -> usize {
        let members =
            self.members.capacity() * size_of::<(u32, u32)>() + self.counts.capacity() * size_of::<i64>();
        self.values.bytes() + self.pairs.bytes() + members
    }
}
