//! What each definition uses: functions that are defined in SQL, and relations that it reads.

use std::collections::{BTreeMap, BTreeSet};

use super::{Catalog, adds_to, defined};
use crate::statement::{RelationKind, Statement, StatementKind};

/// What each definition uses.
#[derive(Clone, Debug, Default)]
pub(super) struct DefinedUses(BTreeMap<(RelationKind, String), Used>);

#[derive(Clone, Debug, Default)]
struct Used {
    functions: BTreeSet<String>,
    relations: BTreeSet<String>,
}

impl Used {
    fn has(&self, kind: RelationKind, name: &str) -> bool {
        match kind {
            RelationKind::Function => self.functions.contains(name),
            RelationKind::Places | RelationKind::Pool | RelationKind::Sink => false,
            _ => self.relations.contains(name),
        }
    }
}

impl Catalog {
    /// The sinks and materialized views that read a source, themselves or through others.
    pub fn outputs_over(&self, source: &str) -> BTreeSet<String> {
        let users = self.all_users_of(RelationKind::Source, source).into_iter();
        let outputs =
            users.filter(|(kind, _)| matches!(kind, RelationKind::MaterializedView | RelationKind::Sink));
        outputs.map(|(_, name)| name).collect()
    }

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

    /// Keeps which functions a definition uses and which relations it has `read`, or that what it drops uses none.
    pub(crate) fn note_uses(&mut self, statement: &Statement, read: BTreeSet<String>) {
        if let StatementKind::Drop { kind, name, .. } = &statement.kind {
            self.forget_uses(*kind, name.as_str());
        }
        let Some((kind, name)) = defined(statement) else { return };
        if !adds_to(statement) {
            self.forget_uses(kind, name);
        }
        let is_function = |call: &String| {
            self.defined.contains_key(call) || self.failed(RelationKind::Function, call).is_some()
        };
        let functions: BTreeSet<String> = statement.calls().into_iter().filter(is_function).collect();
        let is_relation = |read: &String| {
            read != name
                && (self.relations.get(read).is_some() || self.failed(RelationKind::View, read).is_some())
        };
        let relations: BTreeSet<String> = read.into_iter().filter(is_relation).collect();
        if !functions.is_empty() || !relations.is_empty() {
            let used = self.uses.0.entry((kind, name.to_owned())).or_default();
            used.functions.extend(functions);
            used.relations.extend(relations);
        }
    }

    /// The definitions that use a function or read a relation themselves.
    pub(crate) fn users_of(&self, kind: RelationKind, name: &str) -> Vec<(RelationKind, String)> {
        let users = self.uses.0.iter().filter(|(_, used)| used.has(kind, name));
        users.map(|(user, _)| user.clone()).collect()
    }

    /// The definitions that use a function or read a relation, themselves or through others: each before what it uses.
    pub(crate) fn all_users_of(&self, kind: RelationKind, name: &str) -> Vec<(RelationKind, String)> {
        let (mut found, mut seen) = (Vec::new(), BTreeSet::new());
        // What is left to look at; what has been looked at follows all that uses it.
        let mut left: Vec<_> = self.users_of(kind, name).into_iter().map(|user| (user, false)).collect();
        while let Some((user, is_looked_at)) = left.pop() {
            if is_looked_at {
                found.push(user);
            } else if seen.insert(user.clone()) {
                let further = self.users_of(user.0, &user.1);
                left.push((user, true));
                left.extend(further.into_iter().map(|user| (user, false)));
            }
        }
        found
    }

    /// The relations that a query reads, itself or through views.
    pub fn read_by(&self, query: &Statement) -> BTreeSet<String> {
        let mut read: BTreeSet<String> = BTreeSet::new();
        let mut left = query.possible_relations();
        // Those are in small letters; a name in quotes may have capitals.
        let capitals =
            self.relations.iter().map(|(name, _)| name).filter(|name| name.chars().any(char::is_uppercase));
        let named: Vec<String> =
            capitals.filter(|name| left.contains(&name.to_lowercase())).map(str::to_owned).collect();
        left.extend(named);
        while let Some(name) = left.pop() {
            if read.insert(name.clone()) {
                let of_name = self.uses.0.iter().filter(|((_, user), _)| *user == name);
                left.extend(of_name.flat_map(|(_, used)| used.relations.iter().cloned()));
            }
        }
        read
    }

    /// What is replaced may have been of another kind: sources, views and sinks share their names.
    fn forget_uses(&mut self, kind: RelationKind, name: &str) {
        let is_function = kind == RelationKind::Function;
        self.uses
            .0
            .retain(|(other, used), _| used != name || (*other == RelationKind::Function) != is_function);
    }
}
