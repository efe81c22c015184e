//! Clients that ask as fast as they are answered, while rows come in.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Statement};

use crate::answers::answer_of;
use crate::check::{ask, ask_prepared, cycles};
use crate::clients::connect;
use crate::feed::Feed;
use crate::metrics::{Metrics, Period};
use crate::questions::{KINDS, Kind, Question};
use crate::server_process::ServerProcess;

/// How many cycles ago the paths of an earlier cycle are.
const CYCLES_AGO: u64 = 500;
/// The queries of the stream.
pub const STREAMS: [&str; 2] = ["recent", "positions"];

/// A measurement.
pub struct Load<'a> {
    pub clients: usize,
    pub kinds: &'a [Kind],
    pub rate: u64,
    pub seconds: f64,
    /// How much the clients leave the processors to the stream and to what sends its rows.
    pub clients_nice: u8,
}

/// What clients have seen.
#[derive(Default)]
struct ClientStatistics {
    /// How long each question of a kind took, in nanoseconds.
    took: BTreeMap<Kind, Vec<u64>>,
    /// Errors of the server by their codes: how many, and the first text.
    errors: BTreeMap<String, (u64, String)>,
}

/// What was measured.
pub struct Measured {
    statistics: ClientStatistics,
    /// How long it took until all clients had their sessions.
    opened: Duration,
    clients: usize,
    memory_before: u64,
    memory_at_end: u64,
    periods: Vec<(&'static str, Period)>,
}

/// Rows that come in until it is dropped.
pub struct Inflow {
    end: Arc<AtomicBool>,
    thread: Option<thread::JoinHandle<anyhow::Result<()>>>,
}

impl Inflow {
    pub fn begin(feed: &Arc<Feed>, rate: u64) -> Inflow {
        let end = Arc::new(AtomicBool::new(false));
        let (feed, ended) = (Arc::clone(feed), Arc::clone(&end));
        Inflow { end, thread: Some(thread::spawn(move || feed.send_at_rate(rate, &ended))) }
    }

    pub fn end(mut self) -> anyhow::Result<()> {
        self.end.store(true, Ordering::Relaxed);
        let thread = self.thread.take().context("it has ended before")?;
        thread.join().map_err(|_| anyhow!("the thread that sends reports has panicked"))?
    }
}

impl Drop for Inflow {
    fn drop(&mut self) {
        self.end.store(true, Ordering::Relaxed);
    }
}

impl Load<'_> {
    /// Rows come in while clients ask. The clients have a thread of their own: it gets another niceness than what sends rows.
    pub fn run(&self, server: &ServerProcess, feed: &Arc<Feed>) -> anyhow::Result<Measured> {
        let inflow = Inflow::begin(feed, self.rate);
        let measured = thread::scope(|scope| {
            let clients = scope.spawn(|| {
                if self.clients_nice > 0 {
                    tidemill_realtime::set_niceness(self.clients_nice)
                        .context("the niceness of the clients")?;
                }
                let runtime =
                    tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
                runtime.block_on(self.ask(server, feed))
            });
            clients.join().map_err(|_| anyhow!("the thread of the clients has panicked"))?
        })?;
        inflow.end()?;
        Ok(measured)
    }

    async fn ask(&self, server: &ServerProcess, feed: &Arc<Feed>) -> anyhow::Result<Measured> {
        let memory_before = server.memory_bytes();
        let start = Instant::now();
        // All at once, as after a restart of the programs that use the server.
        let opening: Vec<_> = (0..self.clients).map(|_| tokio::spawn(connect(server.address()))).collect();
        let mut clients = Vec::new();
        for client in opening {
            clients.push(client.await?.context("a client cannot open its session")?);
        }
        let opened = start.elapsed();
        let before = Metrics::now(server.metrics()?);
        let end = Instant::now() + Duration::from_secs_f64(self.seconds);
        let tasks: Vec<_> = clients
            .into_iter()
            .enumerate()
            .map(|(number, client)| {
                let (kinds, feed) = (self.kinds.to_vec(), Arc::clone(feed));
                tokio::spawn(ask_until(end, number as u64, client, kinds, feed))
            })
            .collect();
        tokio::time::sleep_until(end.into()).await;
        let mut statistics = ClientStatistics::default();
        let after = Metrics::now(server.metrics()?);
        let memory_at_end = server.memory_bytes();
        for task in tasks {
            statistics.add(task.await??);
        }
        let periods = STREAMS.map(|query| (query, Period::between(&before, &after, query))).into();
        Ok(Measured { statistics, opened, clients: self.clients, memory_before, memory_at_end, periods })
    }
}

