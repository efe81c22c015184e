//! The parts of a statement that the SQL parser has read: its queries and expressions.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{Visit, Visitor};

use super::{SinkInput, Statement, StatementKind};

/// Visits all queries and expressions of a statement.
pub(super) fn visit<V: Visitor>(statement: &Statement, visitor: &mut V) -> ControlFlow<V::Break> {
    match &statement.kind {
        StatementKind::CreateSource(source) | StatementKind::CreateTable(source) => {
            for computed in source.columns.iter().filter_map(|column| column.computed.as_ref()) {
                computed.visit(visitor)?;
            }
            ControlFlow::Continue(())
        }
        StatementKind::CreateView(view) => view.query.visit(visitor),
        StatementKind::CreateMaterializedView(view) => view.query.visit(visitor),
        StatementKind::CreateProcess(process) => process.query.visit(visitor),
        StatementKind::CreateSink(sink) => match &sink.input {
            Some(SinkInput::Query(query)) => query.visit(visitor),
            Some(SinkInput::Relation(_)) | None => ControlFlow::Continue(()),
        },
        StatementKind::InsertInto { query, .. } | StatementKind::Query(query, _) => query.visit(visitor),
        StatementKind::Explain { statement, .. } => visit(statement, visitor),
        StatementKind::Set { .. }
        | StatementKind::Show(_)
        | StatementKind::Describe(_)
        | StatementKind::Subscribe(_)
        | StatementKind::ExplainOutput(_)
        | StatementKind::CreatePlaces(_)
        | StatementKind::CreatePool(_)
        | StatementKind::Drop { .. } => ControlFlow::Continue(()),
    }
}
