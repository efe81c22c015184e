//! Groups with the state of all aggregate functions, for windows, tables and combiners.

use std::collections::BTreeSet;
use std::ops::Range;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{ArrayRef, BooleanArray, UInt32Array};
use arrow_schema::DataType;
use tidemill_core::{Cause, SnapshotReader, SnapshotWriter};

use crate::arrow_bug::arrow_bug;
use crate::failed_results::Results;
use crate::state::{StateColumns, read_columns, write_columns};
use crate::{Accumulator, AggregateSpec, Groups};

/// The role of each input column.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    keys: Vec<usize>,
    /// The event time, or the start of the pane.
    time: Option<usize>,
    calls: Vec<CallColumns>,
    is_partial: bool,
    /// In combined rows of windows: the number of rows combined.
    rows: Option<usize>,
}

#[derive(Clone, Debug)]
struct CallColumns {
    arguments: Vec<usize>,
    filter: Option<usize>,
}

impl Layout {
    /// The layout of the rows that the specification describes. `time` is the column of event times, if there is one.
    pub fn new(spec: &AggregateSpec, time: Option<usize>) -> Result<Layout, Cause> {
        spec.check()?;
        if spec.partial_input {
            return Ok(Layout::of_combined(spec, time.is_some()));
        }
        let columns = |call: &crate::AggregateCall| CallColumns {
            arguments: call.arguments.clone(),
            filter: call.filter,
        };
        let calls = spec.calls.iter().map(columns).collect();
        Ok(Layout { keys: spec.keys.clone(), time, calls, is_partial: false, rows: None })
    }

    fn of_combined(spec: &AggregateSpec, has_time: bool) -> Layout {
        let keys = spec.keys.len();
        let mut next = keys + usize::from(has_time);
        let mut calls = Vec::new();
        for call in &spec.calls {
            let first = next;
            next += call.function.partial_types().len();
            calls.push(CallColumns { arguments: (first..next).collect(), filter: None });
        }
        let time = has_time.then_some(keys);
        Layout { keys: (0..keys).collect(), time, calls, is_partial: true, rows: has_time.then_some(next) }
    }

    /// The column of times.
    pub fn time<'a>(&self, columns: &'a [ArrayRef]) -> Result<&'a ArrayRef, Cause> {
        let time = self.time.and_then(|time| columns.get(time));
        time.ok_or_else(|| Cause::bug("a window got rows without a column of times"))
    }

    /// Slices the columns that are used; leaves the others as they are.
    pub fn slice(&self, columns: &[ArrayRef], rows: Range<usize>) -> Vec<ArrayRef> {
        let mut columns = columns.to_vec();
        for column in self.used() {
            columns[column] = columns[column].slice(rows.start, rows.len());
        }
        columns
    }

    /// Reorders the rows in the columns that are used; leaves the others as they are.
    pub fn take(&self, columns: &[ArrayRef], order: &UInt32Array) -> Result<Vec<ArrayRef>, Cause> {
        let mut columns = columns.to_vec();
        for column in self.used() {
            let taken = arrow_select::take::take(&columns[column], order, None);
            columns[column] = taken.map_err(arrow_bug("ordering rows by window"))?;
        }
        Ok(columns)
    }

    /// The columns of keys, arguments, filters and row counts, each once.
    fn used(&self) -> BTreeSet<usize> {
        let calls = self.calls.iter().flat_map(|call| call.arguments.iter().chain(&call.filter));
        self.keys.iter().chain(calls).chain(&self.rows).copied().collect()
    }

    /// The number of original input rows that these represent.
    pub fn rows_combined(&self, columns: &[ArrayRef], rows: Range<usize>) -> u64 {
        let combined = self.rows.and_then(|column| columns[column].as_primitive_opt::<Int64Type>());
        match combined {
            Some(combined) => combined.values()[rows].iter().sum::<i64>() as u64,
            None => rows.len() as u64,
        }
    }

    /// The columns of the keys.
    pub fn keys(&self, columns: &[ArrayRef]) -> Vec<ArrayRef> {
        pick(columns, &self.keys)
    }
}

fn pick(columns: &[ArrayRef], indices: &[usize]) -> Vec<ArrayRef> {
    indices.iter().map(|index| ArrayRef::clone(&columns[*index])).collect()
}

/// The columns of keys and of the partial results of all functions, with a row for each group.
pub(crate) struct PartialRows {
    /// The keys.
    pub keys: Vec<ArrayRef>,
    /// The partial results, one function after the other.
    pub partials: Vec<ArrayRef>,
    /// The number of rows.
    pub rows: usize,
}

impl PartialRows {
    /// Bytes of memory held.
    pub fn bytes(&self) -> usize {
        self.keys.iter().chain(&self.partials).map(|column| column.get_array_memory_size()).sum()
    }
}

/// Groups and their state.
pub(crate) struct Grouped {
    /// The groups.
    pub groups: Groups,
    accumulators: Vec<Box<dyn Accumulator>>,
    /// The number of columns in the partial result of each function.
    widths: Vec<usize>,
}

impl Grouped {
    /// No groups, at most `groups_max` of them.
    pub fn new(spec: &AggregateSpec, groups_max: usize) -> Result<Grouped, Cause> {
        Ok(Grouped {
            groups: Groups::new(&spec.key_types(), groups_max)?,
            accumulators: spec.accumulators(),
            widths: spec.calls.iter().map(|call| call.function.partial_types().len()).collect(),
        })
    }

