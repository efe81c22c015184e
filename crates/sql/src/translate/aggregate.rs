//! GROUP BY: with a window, a stream of closed windows; without one, a table of upserts.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::{Aggregate, Expr, LogicalPlan};
use tidemill_engine::{Cause, Operator};
use tidemill_operators::watermark::WatermarkSpec;
use tidemill_operators::{
    AggregateSpec, Combine, EmptyWindows, FailedResults, SessionAggregate, SessionSpec, TableAggregate,
    WindowAggregate, WindowSpec, combined_schema,
};

use super::aggregate_functions::{aggregate_call, describe, has_order, place};
use super::changelog::KEEP_UP_TO_DATE;
use super::columns::{schema_of, stream_schema};
use super::count_windows::is_by_count;
use super::empty_windows::{check_windows_kept, of_written_windows};
use super::{Kind, Relation, Role, Translator, Window, as_column, column_at, refuse, user};
use crate::logical::{WINDOW_START, WindowKind, check_clock_filters, reads_clock};

/// How an aggregation is windowed.
#[derive(Clone, Copy, Debug)]
struct Windowed {
    window: Window,
    /// The column that holds the event time, or the window's end minus 1 ns if there are bounds already.
    time: Time,
    delay_ns: i64,
}

#[derive(Clone, Copy, Debug)]
enum Time {
    /// The event time itself is in this column.
    Column(usize),
    /// The end of the row's window is in this column.
    EndOf(usize),
    /// The start of the row's window is in this column.
    StartOf(usize),
}

/// The role of a group expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Group {
    Key,
    Start,
    End,
}

impl Translator {
    pub(super) fn aggregate(&mut self, aggregate: &Aggregate) -> Result<Relation> {
        if self.takes_changes
            && let Some(Expr::GroupingSet(sets)) = aggregate.group_expr.first()
        {
            return self.grouping_sets(aggregate, sets);
        }
        let (filters, input_plan) = match aggregate.input.as_ref() {
            // Behind a condition on the clock, rows come and go.
            LogicalPlan::Filter(filter) if !(self.takes_changes && reads_clock(&filter.predicate)?) => {
                (vec![filter.predicate.clone()], filter.input.as_ref())
            }
            other => (Vec::new(), other),
        };
        let schema = input_plan.schema();
        let input = self.relation(input_plan)?;
        if self.takes_changes {
            check_clock_filters(&aggregate.aggr_expr)?;
        }
        if aggregate.group_expr.iter().any(|group| matches!(group, Expr::GroupingSet(_))) {
            return Err(refuse(
                "GROUPING SETS, CUBE and ROLLUP are not supported on streams",
                "write one query for each",
            ));
        }
        let is_ordered = aggregate.aggr_expr.iter().any(has_order);
        if self.takes_changes
            && (!input.is_stream()
                || is_ordered && !self.is_windowed(aggregate, &input, input_plan.schema())?)
        {
            return self.changing_aggregate(aggregate, (input, input_plan), &filters);
        }
        if !input.is_stream() {
            return Err(refuse(
                "an aggregate over a table (an aggregate without a window) would have to retract rows of \
                 groups that changed",
                KEEP_UP_TO_DATE,
            ));
        }
        let is_by_count = is_by_count(aggregate, &input, schema)?;
        let (groups, windowed) = self.groups(aggregate, &input, schema)?;
        check_windows_kept(&input, windowed.is_some())?;
        let (filters, of_windows) = of_written_windows(filters, &input, schema, aggregate);
        let mut wanted: Vec<Expr> = Vec::new();
        let keys: Vec<usize> = aggregate
            .group_expr
            .iter()
            .zip(&groups)
            .filter(|(_, group)| **group == Group::Key)
            .map(|(expression, _)| place(&mut wanted, expression))
            .collect();
        let time = windowed.map(|windowed| place(&mut wanted, &time_expression(windowed, schema)));
        let values_max = self.groups_max(self.partitions(keys.len()));
        let mut calls = Vec::new();
        for expression in &aggregate.aggr_expr {
            calls.push(aggregate_call(expression, schema, &mut wanted, values_max)?);
        }
        let rows = self.compute(input.clone(), schema, &filters, &wanted, None)?;
        let names = stream_schema(names(aggregate, &groups, windowed.is_some()));
        let partitions = self.partitions(keys.len());
        let spec = AggregateSpec {
            keys,
            calls,
            names: names.fields().iter().map(|field| field.name().clone()).collect(),
            input: Arc::clone(&rows.schema),
            partial_input: false,
            groups_max: self.groups_max(partitions),
        };
        let done = match (windowed, time) {
            (Some(windowed), Some(time)) => self.windowed(&input, rows, spec, windowed, time)?,
            _ if is_by_count => {
                let name = describe(&spec, "window");
                self.cycle(rows, spec, &name)?
            }
            _ => self.table(rows, spec)?,
        };
        let done = self.in_order(done, &groups, windowed, aggregate)?;
        self.of_windows(done, &of_windows, &aggregate.schema)
    }

