//! What the materialized views that run hold, and which of their cycles can be read.

use hyper::StatusCode;
use serde_json::{Value, json};
use tidemill_sql::{FragmentStatus, ViewHandle};

use super::answer::{Answer, json, starting};
use super::shared::HttpState;

/// All views that run.
pub(super) fn answer(shared: &HttpState) -> Answer {
    let Some(runtime) = shared.runtime.get() else { return starting().answer() };
    let stores: Vec<Value> = runtime.running_views().iter().map(store).collect();
    json(StatusCode::OK, &json!({ "stores": stores }))
}

fn store(view: &ViewHandle) -> Value {
    let store = view.store();
    let config = store.config();
    let name = |index: &usize| config.schema.field(*index).name().clone();
    let names = |indexes: &[usize]| indexes.iter().map(name).collect::<Vec<_>>();
    let statistics = store.statistics();
    let fragment = |fragment: FragmentStatus| {
        json!({
            "cycles": fragment.cycles.map(|(oldest, newest)| [oldest, newest]),
            "rows": fragment.statistics.rows,
            "bytes": fragment.statistics.bytes + fragment.statistics.index_bytes,
            "chunks": fragment.statistics.chunks,
            "rows_dropped": fragment.statistics.rows_dropped,
        })
    };
    json!({
        "name": view.name(),
        "key": config.key.as_deref().map(names),
        "time": config.time.as_ref().map(name),
        "point": config.point.as_ref().map(|point| names(point)),
        "cycles": store.cycles().map(|(oldest, newest)| [oldest, newest]),
        "versions": statistics.versions,
        "versions_max": config.retention.versions_max,
        "rows": statistics.rows,
        "bytes": statistics.bytes + statistics.index_bytes,
        "bytes_max": config.retention.bytes_max,
        "rows_dropped": statistics.rows_dropped,
        "fragments": store.fragments().into_iter().map(fragment).collect::<Vec<_>>(),
    })
}
