//! Scans: the sources of a run, each declared once with the columns that any query reads.

use std::collections::BTreeSet;
use std::sync::Arc;

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result, plan_err};
use datafusion::logical_expr::{Expr, LogicalPlan, TableScan};
use tidemill_engine::StreamRef;

use super::columns::unique;
use super::{Kind, Relation, Role, Translator, scalar_subqueries};
use crate::definition::{Scanned, SourceDefinition, scanned};
use crate::expression::Compiled;

/// A source of the run.
pub(crate) struct UsedSource {
    pub definition: Arc<SourceDefinition>,
    /// The definition's columns that enter the gateway, ascending.
    pub columns: Vec<usize>,
    /// The source's own columns that are read for them, ascending.
    pub raw_columns: Vec<usize>,
    /// How the gateway's columns are computed from these, if they are not the same.
    pub computed: Option<Vec<Compiled>>,
    /// The streams of timely rows and, if anyone reads them, of late rows.
    pub streams: Vec<StreamRef>,
    /// Whether it is known to have no rows, so that a crash can lose none of them.
    pub is_empty: bool,
}

impl UsedSource {
    /// The index of the event time among the gateway's columns.
    pub fn event_time(&self) -> Option<tidemill_engine::EventTime> {
        let event_time = self.definition.event_time?;
        let column = self.columns.iter().position(|column| *column == event_time.column)?;
        Some(tidemill_engine::EventTime { column, ..event_time })
    }
}

/// The definitions that a plan reads, in the order of reading.
pub(super) fn definitions(plan: &LogicalPlan) -> Vec<(*const SourceDefinition, bool)> {
    let mut found = Vec::new();
    let _ = plan.apply_with_subqueries(|node| {
        if let LogicalPlan::TableScan(scan) = node
            && let Some(source) = scanned(scan.source.as_ref())
        {
            found.push((Arc::as_ptr(&source.definition), source.late));
        }
        Ok(TreeNodeRecursion::Continue)
    });
    found
}

impl Translator {
    /// Declares the sources that the queries read as streams, with the columns that they read.
    pub(super) fn declare_sources(&mut self, queries: &[&LogicalPlan]) -> Result<()> {
        let mut found: Vec<(Scanned, BTreeSet<usize>, bool)> = Vec::new();
        for query in queries {
            scalar_subqueries::refuse_subqueries(query)?;
            query.apply(|node| {
                if super::is_static(node) {
                    return Ok(TreeNodeRecursion::Jump);
                }
                let LogicalPlan::TableScan(scan) = node else { return Ok(TreeNodeRecursion::Continue) };
                let Some(source) = scanned(scan.source.as_ref()) else {
                    return plan_err!("'{}' is not of this catalogue", scan.table_name);
                };
                let same = |known: &(Scanned, BTreeSet<usize>, bool)| {
                    Arc::ptr_eq(&known.0.definition, &source.definition)
                };
                let index = found.iter().position(same).unwrap_or_else(|| {
                    found.push((source.clone(), BTreeSet::new(), false));
                    found.len() - 1
                });
                found[index].1.extend(read_columns(scan, &source.definition));
                found[index].2 |= source.late;
                Ok(TreeNodeRecursion::Continue)
            })?;
        }
        for (source, columns, late) in found {
            self.declare(source.definition, columns, late)?;
        }
        Ok(())
    }

    fn declare(
        &mut self,
        definition: Arc<SourceDefinition>,
        mut columns: BTreeSet<usize>,
        late: bool,
    ) -> Result<()> {
        columns.extend(definition.event_time.map(|event_time| event_time.column));
        if columns.is_empty() {
            // Rows are counted even if no column is read; one column carries them.
            columns.insert(0);
        }
        let columns: Vec<usize> = columns.into_iter().collect();
        let all_columns = || (0..definition.raw.fields().len()).collect::<Vec<_>>();
        let (raw_columns, computed) = match &definition.computed {
            // A journal has all columns, whichever this query reads.
            None if definition.durable.is_some() && columns != all_columns() => {
                let raw = DFSchema::try_from(definition.raw.as_ref().clone())?;
                let column =
                    |column: &usize| Compiled::new(&Expr::Column(raw.columns()[*column].clone()), &raw);
                (all_columns(), Some(columns.iter().map(column).collect::<Result<_>>()?))
            }
            None => (columns.clone(), None),
            Some(expressions) => {
                let raw = DFSchema::try_from(definition.raw.as_ref().clone())?;
                let needed = columns.iter().map(|column| Compiled::new(&expressions[*column], &raw));
                let needed: Vec<Compiled> = needed.collect::<Result<_>>()?;
                let mut read: Vec<usize> = needed.iter().flat_map(Compiled::columns).collect();
                read.sort_unstable();
                read.dedup();
                read.retain(|column| *column < definition.raw.fields().len());
                if read.is_empty() {
                    read.push(0);
                }
                if definition.durable.is_some() {
                    read = all_columns();
                }
                let over = needed.iter().map(|column| column.over_columns(&read));
                let over = over.collect::<Result<Vec<_>>>()?;
                (read, Some(over))
            }
        };
        let schema = unique(&definition.schema.project(&columns)?);
        let streams = vec![schema; 1 + usize::from(late)];
        let streams = self.plan.source(&definition.name, streams);
        let is_empty = false;
        self.sources.push(UsedSource { definition, columns, raw_columns, computed, streams, is_empty });
        Ok(())
    }

    pub(super) fn scan(&mut self, scan: &TableScan) -> Result<Relation> {
        let Some(wanted) = scanned(scan.source.as_ref()) else {
            return plan_err!("'{}' is not of this catalogue", scan.table_name);
        };
        let same = |used: &UsedSource| Arc::ptr_eq(&used.definition, &wanted.definition);
        let Some(index) = self.sources.iter().position(same) else {
            return plan_err!("'{}' is read as a table and as a stream; declare it twice", scan.table_name);
        };
        let used = &self.sources[index];
        let definition = &used.definition;
        let gateway = Relation {
            stream: used.streams[usize::from(wanted.late)],
            schema: Arc::clone(self.plan.schema(used.streams[0]).expect("it was declared")),
            roles: used.columns.iter().map(|column| role(definition, *column, wanted.late)).collect(),
            kind: Kind::Stream,
            sources: vec![index],
            ordered: definition.ordered && !wanted.late,
            is_finite: definition.is_finite,
            selection: None,
        };
        let all: Vec<usize> = (0..definition.schema.fields().len()).collect();
        let wanted_columns = scan.projection.as_ref().unwrap_or(&all);
        let place = |column: &usize| used.columns.iter().position(|known| known == column);
        let places: Vec<usize> = wanted_columns.iter().filter_map(place).collect();
        self.select(gateway, &places, &scan.projected_schema)
    }
}

fn read_columns(scan: &TableScan, definition: &SourceDefinition) -> Vec<usize> {
    match &scan.projection {
        Some(projection) => projection.clone(),
        None => (0..definition.schema.fields().len()).collect(),
    }
}

/// Late rows have no time: nothing can wait for them.
fn role(definition: &SourceDefinition, column: usize, late: bool) -> Role {
    match definition.event_time {
        Some(event_time) if event_time.column == column && !late => Role::EventTime { delay_ns: 0 },
        _ => Role::None,
    }
}
