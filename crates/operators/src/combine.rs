//! Combines rows with equal keys before the split. Fewer rows travel, and no group burdens a single worker.

use std::sync::Arc;

use arrow_array::{
    ArrayRef, Int64Array, RecordBatch, RecordBatchOptions, TimestampNanosecondArray, UInt32Array,
};
use arrow_schema::{DataType, Field, FieldRef, Schema, SchemaRef};
use arrow_select::{concat::concat, take::take};
use tidemill_core::{Cause, Cut, Transform, Transformed};

use crate::arrow_bug::arrow_bug;
use crate::grouped::{Grouped, Layout};
use crate::panes::{PaneRun, Panes};
use crate::window_spec::time_type;
use crate::{AggregateSpec, WindowSpec};

/// Makes one row of partial results for each group of a call's rows, and for each pane if there are windows. An
/// operator with the same specification and `partial_input` takes these rows.
///
/// Only for functions that are [exact](crate::Aggregate::is_exact), whose results do not depend on which rows were
/// combined. A row's cause is the first row of its group.
///
/// ```
/// use std::sync::Arc;
/// use arrow_array::{ArrayRef, RecordBatch, StringArray, cast::AsArray, types::Int64Type};
/// use tidemill_core::{Cut, Transform};
/// use tidemill_operators::{AggregateCall, AggregateSpec, Combine, aggregate::Count};
///
/// let campaigns = Arc::new(StringArray::from(vec!["b", "a", "b"])) as ArrayRef;
/// let rows = RecordBatch::try_from_iter([("campaign", campaigns)]).unwrap();
/// let spec = AggregateSpec {
///     keys: vec![0],
///     calls: vec![AggregateCall { function: Arc::new(Count::rows()), arguments: vec![], filter: None }],
///     names: vec!["campaign".into(), "clicks".into()],
///     input: rows.schema(),
///     partial_input: false,
///     groups_max: 1000,
/// };
/// let combined = Combine::new(&spec, None).unwrap().apply(&rows, &Cut::first()).unwrap();
/// assert_eq!(combined.rows.column(1).as_primitive::<Int64Type>().values(), &[2, 1]);
/// assert_eq!(combined.causes, Some(vec![0, 1]));
/// ```
pub struct Combine {
    spec: AggregateSpec,
    layout: Layout,
    panes: Option<Panes>,
    schema: SchemaRef,
    /// The groups of each pane of the call. Some are kept for the next call.
    states: Vec<PaneState>,
    ids: Vec<u32>,
    runs: Vec<PaneRun>,
}

/// The number of panes whose memory is kept.
const STATES_KEPT_MAX: usize = 16;

struct PaneState {
    pane: Option<i64>,
    state: Grouped,
    /// For each group, its first row and the number of its rows.
    first_rows: Vec<u32>,
    row_counts: Vec<i64>,
}

/// The schema of the rows that [`Combine`] makes: keys, the start of the pane if there are windows, partial results,
/// and with windows the number of rows combined.
///
/// # Errors
/// If the event time is not a `Timestamp(Nanosecond, _)`.
pub fn combined_schema(spec: &AggregateSpec, window: Option<&WindowSpec>) -> Result<SchemaRef, Cause> {
    let keys = spec.keys.iter().map(|key| FieldRef::clone(&spec.input.fields()[*key]));
    let mut fields = keys.collect::<Vec<_>>();
    if let Some(window) = window {
        let time = time_type(&spec.input, window.time)?;
        fields.push(Arc::new(Field::new("pane_start", time, true)));
    }
    for (index, data_type) in spec.partial_types().into_iter().enumerate() {
        fields.push(Arc::new(Field::new(format!("partial_{index}"), data_type, true)));
    }
    if window.is_some() {
        fields.push(Arc::new(Field::new("rows", DataType::Int64, false)));
    }
    Ok(Arc::new(Schema::new(fields)))
}

impl Combine {
    /// A combiner for an operator with this specification.
    ///
    /// # Errors
    /// If a function is not exact, the specification names columns that do not exist, or a type cannot be a key.
    pub fn new(spec: &AggregateSpec, window: Option<&WindowSpec>) -> Result<Self, Cause> {
        if let Some(call) = spec.calls.iter().find(|call| !call.function.is_exact()) {
            let name = call.function.name();
            return Err(Cause::bug(format!("rows for {name} cannot be combined: it depends on their order")));
        }
        if let Some(window) = window {
            window.check(&spec.input)?;
        }
        let spec = AggregateSpec { partial_input: false, ..spec.clone() };
        Ok(Combine {
            layout: Layout::new(&spec, window.map(|window| window.time))?,
            panes: window.map(Panes::new),
            schema: combined_schema(&spec, window)?,
            states: Vec::new(),
            ids: Vec::new(),
            runs: Vec::new(),
            spec,
        })
    }

