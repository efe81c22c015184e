//! How deep a statement's trees are.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{Expr, Query, Visit, Visitor};

use super::{SinkInput, Statement, StatementKind};
use crate::TextError;

/// The deepest tree that is taken: what evaluates it later takes stack for each level.
const MAX_DEPTH: usize = 500;

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

/// Refuses a statement whose expressions are too deep, like a chain of thousands of `OR`.
pub(super) fn check(statement: &Statement) -> Result<(), TextError> {
    let flow = match &statement.kind {
        StatementKind::CreateSource(source) | StatementKind::CreateTable(source) => {
            let computed = source.columns.iter().filter_map(|column| column.computed.as_ref());
            computed.map(deep).find(ControlFlow::is_break).unwrap_or(ControlFlow::Continue(()))
        }
        StatementKind::CreateView(view) => deep(&view.query),
        StatementKind::CreateMaterializedView(view) => deep(&view.query),
        StatementKind::CreateProcess(process) => deep(&process.query),
        StatementKind::CreateSink(sink) => match &sink.input {
            Some(SinkInput::Query(query)) => deep(query),
            _ => ControlFlow::Continue(()),
        },
        StatementKind::InsertInto { query, .. } | StatementKind::Query(query, _) => deep(query),
        StatementKind::Explain { statement, .. } => return check(statement),
        StatementKind::Set { .. }
        | StatementKind::Show(_)
        | StatementKind::Describe(_)
        | StatementKind::CreatePlaces(_)
        | StatementKind::Drop { .. } => ControlFlow::Continue(()),
    };
    if flow.is_continue() {
        return Ok(());
    }
    let message = format!("an expression of more than {MAX_DEPTH} levels");
    let error = statement.error(statement.span, message);
    Err(error.with_hint("use IN (...) in place of a chain of OR, or divide the query into several views"))
}

fn deep(node: &impl Visit) -> ControlFlow<()> {
    node.visit(&mut Depth(0))
}