    /// Adds rows; `ids` becomes the group of each.
    pub fn add(
        &mut self,
        layout: &Layout,
        columns: &[ArrayRef],
        rows: usize,
        ids: &mut Vec<u32>,
    ) -> Result<(), Cause> {
        self.groups.intern(&layout.keys(columns), rows, ids)?;
        update(&mut self.accumulators, layout, columns, self.groups.len(), ids)
    }

    /// Makes the only group of an aggregation without keys, before it has rows.
    pub fn make_only_group(&mut self) -> Result<(), Cause> {
        self.add_groups(&[], 1, &mut Vec::new())
    }

    /// Makes groups that have no rows yet.
    pub fn add_groups(&mut self, keys: &[ArrayRef], rows: usize, ids: &mut Vec<u32>) -> Result<(), Cause> {
        self.groups.intern(keys, rows, ids)?;
        let groups = self.groups.len();
        self.accumulators.iter_mut().for_each(|accumulator| accumulator.resize(groups));
        Ok(())
    }

    /// Adds partial results.
    pub fn merge(&mut self, given: &PartialRows, ids: &mut Vec<u32>) -> Result<(), Cause> {
        self.groups.intern(&given.keys, given.rows, ids)?;
        merge(&mut self.accumulators, &self.widths, &given.partials, self.groups.len(), ids)
    }

    /// All groups with their partial results.
    pub fn partial_rows(&self) -> Result<PartialRows, Cause> {
        let ids = self.all();
        let keys = self.groups.keys(&ids)?;
        Ok(PartialRows { keys, partials: partials(&self.accumulators, &ids)?, rows: ids.len() })
    }

    /// The results of these groups, given the columns before them: their keys and the bounds of their windows.
    pub fn results(
        &self,
        results: &Results,
        ids: &[u32],
        heads: &[ArrayRef],
        cycle: u64,
    ) -> Result<Vec<ArrayRef>, Cause> {
        results.evaluate(&self.accumulators, ids, heads, cycle)
    }

    /// Bytes of memory held.
    pub fn bytes(&self) -> usize {
        self.groups.bytes() + bytes(&self.accumulators)
    }

    /// The numbers of all groups.
    pub fn all(&self) -> Vec<u32> {
        (0..self.groups.len() as u32).collect()
    }

    /// Removes all groups and keeps the memory.
    pub fn clear(&mut self) {
        self.groups.clear();
        self.accumulators.iter_mut().for_each(|accumulator| accumulator.clear());
    }

    /// Writes all groups.
    pub fn snapshot(&self, writer: &mut SnapshotWriter) {
        let columns = self.partial_rows().map(|given| [given.keys, given.partials].concat());
        write_columns(writer, self.groups.len(), columns);
    }

    /// Merges what [`snapshot`](Grouped::snapshot) wrote.
    pub fn restore(&mut self, reader: &mut SnapshotReader<'_>, spec_types: &StateTypes) -> Result<(), Cause> {
        let (rows, mut keys) = read_columns(reader, &spec_types.columns)?;
        let partials = keys.split_off(spec_types.keys.len());
        self.merge(&PartialRows { keys, partials, rows }, &mut Vec::new())
    }
}

/// The types of the columns of the state.
#[derive(Clone, Debug)]
pub(crate) struct StateTypes {
    /// The keys.
    pub keys: Vec<DataType>,
    /// The keys, and then the partial results of all functions.
    columns: StateColumns,
}

impl StateTypes {
    /// The types for a specification.
    pub fn new(spec: &AggregateSpec) -> StateTypes {
        StateTypes { keys: spec.key_types(), columns: spec.state_columns(spec.key_types()) }
    }
}

/// Adds rows whose groups are known, or partial results if the layout says so.
pub(crate) fn update(
    accumulators: &mut [Box<dyn Accumulator>],
    layout: &Layout,
    columns: &[ArrayRef],
    groups: usize,
    ids: &[u32],
) -> Result<(), Cause> {
    for (accumulator, call) in accumulators.iter_mut().zip(&layout.calls) {
        accumulator.resize(groups);
        let arguments = pick(columns, &call.arguments);
        if layout.is_partial {
            accumulator.merge(ids, &arguments)?
        } else {
            accumulator.update(ids, &arguments, filter_of(columns, call.filter)?)?
        }
    }
    Ok(())
}

fn filter_of(columns: &[ArrayRef], filter: Option<usize>) -> Result<Option<&BooleanArray>, Cause> {
    let boolean = |filter: usize| {
        let column = columns[filter].as_boolean_opt();
        column.ok_or_else(|| Cause::bug("the filter of an aggregate function is not a boolean"))
    };
    filter.map(boolean).transpose()
}

/// Bytes of memory held.
pub(crate) fn bytes(accumulators: &[Box<dyn Accumulator>]) -> usize {
    accumulators.iter().map(|accumulator| accumulator.bytes()).sum()
}

/// Adds the partial results of all functions.
pub(crate) fn merge(
    accumulators: &mut [Box<dyn Accumulator>],
    widths: &[usize],
    mut partials: &[ArrayRef],
    groups: usize,
    ids: &[u32],
) -> Result<(), Cause> {
    for (accumulator, width) in accumulators.iter_mut().zip(widths) {
        let (own, rest) = partials
            .split_at_checked(*width)
            .ok_or_else(|| Cause::bug("partial results have too few columns"))?;
        accumulator.resize(groups);
        accumulator.merge(ids, own)?;
        partials = rest;
    }
    Ok(())
}

/// The partial results of all functions.
pub(crate) fn partials(accumulators: &[Box<dyn Accumulator>], ids: &[u32]) -> Result<Vec<ArrayRef>, Cause> {
    let mut columns = Vec::new();
    for accumulator in accumulators {
        columns.extend(accumulator.partial(ids)?);
    }
    Ok(columns)
}
