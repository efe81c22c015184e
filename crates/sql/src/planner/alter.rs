//! `STOP`, `START` and `ALTER`: what they name, and what an altered definition is.

use super::add_columns::as_added_columns;
use super::{Planner, Reply};
use crate::catalog::{defined, with_columns};
use crate::statement::{Alter, Name, RelationKind, Statement, StatementKind, altered, parse};
use crate::text::{Problem, TextError};

impl Planner {
    /// The sink or materialized view that `STOP`, `START` or `ALTER` names; `None` if the statement is none of them.
    ///
    /// # Errors
    /// If there is no such sink or view, or what is to be altered cannot be.
    ///
    /// ```
    /// use tidemill_sql::{Planner, parse};
    /// let mut planner = Planner::new();
    /// let statement = |text| parse(text, "example").unwrap().remove(0);
    /// planner.execute(&statement("CREATE MATERIALIZED VIEW v AS SELECT value FROM sequence(rate => 1)")).unwrap();
    /// assert_eq!(planner.query_named(&statement("STOP MATERIALIZED VIEW v")).unwrap(), Some("v"));
    /// assert!(planner.query_named(&statement("STOP SINK v")).is_err());
    /// ```
    pub fn query_named<'a>(&self, statement: &'a Statement) -> Result<Option<&'a str>, TextError> {
        let Some((kind, name)) = named(&statement.kind) else { return Ok(None) };
        if !self.is_defined(kind, name.as_str()) {
            return Err(self.missing_query(kind, name, statement));
        }
        if let StatementKind::Alter(alter) = &statement.kind {
            alter.check(statement)?;
        }
        Ok(Some(name.as_str()))
    }

    /// The statement that says the same as one that replaces a durable source by one with further columns: it gets these, and keeps
    /// its journal. `None`: the statement does something else.
    pub fn as_added_columns(&self, statement: &Statement) -> Option<Statement> {
        as_added_columns(self, statement)
    }

    /// The statement that replaces what `ALTER` names as it says: the definition with other options.
    ///
    /// # Errors
    /// As [`query_named`](Planner::query_named), or if the sink is fed by `INSERT INTO`.
    ///
    /// ```
    /// use tidemill_sql::{Planner, parse};
    /// let mut planner = Planner::new();
    /// let statement = |text| parse(text, "example").unwrap().remove(0);
    /// planner.execute(&statement("CREATE MATERIALIZED VIEW v AS SELECT value FROM sequence(rate => 1)")).unwrap();
    /// let altered = planner.altered(&statement("ALTER MATERIALIZED VIEW v SET (retain_versions = 9)")).unwrap();
    /// let text = "CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT value FROM sequence(rate => 1)\n\
    ///             WITH (retain_versions = 9)";
    /// assert_eq!(altered.text, text);
    /// ```
    pub fn altered(&self, statement: &Statement) -> Result<Statement, TextError> {
        self.query_named(statement)?;
        let StatementKind::Alter(alter) = &statement.kind else {
            return Err(statement.error(statement.span, "the statement alters nothing"));
        };
        let definition = self.definition_of(alter.kind, alter.name.as_str());
        let text = definition.and_then(|definition| altered(&definition, statement, alter));
        let Some(text) = text else {
            let message = format!("`{}` has no definition with a query of its own", alter.name);
            let hint =
                "a sink that takes its rows from INSERT INTO cannot be altered; DROP it, and create it again";
            return Err(statement.error(alter.name.span, message).with_hint(hint));
        };
        let read = parse(&text, "the altered definition");
        let read = read.map_err(|error| alter.error(statement, &error))?;
        read.into_iter().next().ok_or_else(|| statement.error(statement.span, "the definition is empty"))
    }

    /// What runs by name is not known here.
    pub(super) fn refuse_of_query(&self, statement: &Statement) -> Result<Reply, TextError> {
        let name = self.query_named(statement)?.unwrap_or_default();
        let error = statement.error(statement.span, format!("`{name}` does not run by its name here"));
        Err(error.with_hint(
            "a server runs sinks and views by name, see `tidemill serve`; a script says what it means",
        ))
    }

    fn missing_query(&self, kind: RelationKind, name: &Name, statement: &Statement) -> TextError {
        let what = kind.keyword().to_lowercase();
        let error =
            statement.error(name.span, format!("there is no {what} '{name}'")).of(Problem::UnknownRelation);
        if let Some(other) = self.kind_of(name.as_str()) {
            return error.with_hint(format!("'{name}' is a {}", other.keyword().to_lowercase()));
        }
        let names = self.catalog.output_names().filter(|known| self.is_defined(kind, known));
        let meant = crate::closest(name.as_str(), names);
        error.with_optional_hint(meant.map(|meant| format!("did you mean {meant}?")))
    }

    /// The statement that defines what has this name.
    pub(super) fn definition_of(&self, kind: RelationKind, name: &str) -> Option<Statement> {
        let mut found = None;
        let in_small_letters = name.to_lowercase();
        // Reading a statement takes time. A name with quotes is written otherwise.
        let may_name = |text: &str| name.contains('"') || text.to_lowercase().contains(&in_small_letters);
        for definition in
            self.catalog.definitions().iter().filter(|definition| may_name(&definition.statement))
        {
            let read = parse(&definition.statement, &format!("definition {}", definition.version));
            let Some(statement) = read.ok().and_then(|read| read.into_iter().next()) else { continue };
            match &statement.kind {
                StatementKind::Drop { kind: dropped, name: of, .. }
                    if *dropped == kind && of.as_str() == name =>
                {
                    found = None;
                }
                // It has changed nothing.
                _ if found.is_some() && if_not_exists(&statement.kind) => {}
                StatementKind::AddColumns(_) if defined(&statement) == Some((kind, name)) => {
                    found = found.and_then(|definition| with_columns(&definition, &statement));
                }
                _ if defined(&statement) == Some((kind, name)) => found = Some(statement),
                _ => {}
            }
        }
        found
    }
}

/// What a statement about a running query names.
fn named(kind: &StatementKind) -> Option<(RelationKind, &Name)> {
    match kind {
        StatementKind::Stop(query) | StatementKind::Start(query) => Some((query.kind, &query.name)),
        StatementKind::Alter(Alter { kind, name, .. }) => Some((*kind, name)),
        _ => None,
    }
}

/// Nothing runs here that `SUBSCRIBE` could follow.
pub(super) fn no_past(statement: &Statement) -> TextError {
    let message = "nothing is kept here by which an answer could be explained";
    statement.error(statement.span, message).with_hint(
        "ask a server that has the view (tidemill serve --data); `tidemill journal why` explains answers of scripts",
    )
}

pub(super) fn no_changes(name: &Name, statement: &Statement) -> TextError {
    let message = format!("`{name}` does not run here, so there are no changes to follow");
    statement.error(name.span, message).with_hint("SUBSCRIBE TO a view of a server, or SELECT from it")
}

fn if_not_exists(kind: &StatementKind) -> bool {
    match kind {
        StatementKind::CreateMaterializedView(view) => view.if_not_exists,
        StatementKind::CreateSink(sink) => sink.if_not_exists,
        _ => false,
    }
}
