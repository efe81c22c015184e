//! Splitting, plan by plan: predicted and measured. Every partition's rows are checked; wrong ones fail the run. A
//! plain copy of the same bytes is measured for comparison.

mod copy;
mod input;
mod lattices;
mod measure;
mod processes;
mod sweep;
mod table;
mod tuples;

use std::path::PathBuf;

use clap::value_parser;

use input::Input;
use tidemill_engine::{Cause, SplitPlan, WorkerProcess};
use tidemill_split::cost::SplitterCosts;

/// Measure what splitting a stream costs, plan by plan, beside what the model says
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Numbers of partitions of the scale-up, 0.5 % broadcast.
    #[arg(long, value_delimiter = ',', default_value = "2,4,8,16,32,64,128,256,512",
        value_parser = value_parser!(u32).range(1..=4096))]
    partitions: Vec<u32>,
    /// Parts that are broadcast to 64 partitions, of the robustness.
    #[arg(long, value_delimiter = ',', default_value = "0,0.0001,0.001,0.01,0.1,0.3,1", value_parser = part)]
    broadcast: Vec<f64>,
    /// Rows of a window, of the window sizes.
    #[arg(long, value_delimiter = ',', default_value = "64,128,256,512,1024,2048,4096,8192",
        value_parser = value_parser!(u32).range(1..=65536))]
    windows: Vec<u32>,
    /// Numbers of splitters behind the window router; each has a worker of its own, and the router one more.
    #[arg(long, value_delimiter = ',', default_value = "1,2,4,8", value_parser = value_parser!(u32).range(1..=64))]
    splitters: Vec<u32>,
    /// Numbers of partitions of the lattices, whose splitters are as many as each rule says. Each has a worker.
    #[arg(long, value_delimiter = ',', default_value = "8,16,32,64",
        value_parser = value_parser!(u32).range(1..=i64::from(lattices::SPLITTERS_MAX)))]
    lattices: Vec<u32>,
    /// The tuples per second that the lattices are to reach.
    #[arg(long, default_value_t = 100e6, value_parser = rate)]
    lattice_rate: f64,
    /// The number of workers.
    #[arg(long, default_value = "2", value_parser = workers)]
    workers: usize,
    /// About how long each run takes.
    #[arg(long, default_value_t = 0.4, value_parser = seconds)]
    seconds: f64,
    /// How many runs of each; the best counts, for what else the machine does only takes time away.
    #[arg(long, default_value_t = 3, value_parser = value_parser!(u32).range(1..=1000))]
    runs: u32,
    /// How many of the 16 columns the operator behind the split reads.
    #[arg(long, default_value_t = 1, value_parser = value_parser!(u32).range(1..=16))]
    columns_read: u32,
    /// Only threads and processes side by side.
    #[arg(long)]
    processes: bool,
    /// The folder of the pictures.
    #[arg(long)]
    pictures: Option<PathBuf>,
}

/// Measures, and prints tables as it proceeds.
///
/// # Errors
/// If the arguments are invalid, a row goes astray, or a picture cannot be written.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    if let Some(member) = WorkerProcess::from_environment()? {
        return Ok(member.run(processes::plan())?);
    }
    if arguments.processes {
        return processes::compare(arguments.seconds, arguments.runs);
    }
    // Before anything that takes long.
    if let Some(folder) = &arguments.pictures {
        std::fs::create_dir_all(folder).map_err(|error| {
            Cause::user(format!("cannot make {}: {error}", folder.display())).with_source(error)
        })?;
    }
    peak(arguments)?;
    println!("\n## Scale-up: 0.5 % broadcast\n");
    let points = arguments.partitions.iter().map(|q| (f64::from(*q), *q, 0.005));
    sweep::sweep(arguments, "scale-up", "q", points)?;
    println!("\n## Robustness: 64 partitions\n");
    let points = arguments.broadcast.iter().map(|b| (*b, 64, *b));
    sweep::sweep(arguments, "robustness", "b", points)?;
    router(arguments)?;
    lattices::lattices(arguments)?;
    windows(arguments)
}

fn part(text: &str) -> Result<f64, String> {
    let part = text.parse().ok().filter(|part| (0.0..=1.0).contains(part));
    part.ok_or_else(|| "it is a part of all tuples: take 0 to 1".to_owned())
}

fn workers(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|workers| (1..=64).contains(workers)).ok_or_else(|| "take 1 to 64".to_owned())
}

fn rate(text: &str) -> Result<f64, String> {
    let rate = text.parse().ok().filter(|rate| (1.0..=1e12).contains(rate));
    rate.ok_or_else(|| "take tuples per second, 1 to 1e12".to_owned())
}

