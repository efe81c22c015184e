//! UNION ALL of which an input changes: all changes of all inputs.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::logical_expr::Union;
use tidemill_operators::changes::changelog_schema;
use tidemill_operators::forward::{Forward, ForwardSpec};

use super::changing;
use crate::translate::columns::{schema_of, spread};
use crate::translate::relation::merge_sources;
use crate::translate::{Relation, Translator, refuse};

impl Translator {
    /// The changelogs of all inputs together.
    pub(in crate::translate) fn changing_union(
        &mut self,
        union: &Union,
        inputs: Vec<Relation>,
    ) -> Result<Relation> {
        let inputs = inputs.into_iter().map(|input| self.weighted(input)).collect::<Result<Vec<_>>>()?;
        let schema = schema_of(&union.schema);
        let output = changelog_schema(&schema);
        // Equal rows meet in one partition.
        let keys = spread(&schema);
        let streams: Vec<_> = inputs.iter().map(|input| (input.stream, keys.clone())).collect();
        let spec = ForwardSpec { schema: Arc::clone(&output) };
        let stream =
            self.operator("union all of changes", &streams, self.limits.partitions, output, move |_| {
                Box::new(Forward::new(spec.clone()))
            });
        let together = inputs.into_iter().reduce(|one, other| merge_sources(one, &other));
        let together = together.ok_or_else(|| refuse("a union of nothing has no rows", "remove it"))?;
        Ok(changing(together, stream, schema))
    }
}
