//! Which functions that are defined in SQL each definition uses.

use std::collections::{BTreeMap, BTreeSet};

use super::{Catalog, defined, is_insert};
use crate::statement::{RelationKind, Statement, StatementKind};

/// The functions that each definition uses.
#[derive(Clone, Debug, Default)]
pub(super) struct FunctionUses(BTreeMap<(RelationKind, String), BTreeSet<String>>);

impl Catalog {
    /// Whether a definition leaves what has its name as it is: `IF NOT EXISTS`.
    pub(crate) fn stays(&self, statement: &Statement) -> bool {
        let replaces = match &statement.kind {
            StatementKind::CreateSource(create) | StatementKind::CreateTable(create) => create.or_replace,
            StatementKind::CreateView(create) => create.or_replace,
            StatementKind::CreateMaterializedView(create) => create.or_replace,
            StatementKind::CreateProcess(create) => create.or_replace,
            StatementKind::CreateSink(create) => create.or_replace,
            StatementKind::CreateFunction(create) => create.or_replace,
            _ => true,
        };
        let is_there = |(kind, name)| self.has(kind, name) || self.failed(kind, name).is_some();
        !replaces && defined(statement).is_some_and(is_there)
    }

    /// Keeps which functions a definition uses, or that what it drops uses none.
    pub(crate) fn note_uses(&mut self, statement: &Statement) {
        if let StatementKind::Drop { kind, name, .. } = &statement.kind {
            self.forget_uses(*kind, name.as_str());
        }
        let Some((kind, name)) = defined(statement) else { return };
        if !is_insert(statement) {
            self.forget_uses(kind, name);
        }
        let is_function = |call: &String| {
            self.defined.contains_key(call) || self.failed(RelationKind::Function, call).is_some()
        };
        let calls: BTreeSet<String> = statement.calls().into_iter().filter(is_function).collect();
        if !calls.is_empty() {
            self.uses.0.entry((kind, name.to_owned())).or_default().extend(calls);
        }
    }

    /// The definitions that use a function, in words.
    pub(crate) fn users_of(&self, function: &str) -> Vec<String> {
        let users = self.uses.0.iter().filter(|(_, functions)| functions.contains(function));
        users.map(|((kind, name), _)| format!("{} '{name}'", kind.keyword().to_lowercase())).collect()
    }

    /// What is replaced may have been of another kind: sources, views and sinks share their names.
    fn forget_uses(&mut self, kind: RelationKind, name: &str) {
        let is_function = kind == RelationKind::Function;
        self.uses
            .0
            .retain(|(other, used), _| used != name || (*other == RelationKind::Function) != is_function);
    }
}
