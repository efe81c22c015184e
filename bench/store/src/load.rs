//! Readers that ask while rows come in at a rate.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tidemill_core::Cause;
use tidemill_store::{ReaderTurns, StoreReader};

use crate::accounts::Accounts;
use crate::kernel::{RunQueue, Ticks};
use crate::questions::{KINDS, Kind, Question};
use crate::rows::Traffic;
use crate::writer::Writer;

/// How often a question looks whether it lets another one continue: reading the kernel's count takes a microsecond.
const LOOK: Duration = Duration::from_micros(250);

/// A measurement.
pub struct Load {
    pub rate: u64,
    pub cycle_rows: usize,
    pub seconds: u64,
    pub readers: usize,
    pub turns: ReaderTurns,
}

/// How long each question of a kind took, in nanoseconds, and how many rows it found.
#[derive(Clone, Default)]
struct Times {
    took: Vec<u64>,
    /// How much of it the thread waited for a processor, once it had its turn.
    queued: Vec<u64>,
    /// How much of it other readers computed instead.
    waited: Vec<u64>,
    rows: u64,
}

impl Load {
    /// Runs, and prints what was measured.
    pub fn run(
        &self,
        (writer, reader): (&mut Writer, &StoreReader),
        traffic: &mut Traffic,
        accounts: &Accounts,
    ) -> Result<(), Cause> {
        let (end, cars) = (AtomicBool::new(false), traffic.cars());
        let before = Ticks::now();
        let (stored, asked) = thread::scope(|scope| {
            let ask = |number: usize| {
                let (end, reader) = (&end, reader.clone());
                scope.spawn(move || ask_until(end, number, &reader, accounts, cars, &self.turns))
            };
            let readers: Vec<_> = (0..self.readers).map(ask).collect();
            let stored = self.store(writer, traffic);
            end.store(true, Ordering::Relaxed);
            let join = |reader: thread::ScopedJoinHandle<'_, Result<Vec<Times>, Cause>>| {
                reader.join().unwrap_or_else(|_| Err(Cause::bug("a reader has panicked")))
            };
            (stored, readers.into_iter().map(join).collect::<Result<Vec<_>, Cause>>())
        });
        print_stored(stored?, self.cycle_rows);
        let (used, stolen) = Ticks::now().since(before);
        println!("  processors used {:.1} %, taken by the host {:.1} %", used * 100.0, stolen * 100.0);
        print_asked(&asked?, self.seconds);
        Ok(())
    }

    /// Stores rows at the rate; how long each cycle took, and all of it.
    fn store(&self, writer: &mut Writer, traffic: &mut Traffic) -> Result<(Vec<u64>, Duration), Cause> {
        let start = Instant::now();
        let between = Duration::from_secs_f64(self.cycle_rows as f64 / self.rate as f64);
        let mut took = Vec::new();
        while start.elapsed() < Duration::from_secs(self.seconds) {
            let rows = traffic.rows(self.cycle_rows);
            let due = between * took.len() as u32;
            if let Some(early) = due.checked_sub(start.elapsed()) {
                thread::sleep(early);
            }
            let begun = Instant::now();
            writer.append(traffic.cycle(), rows)?;
            writer.publish()?;
            took.push(begun.elapsed().as_nanos() as u64);
        }
        Ok((took, start.elapsed()))
    }
}

