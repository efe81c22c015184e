//! Windows in FROM: the columns window_start and window_end hold the event time until someone needs the bounds, because
//! an aggregation computes the window itself.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::{Aggregate, Expr, LogicalPlan, UserDefinedLogicalNode, cast, lit};
use tidemill_operators::watermark::FOREVER_NS;

use super::columns::replace_columns;
use super::{Relation, Role, Translator, Window, as_column, column_at, refuse};
use crate::logical::{
    AsOfTheRow, CountWindowsNode, LastOfKey, OperatorCall, Postfilter, ProcessNode, RegionsNode, SplitStream,
    WeightedRows, WindowAssign, WindowKind, window_start,
};

impl Translator {
    pub(super) fn extension(&mut self, node: &dyn UserDefinedLogicalNode) -> Result<Relation> {
        let any = node.as_any();
        if let Some(assign) = any.downcast_ref::<WindowAssign>() {
            return self.window_assign(assign);
        }
        if let Some(windows) = any.downcast_ref::<CountWindowsNode>() {
            return self.count_windows(windows);
        }
        if let Some(split) = any.downcast_ref::<SplitStream>() {
            return self.split_stream(split);
        }
        if let Some(process) = any.downcast_ref::<ProcessNode>() {
            return self.process(process);
        }
        if let Some(postfilter) = any.downcast_ref::<Postfilter>() {
            return self.postfilter(postfilter);
        }
        if let Some(last) = any.downcast_ref::<LastOfKey>() {
            return self.last_of_key(last);
        }
        if let Some(table) = any.downcast_ref::<AsOfTheRow>() {
            return self.as_of_the_row(table);
        }
        if let Some(weighted) = any.downcast_ref::<WeightedRows>() {
            return self.weighted_rows(weighted);
        }
        if let Some(regions) = any.downcast_ref::<RegionsNode>() {
            return self.adaptive_regions(regions);
        }
        match any.downcast_ref::<OperatorCall>() {
            Some(call) => self.operator_call(call),
            None => Err(refuse(format!("{} cannot run on a stream", node.name()), "remove it")),
        }
    }

    fn window_assign(&mut self, assign: &WindowAssign) -> Result<Relation> {
        let input = self.with_distinct_times(&assign.input)?;
        let relation = self.relation(&input)?;
        let input = input.schema();
        let time = input.index_of_column(&assign.time)?;
        let delay_ns = self.window_delay_ns(&relation, time);
        if delay_ns.is_none() && self.takes_changes {
            return self.open_windows(assign);
        }
        let Some(delay_ns) = delay_ns else {
            return Err(refuse(
                format!("'{}' is not an event time, so a window over it never closes", assign.time.name),
                "declare it as the watermark's column: CREATE SOURCE ... (..., WATERMARK FOR event_time AS event_time)",
            ));
        };
        let mut columns: Vec<Expr> = (0..input.fields().len()).map(|index| column_at(input, index)).collect();
        let bound = Expr::Column(assign.time.clone());
        // Rows of closed windows that are assigned to larger ones come when they end, which may close these at once.
        let (bound, delay_ns) = match nested_in(relation.roles[time], assign.kind) {
            Some((inner, size_ns)) => {
                let last_instant = lit(ScalarValue::new_interval_mdn(0, 0, size_ns - 1));
                (bound + last_instant, inner.delay_ns)
            }
            None => (bound, delay_ns),
        };
        columns.extend([bound.clone().alias("window_start"), bound.alias("window_end")]);
        let mut assigned = self.compute(relation, input, &[], &columns, Some(&assign.schema))?;
        self.windows += 1;
        let (kind, empty, id) = (assign.kind, assign.empty, self.windows);
        let window = Window { kind, id, delay_ns, empty, is_computed: false };
        let bounds = input.fields().len();
        assigned.roles[bounds] = Role::WindowStart(window);
        assigned.roles[bounds + 1] = Role::WindowEnd(window);
        Ok(assigned)
    }

    /// The plan in which DISTINCT keeps equal rows apart until their event time is over, instead of forever: rows with different event times
    /// differ anyway.
    fn with_distinct_times(&mut self, plan: &LogicalPlan) -> Result<LogicalPlan> {
        match plan {
            LogicalPlan::Projection(_) | LogicalPlan::SubqueryAlias(_) | LogicalPlan::Filter(_) => {
                let input = self.with_distinct_times(plan.inputs()[0])?;
                plan.with_new_exprs(plan.expressions(), vec![input])
            }
            LogicalPlan::Aggregate(aggregate) if aggregate.aggr_expr.is_empty() => {
                let rows = self.relation(&aggregate.input)?;
                let schema = aggregate.input.schema();
                let is_time = |key: &Expr| {
                    let place = as_column(key, schema);
                    place.is_some_and(|place| matches!(rows.roles[place], Role::EventTime { .. }))
                };
                let Some(time) = aggregate.group_expr.iter().position(is_time) else {
                    return Ok(plan.clone());
                };
                let mut keys = aggregate.group_expr.clone();
                let (qualifier, field) = aggregate.schema.qualified_field(time);
                let instant = lit(ScalarValue::new_interval_mdn(0, 0, 1));
                let start = window_start().call(vec![keys[time].clone().unalias(), instant]);
                keys[time] = start.alias_qualified(qualifier.cloned(), field.name());
                let aggregate = Aggregate::try_new(Arc::clone(&aggregate.input), keys, Vec::new())?;
                Ok(LogicalPlan::Aggregate(aggregate))
            }
            other => Ok(other.clone()),
        }
    }

