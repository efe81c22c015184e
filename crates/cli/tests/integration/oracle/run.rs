//! One run: a server over three durable sources, random views, and checks of what readers see while rows come and the server is
//! killed.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::client::{Answer, Client};
use super::feeding::{Feeder, Gate, Restarts, SharedLog};
use super::history::{Gaps, History};
use super::kept_view;
use super::opinion::{Cut, Opinion};
use super::rows::{COLUMNS, Rows};
use super::server::Server;
use super::sinks;
use super::subscriber::Subscriber;
use super::view::{self, Kind, Query, View, named};
use super::views;
use crate::support::folder_with;
use tidemill_testing::duckdb::{Row, Value};
use tidemill_testing::ports::free_port;
use tidemill_testing::random::Random;

pub const PATIENCE: Duration = Duration::from_secs(90);
/// Answers that are asked for again, at most.
pub const KEPT_MAX: usize = 60;

/// How long a run is.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    pub views: usize,
    /// Checks between two kills.
    pub checks: usize,
    pub kills: usize,
}

/// What was done.
#[derive(Debug, Default)]
pub struct Counts {
    pub compared: usize,
    pub repeated: usize,
    pub repeated_after_kill: usize,
    pub refused: usize,
    /// Groups of changes after which a subscriber had what the view had.
    pub followed: usize,
    pub as_of_times: usize,
    /// Views that were stopped and started, altered, and divided otherwise.
    pub stopped: usize,
    pub altered: usize,
    pub divided: usize,
}

/// An answer at a cycle, which must be the same again.
pub struct Kept {
    pub cycle: u64,
    pub text: String,
    pub answer: Answer,
    pub is_ordered: bool,
    pub kills: usize,
}

/// A definition within which the server is killed.
struct Defining {
    view: View,
    is_drop: bool,
    thread: JoinHandle<std::io::Result<Answer>>,
}

/// See the module.
pub struct Run {
    pub seed: u64,
    pub random: Random,
    folder: TempDir,
    server: Server,
    pub client: Client,
    pub opinion: Opinion,
    gate: Arc<Gate>,
    restarts: Arc<Restarts>,
    feeders: Vec<Feeder>,
    logs: Vec<SharedLog>,
    pub subscribers: Vec<Subscriber>,
    histories: [History; 3],
    pub views: Vec<View>,
    made: usize,
    pub kept: Vec<Kept>,
    pub kills: usize,
    pub counts: Counts,
}

const SOURCES: [&str; 3] = ["s", "t", "u"];
const GAPS: [Gaps; 3] = [Gaps::None, Gaps::Unacknowledged, Gaps::Unacknowledged];

/// What reads the rows of the sources: the ones in time of each, then the late ones of those with a watermark.
pub const RAW: [&str; 5] = ["raw_s", "raw_t", "raw_u", "late_s", "late_t"];

impl Run {
    /// Views that stay as they are: all rows of each source, the last row of each key of one, groups, and rows by place.
    pub const FIXED: usize = SOURCES.len() + 3;

    /// `None` without DuckDB.
    pub fn start(seed: u64, size: Size) -> Option<Run> {
        let opinion = Opinion::start()?;
        let folder = folder_with(&[]);
        let server = Server::start(folder.path(), &[]);
        let client = server.connect();
        let (gate, restarts) = (Arc::new(Gate::default()), Arc::new(Restarts::default()));
        let mut run = Run {
            seed,
            random: Random::of_stream(seed, 1),
            folder,
            client,
            opinion,
            gate,
            restarts,
            feeders: Vec::new(),
            logs: Vec::new(),
            subscribers: Vec::new(),
            histories: Default::default(),
            views: Vec::new(),
            made: 0,
            kept: Vec::new(),
            kills: 0,
            counts: Counts::default(),
            server,
        };
        run.define(size.views);
        Some(run)
    }

    fn define(&mut self, views: usize) {
        let (http, tcp) = (free_port(), free_port());
        let snapshots = self.random.one_of(&["50 ms", "300 ms", "2 s", "1 hour"]);
        let kept = "durable = true, retain = '1 GB'";
        let watermark = "WATERMARK FOR ts AS ts - INTERVAL '2 seconds'";
        self.execute(&format!(
            "SET snapshot_every = '{snapshots}';
             CREATE SOURCE s ({COLUMNS}, {watermark}) WITH (connector = 'http', listen = '127.0.0.1:{http}', \
              format = 'ndjson',
                 idle_after = '0 s', {kept});
             CREATE SOURCE t ({COLUMNS}, {watermark}) WITH (connector = 'push', idle_after = '0 s', {kept});
             CREATE SOURCE u ({COLUMNS}) WITH (connector = 'tcp', listen = '127.0.0.1:{tcp}', format = 'json', {kept});
             CREATE MATERIALIZED VIEW late_s AS SELECT * FROM late(TABLE(s));
             CREATE MATERIALIZED VIEW late_t AS SELECT * FROM late(TABLE(t))"
        ));
        for source in SOURCES {
            self.create(View::all_rows(source));
        }
        self.create(last_of_s());
        let groups = View::new("some_groups", view::groups(&mut self.random));
        self.create(groups);
        self.subscribers =
            self.views.iter().map(|view| Subscriber::start(view, self.server.port())).collect();
        let places = View { name: "places".to_owned(), ..kept_view::store(&mut self.random) };
        self.create(places);
        for _ in 0..views {
            let view = self.next_view();
            self.create(view);
        }
        self.execute(&sinks::create());
        let rows = |source: u64| Rows::new(self.seed, source);
        self.feeders = vec![
            Feeder::by_http(rows(0), http, &self.gate),
            Feeder::by_copy(rows(1), self.server.port(), &self.gate),
            Feeder::by_tcp(rows(2), tcp, Arc::clone(&self.restarts), &self.gate),
        ];
        self.logs = self.feeders.iter().map(|feeder| Arc::clone(&feeder.log)).collect();
    }

