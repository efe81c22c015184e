//! Aggregates over windows of equal size: tumbling and hopping.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow_array::cast::AsArray;
use arrow_array::types::TimestampNanosecondType;
use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions, TimestampNanosecondArray};
use arrow_schema::{DataType, SchemaRef};
use tidemill_core::{
    Cause, Cut, Operator, Output, Rows, SnapshotReader, SnapshotWriter, StateLimit, StateRows,
};

use crate::arrow_bug::arrow_bug;
use crate::empty_windows::{EmptyWindows, LiveKeys};
use crate::failed_results::{FailedResults, Results};
use crate::grouped::{Grouped, Layout, PartialRows, StateTypes};
use crate::groups::too_many_groups;
use crate::panes::{PaneRun, Panes};
use crate::state_rows::{batch, renamed, state_rows};
use crate::watermark::{Watermark, WatermarkSpec};
use crate::window_spec::time_type;
use crate::{AggregateSpec, WindowSpec};

/// Emits one row per group and window, once the watermark has reached the window's end.
///
/// The output has the keys, start and end of the window (in the type of the event time), and the results. Windows
/// come in the order of their ends; the groups of a tumbling window come in the order in which they first occurred.
/// Windows without rows are written only [if that is asked for](WindowAggregate::empty_windows). A row is dropped and
/// counted if all of its windows are closed, if it has no time, or if its time is so far away that its window cannot
/// be represented.
///
/// ```
/// use std::sync::Arc;
/// use arrow_array::{ArrayRef, Int64Array, RecordBatch, TimestampNanosecondArray};
/// use arrow_array::{cast::AsArray, types::Int64Type};
/// use tidemill_core::{Batch, Cut, Operator, Output};
/// use tidemill_operators::{AggregateCall, AggregateSpec, WindowAggregate, WindowSpec, aggregate::Sum};
///
/// let times = Arc::new(TimestampNanosecondArray::from(vec![1, 12, 7])) as ArrayRef;
/// let values = Arc::new(Int64Array::from(vec![5, 6, 7])) as ArrayRef;
/// let rows = RecordBatch::try_from_iter([("time", times), ("value", values)]).unwrap();
/// let sum = Sum::new(rows.schema().field(1).data_type()).unwrap();
/// let spec = AggregateSpec {
///     keys: vec![],
///     calls: vec![AggregateCall { function: Arc::new(sum), arguments: vec![1], filter: None }],
///     names: vec!["start".into(), "end".into(), "sum".into()],
///     input: rows.schema(),
///     partial_input: false,
///     groups_max: 1000,
/// };
/// let window = WindowSpec { time: 0, size_ns: 10, slide_ns: 10, offset_ns: 0 };
/// let mut output = Output::new(&[WindowAggregate::output_schema(&spec, &window).unwrap()]);
/// let mut operator = WindowAggregate::new(&spec, &window, vec![0], Arc::default()).unwrap();
/// operator.rows(0, Batch::from_source(rows, vec![0, 1, 2].into()).as_rows(), &mut output).unwrap();
/// let cut = Cut { watermarks: vec![10], ..Cut::first() };
/// operator.end_of_cycle(&cut, &mut output).unwrap();
/// let sums = output.finish(0).unwrap().rows;
/// assert_eq!(sums.column(2).as_primitive::<Int64Type>().values(), &[12]);
/// ```
pub struct WindowAggregate {
    spec: AggregateSpec,
    types: StateTypes,
    results: Results,
    layout: Layout,
    panes: Panes,
    schema: SchemaRef,
    watermark: Watermark,
    late: Arc<AtomicU64>,
    /// Windows that end here or before are closed.
    closed: i64,
    open: BTreeMap<i64, Pane>,
    /// The keys that get windows without rows, if any do.
    live: Option<LiveKeys>,
    /// The number of groups of all open panes.
    groups: usize,
    /// The memory of closed panes, for the next ones.
    spare: Vec<Grouped>,
    /// The state of a hopping window while it is written.
    merged: Grouped,
    ids: Vec<u32>,
    runs: Vec<PaneRun>,
}

struct Pane {
    state: Grouped,
    /// Its rows for the windows that it belongs to, as long as no rows are added.
    partial_rows: Option<PartialRows>,
}

impl Pane {
    /// Bytes of memory held.
    fn bytes(&self) -> usize {
        self.state.bytes() + self.partial_rows.as_ref().map_or(0, PartialRows::bytes)
    }
}