    /// By how much the times of a column may be behind the watermark; `None` if no window over them can be closed. The
    /// end of a file closes all windows, so any time will do there.
    fn window_delay_ns(&self, relation: &Relation, time: usize) -> Option<i64> {
        let ends = || relation.sources.iter().all(|source| self.is_finite(*source));
        let is_exact =
            *relation.schema.field(time).data_type() == DataType::Timestamp(TimeUnit::Nanosecond, None);
        match relation.roles[time] {
            _ if !relation.is_stream() => None,
            Role::None if is_exact && ends() => Some(FOREVER_NS),
            role => role.time_delay_ns(),
        }
    }
}

impl Translator {
    /// The rows with the bounds of their windows computed, for a reader that uses them as values.
    pub(super) fn with_known_bounds(&mut self, relation: Relation, schema: &DFSchema) -> Result<Relation> {
        let is_pending = |role: &Role| role.window().is_some_and(|window| !window.is_computed);
        if !relation.roles.iter().any(is_pending) {
            return Ok(relation);
        }
        // Within an expression, even one that changes nothing, a bound is computed.
        let columns = (0..schema.fields().len()).map(|index| {
            if is_pending(&relation.roles[index]) {
                cast(column_at(schema, index), schema.field(index).data_type().clone())
            } else {
                column_at(schema, index)
            }
        });
        let columns: Vec<Expr> = columns.collect();
        self.compute(relation, schema, &[], &columns, Some(schema))
    }
}

/// The closed windows whose start a column holds, and their size, if each lies completely within one of the larger
/// windows that they are assigned to.
fn nested_in(role: Role, outer: WindowKind) -> Option<(Window, i64)> {
    let Role::WindowStart(inner) = role else { return None };
    let WindowKind::Tumble { size_ns, offset_ns } = inner.kind else { return None };
    let (outer_size_ns, slide_ns, outer_offset_ns) = match outer {
        WindowKind::Tumble { size_ns, offset_ns } => (size_ns, size_ns, offset_ns),
        WindowKind::Hop { size_ns, slide_ns, offset_ns } => (size_ns, slide_ns, offset_ns),
        WindowKind::Session { .. } => return None,
    };
    let lengths_ns = [outer_size_ns, slide_ns, outer_offset_ns - offset_ns];
    let is_nested = lengths_ns.iter().all(|length_ns| length_ns % size_ns == 0);
    (inner.is_computed && is_nested).then_some((inner, size_ns))
}

/// An expression in which columns that represent window bounds are computed.
pub(super) fn with_bounds(expression: Expr, relation: &Relation, schema: &DFSchema) -> Result<Expr> {
    replace_columns(expression, |column| {
        let Some(index) = schema.maybe_index_of_column(column) else { return Ok(None) };
        let role = relation.roles[index];
        let Some(window) = role.window().filter(|window| !window.is_computed) else { return Ok(None) };
        if window.empty.is_some() {
            return Err(refuse(
                "the bounds of windows with empty => ... are known only in an aggregation, because windows without \
                 rows are made there",
                "GROUP BY window_start, window_end first, and use them in an outer query",
            ));
        }
        let WindowKind::Tumble { size_ns, offset_ns } = window.kind else {
            return Err(refuse(
                "the bounds of hopping and session windows are known only in an aggregation",
                "GROUP BY window_start, window_end first, and use them in an outer query",
            ));
        };
        let interval = |length_ns: i64| lit(ScalarValue::new_interval_mdn(0, 0, length_ns));
        let (time, size) = (Expr::Column(column.clone()), interval(size_ns));
        let start = match offset_ns.rem_euclid(size_ns) {
            0 => window_start().call(vec![time, size.clone()]),
            // Windows that start elsewhere are equivalent to windows of times shifted to the others' starts.
            moved_ns => {
                window_start().call(vec![time - interval(moved_ns), size.clone()]) + interval(moved_ns)
            }
        };
        Ok(Some(match role {
            Role::WindowEnd(_) => start + size,
            _ => start,
        }))
    })
}
