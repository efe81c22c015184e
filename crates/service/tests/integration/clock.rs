//! One clock for the queries of a runtime: sources are read once, and every view at a cycle is what a naive computation over
//! the rows up to that cycle gives, whenever it was created.

use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use crate::fed::oracle::{QUERIES, naive, random_rows, rows_of};
use crate::fed::{Fed, PATIENCE, Row, until};
use crate::statements::{define, numbers};
use fastrand::Rng;
use tidemill_service::{FileCatalogLog, Runtime, Session};
use tidemill_sql::{Planner, ViewHandle};

fn runtime(sources: &[(&str, &Fed)], workers: usize) -> (Runtime, Session) {
    let mut planner = Planner::new();
    planner.settings_mut().workers = workers;
    for (name, fed) in sources {
        fed.register(&mut planner, name, Duration::MAX);
    }
    let runtime = Runtime::new(planner);
    let mut session = Session::new(&runtime);
    for (name, _) in sources {
        define(&mut session, &format!("CREATE VIEW {name} AS SELECT * FROM {name}_rows()"));
    }
    (runtime, session)
}

fn start(session: &mut Session, view: &str, query: &str) -> ViewHandle {
    define(session, &format!("CREATE MATERIALIZED VIEW {view} AS {query}"));
    let pipeline = session.pipeline_of(&[view]).unwrap_or_else(|error| panic!("{error}"));
    session.runtime().start(view, pipeline, false).unwrap_or_else(|cause| panic!("{cause}"));
    session.runtime().views(view).unwrap().remove(0)
}

#[test]
fn two_views_read_a_source_once_and_agree_on_its_cycles() {
    let fed = Fed::default();
    let (runtime, mut session) = runtime(&[("s", &fed)], 2);
    let counts = start(&mut session, "counts", "SELECT count(*) AS n FROM s");
    let sums = start(&mut session, "sums", "SELECT k, sum(v) AS total FROM s GROUP BY k");
    assert_eq!(fed.opened.load(Ordering::SeqCst), 1);
    for n in 0..100 {
        fed.feed(vec![(n % 3, 1); 10]);
    }
    until("both have every row", || {
        numbers(&mut session, "SELECT n FROM counts") == [1000]
            && numbers(&mut session, "SELECT CAST(sum(total) AS BIGINT) AS total FROM sums") == [1000]
    });
    let (_, of_counts) = counts.read_with_cycle().unwrap();
    let (_, of_sums) = sums.read_with_cycle().unwrap();
    assert_eq!(of_counts, of_sums);
    assert!(of_counts.is_some() && of_counts == runtime.clock().cycle());
    runtime.stop("counts").unwrap();
    runtime.wait("counts").unwrap();
    fed.feed(vec![(0, 1)]);
    until("the other goes on", || {
        numbers(&mut session, "SELECT CAST(sum(total) AS BIGINT) AS total FROM sums") == [1001]
    });
    assert_eq!(numbers(&mut session, "SELECT n FROM counts"), [1000]);
    runtime.stop("sums").unwrap();
    runtime.wait("sums").unwrap();
    runtime.forget("sums").unwrap();
    runtime.forget("counts").unwrap();
    until("the source is closed", || fed.is_open.load(Ordering::SeqCst) == 0);
    assert_eq!((fed.opened.load(Ordering::SeqCst), runtime.clock().sources()), (1, 0));
}

#[test]
fn views_that_a_restart_brings_back_begin_with_the_same_row() {
    let folder = tempfile::tempdir().unwrap();
    let fed = Fed::default();
    let open = || {
        let mut planner = Planner::new();
        planner.settings_mut().workers = 1;
        fed.register(&mut planner, "s", Duration::MAX);
        let log = FileCatalogLog::open(&folder.path().join("log")).unwrap();
        Runtime::open(planner, Box::new(log)).unwrap_or_else(|cause| panic!("{cause}"))
    };
    let runtime = open();
    let mut session = Session::new(&runtime);
    define(&mut session, "CREATE VIEW s AS SELECT * FROM s_rows()");
    let names = ["a", "b", "c", "d"];
    for name in names {
        start(&mut session, name, "SELECT count(*) AS n FROM s");
    }
    assert!(runtime.close(PATIENCE).is_empty());
    drop((session, runtime));

    (0..50).for_each(|k| fed.feed(vec![(k, 1); 10]));
    let runtime = open();
    let mut session = Session::new(&runtime);
    for name in names {
        until("every view has every row", || {
            numbers(&mut session, &format!("SELECT n FROM {name}")) == [500]
        });
        assert_eq!(runtime.begins_after(name).unwrap(), None);
    }
    assert_eq!(fed.opened.load(Ordering::SeqCst), 2, "once in each run");
}

