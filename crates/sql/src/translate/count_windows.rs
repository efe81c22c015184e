//! Windows by count: all rows of a window come together, so whatever groups by the window's bounds is complete when the
//! cycle ends.

use std::sync::Arc;

use datafusion::common::{DFSchema, DataFusionError, Result};
use datafusion::logical_expr::{Aggregate, Expr, Sort};
use tidemill_engine::Cause;
use tidemill_operators::count_windows::{CountWindows, CountWindowsSpec, output_schema};
use tidemill_operators::{AggregateSpec, CycleAggregate};

use super::columns::schema_of;
use super::relation::CountWindow;
use super::{Relation, Role, Translator, as_column, refuse};
use crate::logical::CountWindowsNode;

impl Translator {
    pub(super) fn count_windows(&mut self, node: &CountWindowsNode) -> Result<Relation> {
        let relation = match &node.time {
            None => self.relation(&node.input)?,
            Some(time) => self.sort(&Sort {
                expr: vec![Expr::Column(time.clone()).sort(true, false)],
                input: Arc::clone(&node.input),
                fetch: None,
            })?,
        };
        let relation = self.with_known_bounds(relation, node.input.schema())?;
        if !relation.is_stream() {
            return Err(refuse(
                "a window by count over a table (an aggregate without a window) has no rows to count, because later \
                 rows replace earlier ones",
                "apply it to the stream from which the table is computed",
            ));
        }
        let schema = node.input.schema();
        let keys: Vec<usize> =
            node.keys.iter().map(|key| schema.index_of_column(key)).collect::<Result<_>>()?;
        let partitions = self.partitions(keys.len());
        let spec = CountWindowsSpec {
            schema: Arc::clone(&relation.schema),
            keys: keys.clone(),
            size: node.window.size,
            slide: node.window.slide,
            watermark: self.watermark(&relation, 0),
            rows_max: self.rows_max(partitions),
        };
        CountWindows::new(spec.clone())
            .map_err(|cause| refuse(cause.to_string(), "cast the key to a type that can be compared"))?;
        let output = output_schema(&spec);
        let name = describe(node);
        let inputs = [(relation.stream, keys.clone())];
        let stream = self.operator(&name, &inputs, partitions, output, move |_| {
            Box::new(CountWindows::new(spec.clone()).expect("checked when it was planned"))
        });
        self.windows += 1;
        let window = CountWindow { id: self.windows, keys: keys.len() };
        // Rows are held until their window is full, so nothing is known of their times.
        let mut roles = vec![Role::None; schema.fields().len()];
        keys.iter().for_each(|key| roles[*key] = Role::CountKey(window));
        roles.resize(node.schema.fields().len(), Role::CountBound(window));
        let schema = schema_of(&node.schema);
        Ok(Relation { stream, schema, roles, ordered: false, selection: None, ..relation })
    }

    /// The aggregation of rows that are grouped by a window by count, whose groups are complete when the cycle ends.
    pub(super) fn cycle(&mut self, rows: Relation, spec: AggregateSpec, name: &str) -> Result<Relation> {
        let output = CycleAggregate::output_schema(&spec).map_err(user)?;
        CycleAggregate::new(&spec).map_err(user)?;
        let partitions = self.partitions(spec.keys.len());
        let (inputs, failed) = ([(rows.stream, spec.keys.clone())], self.failed_results.clone());
        let stream = self.operator(name, &inputs, partitions, Arc::clone(&output), move |_| {
            let aggregate = CycleAggregate::new(&spec).expect("checked when it was planned");
            Box::new(aggregate.failed_results(failed.clone()))
        });
        Ok(Relation { selection: None, stream, schema: output, ..rows })
    }
}

/// Whether rows are grouped by a window by count, and then by all that has windows of its own.
pub(super) fn is_by_count(aggregate: &Aggregate, input: &Relation, schema: &DFSchema) -> Result<bool> {
    let role = |group: &Expr| as_column(group, schema).map(|column| input.roles[column]);
    let roles: Vec<Role> = aggregate.group_expr.iter().filter_map(role).collect();
    let bound = roles.iter().find_map(|role| match role {
        Role::CountBound(window) => Some(*window),
        _ => None,
    });
    let Some(window) = bound else { return Ok(false) };
    let is_key =
        |column: &Option<usize>| column.is_some_and(|column| input.roles[column] == Role::CountKey(window));
    let mut keys: Vec<_> =
        aggregate.group_expr.iter().map(|group| as_column(group, schema)).filter(is_key).collect();
    keys.sort_unstable();
    keys.dedup();
    if keys.len() == window.keys {
        Ok(true)
    } else {
        Err(refuse(
            "rows are grouped by the bounds of a window by count and not by its key, but each key has windows of its \
             own, which are complete at different times",
            "add the columns of key => ... to GROUP BY",
        ))
    }
}

fn user(cause: Cause) -> DataFusionError {
    DataFusionError::Plan(cause.to_string())
}

fn describe(node: &CountWindowsNode) -> String {
    let keys: Vec<&str> = node.keys.iter().map(|key| key.name.as_str()).collect();
    let (size, slide) = (node.window.size, node.window.slide);
    let every = if size == slide { String::new() } else { format!(" every {slide}") };
    format!("windows of {size} rows{every} by ({})", keys.join(", "))
}
