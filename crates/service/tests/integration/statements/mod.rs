//! Statements of a session, and the numbers that it answers.
#![allow(dead_code)]

use tidemill_engine::arrow::array::{Int64Array, RecordBatch};
use tidemill_service::{Error, Reply, Session};
use tidemill_sql::parse;

/// Executes statements one after the other; the reply to the last one.
pub fn execute(session: &mut Session, script: &str) -> Result<Reply, Error> {
    let mut last = Reply::Text(String::new());
    for statement in parse(script, "test.sql").unwrap_or_else(|error| panic!("{error}")) {
        last = session.execute(&statement)?;
    }
    Ok(last)
}

/// Executes statements that must work.
pub fn define(session: &mut Session, script: &str) {
    execute(session, script).unwrap_or_else(|error| panic!("{error}"));
}

/// The numbers in the first column.
pub fn numbers_of(batch: &RecordBatch) -> Vec<i64> {
    batch.column(0).as_any().downcast_ref::<Int64Array>().expect("BIGINT").values().to_vec()
}

/// The numbers in the first column of a query's answer.
pub fn numbers(session: &mut Session, query: &str) -> Vec<i64> {
    match execute(session, query).unwrap_or_else(|error| panic!("{error}")) {
        Reply::Rows(rows) => numbers_of(&rows),
        Reply::Query(query) => {
            query.stream().unwrap().flat_map(|batch| numbers_of(&batch.unwrap())).collect()
        }
        _ => panic!("no query: {query}"),
    }
}
