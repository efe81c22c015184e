//! Queries in pools of the catalogue: the same rows in each, shared pools, and what is refused when they start.

use tidemill_engine::Counter;
use tidemill_sql::{Planner, parse};

/// Runs what a script defines, and returns how many answers were late and what the sink wrote.
fn run(script: &str, path: &std::path::Path) -> (u64, String) {
    let mut planner = Planner::new();
    for statement in parse(script, "test").unwrap() {
        planner.execute(&statement).unwrap_or_else(|error| panic!("{error}"));
    }
    let (status, _) = planner.pipeline().unwrap().unwrap().open().unwrap().start().unwrap().wait().unwrap();
    (status.engine.get(Counter::DeadlineMisses), std::fs::read_to_string(path).unwrap())
}

#[test]
fn the_rows_are_the_same_in_every_pool() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out.csv");
    let sink = |options: &str| {
        let path = path.display();
        format!(
            "CREATE SINK out WITH (path = '{path}', overwrite = true{options}) \
             AS SELECT value, value * 2 AS double FROM sequence(count => 3000) WHERE value % 3 = 0"
        )
    };
    let (late, expected) = run(&sink(""), &path);
    assert_eq!((late, expected.lines().count()), (0, 1001));
    let pools = [
        "policy = 'other'",
        "policy = 'fifo', priority = 2, best_effort = true",
        "policy = 'rr', priority = 2, budget = '1 ms', period = '5 ms', best_effort = true",
        "budget = '1 ms', period = '5 ms', when_empty = 'pause'",
        "policy = 'deadline', budget = '5 ms', period = '50 ms', best_effort = true",
    ];
    for pool in pools {
        let create = format!("CREATE POOL p WITH (workers = 2, {pool}); ");
        assert_eq!(
            run(&(create.clone() + &sink(", pool = p, deadline = '1 h'")), &path),
            (0, expected.clone()),
            "{pool}"
        );
        // Released as the analysis says.
        let analysed = sink(
            ", pool = p, deadline = '10 s', burst = 100, min_gap = '10 s', wcet = '1 us', buffer_max = 700",
        );
        assert_eq!(run(&(create + &analysed), &path).1, expected, "{pool}");
    }
}

#[test]
fn a_pool_that_cannot_be_had_is_an_error_where_the_query_starts() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out.csv");
    let script = format!(
        "CREATE POOL absent WITH (cores = '1000'); \
         CREATE SINK out WITH (path = '{}', pool = absent) AS SELECT value FROM sequence(count => 3)",
        path.display()
    );
    let mut planner = Planner::new();
    for statement in parse(&script, "test").unwrap() {
        planner.execute(&statement).unwrap_or_else(|error| panic!("{error}"));
    }
    let error = planner.pipeline().unwrap().unwrap().open().unwrap().start().err().unwrap();
    assert!(
        error.to_string().starts_with("pool 'absent': its threads cannot run on core 1000 alone"),
        "{error}"
    );
}

#[test]
fn a_deadline_that_cannot_be_kept_is_refused_with_the_term() {
    let mut planner = Planner::new();
    let script = "CREATE SINK out WITH (connector = 'blackhole', deadline = '150 ms', min_gap = '20 ms', \
                  wcet = '28 ms') AS SELECT value FROM sequence(count => 3)";
    planner.execute(&parse(script, "test").unwrap()[0]).unwrap_or_else(|error| panic!("{error}"));
    let error = planner.pipeline().err().unwrap().to_string();
    assert!(error.contains("events need 140% of a processor"), "{error}");
}

#[test]
fn costs_are_not_measured_in_a_part_of_the_processes() {
    let mut planner = Planner::new();
    planner.settings_mut().processes = 2;
    let script = "CREATE SINK out WITH (connector = 'blackhole', deadline = '150 ms', min_gap = '20 ms') \
                  AS SELECT value FROM sequence(count => 3)";
    planner.execute(&parse(script, "test").unwrap()[0]).unwrap_or_else(|error| panic!("{error}"));
    let error = planner.pipeline().err().unwrap().to_string();
    assert!(error.starts_with("costs are measured in one process only; state wcet"), "{error}");
}
