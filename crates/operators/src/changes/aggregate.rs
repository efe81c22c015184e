//! Aggregates over a relation that may change.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BooleanArray, Int64Array, UInt32Array};
use arrow_buffer::BooleanBuffer;
use arrow_ord::cmp::not_distinct;
use arrow_schema::{Schema, SchemaRef, SortOptions};
use arrow_select::take::{take, take_record_batch};
use tidemill_core::error::Cause;
use tidemill_core::{Cut, FaultLog, Operator, Output, Rows};
use tidemill_core::{SnapshotReader, SnapshotWriter, StateRows};

use super::input::{Changes, Input, add, report_missing};
use super::order::{Halves, sorted};
use super::{changelog_schema, stored_batch, weighted_batch};
use crate::aggregate::{Accumulator, AggregateCall, AggregateSpec, Recomputed, Retractable};
use crate::encoded_rows::{Interned, RowCodec, RowTable};
use crate::failed_results::{FailedResults, Results, described};
use crate::groups::too_many_groups;
use crate::keys::value_type;
use crate::normal::normalise;
use crate::state::{StateColumns, read_columns, write_columns};
use crate::state_rows::batch;
use crate::stored_rows::{check_limit, kernel_error, read_rows, write_rows};

const VERSION: u8 = 1;

/// What to compute. Without calls, the result is the different values of the keys (DISTINCT).
#[derive(Clone, Debug)]
pub struct ChangingAggregateSpec {
    /// The keys and functions. Its input has no weight, and is not combined.
    pub spec: AggregateSpec,
    /// Whether the input has weights.
    pub changes: bool,
    /// The largest number of rows and values that a partition holds for functions that need them: `min`, `max`,
    /// `count(DISTINCT x)`, and those that are recomputed.
    pub rows_max: usize,
}

/// Keeps one row per group, and writes once per cycle for each group that has changed that its old row goes and its new
/// row comes. A group without rows has no row. Without keys, there is one row from the first cycle on: counts of no rows
/// are 0, and other results NULL.
///
/// ```
/// use std::sync::Arc;
/// use tidemill_core::arrow::array::{ArrayRef, Int64Array, RecordBatch};
/// use tidemill_core::{Batch, Cut, Operator, Output};
/// use tidemill_operators::aggregate::{Extreme, Sum};
/// use tidemill_operators::changes::{Aggregate, ChangingAggregateSpec, WEIGHT, data_schema};
/// use tidemill_operators::{AggregateCall, AggregateSpec};
/// # use tidemill_core::arrow::schema::DataType;
///
/// let rows = |values: Vec<i64>, weights: Vec<i64>| {
///     let columns = [values, weights].map(|column| Arc::new(Int64Array::from(column)) as ArrayRef);
///     let rows = RecordBatch::try_from_iter(["value", WEIGHT].into_iter().zip(columns)).unwrap();
///     let positions = (0..rows.num_rows() as u32).collect();
///     Batch::from_source(rows, positions)
/// };
/// let maximum = Arc::new(Extreme::maximum(&DataType::Int64).unwrap());
/// let spec = ChangingAggregateSpec {
///     spec: AggregateSpec {
///         keys: vec![],
///         calls: vec![AggregateCall { function: maximum, arguments: vec![0], filter: None }],
///         names: vec!["largest".into()],
///         input: data_schema(&rows(vec![], vec![]).rows.schema()),
///         partial_input: false,
///         groups_max: 1000,
///     },
///     changes: true,
///     rows_max: 1000,
/// };
/// let mut output = Output::new(&[Aggregate::output_schema(&spec).unwrap()]);
/// let mut aggregate = Aggregate::new(&spec).unwrap();
/// let mut changes = |values, weights| {
///     aggregate.rows(0, rows(values, weights).as_rows(), &mut output).unwrap();
///     aggregate.end_of_cycle(&Cut::first(), &mut output).unwrap();
///     output.finish(0).unwrap().rows
/// };
/// assert_eq!(changes(vec![7, 9], vec![1, 1]).column(0).as_ref(), &Int64Array::from(vec![9]));
/// let changed = changes(vec![9], vec![-1]); // 9 goes, and 7 is the largest again
/// assert_eq!(changed.column(0).as_ref(), &Int64Array::from(vec![9, 7]));
/// assert_eq!(changed.column(1).as_ref(), &Int64Array::from(vec![-1, 1]));
/// ```
pub struct Aggregate {
    spec: ChangingAggregateSpec,
    results: Results,
    faults: FaultLog,
    input: Input,
    key_schema: SchemaRef,
    schema: SchemaRef,
    keys: RowCodec,
    /// The codec of the results.
    values: RowCodec,
    /// The keys of the groups; the numbers are those of the groups.
    groups: RowTable,
    counts: Vec<i64>,
    functions: Vec<Function>,
    is_touched: Vec<bool>,
    /// Whether the only row of an aggregation without keys has been written.
    is_written: bool,
}

