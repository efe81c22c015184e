//! What the gateways and the server itself say of what enters them, of their fragments and of their queries.

use hyper::StatusCode;
use serde_json::{Map, Value, json};
use tidemill_service::{Runtime, StatusTables};

use super::answer::{Answer, computed, json, starting};
use super::shared::HttpState;

/// The names of the gateways, and the rows of `SHOW GATEWAYS`, `SHOW FRAGMENTS` and `SHOW QUERIES`, each an object by
/// the names of the columns.
pub(super) async fn answer(shared: &HttpState) -> Answer {
    let Some(runtime) = shared.runtime.get().cloned() else { return starting().answer() };
    // A gateway that says nothing is waited for.
    match computed(move || shown(&runtime), "the gateways could not be asked").await {
        Ok(shown) => json(StatusCode::OK, &shown),
        Err(refusal) => refusal.answer(),
    }
}

fn shown(runtime: &Runtime) -> Value {
    let tables = runtime.status_tables();
    json!({
        "gateways": runtime.gateway_names(),
        "sources": objects(&StatusTables::GATEWAY_COLUMNS, &tables.gateways),
        "fragments": objects(&StatusTables::FRAGMENT_COLUMNS, &tables.fragments),
        "queries": objects(&StatusTables::QUERY_COLUMNS, &tables.queries),
    })
}

fn objects(columns: &[&str], rows: &[Vec<String>]) -> Vec<Value> {
    let object = |row: &Vec<String>| {
        let fields = columns.iter().zip(row).map(|(column, value)| ((*column).to_owned(), json!(value)));
        Value::Object(fields.collect::<Map<_, _>>())
    };
    rows.iter().map(object).collect()
}