/// Asks questions of all kinds in turn; each client begins with another one.
async fn ask_until(
    end: Instant,
    number: u64,
    client: Client,
    kinds: Vec<Kind>,
    feed: Arc<Feed>,
) -> anyhow::Result<ClientStatistics> {
    let mut statistics = ClientStatistics::default();
    let mut statements: BTreeMap<Kind, Statement> = BTreeMap::new();
    for turn in number.. {
        if Instant::now() >= end {
            break;
        }
        let kind = kinds[turn as usize % kinds.len()];
        let mut question = Question::new(kind, turn * 4096 + number, feed.sent(), feed.cars());
        let start;
        let answered = if kind == Kind::PathAsOf {
            let (oldest, newest) = cycles(&client).await?;
            question.cycle = newest.saturating_sub(CYCLES_AGO).max(oldest);
            start = Instant::now();
            ask(&client, &question).await
        } else {
            let statement = match statements.get(&kind) {
                Some(statement) => statement,
                None => {
                    let types: Vec<Type> = question.parameters().into_iter().map(|(_, of)| of).collect();
                    let statement = client.prepare_typed(&question.text(), &types).await?;
                    statements.entry(kind).or_insert(statement)
                }
            };
            start = Instant::now();
            ask_prepared(&client, statement, &question).await
        };
        let took = start.elapsed().as_nanos() as u64;
        match answered {
            Ok(rows) => {
                // Reports that nobody has sent are an error.
                answer_of(&question, &rows, feed.cars())?;
                statistics.took.entry(kind).or_default().push(took);
            }
            Err(error) => statistics.note(&error)?,
        }
    }
    Ok(statistics)
}

impl ClientStatistics {
    /// Counts an error of the server. Any other one ends the run.
    fn note(&mut self, error: &tokio_postgres::Error) -> anyhow::Result<()> {
        let told = error.as_db_error().with_context(|| format!("a connection broke: {error}"))?;
        let counted = self.errors.entry(told.code().code().to_owned());
        counted.or_insert_with(|| (0, told.message().to_owned())).0 += 1;
        Ok(())
    }

    fn add(&mut self, other: ClientStatistics) {
        for (kind, took) in other.took {
            self.took.entry(kind).or_default().extend(took);
        }
        for (code, (count, message)) in other.errors {
            self.errors.entry(code).or_insert((0, message)).0 += count;
        }
    }
}

impl Measured {
    pub fn print(mut self, seconds: f64) {
        for (query, period) in &self.periods {
            println!("{}", period.line(query));
        }
        if self.clients == 0 {
            return;
        }
        let grown = self.memory_at_end.saturating_sub(self.memory_before) as f64 / 1e6;
        println!(
            "  all sessions were open after {:.0} ms; the server has {:.0} MB, {grown:.0} MB more than before",
            self.opened.as_secs_f64() * 1e3,
            self.memory_at_end as f64 / 1e6
        );
        let head = ["", "/s", "p50", "p99", "p99.9", "max"];
        println!(
            "  {:<30}{}",
            head[0],
            head[1..].iter().map(|name| format!("{name:>11}")).collect::<String>()
        );
        for (kind, name) in KINDS {
            let Some(took) = self.statistics.took.get_mut(&kind) else { continue };
            took.sort_unstable();
            let times = [0.5, 0.99, 0.999, 1.0].map(|share| format!("{:>11}", quantile(took, share)));
            println!("  {name:<30}{:>11.1}{}", took.len() as f64 / seconds, times.concat());
        }
        for (code, (count, message)) in &self.statistics.errors {
            println!("  {count} errors {code}: {message}");
        }
    }
}

/// The smallest time that this share of them does not exceed, for people.
fn quantile(sorted: &[u64], share: f64) -> String {
    let index = (sorted.len() as f64 * share).ceil() as usize;
    let Some(ns) = sorted.get(index.clamp(1, sorted.len().max(1)) - 1) else { return "-".to_owned() };
    match *ns as f64 / 1e3 {
        micros if micros < 1e3 => format!("{micros:.0} us"),
        micros if micros < 1e6 => format!("{:.2} ms", micros / 1e3),
        micros => format!("{:.2} s", micros / 1e6),
    }
}