    /// Whether rows are grouped by a window, which closes.
    fn is_windowed(&self, aggregate: &Aggregate, input: &Relation, schema: &DFSchema) -> Result<bool> {
        Ok(self.groups(aggregate, input, schema)?.1.is_some() || is_by_count(aggregate, input, schema)?)
    }

    /// Which group expressions are bounds of a window, and of which one.
    fn groups(
        &self,
        aggregate: &Aggregate,
        input: &Relation,
        schema: &DFSchema,
    ) -> Result<(Vec<Group>, Option<Windowed>)> {
        let mut windowed: Option<Windowed> = None;
        let mut groups = Vec::new();
        for expression in &aggregate.group_expr {
            let found = bound(expression, input, schema);
            groups.push(found.map_or(Group::Key, |(group, _)| group));
            let Some((_, found)) = found else { continue };
            match windowed {
                None => windowed = Some(found),
                Some(before) if before.window.kind == found.window.kind => {}
                Some(_) => {
                    return Err(refuse("rows are grouped by two different windows", "group by one of them"));
                }
            }
        }
        Ok((groups, windowed))
    }

    fn windowed(
        &mut self,
        input: &Relation,
        rows: Relation,
        spec: AggregateSpec,
        windowed: Windowed,
        time: usize,
    ) -> Result<Relation> {
        let (late, failed) = (self.late.counter(), self.failed_results.clone());
        let watermark = self.watermark(&rows, windowed.delay_ns);
        let keys: Vec<usize> = (0..spec.keys.len()).collect();
        let window_name = describe(&spec, &window_words(windowed.window));
        if let WindowKind::Session { gap_ns } = windowed.window.kind {
            let session = SessionSpec { time, gap_ns };
            let output = SessionAggregate::output_schema(&spec, &session).map_err(user)?;
            SessionAggregate::new(&spec, &session, watermark.clone(), Arc::clone(&late)).map_err(user)?;
            let inputs = [(rows.stream, spec.keys.clone())];
            let partitions = self.partitions(keys.len());
            let stream = self.operator(&window_name, &inputs, partitions, Arc::clone(&output), move |_| {
                Box::new(
                    SessionAggregate::new(&spec, &session, watermark.clone(), Arc::clone(&late))
                        .expect("checked when it was planned")
                        .failed_results(failed.clone()),
                )
            });
            return Ok(Relation { selection: None, stream, schema: output, ..rows });
        }
        let window = window_spec(windowed, time);
        let times = match windowed.window.empty {
            Some(_) => self.source_times(input, windowed.window, &window)?,
            None => Vec::new(),
        };
        let (stream, keys, spec) = self.combined(&rows, spec, Some(window))?;
        let output = WindowAggregate::output_schema(&spec, &window).map_err(user)?;
        let make = window_aggregate(spec, window, windowed.window.empty, watermark, late, failed);
        make().map_err(user)?;
        let partitions = self.partitions(keys.len());
        let factory = move |_| Box::new(make().expect("checked when it was planned")) as Box<dyn Operator>;
        let schema = Arc::clone(&output);
        let stream =
            self.operator_with_times(&window_name, (stream, keys), &times, partitions, schema, factory);
        Ok(Relation { selection: None, stream, schema: output, ..rows })
    }

    fn table(&mut self, rows: Relation, spec: AggregateSpec) -> Result<Relation> {
        let name = describe(&spec, "table");
        let (stream, keys, spec) = self.combined(&rows, spec, None)?;
        let output = TableAggregate::output_schema(&spec).map_err(user)?;
        TableAggregate::new(&spec).map_err(user)?;
        let partitions = self.partitions(keys.len());
        let kind = Kind::Table { keys: Some((0..keys.len()).collect()) };
        let failed = self.failed_results.clone();
        let stream = self.operator(&name, &[(stream, keys)], partitions, Arc::clone(&output), move |_| {
            let table = TableAggregate::new(&spec).expect("checked when it was planned");
            Box::new(table.failed_results(failed.clone()))
        });
        Ok(Relation { selection: None, stream, schema: output, kind, ..rows })
    }

