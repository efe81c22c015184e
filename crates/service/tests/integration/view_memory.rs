//! The rows of views count in the memory of the process as long as they can be read.

use std::time::{Duration, Instant};

use tidemill_engine::MemoryBudget;
use tidemill_service::{QueryState, Runtime, Session};
use tidemill_sql::Planner;

use crate::statements::{define, numbers};

#[test]
fn dropped_views_give_their_memory_back() {
    let budget = MemoryBudget::new(4 << 30);
    let mut planner = Planner::new();
    planner.settings_mut().memory = budget.clone();
    let runtime = Runtime::new(planner);
    let mut session = Session::new(&runtime);
    let before = budget.held();
    // 300,000 rows of a view, and as many groups of another one.
    let rows = "SELECT value, repeat('x', 100) AS text FROM sequence(count => 300000)";
    define(&mut session, &format!("CREATE MATERIALIZED VIEW rows AS {rows}"));
    define(
        &mut session,
        "CREATE MATERIALIZED VIEW groups AS SELECT value, count(*) AS n FROM sequence(count => 300000) GROUP BY value",
    );
    for view in ["rows", "groups"] {
        let pipeline = session.pipeline_of(&[view]).unwrap();
        runtime.start(view, pipeline, false).unwrap();
        runtime.wait(view).unwrap();
        assert_eq!(numbers(&mut session, &format!("SELECT count(*) AS n FROM {view}")), [300_000]);
    }
    let full = budget.held();
    // 108 bytes in each row of one view, 16 in each of the other.
    assert!(full - before > 300_000 * (108 + 16), "{before} bytes before, {full} with the views");
    define(&mut session, "DROP MATERIALIZED VIEW rows; DROP MATERIALIZED VIEW groups");
    // What a session has planned against keeps rows until it plans again.
    drop(session);
    let begun = Instant::now();
    while budget.held() > before {
        let held = budget.held();
        assert!(begun.elapsed() < Duration::from_secs(60), "{held} bytes are held, {before} before");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_view_that_passes_the_limit_ends_with_its_name_and_others_continue() {
    let budget = MemoryBudget::new(8 << 20);
    let mut planner = Planner::new();
    planner.settings_mut().memory = budget.clone();
    let runtime = Runtime::new(planner);
    let mut session = Session::new(&runtime);
    define(
        &mut session,
        "CREATE MATERIALIZED VIEW large AS SELECT value, repeat('x', 1000) AS text FROM sequence(rate => 50000);
        CREATE MATERIALIZED VIEW small AS SELECT count(*) AS n FROM sequence(rate => 1000)",
    );
    for view in ["large", "small"] {
        let pipeline = session.pipeline_of(&[view]).unwrap();
        runtime.start(view, pipeline, false).unwrap();
    }
    let cause = runtime.wait("large").unwrap_err().to_string();
    assert!(cause.contains("view 'large'") && cause.contains("--memory"), "{cause}");
    // What it has can still be read, and counts.
    let rows = numbers(&mut session, "SELECT count(*) AS n FROM large")[0];
    assert!(rows > 1000 && budget.held() > rows as u64 * 1000, "{rows} rows, {} bytes", budget.held());
    let n = |session: &mut Session| numbers(session, "SELECT n FROM small").first().copied().unwrap_or(0);
    let before = n(&mut session);
    let begun = Instant::now();
    while n(&mut session) <= before {
        let small = runtime.reports().into_iter().find(|report| report.name == "small").unwrap();
        assert_eq!(small.problem, None);
        assert!(begun.elapsed() < Duration::from_secs(60), "the other view stands still");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(runtime.state("small").unwrap(), QueryState::Running);
}