fn seconds(text: &str) -> Result<f64, String> {
    let seconds = text.parse().ok().filter(|seconds| (0.001..=3600.0).contains(seconds));
    seconds.ok_or_else(|| "take 0.001 to 3600".to_owned())
}

/// The goal: nothing broadcast, 64 partitions, every worker a splitter.
fn peak(arguments: &Arguments) -> anyhow::Result<()> {
    println!("## 64 partitions, nothing broadcast, every worker splits\n");
    println!(
        "| workers | M tuples/s | splitting, ns | looking at them, ns | all threads, ns | copy, kept for a cycle, \
         ns | copy, dropped at once, ns | splitting / kept copy | energy |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    let mut costs = None;
    for workers in 1..=arguments.workers {
        let input = Input::new(64, 0.0, workers, arguments)?;
        let plan = SplitPlan::parasplit(64, workers as u32);
        let kept_ns = copy::measure(&input.batches, workers, 10, input::BATCHES_OF_A_CYCLE);
        let dropped_ns = copy::measure(&input.batches, workers, 10, 0);
        let measured = input.best(&plan, workers, 50e6, arguments)?;
        println!(
            "| {workers} | {:.1} | {:.1} | {:.1} | {:.1} | {:.1} | {:.1} | {:.2} | {} |",
            measured.rate / 1e6,
            measured.splitting_ns(),
            measured.operator_ns,
            measured.process_ns,
            kept_ns,
            dropped_ns,
            measured.splitting_ns() / kept_ns,
            measured.energy(),
        );
        costs = Some(input.profile.splitter);
    }
    if let Some(SplitterCosts { consume_ns, process_ns, emit_ns }) = costs {
        println!("\nProfile: cc {consume_ns:.1}, cp {process_ns:.1}, ce {emit_ns:.1} ns per tuple.");
    }
    Ok(())
}

/// The window router with a few splitters behind it, windows of 16 KiB as in the paper.
fn router(arguments: &Arguments) -> anyhow::Result<()> {
    println!("\n## Window router: windows of 256 tuples (16 KiB), 64 partitions, nothing broadcast\n");
    println!(
        "| p | router, ns per window | router alone, M tuples/s | the whole, M tuples/s | tree: first router, ns per \
         window | tree: all other routers, ns per window | tree: the whole, M tuples/s |"
    );
    println!("|---|---|---|---|---|---|---|");
    for splitters in &arguments.splitters {
        let workers = *splitters as usize + 1;
        let input = Input::new(64, 0.0, workers, arguments)?;
        let plan = SplitPlan::parasplit(64, *splitters).with_window_rows(256);
        let measured = input.best(&plan, workers, 20e6, arguments)?;
        let (router_ns, rate) = (measured.stages[0].1, measured.rate / 1e6);
        let tree = SplitPlan::parasplit_tree(64, *splitters).with_window_rows(256);
        let tree = input.best(&tree, workers, 20e6, arguments)?;
        let first_ns = tree.stages[0].1;
        println!(
            "| {splitters} | {:.0} | {:.0} | {rate:.1} | {:.0} | {:.0} | {:.1} |",
            256.0 * router_ns,
            1e3 / router_ns,
            256.0 * first_ns,
            256.0 * (tree.routing_ns() - first_ns),
            tree.rate / 1e6,
        );
    }
    Ok(())
}

/// The physical window: all windows go over one router to one splitter.
fn windows(arguments: &Arguments) -> anyhow::Result<()> {
    println!("\n## Window size: one splitter, 64 partitions, nothing broadcast\n");
    println!("| W, tuples | M tuples/s | router, ns per tuple | splitter, ns per tuple |");
    println!("|---|---|---|---|");
    let input = Input::new(64, 0.0, arguments.workers, arguments)?;
    let mut rates = Vec::new();
    for rows in &arguments.windows {
        let plan = SplitPlan::fsplit(64).with_window_rows(*rows);
        let measured = input.best(&plan, arguments.workers, 10e6, arguments)?;
        let splitter_ns = measured.stages.get(1).map_or(0.0, |stage| stage.1);
        println!("| {rows} | {:.1} | {:.2} | {splitter_ns:.1} |", measured.rate / 1e6, measured.stages[0].1);
        rates.push((*rows, measured.rate));
    }
    if let (Some(least), Some(most)) = (arguments.windows.first(), arguments.windows.last()) {
        let rate_of = |rows| rates.iter().rfind(|(known, _)| *known <= rows).map_or(0.0, |(_, rate)| *rate);
        let chosen = tidemill_split::cost::window_rows(*least, *most, rate_of);
        println!(
            "\nBy the rule of the paper (double it until no larger window gains 0.15 %): {chosen} tuples."
        );
    }
    Ok(())
}
