//! The size and the depth of a tree.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{Expr, Query, TableFactor, Visitor};

use tidemill_trees::syntax::{Node, walk};

/// How many nodes a tree has.
pub(crate) fn nodes(node: &impl Node) -> usize {
    measured(node).nodes
}

/// How many levels a tree has.
pub(super) fn levels(node: &impl Node) -> usize {
    measured(node).deepest
}

fn measured(node: &impl Node) -> Measure {
    let mut measure = Measure::default();
    let _ = walk(node, &mut measure);
    measure
}

#[derive(Default)]
struct Measure {
    nodes: usize,
    level: usize,
    deepest: usize,
}

impl Measure {
    fn down(&mut self) -> ControlFlow<()> {
        self.nodes += 1;
        self.level += 1;
        self.deepest = self.deepest.max(self.level);
        ControlFlow::Continue(())
    }

    fn up(&mut self) -> ControlFlow<()> {
        self.level -= 1;
        ControlFlow::Continue(())
    }
}

impl Visitor for Measure {
    type Break = ();

    fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.down()
    }

    fn post_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.up()
    }

    fn pre_visit_table_factor(&mut self, _: &TableFactor) -> ControlFlow<()> {
        self.nodes += 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, _: &Expr) -> ControlFlow<()> {
        self.down()
    }

    fn post_visit_expr(&mut self, _: &Expr) -> ControlFlow<()> {
        self.up()
    }
}
