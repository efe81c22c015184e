//! Whatever is read together is read at one cycle: the views of a statement, and all statements of a transaction.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use tidemill_service::{QueryState, Reply, Runtime, Session};
use tidemill_sql::Planner;

use crate::fed::{Fed, until};
use crate::gate::Gate;
use crate::statements::{define, execute, numbers, numbers_of};

/// A runtime with the sources `s` and `t`, and a function that waits at the gate.
fn runtime(s: &Fed, t: &Fed, gate: &Gate) -> Runtime {
    let mut planner = Planner::new();
    planner.settings_mut().workers = 1;
    s.register(&mut planner, "s", Duration::ZERO);
    t.register(&mut planner, "t", Duration::ZERO);
    gate.register(&mut planner);
    let runtime = Runtime::new(planner);
    let views = "CREATE VIEW s AS SELECT * FROM s_rows(); CREATE VIEW t AS SELECT * FROM t_rows()";
    define(&mut Session::new(&runtime), views);
    runtime
}

fn start(session: &mut Session, view: &str, query: &str, options: &str) {
    define(session, &format!("CREATE MATERIALIZED VIEW {view} AS {query} {options}"));
    let pipeline = session.pipeline_of(&[view]).unwrap_or_else(|error| panic!("{error}"));
    session.runtime().start(view, pipeline, false).unwrap_or_else(|cause| panic!("{cause}"));
}

/// However long a view waits for the processor, the others keep what it has not reached.
const KEPT: &str = "WITH (retain_versions = 1000000)";

const VIEWS: [(&str, &str); 3] = [
    ("of_s", "SELECT count(*) AS n FROM s"),
    ("of_t", "SELECT k, count(*) AS n FROM t GROUP BY k"),
    ("of_both", "SELECT count(*) AS n FROM (SELECT k FROM s UNION ALL SELECT k FROM t) AS both"),
];

/// Each is 0 at every cycle, and at no mixture of two.
const DIFFERENCES: [&str; 2] = [
    "SELECT CAST(coalesce(sum(n), 0) AS BIGINT) AS d FROM
     (SELECT n FROM of_s UNION ALL SELECT n FROM of_t UNION ALL SELECT -n AS n FROM of_both) AS all_of_them",
    "SELECT coalesce((SELECT sum(n) FROM of_s), 0) + coalesce((SELECT CAST(sum(n) AS BIGINT) FROM of_t), 0)
        - coalesce((SELECT sum(n) FROM of_both), 0) AS d",
];

/// Feeds both sources until it is dropped.
struct Load {
    is_over: Arc<AtomicBool>,
    threads: Vec<thread::JoinHandle<()>>,
}

impl Load {
    fn on(sources: [&Fed; 2]) -> Load {
        let is_over = Arc::new(AtomicBool::new(false));
        let thread = |(fed, rows): (&Fed, i64)| {
            let (fed, is_over) = (fed.clone(), Arc::clone(&is_over));
            thread::spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    fed.feed((0..rows).map(|k| (k % 5, 1)).collect());
                    thread::sleep(Duration::from_millis(2));
                }
            })
        };
        let threads = sources.into_iter().zip([7, 11]).map(thread).collect();
        Load { is_over, threads }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.threads.drain(..).for_each(|thread| thread.join().unwrap());
    }
}

#[test]
fn views_that_a_statement_names_agree_while_rows_come_in() {
    let (s, t) = (Fed::default(), Fed::default());
    let runtime = runtime(&s, &t, &Gate::default());
    let mut session = Session::new(&runtime);
    VIEWS.iter().for_each(|(name, query)| start(&mut session, name, query, KEPT));
    let load = Load::on([&s, &t]);
    let mut last = Vec::new();
    for round in 0..12 {
        for query in DIFFERENCES {
            assert_eq!(numbers(&mut session, query), [0], "round {round}: {query}");
        }
        last = numbers(&mut session, "SELECT n FROM of_both");
    }
    until("rows come in meanwhile", || numbers(&mut session, "SELECT n FROM of_both") > last);
    drop(load);
}

#[test]
fn a_view_over_a_quiet_source_is_read_at_cycles_that_only_others_have_rows_in() {
    let (s, t) = (Fed::default(), Fed::default());
    let runtime = runtime(&s, &t, &Gate::default());
    let mut session = Session::new(&runtime);
    VIEWS.iter().for_each(|(name, query)| start(&mut session, name, query, KEPT));
    t.feed(vec![(1, 1), (2, 1), (2, 1)]);
    until("the quiet source has its rows", || numbers(&mut session, "SELECT n FROM of_both") == [3]);
    for n in 1..5 {
        s.feed(vec![(0, 1)]);
        until("the other continues", || numbers(&mut session, "SELECT n FROM of_s") == [n]);
    }
    let report = runtime.reports().into_iter().find(|report| report.name == "of_s").unwrap();
    let cycle = report.cycle.unwrap();
    let sum = "SELECT CAST(sum(n) AS BIGINT) AS n FROM of_t AS OF CYCLE";
    assert_eq!(numbers(&mut session, &format!("{sum} {cycle}")), [3]);
    let Err(error) = execute(&mut session, &format!("{sum} {}", cycle + 1000)) else {
        panic!("it is to come")
    };
    assert!(error.to_string().contains("has not been committed yet"), "{error}");
}

