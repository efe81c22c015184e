//! What users read when something is wrong: the whole text of each error, kept in `tests/errors`. With
//! `TIDEMILL_UPDATE=1` the files are rewritten.

use std::fmt::Write;
use std::future::Future;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use datafusion::arrow::datatypes::{DataType, Field, Schema, TimeUnit};
use datafusion::datasource::MemTable;
use datafusion::error::DataFusionError;
use datafusion::execution::context::{SessionConfig, SessionContext};
use datafusion::sql::parser::Statement as PlannerStatement;
use datafusion::sql::sqlparser::ast;
use tidemill_sql::{Names, Options, Statement, StatementKind, TextError, parse_all};

const CASE: &str = "==== ";
const ERRORS: &str = "----\n";

/// Runs each case of a file, and compares what is said with what was said before.
fn golden(name: &str, check: impl Fn(&str) -> Vec<TextError>) {
    let path = Path::new(&std::env::var("CARGO_MANIFEST_DIR").unwrap())
        .join("tests/integration/errors")
        .join(format!("{name}.txt"));
    let before = std::fs::read_to_string(&path).unwrap();
    let mut now = String::new();
    let mut silent = Vec::new();
    for case in before.split(CASE).skip(1) {
        let (title, rest) = case.split_once('\n').unwrap();
        let input = rest.split(ERRORS).next().unwrap();
        let errors = check(input.trim_end_matches('\n'));
        if errors.is_empty() {
            silent.push(title);
        }
        let shown: Vec<String> = errors.iter().map(|error| format!("{error}\n")).collect();
        write!(now, "{CASE}{title}\n{input}{ERRORS}{}\n", shown.join("\n")).unwrap();
    }
    assert!(silent.is_empty(), "{name}: no error in {silent:?}");
    if std::env::var_os("TIDEMILL_UPDATE").is_some() {
        std::fs::write(&path, &now).unwrap();
    } else {
        assert_eq!(before, now, "{name}: if the new text is better, run again with TIDEMILL_UPDATE=1");
    }
}

fn parsed(text: &str) -> Vec<TextError> {
    parse_all(text, "pipeline.sql").1
}

#[test]
fn syntax() {
    golden("syntax", parsed);
}

#[test]
fn create() {
    golden("create", parsed);
}

/// Reads the options as a source of files would.
fn read_options(options: &Options) -> Result<(), TextError> {
    options.choice("connector", &["file", "stdin", "tcp", "generator"])?;
    options.required_text("path")?;
    options.integer("rate", 1..=1_000_000_000)?;
    options.integer("parts", 0..=i64::MAX)?;
    options.boolean("header")?;
    options.duration_ns("max_latency")?;
    options.bytes("memory")?;
    options.finish(&["connector", "path", "rate", "parts", "header", "max_latency", "memory"])
}

#[test]
fn options() {
    golden("options", |text| {
        let (statements, mut errors) = parse_all(text, "pipeline.sql");
        for statement in statements {
            if let StatementKind::CreateSource(source) = statement.kind {
                errors.extend(read_options(&source.options).err());
            }
        }
        errors
    });
}

/// Polls a future that never waits for anything.
fn ready<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("planning from memory does not wait"),
    }
}

fn session() -> SessionContext {
    let mut config = SessionConfig::new();
    config.options_mut().sql_parser.collect_spans = true;
    let session = SessionContext::new_with_config(config);
    let time = DataType::Timestamp(TimeUnit::Nanosecond, None);
    let clicks = vec![
        Field::new("user_id", DataType::Int64, true),
        Field::new("campaign", DataType::Utf8, true),
        Field::new("event_time", time.clone(), true),
        Field::new("price", DataType::Float64, true),
    ];
    let ads = vec![Field::new("ad", DataType::Utf8, true), Field::new("campaign", DataType::Utf8, true)];
    for (name, fields) in [("clicks", clicks), ("ads", ads)] {
        let table = MemTable::try_new(Arc::new(Schema::new(fields)), vec![vec![]]).unwrap();
        session.register_table(name, Arc::new(table)).unwrap();
    }
    session
}

fn plan(session: &SessionContext, statement: &Statement) -> Result<(), DataFusionError> {
    let StatementKind::Query(query, _) = &statement.kind else { panic!("a query") };
    let query = PlannerStatement::Statement(Box::new(ast::Statement::Query(query.clone())));
    let plan = ready(session.state().statement_to_plan(query))?;
    session.state().optimize(&plan).map(|_| ())
}

#[test]
fn planner() {
    let session = session();
    let state = session.state();
    let mut functions: Vec<&str> = state.scalar_functions().keys().map(String::as_str).collect();
    functions.extend(state.aggregate_functions().keys().map(String::as_str));
    functions.extend(state.window_functions().keys().map(String::as_str));
    functions.sort_unstable();
    let failed = Default::default();
    let names = Names { failed, relations: vec!["ads", "clicks"], functions, functions_of_rows: Vec::new() };
    golden("planner", |text| {
        let (statements, mut errors) = parse_all(text, "pipeline.sql");
        for statement in statements {
            if let Err(error) = plan(&session, &statement) {
                errors.push(TextError::from_datafusion(&error, &statement, &names));
            }
        }
        errors
    });
}
