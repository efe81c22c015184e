//! What the journal of the database has, which snapshots its queries have, and what it is kept for.

use hyper::StatusCode;
use serde_json::{Value, json};
use tidemill_engine::{JournalStatus, LogStatus, QueryNeeds, SnapshotStatus};
use tidemill_service::Runtime;

use super::answer::{Answer, computed, json, starting};
use super::shared::HttpState;

/// The whole journal.
pub(super) async fn answer(shared: &HttpState) -> Answer {
    let Some(runtime) = shared.runtime.get().cloned() else { return starting().answer() };
    match computed(move || whole(&runtime), "the journal could not be looked at").await {
        Ok(whole) => json(StatusCode::OK, &whole),
        Err(refusal) => refusal.answer(),
    }
}

fn whole(runtime: &Runtime) -> Value {
    let Some(status) = runtime.journal_status() else { return json!({ "folder": null }) };
    let sources = status.sources.iter().enumerate().map(|(index, source)| {
        let mut shown = json!({ "name": source.name, "held_by": holder(&status, index) });
        shown["log"] = source.log.as_ref().map_or(Value::Null, log);
        shown
    });
    let slowest = status.queries.iter().min_by_key(|needs| needs.after);
    json!({
        "folder": status.folder.display().to_string(),
        "cuts": log(&status.cuts),
        "cuts_held_by": slowest.map(|needs| json!({ "query": needs.name, "after": needs.after })),
        "oldest_closed_ms": status.oldest_closed_ns.map(|ns| ns / 1_000_000),
        "sources": sources.collect::<Vec<_>>(),
        "queries": status.queries.iter().map(query).collect::<Vec<_>>(),
        "expected": status.expected,
    })
}

/// The query that needs the oldest rows of a source.
fn holder(status: &JournalStatus, source: usize) -> Option<Value> {
    let needed = status.queries.iter().flat_map(|needs| {
        let own = needs.positions.iter().filter(move |(index, _)| *index == source);
        own.map(move |(_, position)| (*position, &needs.name))
    });
    needed.min().map(|(position, query)| json!({ "query": query, "position": position }))
}

fn log(log: &LogStatus) -> Value {
    json!({
        "first": log.first,
        "end": log.end,
        "synced": log.synced,
        "bytes": log.bytes,
        "bytes_max": log.bytes_max,
        "segments": log.segments,
        "failure": log.failure,
    })
}

fn query(needs: &QueryNeeds) -> Value {
    json!({
        "name": needs.name,
        "stopped": needs.is_stopped,
        "after": needs.after,
        "snapshot": needs.snapshot.as_ref().map(snapshot),
    })
}

fn snapshot(snapshot: &SnapshotStatus) -> Value {
    json!({
        "cycle": snapshot.cycle,
        "closed_ms": snapshot.closed_at_ns / 1_000_000,
        "bytes": snapshot.bytes,
        "took_ms": snapshot.took.map(|took| took.as_secs_f64() * 1e3),
    })
}
