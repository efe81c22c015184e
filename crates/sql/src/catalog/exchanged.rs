//! A source in place of another one, in all that reads it.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::logical_expr::{LogicalPlan, TableScan, TableSource};
use tidemill_trees::nodes::PlanTree;

use super::Catalog;
use crate::relations::named_relations::{Relation, ViewDefinition};
use crate::relations::source_definition::{ScannedSource, SourceDefinition, scanned};
use crate::relations::stream_process::{StreamProcessMember, StreamProcessSet};

/// Lets all that reads a source read another one, which has the same columns and others. What reads it means what it meant.
pub(crate) fn exchange_source(
    catalog: &mut Catalog,
    name: &str,
    (old, new): (&Arc<SourceDefinition>, &Arc<SourceDefinition>),
) -> Result<()> {
    let exchanged = |plan: &LogicalPlan| exchanged(plan, old, new);
    let mut changed = vec![(name.to_owned(), Relation::Source(Arc::clone(new)))];
    for (name, relation) in catalog.relations.iter() {
        let relation = match relation {
            Relation::View(view) if reads(&view.plan, old) || reads_stored(view, old) => {
                let mut materialized = view.materialized.clone();
                if let Some(materialized) = &mut materialized {
                    materialized.stored = exchanged(&materialized.stored)?;
                }
                let (plan, rows) = (exchanged(&view.plan)?, view.rows.clone());
                Relation::View(Arc::new(ViewDefinition { plan, materialized, rows }))
            }
            Relation::Process(set) if reads(&set.plan, old) => {
                let member = |member: &StreamProcessMember| {
                    Ok(StreamProcessMember {
                        parameters: member.parameters.clone(),
                        definition: Arc::clone(&member.definition),
                        plan: exchanged(&member.plan)?,
                    })
                };
                let members = set.members.iter().map(member).collect::<Result<_>>()?;
                let (name, plan) = (set.name.clone(), exchanged(&set.plan)?);
                Relation::Process(Arc::new(StreamProcessSet { name, plan, members }))
            }
            _ => continue,
        };
        changed.push((name.to_owned(), relation));
    }
    for sink in Arc::make_mut(&mut catalog.sinks).values_mut() {
        for input in &mut sink.inputs {
            *input = exchanged(input)?;
        }
    }
    changed.into_iter().for_each(|(name, relation)| catalog.relations.add(&name, relation));
    Ok(())
}

fn reads_stored(view: &ViewDefinition, source: &Arc<SourceDefinition>) -> bool {
    view.materialized.as_ref().is_some_and(|materialized| reads(&materialized.stored, source))
}

fn reads(plan: &LogicalPlan, source: &Arc<SourceDefinition>) -> bool {
    let mut reads = false;
    let _ = plan.look_through_with_subqueries(|node| {
        if let LogicalPlan::TableScan(scan) = node {
            reads |=
                scanned(scan.source.as_ref()).is_some_and(|scanned| Arc::ptr_eq(&scanned.definition, source));
        }
        Ok(TreeNodeRecursion::Continue)
    });
    reads
}

/// A plan that reads another source with the same columns and others: the columns that it had, of that one.
fn exchanged(
    plan: &LogicalPlan,
    old: &Arc<SourceDefinition>,
    new: &Arc<SourceDefinition>,
) -> Result<LogicalPlan> {
    let plan = plan.clone().rewrite_down_with_subqueries(|node| {
        let LogicalPlan::TableScan(scan) = &node else { return Ok(Transformed::no(node)) };
        match scanned(scan.source.as_ref()) {
            Some(source) if Arc::ptr_eq(&source.definition, old) => {
                Ok(Transformed::yes(LogicalPlan::TableScan(scan_of(scan, source, new)?)))
            }
            _ => Ok(Transformed::no(node)),
        }
    });
    Ok(plan?.data)
}

fn scan_of(scan: &TableScan, source: &ScannedSource, new: &Arc<SourceDefinition>) -> Result<TableScan> {
    let old = &source.definition.schema;
    let place = |column: usize| Ok(new.schema.index_of(old.field(column).name())?);
    let columns: Vec<usize> = match &scan.projection {
        Some(columns) => columns.clone(),
        None => (0..old.fields().len()).collect(),
    };
    let columns = columns.into_iter().map(place).collect::<Result<Vec<_>>>()?;
    let scanned = ScannedSource { definition: Arc::clone(new), late: source.late };
    Ok(TableScan {
        source: Arc::new(scanned) as Arc<dyn TableSource>,
        projection: Some(columns),
        ..scan.clone()
    })
}