    fn next_view(&mut self) -> View {
        self.made += 1;
        views::random(&mut self.random, &format!("v{}", self.made), &self.views[SOURCES.len()])
    }

    fn create(&mut self, view: View) {
        self.execute(&view.create());
        self.opinion.define(&view);
        self.views.push(view);
    }

    #[track_caller]
    pub fn execute(&mut self, statements: &str) {
        let answer = self.client.query(statements).expect("the server answers");
        assert_eq!(answer.error, None, "{statements}");
    }

    /// Checks while rows come, kills the server, and so on; then waits for all rows and checks everything.
    pub fn check(mut self, size: Size) -> Counts {
        for kill in 0..=size.kills {
            for _ in 0..size.checks {
                self.gate.open(1 + self.random.index(6) as u64);
                self.check_once();
            }
            if kill < size.kills {
                self.kill();
            }
        }
        self.restarts.end();
        self.gate.open(20);
        self.gate.end();
        for feeder in std::mem::take(&mut self.feeders) {
            feeder.join();
        }
        self.wait_for_rows();
        self.check_whole();
        self.repeat(usize::MAX);
        self.check_subscribers();
        self.check_subscribers_whole();
        let cut = self.cut_now();
        sinks::check(self.folder.path(), |query| self.opinion.answer(cut, query));
        let states = self.client.query("SHOW QUERIES").expect("the server answers").expect("SHOW QUERIES");
        for state in states {
            assert_eq!(cell(&state, 1), "running", "seed {}: {state:?}", self.seed);
        }
        self.counts
    }

    fn check_once(&mut self) {
        match self.random.index(25) {
            0 => self.add_view(),
            1 => self.drop_view(),
            2 => self.replace_view(),
            3 => self.stop_and_start(),
            4 => self.alter(),
            5 => self.divide_again(),
            6 => self.check_subscribers(),
            7..9 => self.check_time(),
            9..13 => self.check_statement(),
            13..18 => self.check_transaction(),
            _ => self.check_cycle(),
        }
    }

    /// Lets the senders continue.
    pub fn gate(&self, requests: u64) {
        self.gate.open(requests);
    }

    fn add_view(&mut self) {
        let mut view = self.next_view();
        view.options.push("start = 'earliest'".into());
        self.create(view);
    }

    fn drop_view(&mut self) {
        if self.views.len() > Run::FIXED + 3 {
            let at = self.changeable();
            let view = self.views.remove(at);
            self.execute(&format!("DROP MATERIALIZED VIEW {}", view.name));
            self.kept.retain(|kept| !kept.text.contains(&view.name));
        }
    }

    /// Another query under the same name, or the same query, which keeps its state; or only if there is none, which there is.
    fn replace_view(&mut self) {
        let at = self.changeable();
        if self.random.is_once_in(3) {
            let create = self.views[at].create();
            return self.execute(&create.replacen("VIEW", "VIEW IF NOT EXISTS", 1));
        }
        let view = if self.random.is_once_in(3) {
            self.views[at].clone()
        } else {
            views::random(&mut self.random, &self.views[at].name, &self.views[SOURCES.len()])
        };
        self.execute(&view.create().replacen("CREATE", "CREATE OR REPLACE", 1));
        self.opinion.define(&view);
        self.kept.retain(|kept| !kept.text.contains(&view.name));
        self.views[at] = view;
    }

    /// Ends the server at any moment, mostly by killing it, sometimes within a definition, sometimes once more while it starts.
    pub fn kill(&mut self) {
        let defining = self.random.is_once_in(3).then(|| self.begin_definition());
        std::thread::sleep(Duration::from_millis(self.random.index(80) as u64));
        self.note_answers();
        self.server.end_by(if self.random.is_once_in(5) { "TERM" } else { "KILL" });
        while self.random.is_once_in(4) {
            self.server.start_and_kill(Duration::from_millis(self.random.index(400) as u64));
        }
        self.server.restart();
        self.restarts.count();
        self.kills += 1;
        self.client = self.server.connect();
        if let Some(defining) = defining {
            self.end_definition(defining);
        }
        self.repeat(usize::MAX);
        if self.random.is_once_in(2) {
            self.wait_for_rows();
        }
    }

