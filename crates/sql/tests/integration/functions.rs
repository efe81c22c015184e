//! Every scalar function that a planner offers answers on streams what DataFusion answers in batch, for rows with NULLs
//! and odd values, or is refused by name. `functions.txt` has calls, one in a line; a function without one fails.

use crate::against_batch::compare;

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::memory_source::Batches;
use datafusion::arrow::array::{
    ArrayRef, BooleanArray, Date32Array, Float64Array, Int64Array, RecordBatch, StringArray,
    TimestampNanosecondArray, UInt64Array,
};
use datafusion::arrow::compute::{concat_batches, take_record_batch};
use datafusion::execution::SessionStateDefaults;
use datafusion::prelude::{SessionConfig, SessionContext};
use tidemill_connect::memory::MemorySink;
use tidemill_engine::{Cause, Source};
use tidemill_sql::{Generator, Planner, Reply, SourceDefinition, parse};

fn rows() -> RecordBatch {
    let second_ns = 1_000_000_000;
    let n = [Some(0), Some(1), None, Some(-7), Some(i64::MAX), Some(i64::MIN), Some(64)];
    let d = [Some(0.0), Some(-0.0), Some(f64::NAN), None, Some(f64::INFINITY), Some(-1.5), Some(0.25)];
    let s = [
        Some(""),
        Some("abc"),
        Some("Ünï😀 cödé"),
        Some(" a,b,,c "),
        None,
        Some("2026-02-03"),
        Some("%_\\'"),
    ];
    let at = [
        Some(0),
        None,
        Some(-1),
        Some(1_770_091_506 * second_ns + 789),
        Some(951_782_400 * second_ns),
        Some(1),
        None,
    ];
    let day = [None, Some(0), Some(-1), Some(20_000), Some(11_016), Some(19_782), Some(1)];
    let b = [Some(true), None, Some(false), Some(true), Some(false), None, Some(true)];
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("id", Arc::new(Int64Array::from_iter_values(0..n.len() as i64))),
        ("n", Arc::new(Int64Array::from(n.to_vec()))),
        ("d", Arc::new(Float64Array::from(d.to_vec()))),
        ("s", Arc::new(StringArray::from(s.to_vec()))),
        ("at", Arc::new(TimestampNanosecondArray::from(at.to_vec()))),
        ("day", Arc::new(Date32Array::from(day.to_vec()))),
        ("b", Arc::new(BooleanArray::from(b.to_vec()))),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, column)| (name, column, true)))
        .unwrap()
}

fn planner() -> Planner {
    let mut planner = Planner::new();
    planner.settings_mut().workers = 1;
    let generator = move |_: &_| {
        let schema = rows().schema();
        let open = |columns: Option<&[usize]>| -> Result<Box<dyn Source>, Cause> {
            let rows = columns.map_or(Ok(rows()), |columns| rows().project(columns)).unwrap();
            Ok(Box::new(Batches { schema: rows.schema(), left: [rows].into() }))
        };
        let definition = SourceDefinition::new("odd", schema, Arc::new(open));
        Ok(SourceDefinition { is_finite: true, ..definition })
    };
    planner.register_generator("odd", Generator::new("rows of a test", &[], generator));
    planner
}

/// The answer of the stream, or why there is none.
fn streamed(planner: &mut Planner, sql: &str) -> Result<RecordBatch, String> {
    let statement = parse(sql, "call").map_err(|error| error.to_string())?.remove(0);
    match planner.execute(&statement).map_err(|error| error.to_string())? {
        Reply::Query(query) => {
            assert!(!query.is_answered_at_end(), "{sql}");
            let (sink, kept) = MemorySink::new(&query.outputs()[0].schema, 1000);
            query
                .open(vec![Box::new(sink)])
                .and_then(|opened| opened.start())
                .and_then(|running| running.wait())
                .map_err(|cause| cause.to_string())?;
            kept.read().map_err(|cause| cause.to_string())
        }
        _ => Err("it is no query".into()),
    }
}

/// DataFusion's answer for each row by itself; rows that it has none for are left out, as on streams.
fn in_batch(sql: &str) -> Result<RecordBatch, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let all = rows();
        let mut answers = Vec::new();
        let mut failed = String::new();
        for row in 0..all.num_rows() as u64 {
            let context = SessionContext::new_with_config(SessionConfig::new().with_target_partitions(1));
            let one = take_record_batch(&all, &UInt64Array::from(vec![row])).unwrap();
            context.register_batch("odd", one).unwrap();
            let frame = context.sql(sql).await.map_err(|error| error.to_string())?;
            match frame.collect().await {
                Ok(batches) => answers.extend(batches),
                Err(error) => failed = error.to_string(),
            }
        }
        let schema = answers.first().ok_or(failed)?.schema();
        concat_batches(&schema, &answers).map_err(|error| error.to_string())
    })
}

/// The calls: the function's name and a call, or why there is none.
fn calls() -> Vec<(String, String)> {
    let path = std::env::var("CARGO_MANIFEST_DIR").unwrap() + "/tests/integration/functions.txt";
    let text = std::fs::read_to_string(path).unwrap();
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let call = |line: &str| {
        let (name, call) = line.split_once(" | ").unwrap_or_else(|| panic!("{line}"));
        (name.to_string(), call.to_string())
    };
    lines.map(call).collect()
}

#[test]
fn every_function_is_called() {
    let called: BTreeSet<String> = calls().into_iter().map(|(name, _)| name).collect();
    let offered = SessionStateDefaults::default_scalar_functions();
    let missing: Vec<&str> =
        offered.iter().map(|function| function.name()).filter(|name| !called.contains(*name)).collect();
    assert!(missing.is_empty(), "no call of {}", missing.join(", "));
}

#[test]
fn calls_answer_what_they_answer_in_batch() {
    let mut planner = planner();
    let mut wrong = Vec::new();
    for (name, call) in calls() {
        if ["no type: ", "rows: "].iter().any(|kind| call.starts_with(kind)) {
            continue;
        }
        let sql = |from: &str| format!("SELECT id, {call} AS value FROM {from}");
        let ours = streamed(&mut planner, &sql("odd()"));
        if let Some(refusal) = call.strip_prefix("refused: ") {
            match streamed(&mut planner, &format!("SELECT id, {refusal} AS value FROM odd()")) {
                Err(text) if text.contains("different values in every run") => {}
                other => wrong.push(format!("{name}: {refusal} is not refused: {other:?}")),
            }
            continue;
        }
        match (ours, in_batch(&sql("odd"))) {
            (Ok(ours), Ok(theirs)) => {
                if let Some(text) = compare::difference(&ours, &theirs) {
                    wrong.push(format!("{name}: {call}: {text}"));
                }
            }
            // On streams each row that fails is left out, even if all rows fail.
            (Ok(ours), Err(_)) if ours.num_rows() == 0 => {}
            (Ok(_), Err(text)) => wrong.push(format!("{name}: {call}: in batch {text}")),
            (Err(text), _) => wrong.push(format!("{name}: {call}: {text}")),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}
