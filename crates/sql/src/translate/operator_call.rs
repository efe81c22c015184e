//! Calls of users' operators.

use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::Result;
use tidemill_engine::StreamRef;

use super::columns::schema_of;
use super::split_stream::SplitInput;
use super::{Kind, Relation, Role, Translator, refuse};
use crate::expressions::filter_project::describe;
use crate::extension::CallContext;
use crate::logical::{OperatorCall, SplitStream, node_of};

impl Translator {
    pub(super) fn operator_call(&mut self, call: &OperatorCall) -> Result<Relation> {
        if call.inputs.iter().any(|input| node_of::<SplitStream>(input).is_some()) {
            return self.mapped_call(call);
        }
        let inputs: Vec<Relation> =
            call.inputs.iter().map(|input| self.output(input)).collect::<Result<_>>()?;
        let mut streams = Vec::new();
        let mut keyed = true;
        for (index, input) in inputs.iter().enumerate() {
            let names = call.bound.keys.get(index).map_or(&[][..], Vec::as_slice);
            let place = |name: &String| {
                input.schema.index_of(name).map_err(|_| {
                    refuse(
                        format!(
                            "{}() needs the column '{name}' in its input {index}, which does not have it",
                            call.name
                        ),
                        "pass a table that has this column",
                    )
                })
            };
            let keys: Vec<usize> = names.iter().map(place).collect::<Result<_>>()?;
            keyed &= !keys.is_empty();
            streams.push((input.stream, keys));
        }
        let partitions = self.partitions(usize::from(keyed));
        let output = schema_of(&call.schema);
        let (bound, context) = (Arc::clone(&call.bound), self.call_context(partitions));
        let stream = self.operator(&call.name, &streams, partitions, Arc::clone(&output), move |partition| {
            (bound.make)(partition, &context)
        });
        Ok(called(stream, output, &inputs.iter().collect::<Vec<_>>()))
    }

    fn call_context(&self, partitions: u32) -> CallContext {
        let faults = self.faults.clone();
        let leave_out = Arc::new(move |reason: &str, row: &RecordBatch| {
            faults.add(|| describe(reason, row));
        });
        CallContext { leave_out, keys_max: self.groups_max(partitions) }
    }

    /// The operator is applied to each sub-stream, with one instance for each.
    fn mapped_call(&mut self, call: &OperatorCall) -> Result<Relation> {
        let splits: Option<Vec<&SplitStream>> = call.inputs.iter().map(node_of).collect();
        let splits = splits.filter(|splits| splits.iter().all(|one| one.partitions == splits[0].partitions));
        let Some(splits) = splits else {
            return Err(refuse(
                format!("the inputs of {}() are not split into equally many sub-streams", call.name),
                "split all of them; split an input whose rows every sub-stream needs with \
                 splitstream(TABLE(t), n, broadcast => true)",
            ));
        };
        let partitions = splits[0].partitions;
        let inputs: Vec<SplitInput> =
            splits.into_iter().map(|split| self.split_input(split)).collect::<Result<_>>()?;
        let output = schema_of(&call.schema);
        let (bound, context) = (Arc::clone(&call.bound), self.call_context(partitions));
        let make = move |partition| (bound.make)(partition, &context);
        let operator = self.numbered(&call.name, partitions, make);
        let mut operator = operator.output(Arc::clone(&output));
        for input in &inputs {
            operator = self.with_split(operator, input);
        }
        let stream = self.plan.operator(operator)[0];
        Ok(called(stream, output, &inputs.iter().map(SplitInput::relation).collect::<Vec<_>>()))
    }
}

/// The output of an operator: only the types of its columns are known.
fn called(stream: StreamRef, schema: SchemaRef, inputs: &[&Relation]) -> Relation {
    let mut sources: Vec<usize> = inputs.iter().flat_map(|input| input.sources.clone()).collect();
    sources.sort_unstable();
    sources.dedup();
    Relation {
        stream,
        roles: vec![Role::None; schema.fields().len()],
        schema,
        kind: Kind::Stream,
        sources,
        ordered: false,
        is_as_of_the_row: false,
        is_finite: inputs.iter().all(|input| input.is_finite),
        selection: None,
    }
}