    /// Creates or drops a view in a thread of its own.
    fn begin_definition(&mut self) -> Defining {
        let mut client = self.server.connect();
        let is_drop = self.random.is_once_in(2) && self.views.len() > Run::FIXED + 3;
        let view = if is_drop {
            self.views.remove(Run::FIXED)
        } else {
            let mut view = self.next_view();
            view.options.push("start = 'earliest'".into());
            view
        };
        self.kept.retain(|kept| !kept.text.contains(&view.name));
        let statement = if is_drop { format!("DROP MATERIALIZED VIEW {}", view.name) } else { view.create() };
        Defining { view, is_drop, thread: std::thread::spawn(move || client.query(&statement)) }
    }

    /// What was answered is done, and anything else is done or not, but not half.
    fn end_definition(&mut self, defining: Defining) {
        let Defining { view, is_drop, thread } = defining;
        let answer = thread.join().expect("it does not panic");
        let is_done = answer.is_ok_and(|answer| answer.error.is_none());
        let queries = self.client.query("SHOW QUERIES").expect("it answers").expect("SHOW QUERIES");
        let is_running = queries.iter().any(|row| cell(row, 0) == view.name);
        let read =
            self.client.query(&format!("SELECT count(*) AS n FROM {}", view.name)).expect("it answers");
        let is_defined = !read.error.as_ref().is_some_and(|error| error.contains("42P01"));
        assert_eq!(is_running, is_defined, "seed {}: {}: {read:?}", self.seed, view.name);
        assert!(!is_done || is_running != is_drop, "seed {}: {} was answered", self.seed, view.create());
        if is_running {
            self.opinion.define(&view);
            self.views.push(view);
        }
    }

    pub fn note_answers(&self) {
        self.feeders.iter().for_each(Feeder::note_answers);
    }

    /// Waits until everything that was acknowledged can be read.
    fn wait_for_rows(&mut self) {
        let begun = Instant::now();
        loop {
            self.cut_now();
            let missing = |at: usize| {
                let log = self.logs[at].lock();
                self.histories[at].missing(&log).map(|n| format!("{}: {n}", SOURCES[at]))
            };
            let Some(missing) = (0..SOURCES.len()).find_map(missing) else { return };
            assert!(begun.elapsed() < PATIENCE, "seed {}: lost: row of {missing}", self.seed);
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// The newest cycle that all views of the sources' rows have, in a transaction of its own.
    pub fn cut_now(&mut self) -> Cut {
        let (begun, refused) = (Instant::now(), self.counts.refused);
        loop {
            self.execute("BEGIN");
            let cut = self.read_cut("");
            self.execute("COMMIT");
            if let Some(cut) = cut {
                self.counts.refused = refused;
                return cut;
            }
            assert!(begun.elapsed() < PATIENCE, "seed {}: the rows of sources cannot be read", self.seed);
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Which rows were in, read with these words behind each statement. `None` if that cannot be read.
    pub fn read_cut(&mut self, suffix: &str) -> Option<Cut> {
        self.note_answers();
        let mut numbers = Vec::new();
        for view in RAW {
            let text = format!("SELECT n FROM {view}{suffix}");
            let answer = self.client.query(&text).expect("the server answers");
            match answer.values() {
                Ok(rows) => numbers.push(rows.iter().map(|row| int(&row[0])).collect::<Vec<i64>>()),
                Err(error) => {
                    self.refused(&text, &error);
                    return None;
                }
            }
        }
        let mut last = [-1; 3];
        for (at, source) in SOURCES.iter().enumerate() {
            let (in_time, late) = (&numbers[at], numbers.get(3 + at).map_or(&[][..], Vec::as_slice));
            let log = self.logs[at].lock();
            let read = self.histories[at].read(in_time, late, at < 2, GAPS[at], &log);
            let (count, new) = read.unwrap_or_else(|wrong| panic!("{}: source {source}: {wrong}", self.seed));
            drop(log);
            self.opinion.add(source, &new);
            last[at] = self.histories[at].last(count);
        }
        Some(Cut { s: last[0], t: last[1], u: last[2] })
    }
}

/// A table that changes.
fn last_of_s() -> View {
    let columns =
        vec![named("k", Kind::Int), named("n", Kind::Int), named("g", Kind::Text), named("v", Kind::Int)];
    let query = Query {
        ours: "SELECT k, n, g, v FROM s".to_owned(),
        duckdb: "SELECT DISTINCT ON (k) k, n, g, v FROM s ORDER BY k, n DESC".to_owned(),
        columns,
    };
    View { key: " PRIMARY KEY (k)", ..View::new("last_of_s", query) }
}

/// A text of a row.
pub fn cell(row: &Row, at: usize) -> &str {
    match &row[at] {
        Value::Text(text) => text,
        _ => "",
    }
}

/// An integer.
pub fn int(value: &Value) -> i64 {
    match value {
        Value::Int(number) => *number as i64,
        _ => panic!("no integer: {value}"),
    }
}
