//! The response time over a whole run, minute by minute, with each way to split the inputs (Zeitler, Paper IV, figure 7).

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::{Context, ensure};
use tidemill_charts::{Chart, Curve, Scale};
use tidemill_energy::Meter;
use tidemill_engine::{Counter, ResponseTimes};
use tidemill_linear_road::InputSplit;
use tidemill_linear_road::answers::KINDS;
use tidemill_linear_road::answers::digest::{AnswerDigest, KindDigest};
use tidemill_linear_road::generator::GeneratorConfig;
use tidemill_linear_road::rating::memory;
use tidemill_linear_road::run::{Input, Pace, Run, RunOptions, RunSummary};

/// How often the run is looked at. A minute of a run of 180 minutes lasts a third of a second at the fastest sensible pace.
const LOOK: Duration = Duration::from_millis(10);
/// The table has a line for each tenth minute; the picture has them all.
const MINUTES_PER_LINE: usize = 10;
/// How often a car reports its position.
const REPORTS_PER_MINUTE: u64 = 2;

/// What is run.
pub struct WholeRun {
    pub expressways: u16,
    pub minutes: u16,
    pub pace: Pace,
    pub workers: usize,
    pub splits: Vec<InputSplit>,
    /// Where the pictures go.
    pub pictures: Option<PathBuf>,
}

/// The response times of each minute, from arrival to commit.
struct Measured {
    minutes: Vec<ResponseTimes>,
    summary: RunSummary,
    answers: [KindDigest; KINDS],
    cost: String,
    /// The most memory that the process took, its generator of traffic included.
    peak_bytes: u64,
}

impl Measured {
    /// How many cars were on the road when most were: each reports twice a minute, and little else is sent.
    fn cars_max(&self) -> u64 {
        self.minutes.iter().map(ResponseTimes::count).max().unwrap_or(0) / REPORTS_PER_MINUTE
    }
}

/// Runs with each split, compares the answers, and prints what each minute took.
///
/// # Errors
/// If a run fails, the answers of two splits differ, or a picture cannot be written.
pub fn measure(options: &WholeRun) -> anyhow::Result<()> {
    let mut all = Vec::new();
    let mut answers = None;
    for split in &options.splits {
        let measured = run(options, *split)?;
        tell(*split, &measured);
        let first = *answers.get_or_insert(measured.answers);
        ensure!(
            first == measured.answers,
            "the answers with {split} are others than with {}",
            options.splits[0]
        );
        all.push((*split, measured.minutes));
    }
    table(&all);
    match &options.pictures {
        Some(folder) => draw(folder, options, &all),
        None => Ok(()),
    }
}

fn run(options: &WholeRun, split: InputSplit) -> anyhow::Result<Measured> {
    let traffic = GeneratorConfig {
        expressways: options.expressways,
        minutes: options.minutes,
        ..GeneratorConfig::default()
    };
    let run_options = RunOptions {
        workers: options.workers,
        pace: options.pace,
        ticks_per_second: 10,
        split,
        // The answers of 512 expressways would fill a disk, so they are compared by their digests.
        ..RunOptions::new(Input::Generated(traffic), "")
    };
    let answers = AnswerDigest::default();
    memory::forget_peak();
    let run = Run::start_into(run_options, Arc::default(), |tally| Ok(answers.sink(tally)))?;
    let meter = Meter::start();
    let mut minutes = Vec::new();
    let mut before = ResponseTimes::default();
    while !run.is_done() {
        thread::sleep(LOOK);
        let progress = run.progress();
        let minute = progress.simulated_s.map_or(0, |second| second as usize / 60);
        if minute > minutes.len() {
            minutes.push(progress.status.per_event.since(&before));
            before = progress.status.per_event;
        }
    }
    let cost = meter.used().cost_of_each(f64::from(options.expressways));
    let summary = run.join()?;
    minutes.push(summary.status.per_event.since(&before));
    Ok(Measured { minutes, summary, answers: answers.kinds(), cost, peak_bytes: memory::peak_bytes() })
}