    /// Combines rows before the split, if that cannot change a result. Returns the stream, the indexes of the keys in
    /// it, and the specification of the operator behind it.
    fn combined(
        &mut self,
        rows: &Relation,
        spec: AggregateSpec,
        window: Option<WindowSpec>,
    ) -> Result<(tidemill_engine::StreamRef, Vec<usize>, AggregateSpec)> {
        if !spec.is_exact() {
            return Ok((rows.stream, spec.keys.clone(), spec));
        }
        let output = combined_schema(&spec, window.as_ref()).map_err(user)?;
        Combine::new(&spec, window.as_ref()).map_err(user)?;
        let combining = spec.clone();
        let stream = self.transform("combine", rows.stream, output, move || {
            Box::new(Combine::new(&combining, window.as_ref()).expect("checked when it was planned"))
        });
        let keys = (0..spec.keys.len()).collect();
        Ok((stream, keys, AggregateSpec { partial_input: true, ..spec }))
    }

    /// Reorders the columns of an aggregation (keys, bounds, results) as in the logical plan.
    fn in_order(
        &mut self,
        done: Relation,
        groups: &[Group],
        windowed: Option<Windowed>,
        aggregate: &Aggregate,
    ) -> Result<Relation> {
        let key_count = groups.iter().filter(|group| **group == Group::Key).count();
        let bounds = if windowed.is_some() { 2 } else { 0 };
        let mut next_key = 0;
        let mut places: Vec<usize> = Vec::new();
        let mut roles = vec![Role::None; done.schema.fields().len()];
        for group in groups {
            places.push(match group {
                Group::Key => {
                    next_key += 1;
                    next_key - 1
                }
                Group::Start => key_count,
                Group::End => key_count + 1,
            });
        }
        if let Some(windowed) = windowed {
            let window = Window { is_computed: true, empty: None, ..windowed.window };
            roles[key_count] = Role::WindowStart(window);
            roles[key_count + 1] = Role::WindowEnd(window);
        }
        places.extend((0..aggregate.aggr_expr.len()).map(|call| key_count + bounds + call));
        let done = Relation { roles, ordered: false, ..done };
        let done = match windowed {
            Some(windowed) if groups.contains(&Group::Start) => {
                self.with_starts(done, windowed, key_count)?
            }
            _ => done,
        };
        let selected = self.select(done, &places, &aggregate.schema)?;
        // The plan's own names, also where no column had to be moved.
        Ok(Relation { schema: schema_of(&aggregate.schema), ..selected })
    }

    /// Previously closed hopping windows are distinguished by their slides: their starts lie further back.
    fn with_starts(&mut self, done: Relation, windowed: Windowed, start: usize) -> Result<Relation> {
        let WindowKind::Hop { size_ns, slide_ns, .. } = windowed.window.kind else { return Ok(done) };
        if matches!(windowed.time, Time::Column(_)) || size_ns == slide_ns {
            return Ok(done);
        }
        let schema = DFSchema::try_from(done.schema.as_ref().clone())?;
        let mut columns: Vec<Expr> =
            (0..schema.fields().len()).map(|index| column_at(&schema, index)).collect();
        let back = Expr::Literal(ScalarValue::new_interval_mdn(0, 0, size_ns - slide_ns), None);
        columns[start] = (columns[start].clone() - back).alias("window_start");
        let roles = done.roles.clone();
        let moved = self.compute(done, &schema, &[], &columns, Some(&schema))?;
        Ok(Relation { roles, ..moved })
    }
}