/// The state of a function.
enum Function {
    /// Rows never go.
    Growing(Box<dyn Accumulator>),
    /// Rows come and go.
    Changing(Box<dyn Retractable>),
}

/// A group that the cycle has touched, with its number of rows before.
#[derive(Clone, Copy)]
struct Touched {
    group: u32,
    before: i64,
}

impl Function {
    fn new(call: &AggregateCall, spec: &ChangingAggregateSpec) -> Result<Function, Cause> {
        if !spec.changes {
            return Ok(Function::Growing(call.function.accumulator()));
        }
        if let Some(retractable) = call.function.retractable() {
            return Ok(Function::Changing(retractable));
        }
        let input = &spec.spec.input;
        let arguments = call.arguments.iter().map(|column| input.field(*column).data_type().clone());
        Recomputed::boxed(&call.function, arguments.collect()).map(Function::Changing)
    }

    fn resize(&mut self, groups: usize) {
        match self {
            Function::Growing(accumulator) => accumulator.resize(groups),
            Function::Changing(accumulator) => accumulator.resize(groups),
        }
    }

    fn evaluate(&self, groups: &[u32]) -> Result<ArrayRef, Cause> {
        match self {
            Function::Growing(accumulator) => accumulator.evaluate(groups),
            Function::Changing(accumulator) => accumulator.evaluate(groups),
        }
    }

    fn needs_order(&self) -> bool {
        match self {
            Function::Growing(_) => false,
            Function::Changing(accumulator) => accumulator.needs_order(),
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Function::Growing(accumulator) => accumulator.bytes(),
            Function::Changing(accumulator) => accumulator.bytes(),
        }
    }
}

impl Aggregate {
    /// Makes an instance without groups.
    ///
    /// # Errors
    /// If the specification names columns that do not exist, or a type that cannot be a key.
    pub fn new(given: &ChangingAggregateSpec) -> Result<Self, Cause> {
        let spec = &given.spec;
        spec.check()?;
        if spec.partial_input {
            return Err(Cause::bug("an aggregate of a changing relation got combined rows"));
        }
        let key_fields: Vec<_> = spec.keys.iter().map(|key| Arc::clone(&spec.input.fields()[*key])).collect();
        let key_schema: SchemaRef = Arc::new(Schema::new(key_fields));
        let results = spec.calls.iter().map(|call| (call.function.result_type(), SortOptions::default()));
        Ok(Aggregate {
            results: Results::new(spec),
            faults: FaultLog::default(),
            input: Input::new(&spec.input, given.changes),
            schema: spec.results_schema(&[])?,
            keys: RowCodec::new(&key_schema)?,
            key_schema,
            values: RowCodec::ordered(results.collect())?,
            groups: RowTable::indexed(),
            counts: Vec::new(),
            functions: spec.calls.iter().map(|call| Function::new(call, given)).collect::<Result<_, _>>()?,
            is_touched: Vec::new(),
            is_written: false,
            spec: given.clone(),
        })
    }