fn ask_until(
    end: &AtomicBool,
    reader: usize,
    store: &StoreReader,
    accounts: &Accounts,
    cars: u64,
    turns: &ReaderTurns,
) -> Result<Vec<Times>, Cause> {
    let mut times = vec![Times::default(); KINDS.len()];
    let run_queue = RunQueue::of_this_thread();
    for number in 0.. {
        for (at, (kind, _)) in KINDS.into_iter().enumerate() {
            let number = number * 64 + reader as u64;
            let start = Instant::now();
            // One row that the index leads to costs less than a turn.
            let mut turn = if kind.is_of_one_row() { None } else { Some(turns.begin(&mut || false)?) };
            let mut waited = start.elapsed();
            let mut queued = run_queue.waited_ns();
            let mut looked = Instant::now();
            let version = match kind {
                Kind::PathAsOf => {
                    let newest = store.cycles().map_or(0, |(_, newest)| newest);
                    // The last cycles may be all that is kept.
                    match store.as_of_cycle(newest.saturating_sub(500)) {
                        Ok(version) => version,
                        Err(_) => continue,
                    }
                }
                _ => store.latest(),
            };
            // The time of a report is its number, and so is the end of a version.
            let latest = version.end() as i64;
            let question = Question::new(kind, number, latest, cars, accounts.cars);
            let found = question.ask(&version, accounts, &mut |_| {
                let Some(turn) = turn.as_mut().filter(|_| looked.elapsed() > LOOK) else { return Ok(()) };
                let (before, queued_before) = (Instant::now(), run_queue.waited_ns());
                turn.go_on(&mut || false)?;
                waited += before.elapsed();
                // Who waits for a turn may wait for a processor at the end of it; that is counted once.
                queued += run_queue.waited_ns() - queued_before;
                looked = Instant::now();
                Ok(())
            })?;
            times[at].took.push(start.elapsed().as_nanos() as u64);
            times[at].queued.push(run_queue.waited_ns() - queued);
            drop(turn);
            times[at].waited.push(waited.as_nanos() as u64);
            times[at].rows += found.work.rows_found;
        }
        if end.load(Ordering::Relaxed) {
            break;
        }
    }
    Ok(times)
}

fn print_stored((mut took, all): (Vec<u64>, Duration), cycle_rows: usize) {
    let rows = took.len() * cycle_rows;
    let storing: u64 = took.iter().sum();
    took.sort_unstable();
    println!(
        "  stored {:.0} rows/s; {:.1} ns a row; a cycle p50 {} p99 {} max {}",
        rows as f64 / all.as_secs_f64(),
        storing as f64 / rows as f64,
        quantile(&took, 0.5),
        quantile(&took, 0.99),
        quantile(&took, 1.0)
    );
}

fn print_asked(asked: &[Vec<Times>], seconds: u64) {
    if asked.is_empty() {
        return;
    }
    let names = ["p50", "p99", "max", "alone", "alone", "queue", "turn", "", ""];
    let parts = ["", "", "", "p50", "p99", "p99", "p99", "/s", "rows"];
    for line in [names, parts] {
        println!("  {:<30}{}", "", line.map(|name| format!("{name:>10}")).concat());
    }
    for (at, (_, name)) in KINDS.into_iter().enumerate() {
        let all = |what: fn(&Times) -> Vec<u64>| {
            let mut all: Vec<u64> = asked.iter().flat_map(|times| what(&times[at])).collect();
            all.sort_unstable();
            all
        };
        let (took, alone) = (all(|times| times.took.clone()), all(Times::alone));
        let (queued, waited) = (all(|times| times.queued.clone()), all(|times| times.waited.clone()));
        if took.is_empty() {
            continue;
        }
        let rows: u64 = asked.iter().map(|times| times[at].rows).sum();
        let count = took.len() as f64;
        let times = [
            (&took, 0.5),
            (&took, 0.99),
            (&took, 1.0),
            (&alone, 0.5),
            (&alone, 0.99),
            (&queued, 0.99),
            (&waited, 0.99),
        ];
        let times = times.map(|(times, share)| format!("{:>10}", quantile(times, share))).concat();
        println!("  {name:<30}{times}{:>10.0}{:>10.1}", count / seconds as f64, rows as f64 / count);
    }
}

impl Times {
    /// How long each took without waiting for a processor or a turn.
    fn alone(&self) -> Vec<u64> {
        let waited = self.queued.iter().zip(&self.waited);
        self.took
            .iter()
            .zip(waited)
            .map(|(took, (queued, waited))| took.saturating_sub(queued + waited))
            .collect()
    }
}

fn quantile(sorted: &[u64], share: f64) -> String {
    let at = ((sorted.len() as f64 * share).ceil() as usize).clamp(1, sorted.len());
    let ns = sorted[at - 1];
    match ns {
        0..10_000 => format!("{ns} ns"),
        10_000..10_000_000 => format!("{:.1} us", ns as f64 / 1e3),
        _ => format!("{:.1} ms", ns as f64 / 1e6),
    }
}
