//! Throughput of Linear Road from memory: the window of a base group, copied to L expressways with shifted
//! ids, fed as fast as the engine takes it. Answers of some copies are compared in full; a wrong one fails
//! the run. Prints one line per number of expressways and workers.

mod limit;
mod minute_starts;
mod whole_run;

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::ensure;
use clap::Parser;
use tidemill_energy::Meter;
use tidemill_engine::{Counter, CyclePolicy};
use tidemill_linear_road::InputSplit;
use tidemill_linear_road::answers::KIND_NAMES;
use tidemill_linear_road::rating::memory::MemoryBudget;
use tidemill_linear_road::rating::{BaseGroup, BaseOptions, Pace, TrialOptions, run_trial};
use tidemill_linear_road::run;
use whole_run::WholeRun;

#[global_allocator]
static ALLOCATOR: tidemill_allocator::Allocator = tidemill_allocator::Allocator;

/// Throughput of Linear Road from memory.
#[derive(Parser)]
struct Arguments {
    /// Numbers of expressways.
    #[arg(long, value_delimiter = ',', default_value = "1,100,1000")]
    expressways: Vec<u16>,
    /// Numbers of workers.
    #[arg(long, value_delimiter = ',', default_value = "1,2")]
    workers: Vec<usize>,
    /// Expressways of the base group (1 where one expressway is measured).
    #[arg(long, default_value_t = 4)]
    base: u16,
    /// Minutes of the run before the measured window.
    #[arg(long, default_value_t = 170)]
    minutes_before: u16,
    /// About how many million events to measure.
    #[arg(long, default_value_t = 60)]
    million_events: u64,
    /// At the true rates instead of as fast as possible, for this many seconds; prints response times by kind.
    #[arg(long)]
    real_seconds: Option<usize>,
    /// The most events in a cycle.
    #[arg(long, default_value_t = CyclePolicy::default().events_max)]
    cycle_events: u32,
    /// Measures the toll operator alone over this many seconds of the window instead: when a minute begins, and otherwise.
    #[arg(long)]
    minute_starts: Option<usize>,
    /// How inputs are split, one measurement with each: parasplit (on every worker), fsplit, exptree, auto (the engine chooses).
    #[arg(long, value_delimiter = ',', default_value = "parasplit")]
    splits: Vec<InputSplit>,
    /// Runs generated traffic of this many minutes from its beginning instead, and shows the response times of each minute.
    #[arg(long, value_name = "MINUTES", value_parser = clap::value_parser!(u16).range(1..=180))]
    whole_run: Option<u16>,
    /// How many times faster than real time a whole run is.
    #[arg(long, default_value = "60")]
    pace: run::Pace,
    /// The folder of a whole run's pictures.
    #[arg(long)]
    pictures: Option<PathBuf>,
}

fn main() -> anyhow::Result<()> {
    tidemill_allocator::tune();
    let arguments = Arguments::parse();
    if let Some(minutes) = arguments.whole_run {
        return measure_whole_runs(&arguments, minutes);
    }
    println!(
        "split  expressways workers   events/s ns/event/worker split% operators% output%  p50  p99  max  answers  MB  \
         limit-ns limit/operators  energy"
    );
    for expressways in &arguments.expressways {
        let base_expressways = arguments.base.min(*expressways);
        let base = BaseGroup::prepare(
            &BaseOptions {
                expressways: base_expressways,
                minutes_before: arguments.minutes_before,
                workers: 2,
                ..BaseOptions::default()
            },
            |_| {},
        )?;
        if let Some(seconds) = arguments.minute_starts {
            minute_starts::measure(&base, *expressways, seconds)?;
            continue;
        }
        for workers in &arguments.workers {
            for split in &arguments.splits {
                measure(&arguments, &base, (*expressways, *workers), *split)?;
            }
        }
    }
    Ok(())
}