fn tell(split: InputSplit, measured: &Measured) {
    let status = &measured.summary.status;
    let answers = &measured.summary.answers.kinds;
    let cycles = &status.per_cycle;
    println!(
        "{split}: {} events in {:.1} s, {} answers, {} late; response p50 {:.2?} p99 {:.2?} p99.99 {:.2?} max {:.2?}",
        status.get(Counter::EventsCommitted),
        status.elapsed_ns as f64 / 1e9,
        answers.iter().map(|kind| kind.answers).sum::<u64>(),
        answers.iter().map(|kind| kind.late).sum::<u64>(),
        status.per_event.quantile(0.5),
        status.per_event.quantile(0.99),
        status.per_event.quantile(0.9999),
        status.per_event.max(),
    );
    println!(
        "  {} cycles: mean {:.2?}, largest mean of 1,000 {:.2?}, max {:.2?}; {} per expressway",
        cycles.count(),
        cycles.mean(),
        status.largest_mean_of_1000.unwrap_or_default(),
        cycles.max(),
        measured.cost,
    );
    let cars = measured.cars_max();
    println!(
        "  {cars} cars on the road when most were; at most {:.2} GB in all, {:.0} bytes per car, generator included",
        measured.peak_bytes as f64 / 1e9,
        measured.peak_bytes as f64 / cars.max(1) as f64,
    );
}

fn table(all: &[(InputSplit, Vec<ResponseTimes>)]) {
    print!("\n| minutes |");
    all.iter().for_each(|(split, _)| print!(" {split}: p50, p99, max, ms |"));
    println!("\n|---|{}", "---|".repeat(all.len()));
    let minutes = all.iter().map(|(_, minutes)| minutes.len()).max().unwrap_or(0);
    for first in (0..minutes).step_by(MINUTES_PER_LINE) {
        print!("| {first} to {} |", (first + MINUTES_PER_LINE).min(minutes));
        for (_, minutes) in all {
            let mut times = ResponseTimes::default();
            minutes.iter().skip(first).take(MINUTES_PER_LINE).for_each(|minute| times.add(minute));
            let shown = |time: Duration| format!("{:.1}", milliseconds(time));
            let of = |share| shown(times.quantile(share));
            print!(" {}, {}, {} |", of(0.5), of(0.99), shown(times.max()));
        }
        println!();
    }
}

fn draw(folder: &Path, options: &WholeRun, all: &[(InputSplit, Vec<ResponseTimes>)]) -> anyhow::Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    type Shown = fn(&ResponseTimes) -> Duration;
    let shown: [(&str, &str, Shown); 2] =
        [("p99", "99th percentile", |times| times.quantile(0.99)), ("max", "maximum", ResponseTimes::max)];
    for (name, words, of) in shown {
        let title = format!("Response time, {words} of each minute, {} expressways, ms", options.expressways);
        let curves: Vec<Curve> = all
            .iter()
            .map(|(split, minutes)| {
                let points = minutes.iter().enumerate();
                let points = points.map(|(minute, times)| (minute as f64, milliseconds(of(times)))).collect();
                Curve::new(split.to_string(), points)
            })
            .collect();
        let chart = Chart::new(title, "minute of the run").x(Scale::Linear).y(Scale::Logarithmic);
        let path = folder.join(format!("linear-road-{name}.svg"));
        fs::write(&path, chart.svg(&curves)).with_context(|| format!("cannot write {}", path.display()))?;
        println!("{}", path.display());
    }
    Ok(())
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_minute_is_measured_and_every_event_counts_in_one() {
        let options = WholeRun {
            expressways: 1,
            minutes: 3,
            pace: Pace::Times(60.0),
            workers: 2,
            splits: vec![InputSplit::Parasplit, InputSplit::Exptree],
            pictures: None,
        };
        let measured = run(&options, InputSplit::Fsplit).unwrap();
        assert_eq!(measured.minutes.len(), 3);
        let events: u64 = measured.minutes.iter().map(ResponseTimes::count).sum();
        assert_eq!(events, measured.summary.status.get(Counter::EventsCommitted));
        assert!(measured.cars_max() > 0 && measured.peak_bytes > 0);
        assert!(events > 0 && measured.minutes.iter().all(|minute| minute.count() > 0));
        measure(&options).unwrap();
    }
}
