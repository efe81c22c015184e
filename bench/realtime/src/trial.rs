//! One run of a stream beside the periodic threads.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use parking_lot::Mutex;
use tidemill_engine::{Clock, CyclePolicy, Engine, Gateway, Limits, Observer, PoolStatus, SystemClock};
use tidemill_realtime::analysis::DeferrableServer;
use tidemill_realtime::{Affinity, Policy, Pool, PoolSettings, Role};

use crate::burn::sleep_until;
use crate::late::{Explanations, LateAnswer};
use crate::periodic::{Done, Periodic};
use crate::query::{self, Answer, Recorder};
use crate::stream::{Scale, Stream};

/// Who processes the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// A pool at real-time priority.
    RealTime,
    /// Ordinary threads.
    Standard,
}

/// On which of the two cores the workers are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// One worker beside the periodic threads.
    One,
    /// Two workers on both cores.
    Two(Affinity),
}

/// What is run.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    pub stream: Stream,
    pub side: Side,
    pub placement: Placement,
    pub interval_ms: u64,
    pub buffer: u32,
    /// Budget and period, in milliseconds of the paper.
    pub budget_ms: Option<(u64, u64)>,
    /// Priorities of the periodic threads.
    pub periodic: [u32; 3],
}

/// Where it runs.
#[derive(Clone, Copy, Debug)]
pub struct Machine {
    /// The core that sends; the second worker, if there is one, shares it.
    pub sending: usize,
    /// The core of the stream and the periodic threads.
    pub working: usize,
    pub scale: Scale,
}

/// The priorities: the sender before the pool, the pool before the periodic threads.
const SENDER: u32 = 40;
const POOL: u32 = 20;

/// What came out.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Of each element, in their order.
    pub latencies: Vec<Duration>,
    /// Those that were late, in their order.
    pub late: Vec<LateAnswer>,
    pub periodic: Vec<Done>,
    pub pool: PoolStatus,
    /// By how much the latest element was sent late.
    pub sent_late: Duration,
}

impl Setup {
    fn pool(&self, machine: &Machine) -> PoolSettings {
        let policy = match self.side {
            Side::RealTime => Policy::Fifo { priority: POOL },
            Side::Standard => Policy::Other,
        };
        let (sending, working) = (machine.sending, machine.working);
        let ns = |ms| machine.scale.time(ms).as_nanos() as u64;
        let budget = self.budget_ms.map(|(capacity_ms, period_ms)| DeferrableServer {
            capacity_ns: ns(capacity_ms),
            period_ns: ns(period_ms),
        });
        let (workers, cores, affinity) = match self.placement {
            Placement::One => (1, vec![working], Affinity::Global),
            Placement::Two(affinity) => (2, vec![working, sending], affinity),
        };
        let cores_of_worker = match affinity {
            Affinity::Semi => BTreeMap::from([(1, vec![working, sending])]),
            Affinity::Global | Affinity::Partitioned => BTreeMap::new(),
        };
        PoolSettings {
            workers,
            policy,
            cores,
            affinity,
            cores_of_worker,
            budget,
            ..PoolSettings::new("stream")
        }
    }

    /// Runs it with elements that arrive at these times.
    ///
    /// # Errors
    /// If it cannot run, or an element has no answer, or two.
    pub fn run(&self, arrivals: &[Duration], machine: &Machine) -> anyhow::Result<Outcome> {
        let scale = machine.scale;
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let answers = Arc::new(Mutex::new(Vec::with_capacity(arrivals.len())));
        let settings = self.pool(machine);
        let cores = vec![machine.working, machine.sending];
        let recorder = Recorder {
            clock: Arc::clone(&clock),
            cores: cores.clone(),
            answers: Arc::clone(&answers),
            prepared: Vec::new(),
        };
        let pool = Pool::start(settings)?;
        let cycles = CyclePolicy {
            events_max: self.buffer,
            wait_max: Some(scale.time(self.interval_ms)),
            close_when_idle: false,
        };
        let engine = Engine::new()
            .pool(&pool)
            .cycles(cycles)
            .clock(Arc::clone(&clock))
            .deadline(scale.time(self.stream.deadline_ms))
            .limits(Limits { cycles_in_flight_max: 1, ..Limits::default() });
        let mut running =
            engine.run(query::plan(scale.time(self.stream.wcet_ms)), vec![Box::new(recorder)])?;
        running.wait_until_ready()?;
        let gateway = running.gateway(0).context("the plan has no source")?;
        let start = Instant::now() + Duration::from_millis(20);
        let start_ns = clock.now_ns() + 20_000_000;
        let periodic = Periodic::start(machine.working, self.periodic, start, scale)?;
        let sender = Sender { clock, start, start_ns, cores, query: running.observer() };
        let (sent, mut explanations) = sender.send(gateway, arrivals, machine.sending)?;
        explanations.take(running.join()?.misses);
        let periodic = periodic.stop();
        let answers = answers.lock();
        let outcome = self.outcome(&answers, (&sent, &explanations), (start_ns, arrivals), scale)?;
        Ok(Outcome { periodic, pool: pool.status(), ..outcome })
    }

