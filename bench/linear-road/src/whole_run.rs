//! The response time over a whole run, minute by minute, with each way to split the inputs (Zeitler, Paper IV, figure 7).

use std::collections::hash_map::DefaultHasher;
use std::fs;
use std::hash::{Hash, Hasher};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::{Context, ensure};
use tidemill_charts::{Chart, Curve, Scale};
use tidemill_energy::Meter;
use tidemill_engine::{Counter, ResponseTimes};
use tidemill_linear_road::InputSplit;
use tidemill_linear_road::answers::{KINDS, TOLLS};
use tidemill_linear_road::generator::GeneratorConfig;
use tidemill_linear_road::run::{Input, Pace, Run, RunOptions, RunSummary};

/// How often the run is looked at. A minute of a run of 180 minutes lasts a third of a second at the fastest sensible pace.
const LOOK: Duration = Duration::from_millis(10);
/// The table has a line for each tenth minute; the picture has them all.
const MINUTES_PER_LINE: usize = 10;

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
    cost: String,
}

/// Runs with each split, compares the answers, and prints what each minute took.
///
/// # Errors
/// If a run fails, the answers of two splits differ, or a picture cannot be written.
pub fn measure(options: &WholeRun) -> anyhow::Result<()> {
    let folder = tempfile::tempdir().context("cannot make a folder for the answers")?;
    let mut all = Vec::new();
    let mut answers = None;
    for split in &options.splits {
        let measured = run(options, *split, folder.path())?;
        let found = hashes(folder.path())?;
        let first = *answers.get_or_insert(found);
        ensure!(first == found, "the answers with {split} are others than with {}", options.splits[0]);
        tell(*split, &measured);
        all.push((*split, measured.minutes));
    }
    table(&all);
    match &options.pictures {
        Some(folder) => draw(folder, options, &all),
        None => Ok(()),
    }
}

fn run(options: &WholeRun, split: InputSplit, folder: &Path) -> anyhow::Result<Measured> {
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
        ..RunOptions::new(Input::Generated(traffic), folder)
    };
    let run = Run::start(run_options, Arc::default())?;
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
    Ok(Measured { minutes, summary, cost })
}

/// The answers of each kind: how many, and the sum of their hashes. When an answer is given depends on the run, and so does
/// the order of answers; what it says does not.
fn hashes(folder: &Path) -> anyhow::Result<[(u64, u64); KINDS]> {
    let mut hashes = [(0, 0_u64); KINDS];
    for (kind, (count, sum)) in hashes.iter_mut().enumerate() {
        let path = folder.join(format!("type{kind}.csv"));
        let file = fs::File::open(&path).with_context(|| format!("cannot read {}", path.display()))?;
        for line in BufReader::new(file).split(b'\n') {
            *count += 1;
            *sum = sum.wrapping_add(hash(&line?, kind));
        }
    }
    Ok(hashes)
}

/// Of an answer without the second at which it was given.
fn hash(answer: &[u8], kind: usize) -> u64 {
    let emitted = if kind == TOLLS { 3 } else { 2 };
    let mut hasher = DefaultHasher::new();
    let fields = answer.split(|byte| *byte == b',').enumerate();
    fields.filter(|(number, _)| *number != emitted).for_each(|(_, field)| field.hash(&mut hasher));
    hasher.finish()
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
    use tidemill_linear_road::answers::BALANCES;

    use super::*;

    #[test]
    fn an_answer_is_the_same_whenever_it_is_given() {
        assert_eq!(hash(b"0,7,30,31,55,20", TOLLS), hash(b"0,7,30,30,55,20", TOLLS));
        assert_ne!(hash(b"0,7,30,31,55,20", TOLLS), hash(b"0,7,30,31,55,21", TOLLS));
        assert_eq!(hash(b"2,30,31,30,9,20", BALANCES), hash(b"2,30,33,30,9,20", BALANCES));
        assert_ne!(hash(b"2,30,31,30,9,20", BALANCES), hash(b"2,31,31,30,9,20", BALANCES));
    }

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
        let folder = tempfile::tempdir().unwrap();
        let measured = run(&options, InputSplit::Fsplit, folder.path()).unwrap();
        assert_eq!(measured.minutes.len(), 3);
        let events: u64 = measured.minutes.iter().map(ResponseTimes::count).sum();
        assert_eq!(events, measured.summary.status.get(Counter::EventsCommitted));
        assert!(events > 0 && measured.minutes.iter().all(|minute| minute.count() > 0));
        measure(&options).unwrap();
    }
}