    /// Sets what happens to results that cannot be represented.
    pub fn failed_results(mut self, failed: FailedResults) -> Self {
        self.results.failed = failed;
        self
    }

    /// Reports rows that go more often than they came to this log.
    pub fn faults(mut self, log: FaultLog) -> Self {
        self.faults = log;
        self
    }

    /// The columns of its output: keys, results, and the weight.
    ///
    /// # Errors
    /// If the number of names is wrong.
    pub fn output_schema(spec: &ChangingAggregateSpec) -> Result<SchemaRef, Cause> {
        Ok(changelog_schema(&spec.spec.results_schema(&[])?))
    }

    /// Whether it is an aggregation without keys whose row has not been written yet.
    fn lacks_its_row(&self) -> bool {
        self.spec.spec.keys.is_empty() && !self.is_written
    }

    /// Returns the group of each row, and the groups that are touched in the order of their keys. New groups are made.
    fn find_groups(&mut self, columns: &[ArrayRef], rows: usize) -> Result<(Vec<u32>, Vec<Touched>), Cause> {
        let keys: Vec<ArrayRef> =
            self.spec.spec.keys.iter().map(|key| ArrayRef::clone(&columns[*key])).collect();
        let encoded = self.keys.encode(&keys)?;
        let interned = self.groups.intern_all(&encoded, rows);
        self.counts.resize(self.groups.numbers(), 0);
        self.is_touched.resize(self.groups.numbers(), false);
        let mut touched = Vec::new();
        let mut ids = Vec::with_capacity(rows);
        for (row, Interned { number: group, is_new }) in interned.into_iter().enumerate() {
            let count = self.counts[group as usize];
            if !is_new && count == 0 {
                self.groups.respell(group, encoded.row(row));
            }
            if !std::mem::replace(&mut self.is_touched[group as usize], true) {
                touched.push(Touched { group, before: count });
            }
            ids.push(group);
        }
        let bytes = |touched: &Touched| -> Halves<'_, '_> { (self.groups.row(touched.group).identity, &[]) };
        let keys: Vec<Halves<'_, '_>> = touched.iter().map(bytes).collect();
        let order = sorted(&keys, |a, b| a.cmp(&b));
        Ok((ids, order.into_iter().map(|(_, place)| touched[place as usize]).collect()))
    }

    /// Returns the results of groups.
    fn evaluate(&self, groups: &[u32], results: &Results, cycle: u64) -> Result<Vec<ArrayRef>, Cause> {
        let tell = |row: usize| {
            let keys = self.keys.decode(std::iter::once(self.groups.row(groups[row]).spelling));
            described(keys.unwrap_or_default().iter().zip(&self.spec.spec.names), 0)
        };
        let evaluate = |call: usize, rows| self.functions[call].evaluate(&groups[rows]);
        results.evaluate_with(groups.len(), evaluate, tell, cycle)
    }

    fn update(&mut self, changes: &Changes, ids: &[u32]) -> Result<u64, Cause> {
        let weights: Vec<i64> = (0..ids.len()).map(|row| changes.weight(row)).collect();
        for (group, weight) in ids.iter().zip(&weights) {
            let count = &mut self.counts[*group as usize];
            *count = add(*count, *weight)?;
        }
        let (columns, mut missing) = (changes.rows.columns(), 0);
        for (function, call) in self.functions.iter_mut().zip(&self.spec.spec.calls) {
            let arguments: Vec<ArrayRef> =
                call.arguments.iter().map(|column| ArrayRef::clone(&columns[*column])).collect();
            let filter = call.filter.map(|filter| boolean(&columns[filter])).transpose()?;
            function.resize(self.counts.len());
            match function {
                Function::Growing(accumulator) => accumulator.update(ids, &arguments, filter)?,
                Function::Changing(accumulator) => {
                    missing = accumulator.update(ids, &weights, &arguments, filter)?.max(missing);
                }
            }
        }
        Ok(missing)
    }

