//! Random systems, simulated: no event is ever later than the bound. And how close it comes to it.
//!
//! `TIDEMILL_REALTIME_SYSTEMS=20000 cargo test -p tidemill-realtime --test integration simulation -- --nocapture` tries more.

mod affinity;
mod simulator;

use fastrand::Rng;
use simulator::{Behaviour, Run, Server, System, Thread};
use tidemill_realtime::analysis::{
    Arrivals, Completion, DeferrableServer, Interference, PeriodicTask, Processors, Release, Stream, admit,
    global_response_ns, latency_bound,
};

fn systems() -> u64 {
    std::env::var("TIDEMILL_REALTIME_SYSTEMS").ok().and_then(|count| count.parse().ok()).unwrap_or(1500)
}

fn a_system(random: &mut Rng, processors: u64) -> System {
    let threads = (0..random.u64(0..=3)).map(|_| {
        let period = random.u64(8..=60);
        Thread { period, cost: random.u64(1..=period / 4), jitter: random.u64(0..=period / 2) }
    });
    let threads = threads.collect();
    let a_server = |random: &mut Rng| {
        let period = random.u64(10..=60);
        Server { period, capacity: random.u64(1..=period / 3) }
    };
    let servers = (0..random.u64(0..=1)).map(|_| a_server(random)).collect();
    let wide = |random: &mut Rng| {
        let period = random.u64(10..=60);
        Server { period, capacity: random.u64(period / 2..=period - 1) }
    };
    let budget = (random.u64(..3) == 0).then(|| wide(random));
    // The bound for several processors needs to know when each of them has ended.
    let mates = (0..if processors == 1 { random.u64(0..=2) } else { 0 }).map(|_| {
        let period = random.u64(10..=80);
        Thread { period, cost: random.u64(1..=period / 5), jitter: random.u64(0..=period) }
    });
    let mates = mates.collect();
    let burst = if random.u64(..2) == 0 { 1 } else { random.u64(1..=5) };
    let buffer = if random.u64(..2) == 0 { random.u64(1..=6) } else { 1000 };
    System {
        processors,
        threads,
        servers,
        mates,
        budget,
        blocking: if random.u64(..3) == 0 { random.u64(1..=6) } else { 0 },
        burst,
        exact: random.u64(..3) == 0,
        gap: random.u64(4..=80),
        event_cost: random.u64(1..=8),
        batch_cost: if random.u64(..3) == 0 { random.u64(1..=4) } else { 0 },
        interval: if random.u64(..5) == 0 { 0 } else { random.u64(0..=90) },
        buffer,
        periodic: random.u64(..4) == 0,
    }
}

fn server(server: &Server) -> DeferrableServer {
    DeferrableServer { capacity_ns: server.capacity, period_ns: server.period }
}

fn analysed(system: &System, completion: Completion) -> (Stream, Release, Processors) {
    let arrivals = if system.exact {
        Arrivals::bursts_of(system.burst, system.gap)
    } else {
        Arrivals::bursts_up_to(system.burst, system.gap)
    };
    let stream =
        Stream::new(arrivals, system.event_cost).batch_cost(system.batch_cost).completion(completion);
    let release = Release { interval_ns: system.interval, buffer_max: system.buffer };
    let threads = system.threads.iter().map(|thread| {
        let periodic =
            Interference::periodic("thread", thread.period, thread.cost).with_jitter(thread.jitter);
        // Jobs of a thread run one after another, but may be late by what is above them.
        Interference { deadline_ns: 2 * thread.period + thread.jitter, ..periodic }
    });
    let servers = system.servers.iter().map(|one| server(one).interference("server"));
    let mut processors = Processors::equal(system.processors).below(threads.chain(servers));
    processors.blocking_ns = system.blocking;
    let mate =
        |mate: &Thread| Interference::periodic("mate", mate.period, mate.cost).with_jitter(mate.jitter);
    processors.pool_mates = system.mates.iter().map(mate).collect();
    processors.budget = system.budget.as_ref().map(server);
    (stream, release, processors)
}

/// The worst that is seen in several runs of a system.
fn worst_seen(system: &System, completion: Completion, seed: u64) -> u64 {
    let whole_batches = completion == Completion::Batch;
    let runs = (0..4).map(|run| {
        let behaviour = Behaviour { greedy: run > 0, whole_batches };
        let run = Run::new(system, behaviour, seed ^ (run << 40)).until(3000);
        assert!(run.answered > 0, "{system:?}");
        run.worst
    });
    runs.max().unwrap_or(0)
}

/// Simulates systems with this many processors, and returns for each that has a bound what part of it was reached.
fn never_exceeded(processors: u64, completion: Completion) -> Vec<f64> {
    let mut reached = Vec::new();
    for seed in 0..systems() {
        let system = a_system(&mut Rng::with_seed(seed), processors);
        let (stream, release, on) = analysed(&system, completion);
        let Ok(bound) = latency_bound(&stream, &release, &on) else { continue };
        let worst = worst_seen(&system, completion, seed);
        assert!(
            worst <= bound.latency_ns,
            "system {seed}: {worst} after a bound of {}: {bound:?}\n{system:?}",
            bound.latency_ns
        );
        reached.push(worst as f64 / bound.latency_ns as f64);
    }
    reached
}