/// The number of closed panes whose memory is kept.
const SPARE_PANES_MAX: usize = 4;
const SNAPSHOT_VERSION: u8 = 1;

impl WindowAggregate {
    /// No open windows. Time follows the `watermark`, or the watermark of these gateways of the plan; dropped rows are
    /// added to `late`.
    ///
    /// # Errors
    /// If the specification names columns that do not exist, or a type that cannot be a key.
    pub fn new(
        spec: &AggregateSpec,
        window: &WindowSpec,
        watermark: impl Into<WatermarkSpec>,
        late: Arc<AtomicU64>,
    ) -> Result<Self, Cause> {
        window.check(&spec.input)?;
        Ok(WindowAggregate {
            types: StateTypes::new(spec),
            results: Results::new(spec),
            layout: Layout::new(spec, Some(window.time))?,
            panes: Panes::new(window),
            schema: Self::output_schema(spec, window)?,
            watermark: Watermark::new(watermark.into()),
            late,
            closed: i64::MIN,
            open: BTreeMap::new(),
            live: None,
            groups: 0,
            spare: Vec::new(),
            merged: Grouped::new(spec, usize::MAX)?,
            ids: Vec::new(),
            runs: Vec::new(),
            spec: spec.clone(),
        })
    }

    /// Sets what happens to results that cannot be represented.
    pub fn failed_results(mut self, failed: FailedResults) -> Self {
        self.results.failed = failed;
        self
    }

    /// Also writes windows without rows. All inputs after the first then hold times of the sources' rows, in their first
    /// column: the last of these times ends the windows without rows, and without keys each makes its windows exist.
    ///
    /// # Errors
    /// If their number is not within its limits.
    pub fn empty_windows(mut self, empty: &EmptyWindows, window: &WindowSpec) -> Result<Self, Cause> {
        let keys_max = self.spec.groups_max;
        self.live = Some(LiveKeys::new(empty, window, &self.types.keys, keys_max)?);
        Ok(self)
    }

    /// The columns of its output: keys, start and end of the window, results.
    ///
    /// # Errors
    /// If the number of names is wrong, or the event time is not a `Timestamp(Nanosecond, _)`.
    pub fn output_schema(spec: &AggregateSpec, window: &WindowSpec) -> Result<SchemaRef, Cause> {
        let time = time_type(&spec.input, window.time)?;
        spec.results_schema(&[time.clone(), time])
    }

    fn add_run(&mut self, run: PaneRun, columns: &[ArrayRef], is_whole: bool) -> Result<(), Cause> {
        let rows = run.start..run.end;
        let window = run.pane.filter(|pane| !self.panes.is_late(*pane, self.closed));
        let Some(start) = window else {
            self.late.fetch_add(self.layout.rows_combined(columns, rows), Ordering::Relaxed);
            return Ok(());
        };
        if self.panes.first_window(start, self.closed).is_none() {
            // Between two hopping windows.
            return Ok(());
        }
        let pane = open_pane(&mut self.open, &mut self.spare, &self.spec, start)?;
        pane.partial_rows = None;
        let before = pane.state.groups.len();
        if is_whole {
            pane.state.add(&self.layout, columns, rows.len(), &mut self.ids)?
        } else {
            let columns = self.layout.slice(columns, rows.clone());
            pane.state.add(&self.layout, &columns, rows.len(), &mut self.ids)?;
        }
        self.groups += pane.state.groups.len() - before;
        self.check_groups()
    }

    fn check_groups(&self) -> Result<(), Cause> {
        if self.groups <= self.spec.groups_max { Ok(()) } else { Err(too_many_groups(self.spec.groups_max)) }
    }

    /// Takes note of the times of the sources' rows.
    fn note_times(&mut self, times: &ArrayRef) -> Result<(), Cause> {
        let Some(live) = &mut self.live else {
            return Err(Cause::bug("a window got times of the sources that it did not ask for"));
        };
        for time in times.as_primitive::<TimestampNanosecondType>().iter().flatten() {
            let Some(pane) = self.panes.pane_of(time) else { continue };
            live.note_pane(pane);
            if !self.spec.keys.is_empty() || self.panes.first_window(pane, self.closed).is_none() {
                continue;
            }
            let open = open_pane(&mut self.open, &mut self.spare, &self.spec, pane)?;
            if open.state.groups.is_empty() {
                open.state.make_only_group()?;
                open.partial_rows = None;
                self.groups += 1;
            }
        }
        self.check_groups()
    }

