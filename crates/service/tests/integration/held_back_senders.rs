//! A load of many rows is held back by a view that is slower than others, which would otherwise stop.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use tidemill_engine::arrow::array::{Int64Array, RecordBatch};
use tidemill_service::{Runtime, Session};

use crate::gate::Gate;
use crate::runtimes::{planner, start};
use crate::statements::{define, numbers};

/// The longest that anything here may take.
const PATIENCE: Duration = Duration::from_secs(120);
/// 8 MB each. All are far more than what a source keeps for slow queries, and what a query takes in advance.
const ROWS: i64 = 1_000_000;
const BATCHES: i64 = 64;

fn create(session: &mut Session, view: &str, query: &str) {
    define(session, &format!("CREATE MATERIALIZED VIEW {view} AS {query}"));
    start(session, view);
}

fn count(session: &mut Session, view: &str) -> i64 {
    numbers(session, &format!("SELECT n FROM {view}")).first().copied().unwrap_or(0)
}

#[test]
fn a_slow_view_has_every_row_of_a_load_that_is_larger_than_what_is_kept_for_it() {
    let gate = Gate::default();
    let mut planner = planner();
    gate.register(&mut planner);
    let runtime = Runtime::new(planner);
    let mut session = Session::new(&runtime);
    define(&mut session, "CREATE SOURCE s (v BIGINT NOT NULL) WITH (connector = 'push')");
    create(&mut session, "fast", "SELECT count(*) AS n FROM s");
    gate.set(true);
    create(&mut session, "slow", "SELECT count(*) AS n FROM s WHERE gated(v) >= 0");
    let target = runtime.catalog().push_target("s").unwrap().clone();
    let load = thread::spawn(move || {
        let column = Arc::new(Int64Array::from_iter_values(0..ROWS)) as _;
        let rows = RecordBatch::try_new(Arc::clone(target.schema()), vec![column]).unwrap();
        (0..BATCHES).for_each(|_| target.push(&rows, &|| true).unwrap().settle(&|| true).unwrap());
    });
    let begun = Instant::now();
    let mut before = 0;
    loop {
        thread::sleep(Duration::from_millis(200));
        let now = count(&mut session, "fast");
        if now > 0 && now == before {
            break;
        }
        before = now;
        assert!(begun.elapsed() < PATIENCE, "the load is not held back");
    }
    assert!(before < BATCHES * ROWS, "the load is not held back: {before}");
    gate.set(false);
    load.join().unwrap();
    while count(&mut session, "slow") < BATCHES * ROWS {
        assert!(begun.elapsed() < PATIENCE, "the slow view lacks rows");
        thread::sleep(Duration::from_millis(10));
    }
    assert_eq!([count(&mut session, "fast"), count(&mut session, "slow")], [BATCHES * ROWS; 2]);
}