    fn outcome(
        &self,
        answers: &[Answer],
        (sent, explanations): (&[Sent], &Explanations),
        (start_ns, arrivals): (u64, &[Duration]),
        scale: Scale,
    ) -> anyhow::Result<Outcome> {
        let mut by_number: Vec<Option<&Answer>> = vec![None; arrivals.len()];
        for answer in answers {
            let place = by_number.get_mut(answer.number as usize).context("an answer to nothing")?;
            ensure!(place.replace(answer).is_none(), "element {} has two answers", answer.number);
        }
        let deadline = scale.time(self.stream.deadline_ms);
        let mut outcome = Outcome {
            latencies: Vec::new(),
            late: Vec::new(),
            periodic: Vec::new(),
            pool: PoolStatus::default(),
            sent_late: sent.iter().map(|sent| sent.late).max().unwrap_or_default(),
        };
        for (number, (answer, (arrival, sent))) in by_number.iter().zip(arrivals.iter().zip(sent)).enumerate()
        {
            let answer = answer.with_context(|| format!("element {number} has no answer"))?;
            let arrived_ns = start_ns + arrival.as_nanos() as u64;
            let latency = Duration::from_nanos(answer.committed_ns.saturating_sub(arrived_ns));
            if latency > deadline {
                outcome.late.push(LateAnswer {
                    element: number,
                    latency,
                    deadline,
                    sent_late: sent.late,
                    stolen: answer.stolen.saturating_sub(sent.stolen),
                    what_ran: explanations.of_cycle(answer.cycle),
                });
            }
            outcome.latencies.push(latency);
        }
        Ok(outcome)
    }
}

/// When an element was sent: how late, and how much the host had taken until a millisecond before its arrival.
#[derive(Clone, Copy, Debug)]
struct Sent {
    late: Duration,
    stolen: Duration,
}

struct Sender {
    clock: Arc<dyn Clock>,
    start: Instant,
    start_ns: u64,
    cores: Vec<usize>,
    query: Observer,
}

impl Sender {
    /// Sends all elements from a thread at real-time priority, and asks between them why answers were late.
    fn send(
        self,
        gateway: Gateway,
        arrivals: &[Duration],
        core: usize,
    ) -> anyhow::Result<(Vec<Sent>, Explanations)> {
        let policy = Policy::Fifo { priority: SENDER };
        let pool = Pool::start(PoolSettings { policy, cores: vec![core], ..PoolSettings::new("sender") })?;
        let sending = || {
            let _member = pool.join(Role::Receiver)?;
            let (mut sent, mut explanations) = (Vec::with_capacity(arrivals.len()), Explanations::default());
            for (number, arrival) in arrivals.iter().enumerate() {
                // Before the arrival: the host may take the core just then.
                sleep_until(self.start + arrival.saturating_sub(Duration::from_millis(1)));
                let stolen = tidemill_realtime::stolen(&self.cores).unwrap_or_default();
                sleep_until(self.start + *arrival);
                let due_ns = self.start_ns + arrival.as_nanos() as u64;
                let late = Duration::from_nanos(self.clock.now_ns().saturating_sub(due_ns));
                sent.push(Sent { late, stolen });
                if gateway.push(query::element(number as u64, due_ns)).is_err() {
                    break;
                }
                explanations.ask(&self.query);
            }
            Ok((sent, explanations))
        };
        std::thread::scope(|scope| {
            let sent = scope.spawn(sending).join();
            sent.unwrap_or_else(|_| bail!("the sender panicked"))
        })
    }
}
