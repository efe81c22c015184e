//! What the definitions of a catalogue keep in the journal of a database.

use std::collections::BTreeSet;

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::logical_expr::LogicalPlan;

use super::Catalog;
use crate::relations::named_relations::Relation;
use crate::relations::source_definition::scanned;
use tidemill_trees::nodes::PlanTree;

impl Catalog {
    /// The name of the journal of a source, if it is journaled.
    pub fn stream_of(&self, source: &str) -> Option<String> {
        match self.relations.get(source) {
            Some(Relation::Source(source)) => source.stream_name(),
            _ => None,
        }
    }

    /// The names of what a query can write to, also of definitions that have failed.
    pub fn output_names(&self) -> impl Iterator<Item = &str> {
        let views = self.relations.iter().filter_map(|(name, relation)| match relation {
            Relation::View(view) if view.materialized.is_some() => Some(name),
            _ => None,
        });
        let failed = self.failed.iter().filter_map(|failed| Some(failed.defines.as_ref()?.1.as_str()));
        views.chain(self.sinks.keys().map(String::as_str)).chain(failed)
    }

    /// The names of the journals that its sources have in a database. Those of a source that was dropped or replaced are among
    /// them as long as a query of the catalogue reads it.
    pub fn stream_names(&self) -> BTreeSet<String> {
        let sources = self.relations.iter().filter_map(|(_, relation)| match relation {
            Relation::Source(source) => source.stream_name(),
            Relation::View(_) | Relation::Process(_) => None,
        });
        let views = self.relations.iter().flat_map(|(_, relation)| match relation {
            Relation::View(view) => {
                let stored = view.materialized.as_ref().map(|materialized| &materialized.stored);
                [Some(&view.plan), stored].into_iter().flatten().collect()
            }
            Relation::Process(process) => vec![&process.plan],
            Relation::Source(_) => Vec::new(),
        });
        let inputs = self.sinks.values().flat_map(|sink| &sink.inputs);
        let mut names: BTreeSet<String> = sources.collect();
        for plan in views.chain(inputs) {
            let _ = plan.look_through_with_subqueries(|node| {
                if let LogicalPlan::TableScan(scan) = node
                    && let Some(source) = scanned(scan.source.as_ref())
                {
                    names.extend(source.definition.stream_name());
                }
                Ok(TreeNodeRecursion::Continue)
            });
        }
        names
    }
}
