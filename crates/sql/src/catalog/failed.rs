//! Definitions that could not be executed again.

use std::sync::Arc;

use tidemill_engine::Cause;

use super::Definition;
use crate::statement::{RelationKind, Statement, StatementKind};

/// A definition that was accepted once and cannot be executed again: the program lacks a function that it calls, a file
/// that it looks at is gone, or a definition that it builds on has failed.
///
/// Its name stays taken. `DROP` removes it, `CREATE OR REPLACE` replaces it, and what builds on it fails with its reason.
///
/// See [`Planner::replay`](crate::Planner::replay).
#[derive(Clone, Debug)]
pub struct FailedDefinition {
    /// The definition.
    pub definition: Arc<Definition>,
    /// The kind and the name of what it defines; `None` if it drops something, or its statement cannot be read any more.
    pub defines: Option<(RelationKind, String)>,
    /// Why it failed, in one sentence.
    pub reason: String,
    /// Why it failed, with the place in the statement.
    pub cause: Cause,
}

impl FailedDefinition {
    /// Whether it takes this name. Places have names of their own, and so have pools; all other things
    /// share theirs.
    pub(super) fn takes(&self, kind: RelationKind, name: &str) -> bool {
        let own_names = [RelationKind::Places, RelationKind::Pool, RelationKind::Function];
        let names = |kind: RelationKind| own_names.into_iter().find(|own| *own == kind);
        let (own, taken) = match &self.defines {
            Some((own, taken)) => (*own, taken.as_str()),
            None => return false,
        };
        taken == name && names(own) == names(kind)
    }
}

/// The kind and the name of what a statement defines; `None` if it defines nothing, or drops something.
pub(crate) fn defined(statement: &Statement) -> Option<(RelationKind, &str)> {
    Some(match &statement.kind {
        StatementKind::CreateSource(create) => (RelationKind::Source, create.name.as_str()),
        StatementKind::CreateTable(create) => (RelationKind::Table, create.name.as_str()),
        StatementKind::CreateView(create) => (RelationKind::View, create.name.as_str()),
        StatementKind::CreateMaterializedView(create) => {
            (RelationKind::MaterializedView, create.name.as_str())
        }
        StatementKind::CreateProcess(create) => (RelationKind::Process, create.name.as_str()),
        StatementKind::CreatePlaces(create) => (RelationKind::Places, create.name.as_str()),
        StatementKind::CreatePool(create) => (RelationKind::Pool, create.name.as_str()),
        StatementKind::CreateFunction(create) => (RelationKind::Function, create.name.as_str()),
        StatementKind::CreateSink(create) => (RelationKind::Sink, create.name.as_str()),
        StatementKind::InsertInto { sink, .. } => (RelationKind::Sink, sink.as_str()),
        StatementKind::AddColumns(add) => (RelationKind::Source, add.name.as_str()),
        StatementKind::Drop { .. }
        | StatementKind::Query(..)
        | StatementKind::Set { .. }
        | StatementKind::Show(_)
        | StatementKind::Describe(_)
        | StatementKind::Subscribe(_)
        | StatementKind::Stop(_)
        | StatementKind::Start(_)
        | StatementKind::Alter(_)
        | StatementKind::ExplainOutput(_)
        | StatementKind::ExplainWhy(_)
        | StatementKind::Explain { .. } => return None,
    })
}

/// Whether a statement adds to what has its name: to a sink its input, to a source a column.
pub(crate) fn adds_to(statement: &Statement) -> bool {
    is_insert(statement) || matches!(statement.kind, StatementKind::AddColumns(_))
}

/// Whether a statement gives a sink its input.
pub(crate) fn is_insert(statement: &Statement) -> bool {
    matches!(statement.kind, StatementKind::InsertInto { .. })
}