    /// Empties the groups that have no rows any more. One that has lost more than it had is reported.
    fn settle(&mut self, touched: &[Touched], missing: u64, cycle: u64) {
        let mut are_reported = false;
        for Touched { group, .. } in touched {
            let count = &mut self.counts[*group as usize];
            if *count < 0 {
                are_reported = true;
                let row = self.groups.row(*group);
                report_missing(&self.faults, &self.keys, &self.key_schema, row, cycle);
            }
            if *count <= 0 {
                *count = 0;
                for function in &mut self.functions {
                    if let Function::Changing(accumulator) = function {
                        accumulator.reset(*group);
                    }
                }
            }
        }
        if missing > 0 && !are_reported {
            self.faults.add(|| {
                format!(
                    "{missing} deletions were ignored because their groups have no such rows, cycle {cycle}"
                )
            });
        }
    }

    fn has_row(&self, group: u32, count: i64) -> bool {
        count > 0 || (self.spec.spec.keys.is_empty() && self.is_written && group == 0)
    }

    /// Writes what has changed of the touched groups, given the groups that had a row and those that have one, with their
    /// results.
    fn write(&self, touched: &[Touched], old: &Rowed, new: &Rowed, output: &mut Output) -> Result<(), Cause> {
        // For each group that has a row before and after: its place among both.
        let (mut in_old, mut in_new) = (Vec::new(), Vec::new());
        let places = old.places(touched).zip(new.places(touched));
        for (old, new) in places.clone().filter_map(|(old, new)| old.zip(new)) {
            in_old.push(old);
            in_new.push(new);
        }
        let same = self.same(&taken(&old.results, in_old)?, &taken(&new.results, in_new)?)?;
        let (mut next, mut going, mut coming) = (0, Picked::default(), Picked::default());
        for (group, (old, new)) in (0..).zip(places) {
            if old.is_some() && new.is_some() {
                next += 1;
                if same.as_ref().is_none_or(|same| same.value(next - 1)) {
                    continue;
                }
            }
            going.push(group, old);
            coming.push(group, new);
        }
        if going.groups.is_empty() && coming.groups.is_empty() {
            return Ok(());
        }
        let keys = self.keys.decode(touched.iter().map(|t| self.groups.row(t.group).spelling))?;
        let schema = SchemaRef::clone(output.port(0).schema());
        for (picked, results, weight) in [(going, &old.results, -1), (coming, &new.results, 1)] {
            let rows = picked.groups.len();
            let mut columns = taken(&keys, picked.groups)?;
            columns.extend(taken(results, picked.results)?);
            columns.push(Arc::new(Int64Array::from(vec![weight; rows])));
            let positions = vec![output.end_position(); rows];
            output.port(0).push_batch(batch(&schema, columns, rows)?, &positions)?;
        }
        Ok(())
    }

    /// Returns which rows of results are the same; `None` if all are, because there are no columns.
    fn same(&self, old: &[ArrayRef], new: &[ArrayRef]) -> Result<Option<BooleanBuffer>, Cause> {
        let is_plain = |column: &ArrayRef| !column.data_type().is_nested();
        if !old.iter().all(is_plain) {
            let rows = old.first().map_or(0, |column| column.len());
            let (old, new) = (self.values.encode(old)?, self.values.encode(new)?);
            return Ok(Some((0..rows).map(|row| old.row(row).identity == new.row(row).identity).collect()));
        }
        let mut all: Option<BooleanBuffer> = None;
        for (old, new) in old.iter().zip(new) {
            let [old, new] = [old, new].map(|column| normalise(column, &value_type(column.data_type())));
            let same = not_distinct(&old?, &new?).map_err(kernel_error)?.values().clone();
            all = Some(all.map_or(same.clone(), |all| &all & &same));
        }
        Ok(all)
    }
}

