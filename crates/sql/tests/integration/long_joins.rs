//! Joins that compare many pairs and find few can be ended between them, and find the same.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use datafusion::arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch};
use datafusion::arrow::datatypes::Int64Type;
use tidemill_sql::{Planner, Reply, parse};

use crate::counted_turns::Counted;

fn execute(planner: &mut Planner, query: &str) -> Result<Reply, String> {
    let statement = parse(query, "test.sql").map_err(|error| error.to_string())?.remove(0);
    planner.execute(&statement).map_err(|error| error.to_string())
}

#[test]
fn a_join_that_refuses_all_pairs_can_be_ended_between_them() {
    let values = Arc::new(Int64Array::from_iter_values(0..2000));
    let keys = Arc::new(Int64Array::from(vec![7; 2000]));
    let rows =
        RecordBatch::try_from_iter([("value", values as ArrayRef), ("key", keys as ArrayRef)]).unwrap();
    for condition in ["a.value + b.value < 0", "a.key = b.key AND a.value + b.value < 0"] {
        let query = format!("SELECT a.value FROM many AS a JOIN many AS b ON {condition}");
        let counted = |pauses_max: usize| {
            let pauses = Arc::new(AtomicUsize::new(0));
            let mut planner = Planner::new();
            planner.add_table("many", rows.clone());
            planner.set_turns(Arc::new(Counted { pauses: Arc::clone(&pauses), pauses_max }));
            let reply = execute(&mut planner, &query);
            (reply, pauses.load(Ordering::Relaxed))
        };
        // 4 million pairs, 64,000 at a time.
        let (reply, pauses) = counted(usize::MAX);
        assert!(matches!(reply, Ok(Reply::Rows(rows)) if rows.num_rows() == 0), "{condition}");
        assert!(pauses > 60, "{condition}: {pauses}");
        let (reply, pauses) = counted(30);
        assert!(reply.is_err_and(|error| error.contains("it was cancelled")), "{condition}");
        assert_eq!(pauses, 31, "{condition}");
    }
}

#[test]
fn an_answer_at_the_end_of_its_input_can_be_ended_between_pairs() {
    let values = Arc::new(Int64Array::from_iter_values(0..2000));
    let rows = RecordBatch::try_from_iter([("value", values as ArrayRef)]).unwrap();
    let query = "SELECT a.n FROM (SELECT value, count(*) AS n FROM sequence(count => 2000) GROUP BY value) AS a \
                 JOIN many AS b ON a.value + b.value < 0";
    let counted = |pauses_max: usize| {
        let pauses = Arc::new(AtomicUsize::new(0));
        let mut planner = Planner::new();
        planner.add_table("many", rows.clone());
        planner.set_turns(Arc::new(Counted { pauses: Arc::clone(&pauses), pauses_max }));
        let Ok(Reply::Query(prepared)) = execute(&mut planner, query) else { panic!("it reads a source") };
        let planned = pauses.load(Ordering::Relaxed);
        let running = prepared.open(Vec::new()).and_then(tidemill_sql::Opened::start).unwrap();
        assert!(running.is_answered_at_end());
        let answer = running.wait().map(|(_, answer)| answer.map_or(0, |rows| rows.num_rows()));
        (answer.map_err(|cause| cause.to_string()), pauses.load(Ordering::Relaxed), planned)
    };
    let (answer, pauses, planned) = counted(usize::MAX);
    assert_eq!(answer, Ok(0));
    assert!(pauses > planned + 60, "{pauses}, {planned} of them when it was planned");
    let (answer, pauses, _) = counted(planned + 30);
    assert!(answer.is_err_and(|error| error.contains("it was cancelled")));
    assert_eq!(pauses, planned + 31);
}

#[test]
fn joins_in_small_pieces_find_what_joins_find() {
    let values = Int64Array::from_iter_values((0..300).map(|at| at * 37 % 101));
    let numbers: Vec<i64> = values.values().to_vec();
    let rows = RecordBatch::try_from_iter([("value", Arc::new(values) as ArrayRef)]).unwrap();
    let mut planner = Planner::new();
    planner.add_table("many", rows);
    let mut count = |query: &str| match execute(&mut planner, query) {
        Ok(Reply::Rows(rows)) => rows.column(0).as_primitive::<Int64Type>().value(0),
        _ => panic!("{query} has an answer"),
    };
    let pairs = |holds: fn(i64, i64) -> bool| {
        numbers.iter().flat_map(|a| numbers.iter().map(move |b| holds(*a, *b))).filter(|holds| *holds).count()
            as i64
    };
    let unmatched = numbers.iter().filter(|a| !numbers.iter().any(|b| **a > b + 90)).count() as i64;
    for (join, expected) in [
        ("JOIN many AS b ON a.value > b.value + 90", pairs(|a, b| a > b + 90)),
        ("LEFT JOIN many AS b ON a.value > b.value + 90", pairs(|a, b| a > b + 90) + unmatched),
        ("RIGHT JOIN many AS b ON b.value > a.value + 90", pairs(|a, b| a > b + 90) + unmatched),
        (
            "JOIN many AS b ON a.value = b.value AND a.value * b.value > 5000",
            pairs(|a, b| a == b && a * b > 5000),
        ),
    ] {
        assert_eq!(count(&format!("SELECT count(*) AS n FROM many AS a {join}")), expected, "{join}");
    }
    let query = "SELECT count(*) AS n FROM many AS a WHERE NOT EXISTS \
                 (SELECT 1 FROM many AS b WHERE a.value > b.value + 90)";
    assert_eq!(count(query), unmatched);
}
