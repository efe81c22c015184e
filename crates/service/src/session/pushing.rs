//! Sources that clients give rows, and the columns that they give.

use tidemill_engine::arrow::schema::SchemaRef;
use tidemill_sql::PushTarget;

use crate::{Refused, Session};

/// Returns the source of a name, which a query reads.
pub(super) fn push_target(session: &Session, source: &str, done: &str) -> Result<PushTarget, Refused> {
    let catalog = session.runtime().catalog();
    let Some(target) = catalog.push_target(source).filter(|target| !target.is_transactional()) else {
        return Err(if catalog.listed().iter().any(|relation| relation.name == source) {
            Refused::new("42809", format!("'{source}' is not a source into which rows can be {done}"))
                .with_hint(format!(
                    "rows are {done} into tables that a client has created, and into sources with connector = 'push'"
                ))
        } else {
            Refused::new("42P01", format!("there is no source '{source}'")).with_hint(format!(
                "CREATE TABLE {source} (...), or CREATE SOURCE {source} (...) WITH (connector = 'push')"
            ))
        });
    };
    if target.readers() == 0 {
        let message = format!("no query reads '{source}', so its rows would be lost");
        let hint = "create a materialized view or a sink over it first";
        return Err(Refused::new("55000", message).with_hint(hint));
    }
    Ok(target.clone())
}

/// Waits until the rows that were given to sources are in cycles.
pub(super) fn wait_for_pushed(session: &mut Session) {
    let (cancellation, cancelled) = (session.cancellation(), session.turns.cancelled_before());
    let goes_on = || cancellation.requests() <= cancelled;
    for source in std::mem::take(&mut session.pushed) {
        let cycle = session.runtime.clock().cycle_of_rows(&source, &goes_on);
        session.tables.own_cycle = session.tables.own_cycle.max(cycle);
    }
}

/// Returns the places of the named columns. The others must be able to be NULL. `what`: what has no values for them, in messages.
///
/// # Errors
/// If a name is not that of a column or comes twice, or a column that is NOT NULL has none.
///
/// ```
/// use std::sync::Arc;
/// use tidemill_engine::arrow::schema::{DataType, Field, Schema};
/// let field = |name, nullable| Field::new(name, DataType::Int64, nullable);
/// let all = Arc::new(Schema::new(vec![field("id", false), field("note", true)]));
/// assert_eq!(tidemill_service::chosen_columns(&all, &["id".to_owned()], "values").unwrap(), [0]);
/// let refused = tidemill_service::chosen_columns(&all, &["note".to_owned()], "values").unwrap_err();
/// assert_eq!(refused.code, "23502");
/// ```
pub fn chosen_columns(all: &SchemaRef, columns: &[String], what: &str) -> Result<Vec<usize>, Refused> {
    let place = |column: &String| {
        all.index_of(column).map_err(|_| {
            let names: Vec<&str> = all.fields().iter().map(|field| field.name().as_str()).collect();
            let refused = Refused::new("42703", format!("the source has no column '{column}'"));
            refused.with_hint(format!("its columns are {}", names.join(", ")))
        })
    };
    let places = columns.iter().map(place).collect::<Result<Vec<_>, _>>()?;
    let twice = columns.iter().enumerate().find(|(index, column)| columns[..*index].contains(column));
    if let Some((_, column)) = twice {
        return Err(Refused::new("42701", format!("column '{column}' is named more than once")));
    }
    let missing = all.fields().iter().enumerate();
    let mut missing = missing.filter(|(index, field)| !places.contains(index) && !field.is_nullable());
    match missing.next() {
        None => Ok(places),
        Some((_, field)) => {
            let message =
                format!("column '{}' is NOT NULL, and there is no value for it in {what}", field.name());
            Err(Refused::new("23502", message))
        }
    }
}
