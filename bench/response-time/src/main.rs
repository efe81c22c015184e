//! Response times of single events at a fixed rate: a keyed running count, one answer per view, each answer checked.
//! The time of an answer runs from the moment its view was due to the commit, so any delay of the sender counts in
//! full.
//!
//! The sender sleeps between looks at the clock. A sender that spins takes a whole core; with a worker that spins, too,
//! two cores are full, and each response waits for whatever else the machine has to do.

mod answers;
mod count;
mod pace;
mod processor;

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::ensure;
use clap::Parser;
use tidemill_engine::analysis::DeferrableServer;
use tidemill_engine::{
    Clock, Counter, CyclePolicy, Engine, Policy, Pool, PoolError, PoolSettings, Role, SystemClock,
};

use answers::Recorder;
use pace::Pace;
use processor::ProcessorTime;

#[global_allocator]
static ALLOCATOR: tidemill_allocator::Allocator = tidemill_allocator::Allocator;

/// Response times of a keyed running count.
#[derive(Parser)]
struct Arguments {
    /// Views per second, one run for each.
    #[arg(long, value_delimiter = ',', default_value = "22000,154000")]
    rate: Vec<u64>,
    /// Seconds measured in each run.
    #[arg(long, default_value_t = 10.0)]
    seconds: f64,
    /// Seconds before the measured ones.
    #[arg(long, default_value_t = 1.0)]
    warm_up_seconds: f64,
    /// Runs for each rate.
    #[arg(long, default_value_t = 1)]
    runs: usize,
    /// Numbers of workers.
    #[arg(long, value_delimiter = ',', default_value = "1")]
    workers: Vec<usize>,
    /// Different keys.
    #[arg(long, default_value_t = 1000)]
    keys: u32,
    /// The most events in a cycle.
    #[arg(long, default_value_t = CyclePolicy::default().events_max)]
    cycle_events: u32,
    /// Microseconds after which a cycle is closed though the workers are busy.
    #[arg(long, default_value_t = 5000)]
    cycle_wait_us: u64,
    /// Microseconds that a worker without work looks out for some before it parks, one run for each. 0 is the
    /// engine's default.
    #[arg(long, value_delimiter = ',', default_value = "0,200")]
    spin_us: Vec<u64>,
    /// Microseconds that the sender sleeps when no view is due. 0: it spins, and takes a core.
    #[arg(long, default_value_t = 20)]
    sender_sleep_us: u64,
    /// Lets the sink have a thread of its own, as one that may block has.
    #[arg(long)]
    sink_thread: bool,
    /// Runs the engine in a pool of this real-time priority, and the sender one above it. Needs the privilege for it.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=98))]
    priority: Option<u32>,
    /// Runs each worker and the sender under the kernel's policy of deadlines instead, with this share of each 10 ms.
    /// Needs the same privilege.
    #[arg(long, conflicts_with = "priority", value_parser = clap::value_parser!(u64).range(1..=90))]
    percent: Option<u64>,
    /// Milliseconds after which an answer counts as late.
    #[arg(long, default_value_t = 20)]
    deadline_ms: u64,
}

/// The period of the budgets under the policy of deadlines.
const SHARED_PERIOD_NS: u64 = 10_000_000;

/// Threads of real-time priority.
struct Pools {
    engine: Arc<Pool>,
    sender: Arc<Pool>,
}

impl Arguments {
    fn pools(&self, workers: usize) -> Result<Option<Pools>, PoolError> {
        let scheduling = |threads: usize, above: u32| match (self.priority, self.percent) {
            (Some(priority), _) => Some((Policy::Fifo { priority: priority + above }, None)),
            (None, Some(percent)) => {
                let capacity_ns = threads as u64 * percent * SHARED_PERIOD_NS / 100;
                let budget = DeferrableServer { capacity_ns, period_ns: SHARED_PERIOD_NS };
                Some((Policy::Deadline, Some(budget)))
            }
            (None, None) => None,
        };
        let start = |name, workers, above| {
            let settings = scheduling(workers, above).map(|(policy, budget)| PoolSettings {
                workers,
                policy,
                budget,
                ..PoolSettings::new(name)
            });
            settings.map(Pool::start).transpose()
        };
        let (Some(engine), Some(sender)) = (start("answers", workers, 0)?, start("sender", 1, 1)?) else {
            return Ok(None);
        };
        Ok(Some(Pools { engine, sender }))
    }
}

