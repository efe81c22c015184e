//! Deadlines in a real-time pool and in ordinary threads, under the same periodic threads of real-time priority: the
//! experiments of Mei, Gray, Wellings (Real-Time Stream Processing in Java) on this machine. Every element must have its answer.

mod burn;
mod experiment;
mod late;
mod paper;
mod periodic;
mod query;
mod stream;
mod trial;

use std::path::PathBuf;

use clap::value_parser;
use tidemill_engine::Cause;
use tidemill_realtime::{Policy, Pool, PoolSettings};

use experiment::Runs;
use paper::Section;
use stream::Scale;
use trial::Machine;

/// Measure which deadlines a real-time pool keeps, and ordinary threads do not
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Runs of each experiment; the paper has 30.
    #[arg(long, default_value_t = 30, value_parser = value_parser!(u64).range(1..=1000))]
    runs: u64,
    /// Elements of each run.
    #[arg(long, default_value_t = 100, value_parser = value_parser!(u64).range(1..=100_000))]
    elements: u64,
    /// Intervals of section 6.1, in milliseconds.
    #[arg(long, value_delimiter = ',', default_value = "10,20,40,60",
        value_parser = value_parser!(u64).range(1..=1000))]
    intervals: Vec<u64>,
    /// The experiments to run; without it, all.
    #[arg(long, value_delimiter = ',')]
    only: Vec<Section>,
    /// How many late answers of each line are listed with what ran instead.
    #[arg(long, default_value_t = 10)]
    late: usize,
    /// The core of the stream and the periodic threads.
    #[arg(long, default_value_t = 1)]
    core: usize,
    /// The core that sends; in section 6.4 the second worker is there, too.
    #[arg(long, default_value_t = 0)]
    sending_core: usize,
    /// One run of few elements, with all times a tenth: checks that it works, and measures nothing.
    #[arg(long)]
    quick: bool,
    /// The folder of the pictures.
    #[arg(long)]
    pictures: Option<PathBuf>,
}

/// Measures, and prints tables while it continues.
///
/// # Errors
/// If an element has no answer or two, a core is missing, or a picture cannot be written.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    // Before anything that takes long.
    if let Some(folder) = &arguments.pictures {
        std::fs::create_dir_all(folder).map_err(|error| {
            Cause::user(format!("cannot make {}: {error}", folder.display())).with_source(error)
        })?;
    }
    let of_core = |core| PoolSettings { cores: vec![core], ..PoolSettings::new("core") };
    for core in [arguments.core, arguments.sending_core] {
        Pool::start(of_core(core))?;
    }
    let policy = Policy::Fifo { priority: 10 };
    if let Err(error) = Pool::start(PoolSettings { policy, ..of_core(arguments.core) }) {
        println!("skipped: both sides need periodic threads of real-time priority. {error}");
        return Ok(());
    }
    let (runs, elements, scale) = if arguments.quick {
        (1, arguments.elements.min(8), 0.1)
    } else {
        (arguments.runs, arguments.elements, 1.0)
    };
    let machine = Machine { sending: arguments.sending_core, working: arguments.core, scale: Scale(scale) };
    describe(&machine);
    let (elements, late_max) = (elements as usize, arguments.late);
    let runs = Runs { machine, runs, elements, late_max, pictures: arguments.pictures.as_deref() };
    paper::run(&runs, &arguments.only, &arguments.intervals)
}

/// What the numbers were measured on.
fn describe(machine: &Machine) {
    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    let kernel = read("/proc/version");
    let load = read("/proc/loadavg");
    println!(
        "{}; core {} works, core {} sends; load at the start {}; the kernel leaves {} of {} us to real-time threads",
        kernel.split(" (").next().unwrap_or_default(),
        machine.working,
        machine.sending,
        load.split(' ').take(3).collect::<Vec<_>>().join(" "),
        read("/proc/sys/kernel/sched_rt_runtime_us").trim(),
        read("/proc/sys/kernel/sched_rt_period_us").trim(),
    );
}
