//! The plan of a query that runs, with what was measured of it.

use hyper::StatusCode;
use serde_json::{Value, json};
use tidemill_engine::{SplitStatus, Work};

use super::answer::{Answer, Refusal, json, starting};
use super::parameters::{bad, parameters};
use super::shared::HttpState;
use crate::report::UNDEFINED_SETTING;

/// The plan of the query that the address names.
pub(super) fn answer(address: Option<&str>, shared: &HttpState) -> Answer {
    plan(address.unwrap_or_default(), shared)
        .map_or_else(|refusal| refusal.answer(), |plan| json(StatusCode::OK, &plan))
}

fn plan(address: &str, shared: &HttpState) -> Result<Value, Refusal> {
    let runtime = shared.runtime.get().ok_or_else(starting)?;
    let name = match parameters(address)?.as_slice() {
        [(key, name)] if key == "query" => name.clone(),
        _ => return Err(bad("name the query, and nothing else: /api/plan?query=NAME")),
    };
    let plan = runtime.plan(&name).ok_or_else(|| {
        let message = format!("no query '{name}' has been started");
        Refusal::new(StatusCode::NOT_FOUND, UNDEFINED_SETTING, message)
            .with_hint("/api/status lists the queries")
    })?;
    let splits: Vec<Value> = plan.splits.iter().map(split).collect();
    Ok(json!({ "name": name, "text": plan.text, "splits": splits }))
}

/// The measurement beside the model: both in processor time for each row that comes in.
fn split(split: &SplitStatus) -> Value {
    let rows_in = split.stages.first().map_or(0, |stage| stage.rows_in);
    let slowest = split.bottleneck().filter(|stage| stage.time_ns > 0).map(|stage| stage.name.clone());
    let stage = |stage: &Work| {
        json!({
            "name": stage.name,
            "rows_in": stage.rows_in,
            "rows_out": stage.rows_out,
            "measured_ns": (rows_in > 0).then(|| stage.time_ns as f64 / rows_in as f64),
            "predicted_ns": split.predicted_ns(&stage.name),
            "is_slowest": slowest.as_ref() == Some(&stage.name),
        })
    };
    json!({
        "operator": split.operator,
        "input": split.input,
        "plan": split.plan.to_string(),
        "stages": split.stages.iter().map(stage).collect::<Vec<_>>(),
        "model": split.choice.as_ref().map(ToString::to_string),
    })
}
