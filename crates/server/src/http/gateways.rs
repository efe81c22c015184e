//! What the gateways and the server itself say of what enters them, of their fragments and of their queries.

use hyper::StatusCode;
use serde_json::{Map, Value, json};
use tidemill_service::StatusTables;

use super::answer::{Answer, Refusal, json, starting};
use super::shared::HttpState;

/// The rows of `SHOW GATEWAYS`, `SHOW FRAGMENTS` and `SHOW QUERIES`, each an object by the names of the columns.
pub(super) async fn answer(shared: &HttpState) -> Answer {
    let Some(runtime) = shared.runtime.get().cloned() else { return starting().answer() };
    // A gateway that says nothing is waited for, and the thread that speaks HTTP waits for nothing.
    match tokio::task::spawn_blocking(move || runtime.status_tables()).await {
        Ok(tables) => json(StatusCode::OK, &shown(&tables)),
        Err(_) => {
            let message = "the gateways could not be asked";
            Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "XX000", message).answer()
        }
    }
}

fn shown(tables: &StatusTables) -> Value {
    json!({
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