#[test]
fn statements_of_a_transaction_read_one_cycle() {
    let (s, t) = (Fed::default(), Fed::default());
    let runtime = runtime(&s, &t, &Gate::default());
    let mut session = Session::new(&runtime);
    VIEWS.iter().for_each(|(name, query)| start(&mut session, name, query, KEPT));
    let load = Load::on([&s, &t]);
    until("there are rows", || !numbers(&mut session, "SELECT n FROM of_both").is_empty());
    for round in 0..8 {
        session.begin_transaction();
        let first = numbers(&mut session, "SELECT n FROM of_s");
        thread::sleep(Duration::from_millis(1));
        let [s, t, both] = [
            "SELECT n FROM of_s",
            "SELECT CAST(coalesce(sum(n), 0) AS BIGINT) AS n FROM of_t",
            "SELECT n FROM of_both",
        ]
        .map(|query| numbers(&mut session, query));
        let sum = |numbers: &[i64]| numbers.iter().sum::<i64>();
        assert_eq!((&s, sum(&s) + sum(&t)), (&first, sum(&both)), "round {round}");
        session.end_transaction();
        until("later statements read later cycles", || numbers(&mut session, "SELECT n FROM of_s") > s);
    }
    drop(load);
}

#[test]
fn a_view_that_is_far_behind_is_named_and_the_others_are_read() {
    let (s, t, gate) = (Fed::default(), Fed::default(), Gate::default());
    let runtime = runtime(&s, &t, &gate);
    let mut session = Session::new(&runtime);
    start(&mut session, "slow", "SELECT gated(v) AS v FROM s", "");
    let few = "WITH (retain_versions = 2)";
    start(&mut session, "quick", "SELECT v FROM s", few);
    start(&mut session, "too", "SELECT k FROM s", few);
    s.feed(vec![(0, 1)]);
    until("both have the row", || {
        let n = |view| numbers(&mut Session::new(&runtime), &format!("SELECT count(*) AS n FROM {view}"));
        n("slow") == [1] && n("quick") == [1]
    });
    gate.set(true);
    for n in 2..20 {
        s.feed(vec![(0, n)]);
        // Both, since neither keeps more than two versions for the other.
        for view in ["quick", "too"] {
            let count = format!("SELECT count(*) AS n FROM {view}");
            until("it continues", || numbers(&mut session, &count) == [n]);
        }
    }
    let both = "SELECT CAST(a.n - b.n AS BIGINT) AS d FROM (SELECT count(*) AS n FROM quick) AS a
        CROSS JOIN (SELECT count(*) AS n FROM ";
    let Err(error) = execute(&mut session, &format!("{both} slow) AS b")) else {
        panic!("it is too far behind")
    };
    let error = error.to_string();
    assert!(
        error.contains("view 'slow' has the cycles up to") && error.contains("retain_versions"),
        "{error}"
    );
    assert_eq!(numbers(&mut session, "SELECT count(*) AS n FROM slow"), [1], "by itself it is read");

    session.begin_transaction();
    assert_eq!(numbers(&mut session, &format!("{both} too) AS b")), [0]);
    assert!(execute(&mut session, "SELECT v FROM slow").is_err(), "it is not part of the transaction");
    session.end_transaction();

    // How far it is behind is seen.
    let report = |name: &str| runtime.reports().into_iter().find(|report| report.name == name).unwrap();
    let (slow, quick) = (report("slow"), report("quick"));
    assert!(slow.lag.cycles >= 18 && slow.lag.oldest_ns > 0, "{:?}", slow.lag);
    assert!(
        slow.cycle < quick.cycle && quick.cycle == runtime.clock().cycle(),
        "{:?}",
        (slow.cycle, quick.cycle)
    );
    gate.set(false);
    until("it has caught up", || report("slow").lag.cycles == 0);
    assert_eq!(numbers(&mut session, &format!("{both} slow) AS b")), [0]);

    // A query that has ended in order has all that will ever concern it.
    runtime.stop("slow").unwrap();
    runtime.wait("slow").unwrap();
    (0..10).for_each(|n| s.feed(vec![(1, n)]));
    until("the quick one continues", || numbers(&mut session, "SELECT count(*) AS n FROM quick") == [29]);
    assert_eq!(runtime.state("slow"), Ok(QueryState::Ended));
    let Ok(Reply::Rows(rows)) = execute(&mut session, &format!("{both} slow) AS b")) else { panic!("rows") };
    assert_eq!(numbers_of(&rows), [10]);
}
