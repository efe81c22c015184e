//! A script whose last statement is a query, run to its end.

use std::time::Instant;

use anyhow::{Context, bail, ensure};
use tidemill_connect::memory::MemorySink;
use tidemill_energy::{Meter, Used};
use tidemill_engine::Sink;
use tidemill_engine::arrow::array::{Array, RecordBatch, cast::AsArray, types};
use tidemill_engine::arrow::schema::DataType;
use tidemill_sql::{Planner, Reply, parse};

/// Where the six workers of a query are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    /// Threads of one process.
    Threads,
    /// Three processes of the operating system with two threads each.
    Processes,
}

impl Over {
    /// Both, in the order in which they are measured.
    pub const ALL: [Over; 2] = [Over::Threads, Over::Processes];

    /// Its name in tables and pictures.
    pub fn name(self) -> &'static str {
        match self {
            Over::Threads => "threads",
            Over::Processes => "processes",
        }
    }

    /// A planner for it.
    pub fn planner(self) -> Planner {
        let mut planner = Planner::new();
        let settings = planner.settings_mut();
        (settings.processes, settings.workers) = match self {
            Over::Threads => (1, 6),
            Over::Processes => (3, 2),
        };
        planner
    }
}

/// The places of all scripts: two for what is sent, and two groups of two for what receives it. Each pair of workers is a
/// process of its own, if there are several.
pub const PLACES: &str = "CREATE PLACES be (0, 1); CREATE PLACES pset1 (2, 3); CREATE PLACES pset2 (4, 5);
    CREATE PLACES bg (pset1, pset2);";

/// How long a run took, from its start to its end.
#[derive(Clone, Copy, Debug)]
pub struct Took {
    /// In seconds; more than 0.
    pub seconds: f64,
    /// What it cost, worker processes included.
    pub used: Used,
}

/// How fast a script is, and what that costs.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rate {
    /// Megabytes per second.
    pub mb_per_s: f64,
    /// Megabytes for each joule, or for each second of a processor where energy is not counted. Starting the script counts.
    pub mb_per_unit: f64,
}

impl Rate {
    /// The faster one.
    pub fn best(self, other: Rate) -> Rate {
        if other.mb_per_s > self.mb_per_s { other } else { self }
    }

    /// Both, for a cell of a table.
    pub fn cell(&self) -> String {
        format!(" {:.1} ({:.1}) |", self.mb_per_s, self.mb_per_unit)
    }
}

/// What the number in parentheses of a cell is.
pub fn cost_note() -> String {
    format!(
        "In parentheses: MB for each {} of the whole machine, worker processes included.",
        Meter::start().used().unit()
    )
}

/// Runs a script, and checks its only row of numbers.
///
/// # Errors
/// If the script is wrong, the run fails, or the row is another one.
pub fn run(script: &str, over: Over, expected: &[i64]) -> anyhow::Result<Took> {
    let mut planner = over.planner();
    let mut query = None;
    for statement in parse(script, "script")? {
        query = match planner.execute(&statement)? {
            Reply::Query(prepared) => Some(prepared),
            _ => None,
        };
    }
    let prepared = query.context("the script does not end with a query that streams")?;
    let (mut sinks, mut kept): (Vec<Box<dyn Sink>>, Vec<_>) = Default::default();
    for output in prepared.outputs() {
        let (sink, rows) = MemorySink::new(&output.schema, 1000);
        sinks.push(Box::new(sink));
        kept.push(rows);
    }
    let opened = prepared.open(sinks)?;
    let (start, meter) = (Instant::now(), Meter::start());
    let (status, answer) = opened.start()?.wait()?;
    let (seconds, used) = (start.elapsed().as_secs_f64().max(1e-9), meter.used());
    ensure!((status.late, status.faults.count) == (0, 0), "rows were left out: {:?}", status.faults.samples);
    let mut batches: Vec<RecordBatch> = answer.into_iter().collect();
    for rows in &kept {
        batches.push(rows.read()?);
    }
    let found = batches.iter().map(numbers).collect::<anyhow::Result<Vec<_>>>()?.concat();
    ensure!(
        found == expected,
        "the answer is {found:?} instead of {expected:?} over {}:\n{script}",
        over.name()
    );
    Ok(Took { seconds, used })
}

/// All numbers of a batch, row by row.
fn numbers(batch: &RecordBatch) -> anyhow::Result<Vec<i64>> {
    let number = |column: &dyn Array, row: usize| match column.data_type() {
        DataType::Int64 => Ok(column.as_primitive::<types::Int64Type>().value(row)),
        other => bail!("the answer has a column of {other}"),
    };
    let places =
        (0..batch.num_rows()).flat_map(|row| batch.columns().iter().map(move |column| (column, row)));
    places.map(|(column, row)| number(column, row)).collect()
}

/// The rate of a script, best of some runs. Starting it is measured by itself, with a script that does
/// next to nothing, and does not count.
///
/// # Errors
/// As of [`run`].
pub fn rate(
    runs: u32,
    over: Over,
    script: impl Fn(u32) -> (String, Vec<i64>),
    (rounds, round_bytes): (u32, f64),
) -> anyhow::Result<Rate> {
    let mut best = Rate::default();
    let (short, long) = (1, rounds + 1);
    for _ in 0..runs {
        let took = |rounds| {
            let (text, expected) = script(rounds);
            run(&text, over, &expected)
        };
        let start_s = took(short)?.seconds;
        // What a short run takes, the machine decides: the long one is not taken for shorter than a tenth of itself.
        let Took { seconds: long_s, used } = took(long)?;
        let seconds = (long_s - start_s).max(long_s / 10.0);
        let mb_per_s = f64::from(long - short) * round_bytes / seconds / 1e6;
        let mb_per_unit = used.amount_of_each(f64::from(long) * round_bytes / 1e6);
        best = best.best(Rate { mb_per_s, mb_per_unit });
    }
    Ok(best)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_checked() {
        let script = "SELECT window_end, count(*) AS n
            FROM tumble(TABLE(sequence(count => 5)), event_time, INTERVAL '1 day') GROUP BY window_end";
        let script = format!("SELECT n FROM ({script})");
        run(&script, Over::Threads, &[5]).unwrap();
        let error = run(&script, Over::Threads, &[6]).unwrap_err().to_string();
        assert!(error.contains("the answer is [5] instead of [6] over threads"), "{error}");
    }
}
