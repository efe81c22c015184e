//! What something else reads or calls is not dropped, and not replaced by something else (decision 0145).

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{Planner, Reply};
use crate::catalog::{Catalog, adds_to, defined};
use crate::relations::named_relations::Relation;
use crate::relations::source_definition::SourceDefinition;
use crate::statement::{CreateSource, Name, RelationKind, Statement, StatementKind, additions, parse};
use crate::text::{Problem, TextError};

/// How many users of something are named.
const USERS_SHOWN: usize = 8;

impl Planner {
    /// Drops what a statement with `CASCADE` names, and before that what uses it. Each is a definition of its own.
    pub(super) fn drop_with_users(
        &mut self,
        kind: RelationKind,
        name: &Name,
        statement: &Statement,
    ) -> Result<Reply, TextError> {
        let users = if self.is_defined(kind, name.as_str()) {
            self.catalog.all_users_of(kind, name.as_str())
        } else {
            Vec::new()
        };
        let before = self.catalog.clone();
        let dropped = users.iter().try_for_each(|(kind, user)| {
            let text = format!("DROP {} \"{}\"", kind.keyword(), user.replace('"', "\"\""));
            parse(&text, "what is dropped with it")?
                .iter()
                .try_for_each(|drop| self.execute(drop).map(|_| ()))
        });
        let dropped = dropped.and_then(|()| self.execute_as_written(statement));
        match dropped {
            Ok(Reply::Done(done)) if !users.is_empty() => {
                let users = users.iter().map(described).collect::<Vec<_>>().join(", ");
                Ok(Reply::Done(format!("{done}, and with it what uses it: {users}")))
            }
            Ok(reply) => Ok(reply),
            Err(error) => {
                self.catalog = before;
                Err(error)
            }
        }
    }

    /// Refuses to drop what something else uses.
    pub(super) fn check_unused(
        &self,
        kind: RelationKind,
        name: &Name,
        statement: &Statement,
    ) -> Result<(), TextError> {
        let Some(users) = self.users_in_words(kind, name.as_str()) else { return Ok(()) };
        let message = format!("{users} {} '{name}'", kind.keyword().to_lowercase());
        let hint = format!(
            "drop them first, or write DROP {} {name} CASCADE to drop all that uses it, too",
            kind.keyword()
        );
        Err(statement.error(name.span, message).of(Problem::StillRead).with_hint(hint))
    }

    /// Refuses a definition that has replaced something by something else which others read: they would read the old one for
    /// good.
    pub(super) fn check_replaced(&self, before: &Catalog, statement: &Statement) -> Result<(), TextError> {
        let Some((kind, name)) = defined(statement).filter(|_| !adds_to(statement)) else { return Ok(()) };
        let (Some(old), Some(new)) = (before.relations.get(name), self.catalog.relations.get(name)) else {
            return Ok(());
        };
        if means_the_same(old, new) {
            return Ok(());
        }
        let Some(users) = self.users_in_words(kind, name) else { return Ok(()) };
        let message = format!("{users} '{name}', so it cannot become something else");
        let hint = format!(
            "give the new one another name; or DROP {} {name} CASCADE, which drops all that reads it, too, and create \
             them again",
            kind.keyword()
        );
        Err(statement.error(statement.span, message).of(Problem::StillRead).with_hint(hint))
    }

    /// The definitions that use something, with the verb that follows them; `None`: there is none, or it does not matter now.
    fn users_in_words(&self, kind: RelationKind, name: &str) -> Option<String> {
        if !self.keeps_dependencies {
            return None;
        }
        let users: Vec<String> = self.catalog.users_of(kind, name).iter().map(described).collect();
        let verb = if kind == RelationKind::Function { "use" } else { "read" };
        let (named, further) = users.split_at(users.len().min(USERS_SHOWN));
        match (named, further.len()) {
            ([], _) => None,
            ([user], _) => Some(format!("{user} {verb}s")),
            ([first @ .., last], 0) => Some(format!("{} and {last} {verb}", first.join(", "))),
            (named, more) => Some(format!("{} and {more} more {verb}", named.join(", "))),
        }
    }

    /// The names of the relations that the statement has read which is being executed.
    pub(super) fn take_read(&self) -> BTreeSet<String> {
        self.read.take()
    }

    /// Whether a statement has left the source of its name as it was, because it was defined so already.
    pub(super) fn is_unchanged(&self, before: &Catalog, statement: &Statement) -> bool {
        let replaces = match &statement.kind {
            StatementKind::CreateSource(create) | StatementKind::CreateTable(create) => create.or_replace,
            StatementKind::AddColumns(_) => true,
            _ => false,
        };
        let relation = |catalog: &Catalog, name: &str| match catalog.relations.get(name) {
            Some(Relation::Source(source)) => Some(Arc::clone(source)),
            _ => None,
        };
        let name = defined(statement).filter(|_| replaces).map(|(_, name)| name);
        let both = name.and_then(|name| Some((relation(before, name)?, relation(&self.catalog, name)?)));
        both.is_some_and(|(old, new)| Arc::ptr_eq(&old, &new))
    }

    /// Whether a source is defined already as a statement defines it again. It then stays as it is, with its journal and its
    /// readers.
    pub(super) fn is_defined_so(
        &self,
        create: &CreateSource,
        definition: &SourceDefinition,
        statement: &Statement,
    ) -> bool {
        let (name, is_table) = (create.name.as_str(), definition.is_table);
        let Some(Relation::Source(known)) = self.catalog.relations.get(name) else { return false };
        let kind = if is_table { RelationKind::Table } else { RelationKind::Source };
        let is_same = known.is_table == is_table
            && known.schema == definition.schema
            && known.idle_after == definition.idle_after;
        is_same
            && self.definition_of(kind, name).is_some_and(|written| match &written.kind {
                StatementKind::CreateSource(known) | StatementKind::CreateTable(known) => {
                    behind(&known.name, &written) == behind(&create.name, statement)
                        || additions((&written, known), (statement, create))
                            .is_some_and(|added| added.is_empty())
                }
                _ => false,
            })
    }
}

/// What a statement says behind a name.
fn behind<'a>(name: &Name, statement: &'a Statement) -> Option<&'a str> {
    let end = name.span.bytes().end.checked_sub(statement.span.bytes().start)?;
    statement.text.get(end..).map(str::trim)
}

fn described((kind, name): &(RelationKind, String)) -> String {
    format!("{} '{name}'", kind.keyword().to_lowercase())
}

/// Whether those that read the old one read the same of the new one.
fn means_the_same(old: &Relation, new: &Relation) -> bool {
    match (old, new) {
        (Relation::Source(old), Relation::Source(new)) => Arc::ptr_eq(old, new),
        (Relation::View(old), Relation::View(new)) => old.plan == new.plan,
        (Relation::Process(old), Relation::Process(new)) => old.plan == new.plan,
        _ => false,
    }
}
