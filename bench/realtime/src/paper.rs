//! The experiments of the paper, section by section, and the one that it names as a goal and does not make.

use anyhow::ensure;
use tidemill_realtime::Affinity;

use crate::experiment::{Result, Runs, side_name};
use crate::stream::{BURSTS, HIGH, LOW, MEDIUM, OVERLOAD, Stream};
use crate::trial::{Placement, Setup, Side};

/// All periodic threads at one priority, below the pool: the paper's "low".
const LOW_PRIORITY: [u32; 3] = [10; 3];

/// The shorter the period, the higher: what the analysis of their deadlines assumes.
const BY_PERIOD: [u32; 3] = [12, 11, 10];

/// For which `28 + 2 C <= 100`, `84 + 3 C <= 200` and `196 + 5 C <= 400` hold, with back-to-back budgets in each period: T1 to
/// T3 keep their deadlines below it.
const BUDGET_MS: (u64, u64) = (34, 100);

/// Within 60 ms, at most four elements arrive: two workers take 56 ms for them.
const SHARED_INTERVAL_MS: u64 = 60;

const BOTH: [Side; 2] = [Side::RealTime, Side::Standard];

fn setup(stream: Stream, side: Side, interval_ms: u64) -> Setup {
    Setup {
        stream,
        side,
        placement: Placement::One,
        interval_ms,
        buffer: 1024,
        budget_ms: None,
        periodic: LOW_PRIORITY,
    }
}

/// An experiment, by its section in the paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Section {
    /// A low rate, by interval.
    #[value(name = "6.1")]
    LowRate,
    /// Medium and high rate, overload, bursts.
    #[value(name = "6.2")]
    Rates,
    /// Bursts, and a buffer of their size.
    #[value(name = "6.3")]
    Bursts,
    /// The overload on two processors.
    #[value(name = "6.4")]
    SecondProcessor,
    /// Periodic threads below the pool, with and without a budget.
    #[value(name = "budget")]
    Budget,
}

/// Runs these sections, or all, in the order of the paper.
///
/// # Errors
/// If one cannot run, or gives wrong answers.
pub fn run(runs: &Runs<'_>, only: &[Section], intervals_ms: &[u64]) -> anyhow::Result<()> {
    let is_wanted = |section| only.is_empty() || only.contains(&section);
    if is_wanted(Section::LowRate) {
        low_rate(runs, intervals_ms)?;
    }
    // Those of later sections are drawn beside these.
    let rates = if is_wanted(Section::Rates) { rates(runs)? } else { Vec::new() };
    if is_wanted(Section::Bursts) {
        bursts(runs, &rates)?;
    }
    if is_wanted(Section::SecondProcessor) {
        second_processor(runs, &rates)?;
    }
    if is_wanted(Section::Budget) {
        periodic_threads(runs)?;
    }
    Ok(())
}

/// 6.1: a low rate, and several intervals.
fn low_rate(runs: &Runs<'_>, intervals_ms: &[u64]) -> anyhow::Result<()> {
    let of_interval = |interval: &u64| BOTH.map(|side| (*interval, side));
    let setups = intervals_ms.iter().flat_map(of_interval);
    let setups: Vec<_> = setups
        .map(|(interval, side)| (format!("{} {interval}", side_name(side)), setup(LOW, side, interval)))
        .collect();
    let title = "6.1: elements 200 to 400 ms apart, 34 ms each, deadline 60 ms, by interval";
    let results = runs.experiment(title, &setups)?;
    let first: Vec<&Result> = results.iter().take(2).collect();
    runs.draw_elements("figure-3", "6.1: latency of each element", &first)?;
    runs.draw_distributions("figure-4a", "6.1: latency by interval", &results.iter().collect::<Vec<_>>())
}

/// 6.2: medium, high, overload, bursts.
fn rates(runs: &Runs<'_>) -> anyhow::Result<Vec<Result>> {
    let setups = [MEDIUM, HIGH, OVERLOAD, BURSTS].into_iter().flat_map(|stream| {
        BOTH.map(|side| (format!("{} {}", side_name(side), stream.name), setup(stream, side, 100)))
    });
    let results = runs
        .experiment("6.2: streams M, H, O and B, 28 ms each, deadline 150 ms", &setups.collect::<Vec<_>>())?;
    runs.draw_distributions("figure-4b", "6.2: latency by rate", &results.iter().collect::<Vec<_>>())?;
    Ok(results)
}

/// 6.3: a burst fills the buffer.
fn bursts(runs: &Runs<'_>, rates: &[Result]) -> anyhow::Result<()> {
    let with_buffer = |side| Setup { buffer: 4, ..setup(BURSTS, side, 100) };
    let setups = BOTH.map(|side| (format!("{} B, buffer 4", side_name(side)), with_buffer(side)));
    let results = runs.experiment("6.3: bursts with a buffer of 4", &setups)?;
    let shown: Vec<&Result> = results.iter().chain(of_stream(rates, "B")).collect();
    runs.draw_distributions("figure-4c", "6.3: bursts, and a buffer of their size", &shown)
}

/// 6.4: the overload on two processors.
fn second_processor(runs: &Runs<'_>, rates: &[Result]) -> anyhow::Result<()> {
    if runs.machine.sending == runs.machine.working {
        println!("\n## 6.4 is skipped: it needs a second core\n");
        return Ok(());
    }
    let forms = [
        (Side::RealTime, Affinity::Global, "global"),
        (Side::RealTime, Affinity::Partitioned, "partitioned"),
        (Side::RealTime, Affinity::Semi, "semi"),
        (Side::Standard, Affinity::Global, "global"),
    ];
    // A batch is answered as a whole: after 100 ms, three of its elements take two workers 56 ms more, which is too late.
    let setups = [100, SHARED_INTERVAL_MS].into_iter().flat_map(|interval| {
        forms.map(|(side, affinity, form)| {
            let setup = Setup { placement: Placement::Two(affinity), ..setup(OVERLOAD, side, interval) };
            (format!("{} O {interval}, {form}", side_name(side)), setup)
        })
    });
    let title = "6.4: stream O on two processors, with intervals of 100 and 60 ms; the second one sends, too";
    let results = runs.experiment(title, &setups.collect::<Vec<_>>())?;
    let shown: Vec<&Result> = of_stream(rates, "O").chain(&results).collect();
    runs.draw_distributions("figure-4d", "6.4: a second processor", &shown)
}

fn of_stream<'a>(results: &'a [Result], name: &'a str) -> impl Iterator<Item = &'a Result> {
    results.iter().filter(move |result| result.setup.stream.name == name)
}

/// What the pool does to the periodic threads below it, with and without a budget.
fn periodic_threads(runs: &Runs<'_>) -> anyhow::Result<()> {
    let below = |budget_ms| Setup { budget_ms, periodic: BY_PERIOD, ..setup(OVERLOAD, Side::RealTime, 100) };
    let (capacity_ms, period_ms) = BUDGET_MS;
    let setups = [
        ("no budget".to_owned(), below(None)),
        (format!("{capacity_ms} ms in {period_ms}"), below(Some(BUDGET_MS))),
    ];
    let title = "T1 to T3 below the pool of stream O, with and without a budget";
    let results = runs.experiment(title, &setups)?;
    for result in &results {
        ensure!(result.periodic().iter().all(|done| done.released > 0), "a periodic thread never ran");
    }
    runs.draw_distributions("budget", title, &results.iter().collect::<Vec<_>>())
}