/// A view that runs, and where it began.
struct Running {
    name: String,
    query: usize,
    view: ViewHandle,
    begins_after: Option<u64>,
}

impl Running {
    /// Compares the view with the naive computation over the rows up to its cycle; that cycle.
    fn check(&self, runtime: &Runtime, fed: &[Vec<Row>; 2]) -> Option<u64> {
        let (rows, cycle) = self.view.read_with_cycle().unwrap();
        let cycle = cycle?;
        let cuts = runtime.clock().cuts();
        let position = |source: &str, cycle: u64| {
            let of_source = |(name, position): &(String, u64)| (name == source).then_some(*position as usize);
            let before = cuts.iter().rev().filter(|cut| cut.cycle <= cycle);
            before.flat_map(|cut| &cut.positions).find_map(of_source).unwrap_or(0)
        };
        let rows_up_to = |index: usize, source: &str| {
            let start = self.begins_after.map_or(0, |before| position(source, before));
            &fed[index][start..position(source, cycle)]
        };
        let expected = naive(self.query, rows_up_to(0, "s"), rows_up_to(1, "t"));
        assert_eq!(
            rows_of(self.query, &rows),
            expected,
            "{} after {:?} at {cycle}",
            self.name,
            self.begins_after
        );
        Some(cycle)
    }
}

/// Views are created and dropped while rows come in, and read at any moment.
fn views_equal_the_naive_computation(workers: usize, seed: u64) {
    let mut random = Rng::with_seed(seed);
    let (s, t) = (Fed::default(), Fed::default());
    let (runtime, mut session) = runtime(&[("s", &s), ("t", &t)], workers);
    let mut fed: [Vec<Row>; 2] = Default::default();
    // It keeps both sources open.
    let mut views = vec![running(&mut session, "anchor".into(), 2)];
    let mut checked = 0;
    for step in 0..400 {
        match random.u64(..20) {
            0..14 => {
                let (index, source) = if random.u64(..2) == 0 { (0, &s) } else { (1, &t) };
                let rows = random_rows(&mut random);
                fed[index].extend(&rows);
                source.feed(rows);
            }
            14 | 15 if views.len() < 5 => {
                let query = random.usize(..3);
                views.push(running(&mut session, format!("v{step}"), query));
            }
            16 if views.len() > 1 => {
                let ended = views.remove(1 + random.usize(..views.len() - 1));
                ended.check(&runtime, &fed);
                define(&mut session, &format!("DROP MATERIALIZED VIEW {}", ended.name));
            }
            17 => thread::sleep(Duration::from_millis(random.u64(..8))),
            _ => {
                let view = &views[random.usize(..views.len())];
                view.check(&runtime, &fed);
                // On a busy machine, all steps may be done before there is a cycle.
                let has_rows = fed.iter().any(|rows| !rows.is_empty());
                until("there is a cycle", || !has_rows || views[0].check(&runtime, &fed).is_some());
                checked += usize::from(has_rows);
            }
        }
    }
    until("everything is taken in", || {
        let [s, t] = [0, 1].map(|source| fed[source].len() as i64);
        let n = numbers(&mut session, "SELECT CAST(sum(n) AS BIGINT) AS n FROM anchor");
        n == [s + t]
    });
    for view in &views {
        runtime.stop(&view.name).unwrap();
        runtime.wait(&view.name).unwrap();
        view.check(&runtime, &fed).expect("it has ended at a cycle");
    }
    assert_eq!((s.opened.load(Ordering::SeqCst), t.opened.load(Ordering::SeqCst)), (1, 1));
    assert!(checked > 10, "only {checked} views were read");
}

fn running(session: &mut Session, name: String, query: usize) -> Running {
    let view = start(session, &name, QUERIES[query]);
    let begins_after = session.runtime().begins_after(&name).unwrap();
    Running { name, query, view, begins_after }
}

#[test]
fn views_of_one_worker_equal_the_naive_computation_at_their_cycle() {
    (1..6).for_each(|seed| views_equal_the_naive_computation(1, seed));
}

#[test]
fn views_of_two_workers_equal_the_naive_computation_at_their_cycle() {
    (6..11).for_each(|seed| views_equal_the_naive_computation(2, seed));
}

#[test]
fn views_of_five_workers_equal_the_naive_computation_at_their_cycle() {
    (11..14).for_each(|seed| views_equal_the_naive_computation(5, seed));
}
