//! UNION ALL.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::logical_expr::{LogicalPlan, Union};
use tidemill_operators::forward::{Forward, ForwardSpec};

use super::changelog::KEEP_UP_TO_DATE;
use super::columns::{schema_of, spread};
use super::{Kind, Relation, Role, Translator, Window, refuse};

/// `a UNION ALL b UNION ALL c` is a union within a union. Beyond this many, one operator unites them all, because each
/// union on its way costs a row another split. Fewer stay as they were, for durable queries are found by their operators.
const LEVELS_MAX: usize = 8;

impl Translator {
    pub(super) fn union(&mut self, union: &Union) -> Result<Relation> {
        let mut inputs = Vec::new();
        if levels(union) > LEVELS_MAX {
            self.all_inputs(union, &mut inputs)?
        } else {
            for input in &union.inputs {
                inputs.push(self.output(input)?);
            }
        }
        if inputs.iter().any(|input| !input.is_stream()) {
            if self.takes_changes {
                return self.changing_union(union, inputs);
            }
            return Err(refuse(
                "UNION ALL of tables (aggregates without a window) would mix rows of the same key",
                KEEP_UP_TO_DATE,
            ));
        }
        let output = schema_of(&union.schema);
        let columns = output.fields().len();
        let keys = spread(&output);
        let streams: Vec<_> = inputs.iter().map(|input| (input.stream, keys.clone())).collect();
        let partitions = self.limits.partitions;
        let spec = ForwardSpec { schema: Arc::clone(&output) };
        let stream = self.operator("union all", &streams, partitions, Arc::clone(&output), move |_| {
            Box::new(Forward::new(spec.clone()))
        });
        let roles = (0..columns).map(|column| role(&inputs, column)).collect();
        let mut sources: Vec<usize> = inputs.iter().flat_map(|input| input.sources.clone()).collect();
        sources.sort_unstable();
        sources.dedup();
        let is_finite = inputs.iter().all(|input| input.is_finite);
        Ok(Relation {
            selection: None,
            stream,
            schema: output,
            roles,
            kind: Kind::Stream,
            sources,
            ordered: false,
            is_as_of_the_row: false,
            is_finite,
        })
    }

    /// The inputs of a union and of the unions that are its inputs.
    fn all_inputs(&mut self, union: &Union, inputs: &mut Vec<Relation>) -> Result<()> {
        for input in &union.inputs {
            match input.as_ref() {
                LogicalPlan::Union(inner) => self.all_inputs(inner, inputs)?,
                input => inputs.push(self.output(input)?),
            }
        }
        Ok(())
    }
}

/// How many unions contain each other.
fn levels(union: &Union) -> usize {
    let mut levels = 1;
    let mut inner = union;
    while let Some(LogicalPlan::Union(next)) = inner.inputs.first().map(Arc::as_ref) {
        levels += 1;
        inner = next;
    }
    levels
}

/// A column is an event time of the union if it is one in every input. It is a window bound if it is the same bound of
/// the same kind of windows in every input, so that partial aggregates can be aggregated again.
fn role(inputs: &[Relation], column: usize) -> Role {
    if let Some(bound) = bound(inputs, column) {
        return bound;
    }
    let delays = inputs.iter().map(|input| input.roles[column].time_delay_ns());
    match delays.collect::<Option<Vec<i64>>>() {
        Some(delays) => Role::EventTime { delay_ns: delays.into_iter().max().unwrap_or(0) },
        None => Role::None,
    }
}

fn bound(inputs: &[Relation], column: usize) -> Option<Role> {
    let roles = || inputs.iter().map(|input| input.roles[column]);
    let windows: Vec<Window> = roles().map(Role::window).collect::<Option<_>>()?;
    let first = *windows.first()?;
    let same = windows.iter().all(|window| window.is_computed && window.kind == first.kind);
    let delay_ns = windows.iter().map(|window| window.delay_ns).max()?;
    let window = Window { delay_ns, ..first };
    if !same {
        None
    } else if roles().all(|role| matches!(role, Role::WindowStart(_))) {
        Some(Role::WindowStart(window))
    } else if roles().all(|role| matches!(role, Role::WindowEnd(_))) {
        Some(Role::WindowEnd(window))
    } else {
        None
    }
}
