//! The parts of a statement that the SQL parser has read: its queries and expressions.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::Visitor;

use super::{FunctionBody, SinkInput, Statement, StatementKind};
use tidemill_trees::syntax::walk;

/// Visits all queries and expressions of a statement.
pub(super) fn visit<V: Visitor>(statement: &Statement, visitor: &mut V) -> ControlFlow<V::Break> {
    match &statement.kind {
        StatementKind::CreateSource(source) | StatementKind::CreateTable(source) => {
            for computed in source.columns.iter().filter_map(|column| column.computed.as_ref()) {
                walk(computed, visitor)?;
            }
            ControlFlow::Continue(())
        }
        StatementKind::CreateView(view) => walk(&view.query, visitor),
        StatementKind::CreateMaterializedView(view) => walk(&view.query, visitor),
        StatementKind::CreateFunction(create) => match &create.body {
            FunctionBody::Expression(expression) => walk(expression, visitor),
            FunctionBody::Query(query) => walk(query, visitor),
            FunctionBody::Code(_) => ControlFlow::Continue(()),
        },
        StatementKind::CreateProcess(process) => walk(&process.query, visitor),
        StatementKind::CreateSink(sink) => match &sink.input {
            Some(SinkInput::Query(query)) => walk(query, visitor),
            Some(SinkInput::Relation(_)) | None => ControlFlow::Continue(()),
        },
        StatementKind::InsertInto { query, .. } | StatementKind::Query(query, _) => walk(query, visitor),
        StatementKind::Explain { statement, .. } | StatementKind::ExplainWhy(statement) => {
            visit(statement, visitor)
        }
        StatementKind::Set { .. }
        | StatementKind::Show(_)
        | StatementKind::Describe(_)
        | StatementKind::Subscribe(_)
        | StatementKind::ExplainOutput(_)
        | StatementKind::Stop(_)
        | StatementKind::Start(_)
        | StatementKind::Alter(_)
        | StatementKind::AddColumns(_)
        | StatementKind::CreatePlaces(_)
        | StatementKind::CreatePool(_)
        | StatementKind::Drop { .. } => ControlFlow::Continue(()),
    }
}
