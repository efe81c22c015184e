//! A pool that the kernel schedules by deadlines: what each thread is given, as `chrt` reads it, and what all use together.

mod kernel;

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use kernel::{ORDINARY, real_time, scheduled, unless_refused};
use tidemill_realtime::analysis::DeferrableServer;
use tidemill_realtime::{Policy, Pool, PoolQuery, PoolSettings, Role, ThreadClock};

const MS: u64 = 1_000_000;
const BUDGET: DeferrableServer = DeferrableServer { capacity_ns: 40 * MS, period_ns: 100 * MS };

fn pool(workers: usize) -> Option<Arc<Pool>> {
    let settings =
        PoolSettings { policy: Policy::Deadline, budget: Some(BUDGET), workers, ..PoolSettings::new("test") };
    real_time(settings)
}

/// A worker of a query, until it is dropped.
struct Worker {
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<u32>>,
    id: u64,
}

impl Worker {
    /// `None` if the kernel refuses it.
    fn start(query: &PoolQuery, worker: usize) -> Option<Worker> {
        let (query, (end, ended), (joined, has_joined)) = (query.clone(), channel::<()>(), channel());
        let thread = std::thread::spawn(move || {
            let Some(member) = unless_refused(query.join(Role::Worker(worker))) else { return scheduled().0 };
            let name = std::fs::read_link("/proc/thread-self").unwrap();
            joined.send(name.file_name().unwrap().to_str().unwrap().parse().unwrap()).unwrap();
            let _ = ended.recv();
            drop(member);
            scheduled().0
        });
        match has_joined.recv() {
            Ok(id) => Some(Worker { end: Some(end), thread: Some(thread), id }),
            Err(_) => {
                assert_eq!(thread.join().unwrap(), ORDINARY);
                None
            }
        }
    }

    /// Its runtime and period, as the kernel says.
    fn server(&self) -> DeferrableServer {
        let shown = Command::new("chrt").args(["-p", &self.id.to_string()]).output().unwrap();
        let shown = String::from_utf8(shown.stdout).unwrap();
        let line = shown.lines().find(|line| line.contains("runtime/deadline/period")).unwrap();
        let numbers: Vec<u64> =
            line.rsplit(' ').next().unwrap().split('/').map(|number| number.parse().unwrap()).collect();
        assert_eq!(numbers[1], numbers[2], "{line}");
        DeferrableServer { capacity_ns: numbers[0], period_ns: numbers[2] }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        drop(self.end.take());
        assert_eq!(self.thread.take().unwrap().join().unwrap(), ORDINARY);
    }
}

fn part(servers: &[DeferrableServer]) -> f64 {
    servers.iter().map(|server| server.capacity_ns as f64 / server.period_ns as f64).sum()
}

#[test]
fn queries_share_the_budget_and_each_has_its_deadline() {
    if Command::new("chrt").arg("--version").output().is_err() {
        println!("skipped: there is no chrt");
        return;
    }
    let Some(pool) = pool(2) else { return };
    let query =
        |name: &str, deadline_ms| PoolQuery::new(&pool, name, Some(Duration::from_millis(deadline_ms)));
    let (fast, slow) = (query("fast", 20), query("slow", 500));
    let workers = |query| (0..2).map(|worker| Worker::start(query, worker)).collect::<Option<Vec<Worker>>>();
    let Some(alone) = workers(&fast) else { return };
    let server = |capacity_ms, period_ms| DeferrableServer {
        capacity_ns: capacity_ms * MS,
        period_ns: period_ms * MS,
    };
    assert_eq!(alone[0].server(), server(4, 20));
    assert_eq!(pool.settings().budget_of_worker(Some(Duration::from_millis(20)), 1), Some(server(4, 20)));
    let Some(other) = workers(&slow) else { return };
    let all = || alone.iter().chain(&other).map(Worker::server).collect::<Vec<_>>();
    assert_eq!(all(), [server(2, 20), server(2, 20), server(10, 100), server(10, 100)]);
    assert!(part(&all()) <= 0.4 + 1e-9);
    // Threads that read sources have no part of it.
    let receiver = slow.join(Role::Receiver).unwrap();
    assert_eq!((scheduled().0, part(&all())), (ORDINARY, 0.4));
    drop((receiver, other));
    // The kernel gives back what a thread had when the thread's period is over: until then, less is in use.
    assert!([server(2, 20), server(4, 20)].contains(&alone[0].server()));
    let Some(third) = Worker::start(&query("third", 100), 0) else { return };
    assert_eq!(third.server(), server(10, 100));
}

#[test]
fn two_queries_together_use_no_more_than_the_budget() {
    let Some(pool) = pool(1) else { return };
    let is_over = Arc::new(AtomicBool::new(false));
    let queries = [Some(20), None]
        .map(|deadline_ms| PoolQuery::new(&pool, "query", deadline_ms.map(Duration::from_millis)));
    let servers = [Some(20), None].map(|deadline_ms| {
        pool.settings().budget_of_worker(deadline_ms.map(Duration::from_millis), 2).unwrap()
    });
    // The second one takes its half from the first one, before both begin.
    let ready = Arc::new(std::sync::Barrier::new(3));
    let threads = queries.map(|query| {
        let (is_over, ready) = (Arc::clone(&is_over), Arc::clone(&ready));
        std::thread::spawn(move || {
            let member = unless_refused(query.join(Role::Worker(0)));
            ready.wait();
            let member = member?;
            let (mut clock, start) = (ThreadClock::of_this_thread(), Instant::now());
            let before = clock.read();
            while !is_over.load(Ordering::Relaxed) && start.elapsed() < Duration::from_secs(60) {
                std::hint::spin_loop();
            }
            drop(member);
            Some(clock.read() - before)
        })
    });
    ready.wait();
    let start = Instant::now();
    std::thread::sleep(Duration::from_secs(2));
    is_over.store(true, Ordering::Relaxed);
    let used: Option<Duration> = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
    let Some(used) = used else { return };
    let window_ns = start.elapsed().as_nanos() as u64;
    let most_ns: u64 = servers.iter().map(|server| server.interference("query").within(window_ns)).sum();
    // The kernel looks once in a tick, and takes what was too much from the next period.
    let ticks_ns = 2 * 10 * MS;
    println!("{used:?} of {:?}", Duration::from_nanos(most_ns));
    assert!(used.as_nanos() as u64 <= most_ns + ticks_ns, "{used:?} in {window_ns} ns, of {most_ns} ns");
    // Twice the budget would be twice that.
    assert!(most_ns < window_ns * 6 / 10, "{most_ns}");
}
