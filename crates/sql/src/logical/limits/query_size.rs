//! How many steps a query has with the views and named subqueries that it reads, computed from its text: each name stands for
//! a whole plan, and the planner walks over all of it while it plans what names it.

use std::ops::ControlFlow;

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, Result};
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::sqlparser::ast::{Ident, ObjectName, Query, TableFactor, Visitor};
use tidemill_trees::nodes::PlanTree;
use tidemill_trees::syntax::walk;

use crate::refusal::refuse;
use crate::relations::named_relations::{NamedRelations, Relation};

/// The most nodes of a plan, views and subqueries included.
const NODES_MAX: u64 = 4_000;

/// Checks the size of a query before it is planned.
///
/// # Errors
/// If it is too large to be planned in a short time.
pub(crate) fn check(query: &Query, catalog: &NamedRelations) -> Result<()> {
    let mut size =
        QuerySize { catalog, open: vec![OpenQuery::default()], named: Vec::new(), to_name: Vec::new() };
    if walk(query, &mut size).is_break() { Err(too_many_steps()) } else { Ok(()) }
}

/// As `check`, for the plan of a query as it is written.
///
/// # Errors
/// As `check`.
pub(crate) fn check_plan(plan: &LogicalPlan) -> Result<()> {
    if nodes(plan) <= NODES_MAX { Ok(()) } else { Err(too_many_steps()) }
}

fn too_many_steps() -> DataFusionError {
    let message =
        format!("with the views and subqueries that it names, the query has more than {NODES_MAX} steps");
    refuse(message, "read each view or subquery once, or keep its rows: CREATE MATERIALIZED VIEW")
}

/// A query that is being walked over.
#[derive(Default)]
struct OpenQuery {
    steps: u64,
    /// How many names were known before its own WITH.
    known: usize,
}

struct QuerySize<'a> {
    catalog: &'a NamedRelations,
    open: Vec<OpenQuery>,
    /// The subqueries of WITH that may be read here, and their steps; the nearest one is last.
    named: Vec<(String, u64)>,
    /// The subqueries of WITH that have not been walked over.
    to_name: Vec<(*const Query, String)>,
}

impl QuerySize<'_> {
    fn add(&mut self, steps: u64) -> ControlFlow<()> {
        if let Some(open) = self.open.last_mut() {
            open.steps = open.steps.saturating_add(steps);
            if open.steps > NODES_MAX {
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    }

    fn steps_of(&self, name: &ObjectName) -> u64 {
        let [part] = name.0.as_slice() else { return 1 };
        let Some(name) = part.as_ident().map(normal) else { return 1 };
        if let Some((_, steps)) = self.named.iter().rev().find(|(known, _)| *known == name) {
            return steps + 1;
        }
        match self.catalog.get(&name) {
            Some(Relation::View(view)) => nodes(&view.plan) + 1,
            _ => 1,
        }
    }
}

fn normal(name: &Ident) -> String {
    if name.quote_style.is_some() { name.value.clone() } else { name.value.to_lowercase() }
}

/// The nodes of a plan; not all of them if there are too many.
fn nodes(plan: &LogicalPlan) -> u64 {
    let mut nodes = 0;
    let _ = plan.look_through_with_subqueries(|_| {
        nodes += 1;
        Ok(if nodes > NODES_MAX { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    });
    nodes
}

impl Visitor for QuerySize<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        self.open.push(OpenQuery { steps: 1, known: self.named.len() });
        let tables = query.with.iter().flat_map(|with| &with.cte_tables);
        self.to_name.extend(tables.map(|table| (&raw const *table.query, normal(&table.alias.name))));
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        let Some(OpenQuery { steps, known }) = self.open.pop() else { return ControlFlow::Continue(()) };
        self.named.truncate(known);
        match self.to_name.iter().position(|(named, _)| std::ptr::eq(*named, query)) {
            Some(at) => {
                let (_, name) = self.to_name.swap_remove(at);
                self.named.push((name, steps));
                ControlFlow::Continue(())
            }
            None => self.add(steps),
        }
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
        let steps = match factor {
            TableFactor::Table { name, .. } => self.steps_of(name),
            _ => 1,
        };
        self.add(steps)
    }
}