    /// Drops the first panes, as far as all of their windows are closed.
    fn drop_closed_panes(&mut self) {
        while let Some(first) = self.open.first_entry()
            && self.panes.first_window(*first.key(), self.closed).is_none()
        {
            let mut pane = first.remove();
            self.groups -= pane.state.groups.len();
            if self.spare.len() < SPARE_PANES_MAX {
                pane.state.clear();
                self.spare.push(pane.state);
            }
        }
    }

    /// The start of the next window to write.
    fn next_window(&self) -> Option<i64> {
        let live = self.live.as_ref();
        let empty = live.and_then(|live| live.next_window(&self.panes, self.closed));
        let filled = self.open.first_key_value();
        let filled = filled.and_then(|(pane, _)| self.panes.first_window(*pane, self.closed));
        empty.into_iter().chain(filled).min()
    }

    /// Writes a window; returns the number of its rows.
    fn write_window(&mut self, start: i64, cycle: u64, output: &mut Output) -> Result<usize, Cause> {
        let end = self.panes.window_end(start);
        let mut panes = self.open.range_mut(start..end);
        // Keys without rows are added to the window's state, and a pane may belong to further windows.
        let is_all = self.live.is_none() || self.panes.are_windows();
        let (state, is_pane) = match (panes.next(), panes.next()) {
            (Some((_, only)), None) if is_all => (&mut only.state, true),
            (first, second) => {
                self.merged.clear();
                for (_, pane) in first.into_iter().chain(second).chain(panes) {
                    let given = match pane.partial_rows.take() {
                        Some(given) => given,
                        None => pane.state.partial_rows()?,
                    };
                    self.merged.merge(pane.partial_rows.insert(given), &mut self.ids)?;
                }
                (&mut self.merged, false)
            }
        };
        if let Some(live) = &mut self.live {
            let (keys, missing) = live.missing(start, &state.groups)?;
            state.add_groups(&keys, missing, &mut self.ids)?;
            self.groups += if is_pane { missing } else { 0 };
        }
        let written = state.groups.len();
        if written > 0 {
            let columns = columns_of(state, [start, end], &self.results, cycle, &self.schema)?;
            write_rows(columns, written, &self.schema, output)?;
        }
        Ok(written)
    }

    /// The output of a cycle is in memory at once, with as many rows as there may be groups. Windows that do not
    /// overlap cannot have more.
    fn check_written(&self, rows: usize) -> Result<(), Cause> {
        if rows <= self.spec.groups_max {
            Ok(())
        } else {
            Err(StateLimit::MAX_GROUPS.reached(format!(
                "{} windows that close together have more than {} rows in a partition; raise max_groups, {}, or \
                 group by fewer values",
                if self.live.is_some() { "empty" } else { "hopping" },
                self.spec.groups_max,
                if self.live.is_some() { "forget keys sooner" } else { "use a longer slide" },
            )))
        }
    }
}

/// The state of a pane, which is made if there is none.
fn open_pane<'a>(
    open: &'a mut BTreeMap<i64, Pane>,
    spare: &mut Vec<Grouped>,
    spec: &AggregateSpec,
    start: i64,
) -> Result<&'a mut Pane, Cause> {
    match open.entry(start) {
        Entry::Occupied(pane) => Ok(pane.into_mut()),
        Entry::Vacant(place) => {
            let state = spare.pop().map_or_else(|| Grouped::new(spec, usize::MAX), Ok)?;
            Ok(place.insert(Pane { state, partial_rows: None }))
        }
    }
}

/// All groups as the rows of a window.
fn columns_of(
    state: &Grouped,
    bounds: [i64; 2],
    results: &Results,
    cycle: u64,
    schema: &SchemaRef,
) -> Result<Vec<ArrayRef>, Cause> {
    let ids = state.all();
    let mut columns = state.groups.keys(&ids)?;
    for bound in bounds {
        columns.push(constant_time(bound, ids.len(), schema.field(columns.len()).data_type()));
    }
    let results = state.results(results, &ids, &columns, cycle)?;
    columns.extend(results);
    Ok(columns)
}

fn constant_time(time: i64, rows: usize, data_type: &DataType) -> ArrayRef {
    Arc::new(TimestampNanosecondArray::from_value(time, rows).with_data_type(data_type.clone()))
}

