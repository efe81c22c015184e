//! Processors, moment by moment: who runs in each unit of time. It shares nothing with the analysis but the meaning of its
//! inputs, and no formula at all.

use std::collections::VecDeque;

use fastrand::Rng;

/// A thread above the stream.
#[derive(Clone, Debug)]
pub struct Thread {
    pub period: u64,
    pub cost: u64,
    pub jitter: u64,
}

/// A budget above the stream (used by something), or of the stream itself.
#[derive(Clone, Copy, Debug)]
pub struct Server {
    pub capacity: u64,
    pub period: u64,
}

#[derive(Clone, Debug)]
pub struct System {
    pub processors: u64,
    pub threads: Vec<Thread>,
    pub servers: Vec<Server>,
    /// Other queries of the pool, which go first and use its budget.
    pub mates: Vec<Thread>,
    pub budget: Option<Server>,
    pub blocking: u64,
    pub burst: u64,
    pub exact: bool,
    pub gap: u64,
    pub event_cost: u64,
    pub batch_cost: u64,
    pub interval: u64,
    pub buffer: u64,
    /// Whether batches that wait are released at multiples of the interval.
    pub periodic: bool,
}

/// How a run makes use of what it may do.
#[derive(Clone, Copy, Debug)]
pub struct Behaviour {
    /// All costs, bursts and jitters as large, all gaps as small as they may be.
    pub greedy: bool,
    pub whole_batches: bool,
}

#[derive(Clone)]
struct Job {
    left: u64,
}

struct ThreadState {
    thread: Thread,
    /// When the next job is due, and when it is released.
    due: u64,
    released: u64,
    jobs: VecDeque<Job>,
}

struct ServerState {
    server: Server,
    /// When it is refilled next, and what is left.
    refill: u64,
    left: u64,
    wants: bool,
}

struct Event {
    arrived: u64,
    left: u64,
}

#[derive(Default)]
struct Batch {
    fixed_left: u64,
    events: Vec<Event>,
}

pub struct Run<'a> {
    system: &'a System,
    behaviour: Behaviour,
    random: Rng,
    threads: Vec<ThreadState>,
    mates: Vec<ThreadState>,
    servers: Vec<ServerState>,
    budget: Option<ServerState>,
    next_burst: u64,
    waiting: VecDeque<Event>,
    batch: Option<Batch>,
    /// How much longer something of a lower priority is in the way; `None` while nothing is due.
    blocked: Option<u64>,
    pub worst: u64,
    pub answered: u64,
}

impl<'a> Run<'a> {
    pub fn new(system: &'a System, behaviour: Behaviour, seed: u64) -> Self {
        let mut random = Rng::with_seed(seed);
        let mut started = |thread: &Thread| {
            let due = random.u64(0..=2 * thread.period);
            ThreadState { thread: thread.clone(), due, released: due, jobs: VecDeque::new() }
        };
        let threads = system.threads.iter().map(&mut started).collect();
        let mates = system.mates.iter().map(&mut started).collect();
        let mut server = |server: &Server| {
            let refill = random.u64(0..=server.period);
            ServerState { server: *server, refill, left: server.capacity, wants: false }
        };
        let servers = system.servers.iter().map(&mut server).collect();
        let budget = system.budget.as_ref().map(&mut server);
        let next_burst = random.u64(0..=50);
        Run {
            system,
            behaviour,
            random,
            threads,
            mates,
            servers,
            budget,
            next_burst,
            waiting: VecDeque::new(),
            batch: None,
            blocked: None,
            worst: 0,
            answered: 0,
        }
    }

    pub fn until(mut self, end: u64) -> Self {
        for now in 0..end {
            self.step(now);
        }
        self
    }

    fn step(&mut self, now: u64) {
        self.release_threads(now);
        self.refill(now);
        // Who is due by the time is released before what comes at this very moment.
        let due_before = self.is_due(now);
        let here = self.waiting.len();
        self.arrive(now);
        let due = due_before || self.is_due(now);
        if due || self.batch.is_some() {
            self.blocked.get_or_insert_with(|| {
                if self.behaviour.greedy {
                    self.system.blocking
                } else {
                    self.random.u64(0..=self.system.blocking)
                }
            });
        } else {
            self.blocked = None;
        }

        let mut free = self.system.processors;
        self.run_higher(&mut free);
        if free > 0 && self.blocked.is_some_and(|left| left > 0) {
            // A lower section keeps the stream out.
            self.blocked = self.blocked.map(|left| left - 1);
            return;
        }
        self.run_mates(&mut free);
        if self.budget.as_ref().is_some_and(|budget| budget.left == 0) || free == 0 {
            return;
        }
        if self.batch.is_none() && due {
            let taken = if due_before && here < self.buffer() { here } else { self.waiting.len() };
            self.start(taken);
        }
        self.run_batch(now, free);
    }

