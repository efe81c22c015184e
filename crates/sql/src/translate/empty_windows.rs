//! Windows without rows: the times of the sources' rows as inputs of their own, and conditions on the bounds.
//!
//! Which windows there are must not depend on the query's conditions, nor on where the input was cut. So the operator
//! also gets the times of the rows as they come in: one row for each pane that a batch has rows in, sent to all partitions.

use std::sync::Arc;

use arrow_schema::SchemaRef;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{Aggregate, Expr};
use tidemill_engine::{BROADCAST, Operator, Route, StreamRef, TransformPlan, route_by_hash};
use tidemill_operators::{AggregateSpec, Combine, WindowSpec, combined_schema};

use super::{Relation, Role, Translator, Window, column_at, refuse, user};
use crate::logical::WindowKind;

impl Translator {
    /// The times of the rows of all sources that a relation comes from.
    pub(super) fn source_times(
        &mut self,
        input: &Relation,
        windows: Window,
        window: &WindowSpec,
    ) -> Result<Vec<StreamRef>> {
        let of_sources = input.sources.iter().filter_map(|source| self.event_time_of(*source));
        let mut rows: Vec<(StreamRef, usize)> = of_sources.collect();
        if rows.is_empty() {
            // A file without a watermark: its windows close when it ends, and its rows are the ones that are windowed.
            let is_bound = |role: &Role| role.window().is_some_and(|bound| bound.id == windows.id);
            let time = input.roles.iter().position(is_bound);
            rows.extend(time.map(|time| (input.stream, time)));
        }
        rows.into_iter().map(|(stream, time)| self.times(stream, time, window)).collect()
    }

    /// The rows of a source, and which column is their event time.
    fn event_time_of(&self, source: usize) -> Option<(StreamRef, usize)> {
        let relation = self.rows_of_source(source)?;
        let is_event_time = |role: &Role| matches!(role, Role::EventTime { .. });
        Some((relation.stream, relation.roles.iter().position(is_event_time)?))
    }

    /// One row for each pane in which a batch has rows. It is computed where the rows come in, also for a process.
    fn times(&mut self, stream: StreamRef, time: usize, window: &WindowSpec) -> Result<StreamRef> {
        let schema = Arc::clone(self.plan.schema(stream).expect("the stream was made before"));
        let spec = AggregateSpec {
            keys: Vec::new(),
            calls: Vec::new(),
            names: Vec::new(),
            input: schema,
            partial_input: false,
            groups_max: usize::MAX,
        };
        let window = WindowSpec { time, ..*window };
        let output = combined_schema(&spec, Some(&window)).map_err(user)?;
        Combine::new(&spec, Some(&window)).map_err(user)?;
        Ok(self.plan.transform(TransformPlan::new("times of rows", stream, output, move || {
            Box::new(Combine::new(&spec, Some(&window)).expect("checked when it was planned"))
        })))
    }

    /// An operator as [`operator`](Translator::operator) makes it, of which all partitions also get these times.
    pub(super) fn operator_with_times(
        &mut self,
        name: &str,
        (stream, keys): (StreamRef, Vec<usize>),
        times: &[StreamRef],
        partitions: u32,
        output: SchemaRef,
        factory: impl Fn(u32) -> Box<dyn Operator> + Send + Sync + 'static,
    ) -> StreamRef {
        let schema = Arc::clone(self.plan.schema(stream).expect("the stream was made before"));
        let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
        let operator = self.numbered(name, partitions, factory).output(output);
        let mut operator = operator.input(stream, &names, route_by_hash(keys, partitions));
        for stream in times {
            let schema = self.plan.schema(*stream).expect("the stream was made before");
            let to_all: Box<Route> = Box::new(|rows, destinations| {
                destinations.resize(destinations.len() + rows.num_rows(), BROADCAST);
            });
            operator = operator.input(*stream, &[schema.field(0).name()], to_all);
        }
        self.plan.operator(operator)[0]
    }

    /// The rows of those windows that conditions on their bounds let pass.
    pub(super) fn of_windows(
        &mut self,
        windows: Relation,
        conditions: &[Expr],
        schema: &DFSchema,
    ) -> Result<Relation> {
        if conditions.is_empty() {
            return Ok(windows);
        }
        let all: Vec<Expr> = (0..schema.fields().len()).map(|index| column_at(schema, index)).collect();
        self.compute(windows, schema, conditions, &all, Some(schema))
    }
}

/// Divides conditions into those on rows and those on windows with rows and without, which come behind the aggregation.
/// DataFusion moves the latter before it.
pub(super) fn of_written_windows(
    filters: Vec<Expr>,
    input: &Relation,
    schema: &DFSchema,
    aggregate: &Aggregate,
) -> (Vec<Expr>, Vec<Expr>) {
    let has_bound = |condition: &Expr| {
        let places =
            condition.column_refs().into_iter().filter_map(|column| schema.maybe_index_of_column(column));
        let mut windows = places.filter_map(|place| input.roles[place].window());
        windows.any(|window| window.empty.is_some() && !window.is_computed)
    };
    let is_of_group = |condition: &Expr| {
        let is_group = |column| aggregate.group_expr.contains(&Expr::Column(column));
        condition.column_refs().into_iter().cloned().all(is_group)
    };
    let conditions = filters.iter().flat_map(split_conjunction).cloned();
    let (windows, rows): (Vec<Expr>, Vec<Expr>) =
        conditions.partition(|condition| has_bound(condition) && is_of_group(condition));
    if windows.is_empty() { (filters, windows) } else { (rows, windows) }
}

/// Checks that what reads rows keeps a bound of their windows, where it makes a difference: windows without rows
/// exist only where rows are grouped by them, and only there a row counts in each of its hopping windows.
pub(super) fn check_windows_kept(input: &Relation, is_kept: bool) -> Result<()> {
    if is_kept {
        return Ok(());
    }
    let windows = || input.roles.iter().filter_map(|role| role.window());
    if windows().any(|window| window.empty.is_some()) {
        return Err(refuse(
            "empty => ... has no effect if rows are not grouped by their windows",
            "add window_end to GROUP BY",
        ));
    }
    let hops = |window: Window| match window.kind {
        WindowKind::Hop { size_ns, slide_ns, .. } => !window.is_computed && size_ns > slide_ns,
        _ => false,
    };
    if windows().any(hops) {
        return Err(refuse(
            "hop(...) puts each row into several windows, but the rows are not grouped by them",
            "add window_start, window_end to GROUP BY, or read the rows without hop(...)",
        ));
    }
    Ok(())
}