fn main() -> anyhow::Result<()> {
    tidemill_allocator::tune();
    let arguments = Arguments::parse();
    println!(
        "views/s workers spin us      p50      p99    p99.9   p99.99      max      late  cycles/s  cores, sender's  \
         sender late"
    );
    for rate in &arguments.rate {
        for workers in &arguments.workers {
            for spin_us in &arguments.spin_us {
                for _ in 0..arguments.runs {
                    measure(&arguments, *rate, *workers, *spin_us)?;
                }
            }
        }
    }
    Ok(())
}

fn measure(arguments: &Arguments, rate: u64, workers: usize, spin_us: u64) -> anyhow::Result<()> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let pace = Pace {
        start_ns: clock.now_ns() + 200_000_000,
        rate,
        warm_up_seconds: arguments.warm_up_seconds,
        seconds: arguments.seconds,
        keys: arguments.keys,
        sleep: Duration::from_micros(arguments.sender_sleep_us),
    };
    let (mut recorder, answers) = Recorder::new(pace, Arc::clone(&clock))?;
    recorder.blocks = arguments.sink_thread;
    let cycles = CyclePolicy {
        events_max: arguments.cycle_events,
        wait_max: Some(Duration::from_micros(arguments.cycle_wait_us)),
        close_when_idle: true,
    };
    let engine = Engine::new()
        .workers(workers)
        .spin(Duration::from_micros(spin_us))
        .cycles(cycles)
        .clock(Arc::clone(&clock));
    let pools = arguments.pools(workers)?;
    let engine = match &pools {
        Some(pools) => engine.pool(&pools.engine),
        None => engine,
    };
    let mut running = engine.run(count::plan(), vec![Box::new(recorder)])?;
    running.wait_until_ready()?;
    let Some(gateway) = running.gateway(0) else { anyhow::bail!("the plan has no source") };
    // After the engine's threads were started, so that these have the same slack as in any program.
    if let Err(error) = processor::sleep_precisely() {
        eprintln!("the sender's sleeps may each be 50 us too long: /proc/self/timerslack_ns: {error}");
    }
    let member = pools.as_ref().map(|pools| pools.sender.join(Role::Worker(0))).transpose()?;
    pace.wait_for_start(&clock);
    let (began, used) = (Instant::now(), ProcessorTime::now());
    let late_max_ns = pace.feed(&gateway, &clock);
    let (elapsed, used) = (began.elapsed(), ProcessorTime::now().since(used));
    drop((gateway, member));
    let summary = running.join()?;
    let answers = answers.lock();
    ensure!(answers.wrong == 0, "{} answers are wrong", answers.wrong);
    ensure!(answers.count == pace.views(), "{} answers to {} views", answers.count, pace.views());
    let time = |share| Duration::from_nanos(answers.response_ns.value_at_quantile(share));
    let deadline_ns = arguments.deadline_ms * 1_000_000;
    let late = answers.response_ns.len() - answers.response_ns.count_between(0, deadline_ns);
    let cores = |used_ns: u64| used_ns as f64 / elapsed.as_nanos() as f64;
    print!("{rate:>7} {workers:>7} {spin_us:>7} ");
    println!(
        "{:>8.1?} {:>8.1?} {:>8.1?} {:>8.1?} {:>8.1?} {late:>9} {:>9} {:>8.2} {:>7.2} {:>12.1?}",
        time(0.5),
        time(0.99),
        time(0.999),
        time(0.9999),
        Duration::from_nanos(answers.response_ns.max()),
        summary.get(Counter::CyclesCommitted) * 1_000_000_000 / summary.elapsed_ns.max(1),
        cores(used.process_ns),
        cores(used.thread_ns),
        Duration::from_nanos(late_max_ns),
    );
    Ok(())
}