/// Whether a group expression is a bound of a window.
fn bound(expression: &Expr, input: &Relation, schema: &DFSchema) -> Option<(Group, Windowed)> {
    if let Some(column) = as_column(expression, schema) {
        let role = input.roles[column];
        let window = role.window()?;
        let is_start = matches!(role, Role::WindowStart(_));
        let time = match (window.is_computed, is_start) {
            (false, _) => Time::Column(column),
            (true, true) => Time::StartOf(column),
            (true, false) => Time::EndOf(column),
        };
        // Closed sessions are distinguished by their bounds alone.
        if window.is_computed && window.size_ns().is_none() {
            return None;
        }
        let group = if is_start { Group::Start } else { Group::End };
        return Some((group, Windowed { window, time, delay_ns: window.delay_ns }));
    }
    let Expr::ScalarFunction(call) = expression.clone().unalias() else { return None };
    let [time, Expr::Literal(size, _)] = call.args.as_slice() else { return None };
    if call.func.name() != WINDOW_START {
        return None;
    }
    let column = as_column(time, schema)?;
    let delay_ns = input.roles[column].time_delay_ns()?;
    let kind = WindowKind::Tumble { size_ns: crate::logical::interval_ns(size).ok()?, offset_ns: 0 };
    let window = Window { kind, id: 0, delay_ns, empty: None, is_computed: false };
    Some((Group::Start, Windowed { window, time: Time::Column(column), delay_ns }))
}

/// The event time that assigns rows to windows. Rows that carry the bounds of closed windows come when the watermark
/// has passed the end, so they belong to the instant before it.
fn time_expression(windowed: Windowed, schema: &DFSchema) -> Expr {
    let minus_1_ns = |expression: Expr, size_ns: i64| {
        let length = ScalarValue::new_interval_mdn(0, 0, size_ns - 1);
        expression + Expr::Literal(length, None)
    };
    match windowed.time {
        Time::Column(column) => column_at(schema, column),
        Time::EndOf(column) => minus_1_ns(column_at(schema, column), 0),
        Time::StartOf(column) => {
            minus_1_ns(column_at(schema, column), windowed.window.size_ns().unwrap_or(0))
        }
    }
}

fn window_spec(windowed: Windowed, time: usize) -> WindowSpec {
    let (size_ns, slide_ns, offset_ns) = match windowed.window.kind {
        WindowKind::Tumble { size_ns, offset_ns } => (size_ns, size_ns, offset_ns),
        WindowKind::Hop { size_ns, slide_ns, offset_ns } => (size_ns, slide_ns, offset_ns),
        WindowKind::Session { .. } => (1, 1, 0),
    };
    match windowed.time {
        Time::Column(_) => WindowSpec { time, size_ns, slide_ns, offset_ns },
        // Windows that are already closed are not divided again: each ends with its own slide.
        _ => WindowSpec { time, size_ns: slide_ns, slide_ns, offset_ns: offset_ns + size_ns % slide_ns },
    }
}

/// Names and types in the operator's order: keys, bounds, results.
fn names(aggregate: &Aggregate, groups: &[Group], windowed: bool) -> Vec<(String, arrow_schema::DataType)> {
    let field = |index: usize| {
        let field = aggregate.schema.field(index);
        (field.name().clone(), field.data_type().clone())
    };
    let keys = groups.iter().enumerate().filter(|(_, group)| **group == Group::Key);
    let mut names: Vec<_> = keys.map(|(index, _)| field(index)).collect();
    if windowed {
        for (bound, name) in [(Group::Start, "window_start"), (Group::End, "window_end")] {
            let given = groups.iter().position(|group| *group == bound).map(field);
            names.push(given.unwrap_or((name.into(), arrow_schema::DataType::Null)));
        }
    }
    let first = aggregate.group_expr.len();
    names.extend((0..aggregate.aggr_expr.len()).map(|call| field(first + call)));
    names
}

fn window_words(window: Window) -> String {
    let length = crate::text::duration::display_ns;
    let words = match window.kind {
        WindowKind::Tumble { size_ns, .. } => format!("tumble {}", length(size_ns)),
        WindowKind::Hop { size_ns, slide_ns, .. } => {
            format!("hop {} every {}", length(size_ns), length(slide_ns))
        }
        WindowKind::Session { gap_ns } => format!("session {}", length(gap_ns)),
    };
    match window.empty {
        Some(EmptyWindows { windows_max }) => format!("{words}, also {windows_max} empty"),
        None => words,
    }
}

/// What makes an aggregation over windows.
fn window_aggregate(
    spec: AggregateSpec,
    window: WindowSpec,
    empty: Option<EmptyWindows>,
    watermark: WatermarkSpec,
    late: Arc<AtomicU64>,
    failed: FailedResults,
) -> impl Fn() -> std::result::Result<WindowAggregate, Cause> {
    move || {
        let made = WindowAggregate::new(&spec, &window, watermark.clone(), Arc::clone(&late))?;
        let made = made.failed_results(failed.clone());
        match &empty {
            Some(empty) => made.empty_windows(empty, &window),
            None => Ok(made),
        }
    }
}
