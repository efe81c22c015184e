//! A durable query that is killed again and again gives, in the end, what an undisturbed one gives: nothing lost, nothing
//! twice, the same order; and whatever was acknowledged is in it. The sender repeats requests, acknowledged ones too.
//!
//! The process that is killed is this test's own executable. `TIDEMILL_CRASH_RUNS` says how many queries are disturbed
//! (by default a few, for every change; hundreds take some minutes).

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use crate::fixture::forward::{Forward, plan_of};
use crate::fixture::numbers::{by_partition, expected, row};
use crate::fixture::{rows_of, schema};
use tidemill_engine::arrow::schema::SchemaRef;
use tidemill_engine::{
    Cause, Cut, CycleOutput, CyclePolicy, Durability, DurableSource, Engine, FeedSettings, Guarantee,
    Journal, Operator, Output, Polled, Rebalancing, Request, Rows, Sink, SnapshotReader, SnapshotWriter,
    Source, StreamSettings, SyncPolicy,
};
use tidemill_testing::random::Random;

/// Where the process can be told to end itself.
const POINTS: [&str; 8] =
    ["polled", "acknowledging", "rows", "cut", "snapshot", "prepare", "before commit", "after commit"];

// The process that is killed.

/// Counts how often a place is passed, and ends the process there when it was told to.
#[derive(Clone)]
struct Death(Arc<(String, AtomicU64)>);

impl Death {
    fn from_environment() -> Death {
        let at = std::env::var("TIDEMILL_DIE_AT").unwrap_or_default();
        let (point, times) = at.rsplit_once(':').unwrap_or(("", "0"));
        Death(Arc::new((point.into(), AtomicU64::new(times.parse().unwrap()))))
    }

    fn pass(&self, point: &str) {
        if self.0.0 == point && self.0.1.fetch_sub(1, Ordering::SeqCst) == 1 {
            std::process::abort();
        }
    }
}

/// Requests from standard input, a number each; `ack N` on standard output once N of this run are acknowledged.
struct Numbers {
    lines: Receiver<u64>,
    death: Death,
}

impl Numbers {
    fn new(death: Death) -> Self {
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in std::io::stdin().lines().map_while(Result::ok) {
                let Ok(number) = line.parse() else { return };
                if sender.send(number).is_err() {
                    return;
                }
            }
        });
        Numbers { lines, death }
    }
}

impl Source for Numbers {
    fn schema(&self) -> SchemaRef {
        schema()
    }

    fn poll(&mut self, wait: Duration) -> Result<Polled, Cause> {
        match self.lines.recv_timeout(wait) {
            Ok(number) => {
                self.death.pass("polled");
                let request = Request { client: format!("parent {}", number % 3), sequence: number };
                Ok(Polled::Request { rows: row(number), request })
            }
            Err(RecvTimeoutError::Timeout) => Ok(Polled::Nothing),
            Err(RecvTimeoutError::Disconnected) => Ok(Polled::Ended),
        }
    }

    fn acknowledge(&mut self, rows: u64) {
        self.death.pass("acknowledging");
        println!("ack {rows}");
    }

    fn is_finite(&self) -> bool {
        true
    }
}

/// [`Forward`], which dies on the way.
struct Mortal(Forward, Death);

impl Operator for Mortal {
    fn rows(&mut self, input: usize, rows: Rows<'_>, output: &mut Output) -> Result<(), Cause> {
        self.1.pass("rows");
        self.0.rows(input, rows, output)
    }
    fn end_of_cycle(&mut self, _cut: &Cut, _output: &mut Output) -> Result<(), Cause> {
        self.1.pass("cut");
        Ok(())
    }
    fn snapshot(&self, writer: &mut SnapshotWriter) {
        self.1.pass("snapshot");
        self.0.snapshot(writer);
    }
    fn restore(&mut self, reader: &mut SnapshotReader<'_>) -> Result<(), Cause> {
        self.0.restore(reader)
    }
}

/// A file of rows, a line `= cycle` after each commit. What follows the last such line does not count.
struct CommittedFile {
    path: PathBuf,
    pending: String,
    death: Death,
}

/// The lines that count, and the last committed cycle.
fn committed(path: &Path) -> (String, Option<u64>) {
    let text = fs::read_to_string(path).unwrap_or_default();
    let Some(mark) = text.rfind("= ") else { return (String::new(), None) };
    match text[mark + 2..].split_once('\n') {
        Some((cycle, _)) => {
            let end = mark + 2 + cycle.len() + 1;
            (text[..end].to_string(), Some(cycle.parse().unwrap()))
        }
        // A torn mark: what is before the one before it counts.
        None => {
            let before =
                text[..mark].rfind("= ").map_or(0, |mark| mark + text[mark..].find('\n').unwrap() + 1);
            let cycle = text[..before].lines().last().map(|line| line[2..].parse().unwrap());
            (text[..before].to_string(), cycle)
        }
    }
}

impl Sink for CommittedFile {
    fn guarantee(&self) -> Guarantee {
        Guarantee::ExactlyOnce
    }

    fn last_committed(&mut self) -> Result<Option<u64>, Cause> {
        let (text, cycle) = committed(&self.path);
        fs::write(&self.path, text).unwrap();
        Ok(cycle)
    }

    fn prepare(&mut self, output: CycleOutput) -> Result<(), Cause> {
        self.death.pass("prepare");
        for batch in output.streams.into_iter().flatten() {
            for (key, _, value) in rows_of(&batch.rows) {
                self.pending.push_str(&format!("{key} {value}\n"));
            }
        }
        Ok(())
    }