/// Groups that have a row, in the order of the touched ones, with their results.
struct Rowed {
    groups: Vec<u32>,
    results: Vec<ArrayRef>,
}

impl Rowed {
    /// Returns the place of each touched group among these.
    fn places(&self, touched: &[Touched]) -> impl Iterator<Item = Option<u32>> + Clone {
        let mut next = 0;
        touched.iter().map(move |touched| {
            let is_it = self.groups.get(next as usize) == Some(&touched.group);
            next += u32::from(is_it);
            is_it.then(|| next - 1)
        })
    }
}

/// Rows to write: the places of their groups and of their results.
#[derive(Default)]
struct Picked {
    groups: Vec<u32>,
    results: Vec<u32>,
}

impl Picked {
    fn push(&mut self, group: u32, result: Option<u32>) {
        if let Some(result) = result {
            self.groups.push(group);
            self.results.push(result);
        }
    }
}

/// Returns some rows of columns. The places are in order, and each occurs once.
fn taken(columns: &[ArrayRef], places: Vec<u32>) -> Result<Vec<ArrayRef>, Cause> {
    let are_all = |column: &ArrayRef| column.len() == places.len();
    if columns.iter().all(are_all) {
        return Ok(columns.to_vec());
    }
    let places = UInt32Array::from(places);
    columns.iter().map(|column| take(column, &places, None).map_err(kernel_error)).collect()
}

fn boolean(column: &ArrayRef) -> Result<&BooleanArray, Cause> {
    let column = column.as_boolean_opt();
    column.ok_or_else(|| Cause::bug("the filter of an aggregate function is not a boolean"))
}

impl Operator for Aggregate {
    fn rows(&mut self, _input: usize, rows: Rows<'_>, _output: &mut Output) -> Result<(), Cause> {
        self.input.push(&rows);
        Ok(())
    }

    fn end_of_cycle(&mut self, cut: &Cut, output: &mut Output) -> Result<(), Cause> {
        let mut given = self.input.take()?.filter(|changes| changes.rows.num_rows() > 0);
        if self.functions.iter().any(Function::needs_order) {
            given = given.map(coming_first).transpose()?;
        }
        let (ids, touched) = match &given {
            Some(changes) => self.find_groups(changes.rows.columns(), changes.rows.num_rows())?,
            // The only group has its row from the first cycle on.
            None if self.lacks_its_row() => self.find_groups(&[], 1)?,
            None => return Ok(()),
        };
        let groups = self.counts.len();
        self.functions.iter_mut().for_each(|function| function.resize(groups));
        let had_row = |touched: &&Touched| self.has_row(touched.group, touched.before);
        let old: Vec<u32> = touched.iter().filter(had_row).map(|touched| touched.group).collect();
        let old = Rowed { results: self.evaluate(&old, &self.results.or_null(), cut.cycle)?, groups: old };
        if let Some(changes) = &given {
            let missing = self.update(changes, &ids)?;
            self.settle(&touched, missing, cut.cycle);
        }
        self.is_written = true;
        let has_row = |touched: &&Touched| self.has_row(touched.group, self.counts[touched.group as usize]);
        let new: Vec<u32> = touched.iter().filter(has_row).map(|touched| touched.group).collect();
        let new = Rowed { results: self.evaluate(&new, &self.results, cut.cycle)?, groups: new };
        self.write(&touched, &old, &new, output)?;
        touched.iter().for_each(|touched| self.is_touched[touched.group as usize] = false);
        let is_gone = |touched: &&Touched| !self.has_row(touched.group, self.counts[touched.group as usize]);
        let gone: Vec<u32> = touched.iter().filter(is_gone).map(|touched| touched.group).collect();
        self.groups.remove_all(&gone);
        if self.groups.len() > self.spec.spec.groups_max {
            return Err(too_many_groups(self.spec.spec.groups_max));
        }
        let rows = self.functions.iter().map(|function| match function {
            Function::Growing(_) => 0,
            Function::Changing(accumulator) => accumulator.rows(),
        });
        check_limit("an aggregate", rows.sum(), self.spec.rows_max)
    }

