//! What statements can name: relations with their columns, functions, words. The editor of the console completes with it.

use std::collections::BTreeSet;

use hyper::StatusCode;
use serde_json::{Value, json};
use tidemill_sql::{ListedRelation, RelationKind, keywords};

use super::answer::{Answer, json, starting};
use super::shared::HttpState;
use crate::postgres::values::columns;

/// The columns that are described; those of further relations are left out, and the answer says so.
const COLUMNS_MAX: usize = 20_000;

/// The whole catalogue.
pub(super) fn answer(shared: &HttpState) -> Answer {
    let Some(runtime) = shared.runtime.get() else { return starting().answer() };
    let catalog = runtime.catalog();
    let listed = catalog.listed();
    let known: BTreeSet<&str> = listed.iter().map(|relation| relation.name.as_str()).collect();
    let others: BTreeSet<String> =
        catalog.names().into_iter().filter(|name| !known.contains(name.as_str())).collect();
    let mut room = COLUMNS_MAX;
    let relations: Vec<Value> = listed.iter().map(|listed| relation(listed, &mut room)).collect();
    json(StatusCode::OK, &json!({ "relations": relations, "functions": others, "words": keywords() }))
}

fn relation(listed: &ListedRelation, room: &mut usize) -> Value {
    let kind = match listed.kind {
        RelationKind::MaterializedView => "materialized view",
        RelationKind::View => "view",
        RelationKind::Process => "process",
        RelationKind::Table => "table",
        RelationKind::Source => "source",
        // They hold no rows that a query could read by name.
        RelationKind::Places | RelationKind::Pool | RelationKind::Sink | RelationKind::Function => "other",
    };
    let all = columns(&listed.columns, &[]);
    let shown = all.len().min(*room);
    *room -= shown;
    let described =
        all[..shown].iter().map(|column| json!({ "name": column.name, "type": column.kind.full_name() }));
    json!({
        "name": listed.name,
        "kind": kind,
        "columns": described.collect::<Vec<_>>(),
        "columns_left_out": all.len() - shown,
    })
}
