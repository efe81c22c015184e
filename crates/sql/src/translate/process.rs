//! Processes: parts of the plan that each run in one place. A process receives its input there before it computes
//! anything, so all of its work is done in its place.

use std::sync::Arc;

use datafusion::common::Result;
use tidemill_engine::{PlanError, Producer, StreamRef, places_of};
use tidemill_operators::forward::{Forward, ForwardSpec};

use super::{Relation, Translator, refuse};
use crate::logical::{Postfilter, ProcessNode};

impl Translator {
    /// The rows of a process.
    pub(super) fn process(&mut self, node: &ProcessNode) -> Result<Relation> {
        let known = self.processes.iter().find(|(known, _)| Arc::ptr_eq(known, &node.mark.0));
        if let Some((_, relation)) = known {
            return Ok(relation.clone());
        }
        let number = self.plan.stream_process(node.mark.0.plan.clone());
        let outer = self.process.replace(number);
        let relation = self.output(&node.input).map(|relation| {
            let stream = self.received(relation.stream);
            // Its readers read its output, not its input.
            Relation { stream, selection: None, ..relation }
        });
        self.process = outer;
        let relation = relation?;
        self.processes.push((Arc::clone(&node.mark.0), relation.clone()));
        Ok(relation)
    }

    /// What is filtered and computed before it is sent: in the process that the rows come from, as part of no other.
    pub(super) fn postfilter(&mut self, node: &Postfilter) -> Result<Relation> {
        let reader = self.process.take();
        let relation = self.output(&node.input);
        self.process = reader;
        relation.map(|relation| Relation { selection: None, ..relation })
    }

    /// A stream as seen by the process being translated: received in its place, if it comes from elsewhere.
    pub(super) fn received(&mut self, stream: StreamRef) -> StreamRef {
        let Some(process) = self.process else { return stream };
        let is_own = |operator: usize| self.plan.operators[operator].stream_process == Some(process);
        if matches!(self.plan.root(stream).producer, Producer::Operator(operator) if is_own(operator)) {
            return stream;
        }
        if let Some(received) = self.received.get(&(process, stream)) {
            return *received;
        }
        let schema = Arc::clone(self.plan.schema(stream).expect("the stream was made before"));
        let spec = ForwardSpec { schema: Arc::clone(&schema) };
        let inputs = [(stream, Vec::new())];
        let received =
            self.operator("receive", &inputs, 1, schema, move |_| Box::new(Forward::new(spec.clone())));
        self.received.insert((process, stream), received);
        received
    }

    /// The worker of each process.
    pub fn places(&self) -> Result<Vec<u32>> {
        places_of(&self.plan.stream_processes, self.limits.workers).map_err(|error| match error {
            PlanError::NoPlace { process, asked, places } => refuse(
                format!(
                    "process {process} must run on {asked}, but the workers are 0 to {}",
                    places.saturating_sub(1)
                ),
                "increase the setting workers, or write PREFER instead of AT",
            ),
            other => datafusion::common::DataFusionError::Plan(other.to_string()),
        })
    }
}