/// Writes rows that the end of the cycle causes.
pub(crate) fn write_rows(
    columns: Vec<ArrayRef>,
    rows: usize,
    schema: &SchemaRef,
    output: &mut Output,
) -> Result<(), Cause> {
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    let batch = RecordBatch::try_new_with_options(SchemaRef::clone(schema), columns, &options);
    let positions = vec![output.end_position(); rows];
    output.port(0).push_batch(batch.map_err(arrow_bug("the results of an aggregation"))?, &positions)
}

impl Operator for WindowAggregate {
    fn rows(&mut self, input: usize, rows: Rows<'_>, _output: &mut Output) -> Result<(), Cause> {
        let batch = rows.to_batch();
        if input > 0 {
            return self.note_times(batch.column(0));
        }
        let mut runs = std::mem::take(&mut self.runs);
        let order = self.panes.divide(self.layout.time(batch.columns())?, &mut runs);
        let taken = order.map(|order| self.layout.take(batch.columns(), &order)).transpose()?;
        let columns = taken.as_deref().unwrap_or(batch.columns());
        for run in &runs {
            self.add_run(*run, columns, runs.len() == 1)?;
        }
        self.runs = runs;
        Ok(())
    }

    fn end_of_cycle(&mut self, cut: &Cut, output: &mut Output) -> Result<(), Cause> {
        let watermark = self.watermark.advance(cut);
        let mut written = 0;
        loop {
            self.drop_closed_panes();
            let Some(start) = self.next_window().filter(|start| self.panes.window_end(*start) <= watermark)
            else {
                break;
            };
            written += self.write_window(start, cut.cycle, output)?;
            self.check_written(written)?;
            self.closed = self.panes.window_end(start);
        }
        self.closed = watermark;
        Ok(())
    }

    fn next_timer(&self) -> Option<i64> {
        let start = self.next_window()?;
        Some(self.watermark.timer(self.panes.window_end(start)))
    }

    fn state_bytes(&self) -> usize {
        let open = self.open.values().map(Pane::bytes).sum::<usize>();
        let spare = self.spare.iter().map(Grouped::bytes).sum::<usize>();
        open + spare + self.merged.bytes() + self.live.as_ref().map_or(0, LiveKeys::bytes)
    }

    fn snapshot(&self, writer: &mut SnapshotWriter) {
        writer.u8(SNAPSHOT_VERSION);
        self.watermark.snapshot(writer);
        writer.u64(self.open.len() as u64);
        for (start, pane) in &self.open {
            writer.i64(*start);
            pane.state.snapshot(writer);
        }
        if let Some(live) = &self.live {
            live.snapshot(writer);
        }
    }

    fn restore(&mut self, reader: &mut SnapshotReader<'_>) -> Result<(), Cause> {
        reader.version(SNAPSHOT_VERSION)?;
        self.watermark.restore(reader)?;
        self.closed = self.watermark.reached();
        for _ in 0..reader.u64()? {
            let start = reader.i64()?;
            let mut state = Grouped::new(&self.spec, usize::MAX)?;
            state.restore(reader, &self.types)?;
            self.groups += state.groups.len();
            self.open.insert(start, Pane { state, partial_rows: None });
        }
        match &mut self.live {
            Some(live) => live.restore(reader, &self.types.keys),
            None => Ok(()),
        }
    }

    /// The groups of each open window with their results so far; of hopping windows those of each pane, which several
    /// windows share. Then the keys that get windows without rows.
    fn state_rows(&self) -> Result<Option<Vec<StateRows>>, Cause> {
        let keys = self.types.keys.len();
        let (kind, schema) = if self.panes.are_windows() {
            ("windows", SchemaRef::clone(&self.schema))
        } else {
            ("panes", renamed(&self.schema, keys, &["pane_start", "pane_end"]))
        };
        let results = self.results.or_null();
        let rows = |(start, pane): (&i64, &Pane)| {
            let bounds = [*start, start.saturating_add(self.panes.pane_ns)];
            batch(&schema, columns_of(&pane.state, bounds, &results, 0, &schema)?, pane.state.groups.len())
        };
        let open = self.open.iter().map(rows).collect::<Result<Vec<_>, Cause>>()?;
        let mut shown = vec![state_rows(kind, &schema, &open)?];
        if let Some(live) = &self.live {
            shown.push(live.state_rows(&schema.fields()[..=keys])?);
        }
        Ok(Some(shown))
    }
}