    /// The state of a pane, among the first `used`; empty if the pane is new.
    fn state_of(&mut self, pane: Option<i64>, used: &mut usize) -> Result<usize, Cause> {
        if let Some(index) = self.states[..*used].iter().rposition(|state| state.pane == pane) {
            return Ok(index);
        }
        if *used == self.states.len() {
            let state = Grouped::new(&self.spec, usize::MAX)?;
            self.states.push(PaneState { pane, state, first_rows: Vec::new(), row_counts: Vec::new() });
        }
        let state = &mut self.states[*used];
        state.pane = pane;
        state.state.clear();
        state.first_rows.clear();
        state.row_counts.clear();
        *used += 1;
        Ok(*used - 1)
    }

    fn columns_of(&self, state: &PaneState) -> Result<Vec<ArrayRef>, Cause> {
        let given = state.state.partial_rows()?;
        let mut columns = given.keys;
        if self.panes.is_some() {
            let data_type = self.schema.field(columns.len()).data_type().clone();
            let times = match state.pane {
                Some(pane) => TimestampNanosecondArray::from_value(pane, given.rows),
                None => TimestampNanosecondArray::new_null(given.rows),
            };
            columns.push(Arc::new(times.with_data_type(data_type)));
        }
        columns.extend(given.partials);
        if self.panes.is_some() {
            columns.push(Arc::new(Int64Array::from(state.row_counts.clone())));
        }
        Ok(columns)
    }

    /// The rows of several panes in the order of their causes.
    fn columns_of_all(&self, states: &[PaneState], causes: &mut Vec<u32>) -> Result<Vec<ArrayRef>, Cause> {
        let unordered = states.iter().flat_map(|state| state.first_rows.iter().copied()).collect::<Vec<_>>();
        let mut order = (0..unordered.len() as u32).collect::<Vec<_>>();
        order.sort_unstable_by_key(|row| unordered[*row as usize]);
        causes.extend(order.iter().map(|row| unordered[*row as usize]));
        let order = UInt32Array::from(order);
        let parts = states.iter().map(|state| self.columns_of(state)).collect::<Result<Vec<_>, Cause>>()?;
        let column = |index: usize| {
            let parts = parts.iter().map(|columns| columns[index].as_ref()).collect::<Vec<_>>();
            concat(&parts).and_then(|column| take(&column, &order, None)).map_err(arrow_bug("combining rows"))
        };
        (0..self.schema.fields().len()).map(column).collect()
    }
}

impl PaneState {
    /// Records the first rows of new groups and counts the rows of all; `row_of` maps to the row of the call.
    fn note(&mut self, ids: &[u32], is_counted: bool, row_of: impl Fn(usize) -> u32) {
        let groups = self.state.groups.len();
        if self.first_rows.len() < groups {
            for (row, id) in ids.iter().enumerate() {
                if *id as usize == self.first_rows.len() {
                    self.first_rows.push(row_of(row));
                    if self.first_rows.len() == groups {
                        break;
                    }
                }
            }
        }
        if is_counted {
            self.row_counts.resize(groups, 0);
            ids.iter().for_each(|id| self.row_counts[*id as usize] += 1);
        }
    }
}

impl Transform for Combine {
    fn combines_rows(&self) -> bool {
        true
    }

    fn apply(&mut self, rows: &RecordBatch, _cut: &Cut) -> Result<Transformed, Cause> {
        let mut runs = std::mem::take(&mut self.runs);
        let mut ids = std::mem::take(&mut self.ids);
        let order = match &self.panes {
            Some(panes) => panes.divide(self.layout.time(rows.columns())?, &mut runs),
            None => {
                runs.clear();
                runs.push(PaneRun { pane: None, start: 0, end: rows.num_rows() });
                None
            }
        };
        let taken = order.as_ref().map(|order| self.layout.take(rows.columns(), order)).transpose()?;
        let columns = taken.as_deref().unwrap_or(rows.columns());
        let mut used = 0;
        for run in &runs {
            let index = self.state_of(run.pane, &mut used)?;
            let state = &mut self.states[index];
            match runs.len() {
                1 => state.state.add(&self.layout, columns, rows.num_rows(), &mut ids)?,
                _ => {
                    let columns = self.layout.slice(columns, run.start..run.end);
                    state.state.add(&self.layout, &columns, run.end - run.start, &mut ids)?;
                }
            }
            state.note(&ids, self.panes.is_some(), |row| match &order {
                Some(order) => order.value(run.start + row),
                None => (run.start + row) as u32,
            });
        }
        (self.runs, self.ids) = (runs, ids);
        let mut causes = Vec::new();
        let columns = match &self.states[..used] {
            [single] => {
                causes.extend_from_slice(&single.first_rows);
                self.columns_of(single)?
            }
            [] => {
                return Ok(Transformed {
                    rows: RecordBatch::new_empty(self.schema.clone()),
                    causes: Some(causes),
                });
            }
            several => self.columns_of_all(several, &mut causes)?,
        };
        self.states.truncate(STATES_KEPT_MAX);
        let options = RecordBatchOptions::new().with_row_count(Some(causes.len()));
        let rows = RecordBatch::try_new_with_options(SchemaRef::clone(&self.schema), columns, &options);
        Ok(Transformed { rows: rows.map_err(arrow_bug("combining rows"))?, causes: Some(causes) })
    }
}
