//! What is defined: the answers to `\\d`, `\\dt` and their like.

use arrow_select::filter::filter_record_batch;
use tidemill_engine::arrow::array::{Array, BooleanArray, RecordBatch, StringArray};
use tidemill_sql::ShowKind;

use super::client_command::Listing;
use super::execute::Executor;
use crate::exit::Exit;
use crate::terminal;

/// All definitions, one table for each kind.
pub(super) fn all(executor: &Executor) -> anyhow::Result<Exit> {
    let kinds = [
        ("sources", ShowKind::Sources),
        ("tables", ShowKind::Tables),
        ("views", ShowKind::Views),
        ("processes", ShowKind::Processes),
        ("places", ShowKind::Places),
        ("sinks", ShowKind::Sinks),
    ];
    let tables = kinds.map(|(title, kind)| (title, executor.session.show(kind)));
    show(
        executor,
        &tables,
        "nothing is defined yet; files can be queried by name: SELECT * FROM 'clicks.csv' LIMIT 5;",
    )
}

/// The definitions of one kind.
pub(super) fn of(executor: &Executor, listing: Listing) -> anyhow::Result<Exit> {
    let rows = |kind| executor.session.show(kind);
    match listing {
        Listing::Tables => show(
            executor,
            &[("sources", rows(ShowKind::Sources)), ("tables", rows(ShowKind::Tables))],
            "no source and no table is defined yet; CREATE SOURCE and CREATE TABLE define them",
        ),
        Listing::Views => show(
            executor,
            &[("views", rows(ShowKind::Views)), ("processes", rows(ShowKind::Processes))],
            "no view is defined yet; CREATE VIEW name AS SELECT ... defines one",
        ),
        Listing::MaterializedViews => show(
            executor,
            &[("materialized views", materialized(&rows(ShowKind::Views))?)],
            "no materialized view is defined yet; CREATE MATERIALIZED VIEW name AS SELECT ... defines one",
        ),
        Listing::Functions => show(executor, &[("functions", rows(ShowKind::Functions))], ""),
    }
}

fn materialized(views: &RecordBatch) -> anyhow::Result<RecordBatch> {
    let kinds = views.column_by_name("kind").and_then(|kinds| kinds.as_any().downcast_ref::<StringArray>());
    let Some(kinds) = kinds else { return Ok(views.clone()) };
    let wanted: BooleanArray = kinds.iter().map(|kind| Some(kind == Some("materialized view"))).collect();
    Ok(filter_record_batch(views, &wanted)?)
}

/// Those tables that have rows, or the note that there is none.
fn show(executor: &Executor, tables: &[(&str, RecordBatch)], none: &str) -> anyhow::Result<Exit> {
    let mut text = Vec::new();
    for (title, rows) in tables.iter().filter(|(_, rows)| rows.num_rows() > 0) {
        text.extend_from_slice(format!("{title}\n").as_bytes());
        text.extend_from_slice(&executor.format.all(rows)?);
    }
    if text.is_empty() {
        terminal::tell(none)
    } else {
        executor.show(&text)?
    }
    Ok(Exit::Done)
}
