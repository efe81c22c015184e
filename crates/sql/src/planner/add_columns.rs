//! `ALTER SOURCE ... ADD COLUMN`: a source gets columns, and keeps its journal and those that read it (decision 0153).

use std::sync::Arc;

use datafusion::arrow::datatypes::FieldRef;

use super::journaled_types::with_types_of;
use super::{Planner, Reply};
use crate::catalog::exchanged::exchange_source;
use crate::catalog::with_columns;
use crate::connectors;
use crate::relations::named_relations::Relation;
use crate::relations::source_definition::SourceDefinition;
use crate::statement::{
    AddColumns, AddedColumn, ColumnPlace, Name, RelationKind, Statement, StatementKind, additions, parse,
};
use crate::text::{Problem, TextError};

/// Returns the statement that says the same as one that replaces a durable source by one with further columns: it gets these, and
/// keeps its journal. `None`: the statement does something else.
pub(super) fn as_added_columns(planner: &Planner, statement: &Statement) -> Option<Statement> {
    let StatementKind::CreateSource(create) = &statement.kind else { return None };
    let source =
        source(planner, create.name.as_str()).filter(|_| create.or_replace && planner.keeps_dependencies)?;
    source.durable.as_ref()?;
    let written = planner.definition_of(RelationKind::Source, create.name.as_str())?;
    let StatementKind::CreateSource(known) = &written.kind else { return None };
    let absolute = planner.with_absolute_paths(statement);
    let statement = absolute.as_ref().unwrap_or(statement);
    let StatementKind::CreateSource(create) = &statement.kind else { return None };
    let added = additions((&written, known), (statement, create)).filter(|added| !added.is_empty())?;
    let name = create.name.as_str().replace('"', "\"\"");
    let text = format!("ALTER SOURCE \"{name}\" {}", added.join(", "));
    parse(&text, "the columns that the source does not have").ok()?.into_iter().next()
}

fn source<'a>(planner: &'a Planner, name: &str) -> Option<&'a Arc<SourceDefinition>> {
    match planner.catalog.relations.get(name) {
        Some(Relation::Source(source)) if !source.is_table => Some(source),
        _ => None,
    }
}

/// Gives a source columns.
pub(super) fn add_columns(
    planner: &mut Planner,
    add: &AddColumns,
    statement: &Statement,
) -> Result<Reply, TextError> {
    let name = add.name.as_str();
    let Some(old) = source(planner, name).map(Arc::clone) else {
        return Err(no_source(planner, &add.name, statement));
    };
    check_added(planner, add, &old, statement)?;
    let first = add.added.first().map_or(statement.span, |added| added.column.span);
    let not_altered = |message: String| statement.error(first, message);
    let written = planner.definition_of(RelationKind::Source, name);
    let altered = written.and_then(|written| with_columns(&written, statement)).ok_or_else(|| {
        not_altered(format!("the columns of '{name}' come from its data, so none can be added"))
            .with_hint("create another source that names its columns")
    })?;
    let StatementKind::CreateSource(create) = &altered.kind else {
        return Err(not_altered(format!("the definition of '{name}' is not that of a source")));
    };
    let create = &*with_types_of(create, &old.raw);
    let defined = planner.with_provider(|provider| {
        let table = &planner.catalog.connectors;
        connectors::define_source(create, false, &altered, provider, table, &planner.settings)
    });
    let mut definition = defined.map_err(|error| {
        not_altered(format!("the altered definition is not valid: {}", error.message))
            .with_optional_hint(error.hint)
    })?;
    if let (Some(durable), Some(known)) = (&mut definition.durable, &old.durable) {
        // Its journal stays.
        durable.version = known.version;
    }
    definition.idle_after = old.idle_after;
    let is_there = |field: &FieldRef| old.schema.index_of(field.name()).is_ok();
    let new: Vec<String> = definition
        .schema
        .fields()
        .iter()
        .filter(|field| !is_there(field))
        .map(|field| format!("'{}'", field.name()))
        .collect();
    if new.is_empty() {
        return Ok(Reply::Done(format!("source {name} has these columns already")));
    }
    let exchanged = exchange_source(&mut planner.catalog, name, (&old, &Arc::new(definition)));
    exchanged.map_err(|error| planner.text_error(&error, statement))?;
    let columns = if new.len() == 1 { "column" } else { "columns" };
    Ok(Reply::Done(format!(
        "source {name} has the {columns} {} now; rows of before have NULL there",
        new.join(", ")
    )))
}

/// Whether a source can get these columns.
fn check_added(
    planner: &Planner,
    add: &AddColumns,
    old: &SourceDefinition,
    statement: &Statement,
) -> Result<(), TextError> {
    let name = add.name.as_str();
    let mut known: Vec<&str> = old.schema.fields().iter().map(|field| field.name().as_str()).collect();
    for AddedColumn { column, place, if_not_exists } in &add.added {
        let of_name = column.name.as_str();
        if known.contains(&of_name) && !if_not_exists {
            let error =
                statement.error(column.name.span, format!("source '{name}' has a column '{of_name}'"));
            return Err(error
                .of(Problem::ColumnExists)
                .with_hint("write ADD COLUMN IF NOT EXISTS, or choose another name"));
        }
        if let ColumnPlace::After(other) = place
            && !known.contains(&other.as_str())
        {
            let error = statement.error(other.span, format!("source '{name}' has no column '{other}'"));
            let meant = crate::closest(other.as_str(), known.iter().copied());
            return Err(error
                .of(Problem::UnknownColumn)
                .with_optional_hint(meant.map(|meant| format!("did you mean {meant}?"))));
        }
        if column.not_null && column.computed.is_none() {
            let message =
                format!("'{of_name}' cannot be NOT NULL, because the rows that are there do not have it");
            let error = statement.error(column.span, message).of(Problem::NotSupported);
            return Err(error.with_hint(
                "leave out NOT NULL, and let queries say what stands for NULL: coalesce(column, value)",
            ));
        }
        known.push(of_name);
    }
    let outputs = planner.catalog.outputs_over(name);
    if let Some(output) = outputs.first().filter(|_| old.durable.is_none() && planner.keeps_dependencies) {
        let message =
            format!("'{output}' reads '{name}', whose rows are not kept: it would begin again without them");
        let hint = format!(
            "create a source with the column and another name; or DROP SOURCE {name} CASCADE, and create all again"
        );
        return Err(statement.error(add.name.span, message).of(Problem::StillRead).with_hint(hint));
    }
    Ok(())
}

fn no_source(planner: &Planner, name: &Name, statement: &Statement) -> TextError {
    let error =
        statement.error(name.span, format!("there is no source '{name}'")).of(Problem::UnknownRelation);
    if let Some(other) = planner.kind_of(name.as_str()) {
        return error.with_hint(format!("'{name}' is a {}", other.keyword().to_lowercase()));
    }
    let sources =
        planner.catalog.relations.iter().map(|(name, _)| name).filter(|name| source(planner, name).is_some());
    let meant = crate::closest(name.as_str(), sources);
    error.with_optional_hint(meant.map(|meant| format!("did you mean {meant}?")))
}