    fn buffer(&self) -> usize {
        self.system.buffer as usize
    }

    fn is_due(&self, now: u64) -> bool {
        let System { interval, periodic, .. } = *self.system;
        let has_waited = |event: &Event| {
            if periodic && interval > 0 {
                now / interval > event.arrived / interval
            } else {
                now - event.arrived >= interval
            }
        };
        let waited = self.waiting.front().is_some_and(has_waited);
        waited || self.waiting.len() >= self.buffer()
    }

    fn release_threads(&mut self, now: u64) {
        let greedy = self.behaviour.greedy;
        for state in self.threads.iter_mut().chain(&mut self.mates) {
            while state.released <= now {
                let cost = if greedy { state.thread.cost } else { self.random.u64(1..=state.thread.cost) };
                state.jobs.push_back(Job { left: cost });
                // Late once, then in time, is the worst: jobs back to back.
                state.due += state.thread.period;
                let late =
                    if self.random.u64(..2) == 0 { 0 } else { self.random.u64(0..=state.thread.jitter) };
                state.released = state.due + late;
            }
        }
    }

    fn refill(&mut self, now: u64) {
        for state in self.servers.iter_mut().chain(&mut self.budget) {
            if state.refill <= now {
                state.left = state.server.capacity;
                state.refill += state.server.period;
            }
            if self.random.u64(..7) == 0 {
                state.wants = !state.wants;
            }
        }
    }

    fn arrive(&mut self, now: u64) {
        if now < self.next_burst {
            return;
        }
        let System { burst, exact, gap, event_cost, .. } = *self.system;
        let events = if exact || (self.behaviour.greedy && self.random.u64(..8) != 0) {
            burst
        } else {
            self.random.u64(1..=burst)
        };
        for _ in 0..events {
            let cost = if self.behaviour.greedy { event_cost } else { self.random.u64(1..=event_cost) };
            self.waiting.push_back(Event { arrived: now, left: cost });
        }
        let more = match (self.behaviour.greedy, self.random.u64(..12) == 0) {
            (true, false) => 0,
            (true, true) => self.random.u64(0..=10 * gap),
            (false, _) => self.random.u64(0..=2 * gap),
        };
        self.next_burst = now + gap + more;
    }

    /// What is above the stream takes processors: each thread one, in order of their jobs; each server one.
    fn run_higher(&mut self, free: &mut u64) {
        for state in &mut self.threads {
            if *free == 0 {
                return;
            }
            if let Some(job) = state.jobs.front_mut() {
                job.left -= 1;
                *free -= 1;
                if job.left == 0 {
                    state.jobs.pop_front();
                }
            }
        }
        for state in &mut self.servers {
            if *free > 0 && state.wants && state.left > 0 {
                state.left -= 1;
                *free -= 1;
            }
        }
    }

    /// Other queries of the pool go before the stream, as long as there is a budget.
    fn run_mates(&mut self, free: &mut u64) {
        for state in &mut self.mates {
            let Some(job) = state.jobs.front_mut().filter(|_| *free > 0) else { continue };
            match &mut self.budget {
                Some(budget) if budget.left == 0 => return,
                Some(budget) => budget.left -= 1,
                None => {}
            }
            (job.left, *free) = (job.left - 1, *free - 1);
            if job.left == 0 {
                state.jobs.pop_front();
            }
        }
    }

    fn start(&mut self, taken: usize) {
        let fixed_left = self.system.batch_cost;
        let events = self.waiting.drain(..taken.min(self.buffer())).collect();
        self.batch = Some(Batch { fixed_left, events });
    }

    fn run_batch(&mut self, now: u64, free: u64) {
        let Some(batch) = &mut self.batch else { return };
        let mut spend = || match &mut self.budget {
            Some(budget) if budget.left == 0 => false,
            Some(budget) => {
                budget.left -= 1;
                true
            }
            None => true,
        };
        if batch.fixed_left > 0 {
            if spend() {
                batch.fixed_left -= 1;
            }
            return;
        }
        for event in batch.events.iter_mut().filter(|event| event.left > 0).take(free as usize) {
            if spend() {
                event.left -= 1;
                if event.left == 0 && !self.behaviour.whole_batches {
                    self.worst = self.worst.max(now + 1 - event.arrived);
                    self.answered += 1;
                }
            }
        }
        if batch.events.iter().all(|event| event.left == 0) {
            if self.behaviour.whole_batches {
                let oldest = batch.events.iter().map(|event| now + 1 - event.arrived).max();
                self.worst = self.worst.max(oldest.unwrap_or(0));
                self.answered += batch.events.len() as u64;
            }
            self.batch = None;
        }
    }
}