fn report(what: &str, mut reached: Vec<f64>) -> Vec<f64> {
    reached.sort_by(f64::total_cmp);
    let at = |part: f64| reached[((reached.len() - 1) as f64 * part) as usize] * 100.0;
    let exact = reached.iter().filter(|part| **part == 1.0).count();
    println!(
        "{what}: {} systems, no bound exceeded; reached {:.0}% at least, {:.0}% in the middle; exactly by {exact}",
        reached.len(),
        at(0.0),
        at(0.5)
    );
    reached
}

#[test]
fn on_one_processor_no_batch_is_later_than_its_bound() {
    let reached = report("one processor, whole batches", never_exceeded(1, Completion::Batch));
    // A bound that nothing comes near would prove nothing.
    assert!(reached.len() as u64 > systems() / 4 && reached.last() == Some(&1.0));
}

#[test]
fn on_one_processor_no_event_is_later_than_its_bound() {
    let reached = report("one processor, each event", never_exceeded(1, Completion::Event));
    assert!(reached.len() as u64 > systems() / 4 && reached.last() == Some(&1.0));
}

#[test]
fn on_several_processors_no_batch_is_later_than_its_bound() {
    for processors in [2, 3] {
        let reached = report(
            &format!("{processors} processors, whole batches"),
            never_exceeded(processors, Completion::Batch),
        );
        assert!(reached.len() as u64 > systems() / 4);
    }
}

#[test]
fn who_is_admitted_keeps_the_deadline() {
    let (mut admitted, mut refused) = (0, 0);
    for seed in 0..systems() {
        let mut random = Rng::with_seed(seed + 1_000_000);
        let mut system = a_system(&mut random, 1);
        let deadline = random.u64(5..=200);
        let (stream, _, on) = analysed(&system, Completion::Batch);
        let Ok(admission) = admit(&stream, &on, deadline) else {
            refused += 1;
            continue;
        };
        admitted += 1;
        system.interval = admission.release.interval_ns;
        system.buffer = admission.release.buffer_max;
        let worst = worst_seen(&system, Completion::Batch, seed);
        assert!(
            worst <= deadline,
            "system {seed}: {worst} after a deadline of {deadline}: {admission:?}\n{system:?}"
        );
    }
    println!("admission: {admitted} admitted, none of them late; {refused} refused");
    assert!(admitted > systems() / 8 && refused > systems() / 8);
}

/// Migrating tasks under global fixed priorities, moment by moment.
fn worst_responses(tasks: &[PeriodicTask], processors: usize, random: &mut Rng) -> Vec<u64> {
    let mut worst = vec![0; tasks.len()];
    let mut next: Vec<u64> = tasks.iter().map(|task| random.u64(0..=task.work.period_ns)).collect();
    let mut jobs: Vec<std::collections::VecDeque<(u64, u64)>> =
        tasks.iter().map(|_| Default::default()).collect();
    for now in 0..4000 {
        let mut free = processors;
        for (index, task) in tasks.iter().enumerate() {
            if next[index] <= now {
                jobs[index].push_back((now, task.work.cost_ns));
                next[index] += task.work.period_ns + if random.u64(..4) == 0 { random.u64(0..=5) } else { 0 };
            }
            let Some((released, left)) = jobs[index].front_mut().filter(|_| free > 0) else { continue };
            (free, *left) = (free - 1, *left - 1);
            if *left == 0 {
                worst[index] = worst[index].max(now + 1 - *released);
                jobs[index].pop_front();
            }
        }
    }
    worst
}

#[test]
fn no_migrating_task_is_later_than_its_bound() {
    let mut checked = 0;
    for seed in 0..systems() {
        let mut random = Rng::with_seed(seed + 2_000_000);
        let processors = random.u64(2..=3);
        let tasks: Vec<_> = (0..random.u64(2..=6))
            .map(|_| {
                let period = random.u64(6..=50);
                let work = Interference::periodic("task", period, random.u64(1..=period / 2));
                PeriodicTask { deadline_ns: period, work, processor: 0 }
            })
            .collect();
        let Ok(bounds) = global_response_ns(&tasks, processors) else { continue };
        let worst = worst_responses(&tasks, processors as usize, &mut random);
        for (index, bound) in
            bounds.iter().enumerate().filter(|(index, bound)| **bound <= tasks[*index].deadline_ns)
        {
            assert!(
                worst[index] <= *bound,
                "{seed}: task {index} of {tasks:?}: {} after {bound}",
                worst[index]
            );
            checked += 1;
        }
    }
    assert!(checked > systems());
}

#[test]
fn workers_on_any_cores_together_keep_the_bound_for_one() {
    let reached = report("workers bound to cores", affinity::reached(systems()));
    assert_eq!(reached.last(), Some(&1.0));
}
