//! Our answers: over tables, over streams that end, and through views in cycles of several sizes.

use datafusion::arrow::array::RecordBatch;
use tidemill_connect::memory::MemorySink;
use tidemill_engine::Sink;
use tidemill_sql::{Output, Pipeline, Planner, Prepared, Reply, parse};

use super::arrow_rows::rows;
use tidemill_testing::duckdb::Row;

const ROWS_MAX: usize = 1_000_000;

/// How a query is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Over tables, by DataFusion.
    Table,
    /// Over streams that end; what cannot stream is computed then.
    Source,
    /// As a materialized view over streams, in cycles of this many events.
    View { cycle_events: u32, workers: usize },
}

pub const WAYS: &[Way] = &[
    Way::Table,
    Way::Source,
    Way::View { cycle_events: 3, workers: 2 },
    Way::View { cycle_events: 64, workers: 1 },
];

impl Way {
    /// What relations are declared as.
    pub fn declared(self) -> &'static str {
        match self {
            Way::Table => "TABLE",
            _ => "SOURCE",
        }
    }
}

/// An answer.
pub enum Answer {
    Rows(Vec<Row>),
    /// It cannot be computed, or not of all rows: why.
    Failed(String),
    /// The planner does not take it.
    Refused(String),
}

/// Answers the query after these definitions.
pub fn answer(definitions: &str, query: &str, way: Way) -> Answer {
    let mut planner = Planner::new();
    planner.settings_mut().workers = 2;
    if let Way::View { cycle_events, workers } = way {
        let settings = planner.settings_mut();
        (settings.workers, settings.cycle_events, settings.cycle_fixed) = (workers, cycle_events, true);
    }
    let script = match way {
        Way::View { .. } => format!("{definitions}CREATE MATERIALIZED VIEW answer AS {query};"),
        _ => format!("{definitions}{query};"),
    };
    let statements = match parse(&script, "query.sql") {
        Ok(statements) => statements,
        Err(error) => return Answer::Refused(error.to_string()),
    };
    for statement in &statements {
        match planner.execute(statement) {
            Err(error) => return refused_or_failed(error.to_string()),
            Ok(Reply::Rows(batch)) => return Answer::Rows(rows(&batch)),
            Ok(Reply::Query(prepared)) => return of_query(*prepared),
            Ok(_) => {}
        }
    }
    match planner.pipeline() {
        Err(cause) => Answer::Refused(cause.to_string()),
        Ok(None) => Answer::Refused("there is no query".into()),
        Ok(Some(pipeline)) => of_view(pipeline),
    }
}

/// Constants and tables are computed while a query is planned: what is wrong with them is not a refusal.
fn refused_or_failed(text: String) -> Answer {
    const COMPUTED: &[&str] = &[
        "verflow",
        "divide by zero",
        "Divide by zero",
        "Cannot cast",
        "annot cast string",
        "too large",
        "does not fit",
    ];
    if COMPUTED.iter().any(|part| text.contains(part)) { Answer::Failed(text) } else { Answer::Refused(text) }
}

/// The rows of a query that streams, without those that cannot be computed.
pub fn rows_of(prepared: Prepared) -> Vec<Row> {
    let (sink, kept) = MemorySink::new(&prepared.outputs()[0].schema, ROWS_MAX);
    let done = prepared.open(vec![Box::new(sink)]).and_then(|opened| opened.start()?.wait());
    done.and_then(|_| kept.read()).map(|batch| rows(&batch)).unwrap_or_default()
}

/// The answer to a query.
pub fn of_query(prepared: Prepared) -> Answer {
    let sink = |output: &Output| {
        let (sink, rows) = MemorySink::new(&output.schema, ROWS_MAX);
        (Box::new(sink) as Box<dyn Sink>, rows)
    };
    let (sinks, kept): (Vec<_>, Vec<_>) = prepared.outputs().iter().map(sink).unzip();
    match prepared.open(sinks).and_then(|opened| opened.start()?.wait()) {
        Err(cause) => Answer::Failed(cause.to_string()),
        Ok((status, _)) if status.faults.count > 0 => Answer::Failed(status.faults.samples.join("; ")),
        Ok((_, Some(batch))) => Answer::Rows(rows(&batch)),
        Ok((_, None)) => of_batch(kept[0].read()),
    }
}

fn of_view(pipeline: Pipeline) -> Answer {
    let opened = match pipeline.open() {
        Ok(opened) => opened,
        Err(cause) => return Answer::Refused(cause.to_string()),
    };
    let running = match opened.start() {
        Ok(running) => running,
        Err(cause) => return Answer::Failed(cause.to_string()),
    };
    let views = running.views().to_vec();
    match running.wait() {
        Err(cause) => Answer::Failed(cause.to_string()),
        Ok((status, _)) if status.faults.count > 0 => Answer::Failed(status.faults.samples.join("; ")),
        Ok(_) => of_batch(views[0].read()),
    }
}

fn of_batch<E: std::fmt::Display>(batch: Result<RecordBatch, E>) -> Answer {
    match batch {
        Ok(batch) => Answer::Rows(rows(&batch)),
        Err(error) => Answer::Failed(error.to_string()),
    }
}
