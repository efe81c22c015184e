//! Calls of a user's own operator.

use std::sync::Arc;

use datafusion::common::Result;

use super::columns::schema_of;
use super::{Kind, Relation, Role, Translator, refuse};
use crate::logical::OperatorCall;

impl Translator {
    pub(super) fn operator_call(&mut self, call: &OperatorCall) -> Result<Relation> {
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
                            "{}() wants its input {index} by '{name}', which it does not have",
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
        let bound = Arc::clone(&call.bound);
        let stream = self.operator(&call.name, &streams, partitions, Arc::clone(&output), move |partition| {
            (bound.factory)(partition)
        });
        let mut sources: Vec<usize> = inputs.iter().flat_map(|input| input.sources.clone()).collect();
        sources.sort_unstable();
        sources.dedup();
        Ok(Relation {
            stream,
            roles: vec![Role::None; output.fields().len()],
            schema: output,
            kind: Kind::Stream,
            sources,
            ordered: false,
            is_finite: inputs.iter().all(|input| input.is_finite),
            selection: None,
        })
    }
}