    fn commit(&mut self, cycles: RangeInclusive<u64>) -> Result<(), Cause> {
        self.death.pass("before commit");
        let mut file = fs::OpenOptions::new().append(true).open(&self.path).unwrap();
        file.write_all(format!("{}= {}\n", self.pending, cycles.end()).as_bytes()).unwrap();
        self.pending.clear();
        self.death.pass("after commit");
        Ok(())
    }
}

/// Runs the query; as a test it does nothing.
#[test]
fn child() {
    let Ok(folder) = std::env::var("TIDEMILL_CRASH_FOLDER") else { return };
    let folder = PathBuf::from(folder);
    let mut random = Random::new(std::env::var("TIDEMILL_CRASH_SEED").unwrap().parse().unwrap());
    let death = Death::from_environment();
    let operator = death.clone();
    let plan = plan_of(move |_| Box::new(Mortal(Forward::default(), operator.clone())));
    let sink = CommittedFile { path: folder.join("rows"), pending: String::new(), death: death.clone() };
    let source = DurableSource {
        source: Box::new(Numbers::new(death)),
        feed: FeedSettings::default(),
        stream: StreamSettings { segment_bytes: 1 << 16, ..StreamSettings::default() },
        sync: [SyncPolicy::AtOnce, SyncPolicy::Every(Duration::from_millis(2)), SyncPolicy::Never]
            [random.below(3) as usize],
    };
    let mut durability = Durability::new("forward");
    durability.snapshot_every = Duration::from_millis(1 + random.below(20));
    let policy = CyclePolicy { events_max: 1 + random.below(40) as u32, ..CyclePolicy::default() };
    let rebalancing = Rebalancing::Random { seed: random.next(), every_cycles: 1 + random.below(3) };
    let engine = Engine::new().workers(1 + random.below(3) as usize).cycles(policy).rebalancing(rebalancing);
    let journal = Journal::open(&folder.join("journal")).unwrap();
    let run = engine.run_durable(plan, vec![Box::new(sink)], vec![source], journal, &durability).unwrap();
    println!("recovered {:?}", run.recovered);
    run.running.join().unwrap();
}

// The process that kills.

/// A process that runs the query.
struct Query {
    child: Child,
    /// How many requests of this run it has acknowledged, whenever that grows.
    acknowledged: Receiver<u64>,
}

impl Query {
    fn start(folder: &Path, seed: u64, die_at: &str) -> Query {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "crash::child", "--nocapture"])
            .env("TIDEMILL_CRASH_FOLDER", folder)
            .env("TIDEMILL_CRASH_SEED", seed.to_string())
            .env("TIDEMILL_DIE_AT", die_at)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (sender, acknowledged) = channel();
        let output = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                // The test's harness writes on the same line.
                if let Some((_, count)) = line.rsplit_once("ack ") {
                    let _ = sender.send(count.parse().unwrap());
                }
            }
        });
        Query { child, acknowledged }
    }

    /// Sends requests from `next` on, and kills the process at some moment, if it does not die by itself. Returns how
    /// many were acknowledged.
    fn disturb(mut self, next: u64, last: u64, random: &mut Random) -> u64 {
        let mut input = self.child.stdin.take().unwrap();
        let sent = (next..=last).take(random.below(400) as usize);
        for number in sent {
            if writeln!(input, "{number}").is_err() {
                break;
            }
        }
        std::thread::sleep(Duration::from_micros(random.below(60_000)));
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        // The pipe still has what was written before.
        self.acknowledged.iter().last().unwrap_or(0)
    }

    /// Sends what is left and lets the query come to its end.
    fn finish(mut self, next: u64, last: u64) -> u64 {
        let mut input = self.child.stdin.take().unwrap();
        for number in next..=last {
            writeln!(input, "{number}").unwrap();
        }
        drop(input);
        let acknowledged = self.acknowledged.iter().last().unwrap_or(0);
        let output = self.child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        acknowledged
    }
}

/// Where a sender begins that may not have heard of some acknowledgements: what was taken in is sent again.
fn again(next: u64, random: &mut Random) -> u64 {
    let back = if random.is_once_in(2) { random.below(300) } else { 0 };
    next.saturating_sub(back).max(1)
}

/// One query over many crashes. Returns how many there were.
fn disturbed(seed: u64) -> u64 {
    let mut random = Random::new(seed);
    let folder = tempfile::tempdir().unwrap();
    let (mut next, mut crashes) = (1, 0);
    let last = 500 + random.below(1500);
    while next <= last && crashes < 12 {
        let point = POINTS[random.below(POINTS.len() as u64) as usize];
        let die_at =
            if random.is_once_in(2) { format!("{point}:{}", 1 + random.below(60)) } else { String::new() };
        let query = Query::start(folder.path(), random.below(u64::MAX), &die_at);
        let first = again(next, &mut random);
        next = next.max(first + query.disturb(first, last, &mut random));
        crashes += 1;
    }
    let query = Query::start(folder.path(), random.below(u64::MAX), "");
    let first = again(next, &mut random);
    assert_eq!(first + query.finish(first, last), last + 1, "seed {seed}");
    let (rows, _) = committed(&folder.path().join("rows"));
    assert_eq!(by_partition(rows.lines()), expected(last), "seed {seed}");
    crashes
}

#[test]
fn whatever_is_killed_nothing_is_lost_and_nothing_comes_twice() {
    let runs = std::env::var("TIDEMILL_CRASH_RUNS").ok().and_then(|runs| runs.parse().ok()).unwrap_or(6);
    let first = std::env::var("TIDEMILL_CRASH_FIRST").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    let crashes: u64 = (first..first + runs).map(disturbed).sum();
    println!("{crashes} crashes in {runs} queries");
}
