//! Workers that are bound to cores, moment by moment: the bound for one worker holds for all of them together, wherever each
//! may run.

use fastrand::Rng;
use tidemill_realtime::analysis::{DeferrableServer, Interference, PeriodicTask, single_response_ns};

/// A thread that goes first and has a budget.
struct Server {
    budget: DeferrableServer,
    cores: Vec<bool>,
    left: u64,
    refill: u64,
}

/// A cycle: stages one after another, each with the work of each worker.
struct Cycle {
    stages: Vec<Vec<u64>>,
    released: u64,
}

struct Machine {
    cores: usize,
    servers: Vec<Server>,
    /// The cores of each worker.
    workers: Vec<Vec<bool>>,
}

fn some_cores(random: &mut Rng, cores: usize) -> Vec<bool> {
    let certain = random.u64(0..=cores as u64 - 1) as usize;
    (0..cores).map(|core| core == certain || random.u64(..3) == 0).collect()
}

impl Machine {
    fn new(random: &mut Rng) -> Machine {
        let cores = random.u64(1..=3) as usize;
        let servers = (0..random.u64(0..=3)).map(|_| {
            let period_ns = random.u64(10..=50);
            let budget = DeferrableServer { capacity_ns: random.u64(1..=period_ns / 4), period_ns };
            let refill = random.u64(1..=period_ns);
            Server { budget, cores: some_cores(random, cores), left: budget.capacity_ns, refill }
        });
        let servers = servers.collect();
        let workers = (0..random.u64(1..=4)).map(|_| some_cores(random, cores)).collect();
        Machine { cores, servers, workers }
    }

    fn cycle(&self, random: &mut Rng, released: u64) -> Cycle {
        // A stage without any work would take no time.
        let work = |worker, random: &mut Rng| random.u64(u64::from(worker == 0)..=6);
        let stage = |random: &mut Rng| (0..self.workers.len()).map(|worker| work(worker, random)).collect();
        let stages = (0..random.u64(1..=3)).map(|_| stage(random)).collect();
        Cycle { stages, released }
    }

    /// One unit of time. A thread waits only if each of its cores has one that goes first, or another worker.
    fn step(&mut self, now: u64, cycle: &mut Option<Cycle>, random: &mut Rng) {
        let mut free = vec![true; self.cores];
        let mut take = |cores: &[bool], random: &mut Rng| {
            let open: Vec<usize> = (0..free.len()).filter(|core| cores[*core] && free[*core]).collect();
            let chosen = (!open.is_empty()).then(|| open[random.u64(0..=open.len() as u64 - 1) as usize]);
            chosen.inspect(|core| free[*core] = false).is_some()
        };
        for server in &mut self.servers {
            if server.refill <= now {
                (server.left, server.refill) =
                    (server.budget.capacity_ns, server.refill + server.budget.period_ns);
            }
            // The worst is to keep it until the cycle is there.
            let wants = cycle.is_some() || random.u64(..9) == 0;
            if server.left > 0 && wants && take(&server.cores, random) {
                server.left -= 1;
            }
        }
        let Some(stage) = cycle.as_mut().and_then(|cycle| cycle.stages.first_mut()) else { return };
        for (worker, left) in stage.iter_mut().enumerate() {
            if *left > 0 && take(&self.workers[worker], random) {
                *left -= 1;
            }
        }
    }

    /// The longest response and its bound, as a part of it, over some cycles.
    fn worst(&mut self, random: &mut Rng) -> f64 {
        let higher: Vec<Interference> =
            self.servers.iter().map(|server| server.budget.interference("server")).collect();
        let (mut worst, mut open, mut bound, mut next) = (0.0_f64, None, 0, random.u64(0..=60));
        for now in 0..2000 {
            if open.is_none() && now >= next {
                let cycle = self.cycle(random, now);
                let total: u64 = cycle.stages.iter().flatten().sum();
                let work = Interference::periodic("cycle", 1_000_000, total);
                let task = PeriodicTask { work, deadline_ns: 1_000_000, processor: 0 };
                bound = single_response_ns(&task, &higher).unwrap();
                open = Some(cycle);
            }
            self.step(now, &mut open, random);
            let Some(cycle) = &mut open else { continue };
            while cycle.stages.first().is_some_and(|stage| stage.iter().all(|left| *left == 0)) {
                cycle.stages.remove(0);
            }
            if cycle.stages.is_empty() {
                let response = now + 1 - cycle.released;
                assert!(response <= bound, "{response} after a bound of {bound}");
                worst = worst.max(response as f64 / bound as f64);
                (open, next) = (None, now + 1 + random.u64(0..=80));
            }
        }
        worst
    }
}

/// Runs this many machines; the part of its bound that each has reached.
pub fn reached(machines: u64) -> Vec<f64> {
    let of_seed = |seed: u64| {
        let mut random = Rng::with_seed(seed + 3_000_000);
        Machine::new(&mut random).worst(&mut random)
    };
    (0..machines).map(of_seed).collect()
}
