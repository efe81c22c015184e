//! The depth of a statement's trees.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{Expr, Query, Visitor};

use super::{Statement, parts};
use crate::TextError;

/// The deepest tree that is accepted: evaluating it takes stack for each level.
pub(crate) const MAX_DEPTH: usize = 500;

struct Depth(usize);

impl Depth {
    fn down(&mut self) -> ControlFlow<()> {
        self.0 += 1;
        if self.0 > MAX_DEPTH { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    fn up(&mut self) -> ControlFlow<()> {
        self.0 -= 1;
        ControlFlow::Continue(())
    }
}

impl Visitor for Depth {
    type Break = ();

    fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.down()
    }

    fn post_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.up()
    }

    fn pre_visit_expr(&mut self, _: &Expr) -> ControlFlow<()> {
        self.down()
    }

    fn post_visit_expr(&mut self, _: &Expr) -> ControlFlow<()> {
        self.up()
    }
}

/// Refuses a statement whose expressions are too deep, such as a chain of thousands of `OR`.
pub(super) fn check(statement: &Statement) -> Result<(), TextError> {
    if parts::visit(statement, &mut Depth(0)).is_continue() {
        return Ok(());
    }
    let message = format!("the expression has more than {MAX_DEPTH} levels");
    let error = statement.error(statement.span, message);
    Err(error.with_hint("use IN (...) instead of a chain of OR, or divide the query into several views"))
}
