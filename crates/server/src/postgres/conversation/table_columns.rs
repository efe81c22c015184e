//! Sources that clients give rows, and the columns that they give.

use tidemill_connect::memory::PushTarget;
use tidemill_engine::arrow::schema::SchemaRef;
use tidemill_service::Session;
use tidemill_sql::ClientTable;

use crate::report::{DUPLICATE_COLUMN, OBJECT_NOT_READY, Report, UNDEFINED_COLUMN, WRONG_OBJECT_TYPE};

/// The source of a name, which a query reads. `done`: what the client wants to do with rows.
pub(super) fn push_target(session: &Session, source: &str, done: &str) -> Result<PushTarget, Report> {
    let catalog = session.runtime().catalog();
    let Some(target) = catalog.push_target(source).filter(|target| !target.is_transactional()) else {
        let is_there = catalog.listed().iter().any(|relation| relation.name == source);
        let message = if is_there {
            format!("'{source}' is not a source into which rows can be {done}")
        } else {
            format!("there is no source '{source}'")
        };
        let code = if is_there { WRONG_OBJECT_TYPE } else { "42P01" };
        let hint = if is_there {
            format!(
                "rows are {done} into tables that a client has created, and into sources with connector = 'push'"
            )
        } else {
            format!("CREATE TABLE {source} (...), or CREATE SOURCE {source} (...) WITH (connector = 'push')")
        };
        return Err(Report::error(code, message).with_hint(hint));
    };
    if target.readers() == 0 {
        let message = format!("no query reads '{source}', so its rows would be lost");
        let hint = "create a materialized view or a sink over it first";
        return Err(Report::error(OBJECT_NOT_READY, message).with_hint(hint));
    }
    Ok(target.clone())
}

/// The places of the named columns. The others must be able to be NULL. `what`: what has no values for them, in messages.
pub(super) fn chosen(all: &SchemaRef, columns: &[String], what: &str) -> Result<Vec<usize>, Report> {
    let place = |column: &String| {
        all.index_of(column).map_err(|_| {
            let names: Vec<&str> = all.fields().iter().map(|field| field.name().as_str()).collect();
            let report = Report::error(UNDEFINED_COLUMN, format!("the source has no column '{column}'"));
            report.with_hint(format!("its columns are {}", names.join(", ")))
        })
    };
    let places = columns.iter().map(place).collect::<Result<Vec<_>, _>>()?;
    let twice = columns.iter().enumerate().find(|(index, column)| columns[..*index].contains(column));
    if let Some((_, column)) = twice {
        return Err(Report::error(DUPLICATE_COLUMN, format!("column '{column}' is named more than once")));
    }
    let missing = all.fields().iter().enumerate();
    let mut missing = missing.filter(|(index, field)| !places.contains(index) && !field.is_nullable());
    match missing.next() {
        None => Ok(places),
        Some((_, field)) => {
            let message =
                format!("column '{}' is NOT NULL, and there is no value for it in {what}", field.name());
            Err(Report::error("23502", message))
        }
    }
}

/// The places of the columns of a table that a `COPY` names.
pub(super) fn named_columns(table: &ClientTable, columns: Option<&[String]>) -> Result<Vec<usize>, Report> {
    let all = &table.shape.columns;
    let Some(columns) = columns else { return Ok((0..all.fields().len()).collect()) };
    let place = |column: &String| {
        all.index_of(column).map_err(|_| {
            let message = format!("table '{}' has no column '{column}'", table.name);
            Report::error(UNDEFINED_COLUMN, message)
        })
    };
    columns.iter().map(place).collect()
}