    fn next_timer(&self) -> Option<i64> {
        // Due in the first cycle.
        self.lacks_its_row().then_some(i64::MIN)
    }

    fn state_bytes(&self) -> usize {
        let functions: usize = self.functions.iter().map(Function::bytes).sum();
        self.groups.memory() + 9 * self.counts.capacity() + functions
    }

    fn snapshot(&self, writer: &mut SnapshotWriter) {
        writer.u8(VERSION);
        writer.u8(u8::from(self.is_written));
        let all: Vec<u32> = self.groups.all().collect();
        let count = |group: u32| self.counts[group as usize];
        write_rows(writer, weighted_batch(&self.key_schema, &self.keys, &self.groups, &all, count).ok());
        for function in &self.functions {
            match function {
                Function::Growing(accumulator) => write_columns(writer, all.len(), accumulator.partial(&all)),
                Function::Changing(accumulator) => accumulator.snapshot(&all, writer),
            }
        }
    }

    fn restore(&mut self, reader: &mut SnapshotReader<'_>) -> Result<(), Cause> {
        reader.version(VERSION)?;
        self.is_written = reader.u8()? == 1;
        let rows = read_rows(reader, &changelog_schema(&self.key_schema))?;
        let changes = Changes::weighted(&self.key_schema, rows)?;
        let encoded = self.keys.encode(changes.rows.columns())?;
        let rows = changes.rows.num_rows();
        self.groups.intern_all(&encoded, rows);
        self.counts = (0..rows).map(|row| changes.weight(row)).collect();
        self.is_touched = vec![false; rows];
        if self.groups.len() != rows {
            return Err(crate::state::damaged("a group occurs twice"));
        }
        let ids: Vec<u32> = (0..self.counts.len() as u32).collect();
        for (function, call) in self.functions.iter_mut().zip(&self.spec.spec.calls) {
            match function {
                Function::Growing(accumulator) => {
                    let types = call.function.partial_types();
                    let added = (types.len() - call.function.partials_added()..types.len()).collect();
                    let (_, partials) = read_columns(reader, &StateColumns { types, added })?;
                    accumulator.resize(ids.len());
                    accumulator.merge(&ids, &partials)?;
                }
                Function::Changing(accumulator) => accumulator.restore(ids.len(), reader)?,
            }
        }
        Ok(())
    }

    /// All groups with their results.
    fn state_rows(&self) -> Result<Option<Vec<StateRows>>, Cause> {
        let all: Vec<u32> = self.groups.all().collect();
        let mut columns = stored_batch(&self.key_schema, &self.keys, &self.groups, &all)?.columns().to_vec();
        columns.extend(self.evaluate(&all, &self.results.or_null(), 0)?);
        Ok(Some(vec![StateRows { kind: "groups", rows: batch(&self.schema, columns, all.len())? }]))
    }
}

/// Puts the rows that come before those that go, so that a count falls below zero only if too many go.
fn coming_first(changes: Changes) -> Result<Changes, Cause> {
    let rows = changes.rows.num_rows() as u32;
    let (coming, going): (Vec<u32>, Vec<u32>) = (0..rows).partition(|row| changes.weight(*row as usize) >= 0);
    if going.is_empty() || coming.is_empty() {
        return Ok(changes);
    }
    let order = [coming, going].concat();
    let weights = order.iter().map(|row| changes.weight(*row as usize)).collect();
    let rows = take_record_batch(&changes.rows, &UInt32Array::from(order)).map_err(kernel_error)?;
    Ok(Changes { rows, weights: Some(weights) })
}