fn measure_whole_runs(arguments: &Arguments, minutes: u16) -> anyhow::Result<()> {
    for expressways in &arguments.expressways {
        for workers in &arguments.workers {
            println!("\n## {expressways} expressways, {minutes} minutes, {workers} workers\n");
            whole_run::measure(&WholeRun {
                expressways: *expressways,
                minutes,
                pace: arguments.pace,
                workers: *workers,
                splits: arguments.splits.clone(),
                pictures: arguments.pictures.clone(),
            })?;
        }
    }
    Ok(())
}

fn measure(
    arguments: &Arguments,
    base: &BaseGroup,
    (expressways, workers): (u16, usize),
    split: InputSplit,
) -> anyhow::Result<()> {
    let events_per_second = 1700 * u64::from(expressways);
    let seconds = arguments
        .real_seconds
        .unwrap_or((arguments.million_events * 1_000_000 / events_per_second).clamp(1, 600) as usize);
    let options = TrialOptions {
        expressways,
        workers,
        seconds,
        pace: if arguments.real_seconds.is_some() { Pace::Real } else { Pace::Max },
        ticks_per_second: 200,
        check_every: 100,
        cycles: CyclePolicy { events_max: arguments.cycle_events, ..CyclePolicy::default() },
        split,
        stop: Arc::default(),
    };
    // Cloning the state of the base group is a part of it.
    let meter = Meter::start();
    let result = run_trial(base, &options, |_, _| {})?;
    let used = meter.used();
    ensure!(result.wrong == 0, "{} of {} checked answers are wrong", result.wrong, result.checked);
    ensure!(result.missing == 0, "{} answers are missing", result.missing);
    let worker_ns = result.elapsed_s * 1e9 * workers as f64;
    let share = |counter| 100.0 * result.status.get(counter) as f64 / worker_ns;
    let table_bytes = MemoryBudget::of(base).car_bytes_per_expressway * f64::from(result.expressways);
    let limit_ns = limit::nanoseconds_per_event(table_bytes as u64, 20_000_000);
    let operator_ns = result.status.get(Counter::OperatorTime) as f64 / result.events as f64;
    println!(
        "{split:<9} {:>6} {:>3} {:>10.2}M {:>7.1} {:>5.1} {:>5.1} {:>5.1} {:>8.2?} {:>8.2?} {:>8.2?} \
         {:>9} {:>6} {:>5.1} {:>4.2}  {}, {} per expressway",
        result.expressways,
        workers,
        result.events_per_second() / 1e6,
        worker_ns / result.events as f64,
        share(Counter::SplitTime),
        share(Counter::OperatorTime),
        100.0 * result.status.get(Counter::OutputTime) as f64 / (result.elapsed_s * 1e9),
        result.status.per_event.quantile(0.5),
        result.status.per_event.quantile(0.99),
        result.status.per_event.max(),
        result.counts.kinds.iter().map(|kind| kind.answers).sum::<u64>(),
        result.memory_peak_bytes >> 20,
        limit_ns,
        limit_ns / operator_ns,
        used.yield_of(result.events as f64),
        used.cost_of_each(f64::from(result.expressways)),
    );
    if arguments.real_seconds.is_some() {
        for (kind, name) in result.counts.kinds.iter().zip(KIND_NAMES) {
            let time = |share| kind.response_times.quantile(share);
            println!(
                "  {name:<12} {:>10} answers, {} late, p50 {:.2?} p99 {:.2?} p99.99 {:.2?} max {:.2?}",
                kind.answers,
                kind.late,
                time(0.5),
                time(0.99),
                time(0.9999),
                kind.response_times.max()
            );
        }
        println!(
            "  cloned in {:.1} s, driver late at most {:.2?}, {} checked, {} stalls, cycles {}",
            result.clone_s,
            result.driver_late_max,
            result.checked,
            result.status.get(Counter::Stalls),
            result.status.get(Counter::CyclesCommitted)
        );
    }
    Ok(())
}
