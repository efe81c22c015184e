//! The threads of sources in the pool of their query. The kernel says how they are scheduled.
//!
//! Tests that need real-time privileges say that they are skipped where there are none.
#![cfg(target_os = "linux")]

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};
use tidemill::arrow::schema::{DataType, Field, Schema, SchemaRef};
use tidemill::connect::formats::{DecoderSettings, Format};
use tidemill::connect::http::{HttpSettings, HttpSource};
use tidemill::connect::socket::{SocketSettings, TcpLines, UdpLines, UdpSettings};
use tidemill::connect::standard_streams::{StandardInput, StreamSettings};
use tidemill::{
    DeferrableServer, Engine, Policy, Pool, PoolSettings, Query, Run, Source, WhenEmpty, sources,
};

/// Numbers of policies as the kernel has them.
const ORDINARY: u32 = 0;
const FIFO: u32 = 1;
const DEADLINE: u32 = 6;

const PRIORITY: u32 = 3;

/// The longest that anything here may take.
const PATIENCE: Duration = Duration::from_secs(60);

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "{what}: {:?}", threads());
        thread::sleep(Duration::from_millis(5));
    }
}

/// The threads of this process: name, policy and priority, as the kernel says.
fn threads() -> Vec<(String, u32, u32)> {
    let mut threads = Vec::new();
    for task in std::fs::read_dir("/proc/self/task").unwrap().flatten() {
        // A thread may end while it is looked at.
        let Ok(stat) = std::fs::read_to_string(task.path().join("stat")) else { continue };
        let (name, rest) = stat.rsplit_once(')').unwrap();
        let name = name.split_once('(').unwrap().1.to_owned();
        let fields: Vec<&str> = rest.split_whitespace().collect();
        threads.push((name, fields[38].parse().unwrap(), fields[37].parse().unwrap()));
    }
    threads
}

/// How the threads of a name are scheduled.
fn scheduled(name: &str) -> Vec<(u32, u32)> {
    let named = threads().into_iter().filter(|thread| thread.0 == name);
    named.map(|(_, policy, priority)| (policy, priority)).collect()
}

/// The processor time of the threads that read connections and decode, as the kernel says.
fn readers_used() -> Duration {
    let mut used_ns = 0;
    for task in std::fs::read_dir("/proc/self/task").unwrap().flatten() {
        let read = |file: &str| std::fs::read_to_string(task.path().join(file)).unwrap_or_default();
        if read("comm").starts_with("socket ") {
            used_ns += read("schedstat").split(' ').next().and_then(|time| time.parse().ok()).unwrap_or(0);
        }
    }
    Duration::from_nanos(used_ns)
}

fn promoted() -> Vec<(String, u32, u32)> {
    threads().into_iter().filter(|thread| thread.1 != ORDINARY).collect()
}

/// Serialises tests that look at all threads of this process.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock()
}

/// Whether the kernel refuses the threads of a pool. Without a privilege it does; and some kernels lose count of what deadline
/// threads had that have ended (`total_bw` in `/sys/kernel/debug/sched/debug` falls below zero), and refuse all later ones.
fn is_refused(reason: &str) -> bool {
    reason.contains("not permitted") || reason.contains("resource busy")
}

/// A pool, unless this machine does not grant it.
fn granted(settings: PoolSettings) -> Option<Arc<Pool>> {
    match Pool::start(settings.clone()) {
        Ok(pool) => Some(pool),
        Err(error) if error.reason.starts_with("memory cannot be locked") => {
            println!("without locked memory: {error}");
            granted(PoolSettings { lock_memory: false, ..settings })
        }
        Err(error) if is_refused(&error.reason) => {
            println!("skipped: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn fifo() -> PoolSettings {
    PoolSettings { policy: Policy::Fifo { priority: PRIORITY }, ..PoolSettings::new("test") }
}

fn value() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("value", DataType::Int64, true)]))
}

fn decoder() -> DecoderSettings {
    DecoderSettings { schema: value(), csv: Default::default(), batch_rows: 8192 }
}

/// Runs a query that counts the rows of a source.
fn run(pool: &Arc<Pool>, source: impl Source + 'static) -> Run {
    let mut query = Query::new("copy");
    query.read("source", source).collect("all", 1_000_000);
    Engine::new().pool(pool).start(query).unwrap()
}

fn rows(run: &Run) -> u64 {
    run.status().engine.get(tidemill::engine::Counter::EventsCommitted)
}

/// While the query runs, threads of these names have the pool's priority; afterwards no thread has. One connection sends, so the
/// source has its threads.
fn check(source: impl Source + 'static, names: &[&str], send: impl FnOnce() -> Option<TcpStream>) {
    let Some(pool) = granted(PoolSettings { lock_memory: true, ..fifo() }) else {
        return;
    };
    let running = run(&pool, source);
    let connection = send();
    until("the rows have come", || rows(&running) >= 2);
    for name in names.iter().chain(&["feed"]) {
        until(name, || {
            let scheduled = scheduled(name);
            !scheduled.is_empty() && scheduled.iter().all(|how| *how == (FIFO, PRIORITY))
        });
    }
    until("all members are counted", || pool.status().members == promoted().len());
    running.stop().unwrap();
    drop(connection);
    until("nothing is left at real-time priority", || promoted().is_empty());
    assert_eq!(pool.status().members, 0);
}

#[test]
fn connections_and_decoders_of_a_listening_socket_are_in_the_pool() {
    let _alone = alone();
    let source = sources::tcp_lines("127.0.0.1:0").unwrap();
    let address = source.local_address().unwrap();
    check(source, &["socket 1", "socket decoder "], || Some(lines_to(address)));
}

fn lines_to(address: SocketAddr) -> TcpStream {
    let mut sender = TcpStream::connect(address).unwrap();
    sender.write_all(b"1\n2\n").unwrap();
    sender
}

#[test]
fn a_connection_to_a_server_is_in_the_pool() {
    let _alone = alone();
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = server.local_addr().unwrap().to_string();
    let source = TcpLines::connect(&address, SocketSettings::new(Format::Json, decoder())).unwrap();
    check(source, &["socket 0", "socket decoder "], || {
        let (mut sender, _) = server.accept().unwrap();
        sender.write_all(b"{\"value\": 1}\n{\"value\": 2}\n").unwrap();
        Some(sender)
    });
}

#[test]
fn the_thread_that_serves_http_is_in_the_pool() {
    let _alone = alone();
    let source = HttpSource::listen(HttpSettings::new("127.0.0.1:0", decoder())).unwrap();
    let address = source.local_address();
    until("it serves before anything is read", || scheduled("http") == [(ORDINARY, 0)]);
    check(source, &["http"], || {
        let mut agent = TcpStream::connect(address).unwrap();
        let body = "m value=1i 1\nm value=2i 2\n";
        let head = "POST /api/v2/write HTTP/1.1\r\nHost: localhost\r\nContent-Length:";
        agent.write_all(format!("{head} {}\r\n\r\n{body}", body.len()).as_bytes()).unwrap();
        let mut answer = [0; 12];
        agent.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"HTTP/1.1 204");
        Some(agent)
    });
}

#[test]
fn the_thread_that_receives_datagrams_is_in_the_pool() {
    let _alone = alone();
    let source = UdpLines::listen("127.0.0.1:0", false, UdpSettings::new(Format::Json, decoder())).unwrap();
    let address = source.local_address();
    check(source, &["udp"], || {
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        sender.send_to(b"{\"value\": 1}\n{\"value\": 2}\n", address).unwrap();
        None
    });
}

#[test]
fn a_thread_that_waits_for_a_pipe_is_in_the_pool_and_is_let_go_while_it_waits() {
    let _alone = alone();
    let (mut writer, reader) = UnixStream::pair().unwrap();
    let settings = StreamSettings { schema: Some(value()), ..StreamSettings::new(Format::Json) };
    let source = StandardInput::from_reader("a pipe", reader, settings).unwrap();
    check(source, &["a pipe"], || {
        writer.write_all(b"{\"value\": 1}\n{\"value\": 2}\n").unwrap();
        None
    });
    // It still waits, for nobody has closed the pipe.
    assert!(scheduled("a pipe").iter().all(|how| *how == (ORDINARY, 0)));
}

#[test]
fn what_readers_use_counts_against_the_budget_also_if_no_row_comes_in() {
    let _alone = alone();
    let budget = Some(DeferrableServer { capacity_ns: 500_000, period_ns: 100_000_000 });
    for (policy, when_empty) in [
        (Policy::Fifo { priority: PRIORITY }, WhenEmpty::Ordinary),
        (Policy::RoundRobin { priority: PRIORITY }, WhenEmpty::Pause),
    ] {
        let Some(pool) = granted(PoolSettings { policy, budget, when_empty, ..fifo() }) else { return };
        let source = TcpLines::listen("127.0.0.1:0", false, SocketSettings::new(Format::Json, decoder()));
        let source = source.unwrap();
        let address = source.local_address().unwrap();
        let running = run(&pool, source);
        let mut sender = TcpStream::connect(address).unwrap();
        let noise = "no JSON at all\n".repeat(1000);
        let mut read = Duration::ZERO;
        until("the budget is used up", || {
            // A connection that sends nonsense is read on.
            sender.write_all(noise.as_bytes()).unwrap();
            read = readers_used();
            pool.status().emptied > 3 && read > Duration::from_millis(50)
        });
        assert_eq!(rows(&running), 0);
        // All but what they used before they were in the pool.
        assert!(pool.status().used + Duration::from_millis(5) > read, "{read:?}, {:?}", pool.status());
        running.stop().unwrap();
        assert_eq!(pool.status().members, 0);
        drop((sender, pool));
        until("nothing is left at real-time priority", || promoted().is_empty());
    }
}

#[test]
fn readers_of_a_deadline_pool_are_ordinary() {
    let _alone = alone();
    let budget = Some(DeferrableServer { capacity_ns: 10_000_000, period_ns: 50_000_000 });
    let settings = PoolSettings { policy: Policy::Deadline, budget, ..PoolSettings::new("test") };
    let Some(pool) = granted(settings) else { return };
    let source = sources::tcp_lines("127.0.0.1:0").unwrap();
    let address = source.local_address().unwrap();
    let running = run(&pool, source);
    let connection = lines_to(address);
    until("the rows have come", || rows(&running) >= 2);
    for name in ["feed", "socket 1", "socket decoder "] {
        assert_eq!(scheduled(name), [(ORDINARY, 0)], "{name}");
    }
    // The worker has its own budget, which the kernel keeps.
    let mut policies = BTreeMap::<u32, usize>::new();
    promoted().iter().for_each(|thread| *policies.entry(thread.1).or_default() += 1);
    assert_eq!(policies, BTreeMap::from([(DEADLINE, 1)]));
    running.stop().unwrap();
    drop(connection);
    until("nothing is left at real-time priority", || promoted().is_empty());
}

#[test]
fn many_connections_come_and_go_and_none_is_left_in_the_pool() {
    let _alone = alone();
    let budget = Some(DeferrableServer { capacity_ns: 5_000_000, period_ns: 50_000_000 });
    let Some(pool) = granted(PoolSettings { budget, ..fifo() }) else { return };
    let source = sources::tcp_lines("127.0.0.1:0").unwrap();
    let address = source.local_address().unwrap();
    let running = run(&pool, source);
    let mut open = Vec::new();
    for number in 0..200 {
        let connection = lines_to(address);
        // Half of them stay.
        if number % 2 == 0 {
            open.push(connection);
        }
    }
    until("all rows have come", || rows(&running) == 400);
    let readers = || threads().into_iter().filter(|thread| thread.0.starts_with("socket ")).count();
    until("those that have left are gone", || {
        // 100 connections, their decoders, a worker and a feed.
        pool.status().members == readers() + 2 && readers() <= 108
    });
    running.stop().unwrap();
    assert_eq!(pool.status().members, 0);
    // What enforces its budget has a priority, too.
    drop(pool);
    until("nothing is left at real-time priority", || promoted().is_empty());
}

#[test]
fn a_durable_query_takes_the_threads_of_its_sources_in_too() {
    let _alone = alone();
    let Some(pool) = granted(fifo()) else { return };
    let folder = tempfile::tempdir().unwrap();
    let source = sources::tcp_lines("127.0.0.1:0").unwrap();
    let address = source.local_address().unwrap();
    let mut query = Query::new("copy").durable(folder.path().join("journal"));
    query.read("source", source).collect("all", 1_000_000);
    let running = Engine::new().pool(&pool).start(query).unwrap();
    let connection = lines_to(address);
    until("the rows have come", || rows(&running) >= 2);
    for name in ["intake", "forward", "socket 1", "socket decoder "] {
        until(name, || scheduled(name) == [(FIFO, PRIORITY)]);
    }
    running.stop().unwrap();
    drop(connection);
    until("nothing is left at real-time priority", || promoted().is_empty());
    assert_eq!(pool.status().members, 0);
}

/// Its thread waits for a server that never answers, and is not joined at the end.
#[cfg(feature = "postgres")]
#[test]
fn a_thread_that_waits_for_postgresql_is_in_the_pool_and_is_let_go_while_it_waits() {
    use tidemill::connect::postgres::{PostgresRows, PostgresSource, PostgresSourceSettings};

    let _alone = alone();
    let Some(pool) = granted(fifo()) else { return };
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let source = PostgresSource::open(PostgresSourceSettings {
        url: format!("postgres://me@{}/shop", silent.local_addr().unwrap()),
        rows: PostgresRows::Table("customers".to_owned()),
        schema: value(),
        refresh: None,
        retry_for: PATIENCE,
    });
    let running = run(&pool, source.unwrap());
    let (waiting, _) = silent.accept().unwrap();
    until("its thread has the priority", || scheduled("postgres source") == [(FIFO, PRIORITY)]);
    running.stop().unwrap();
    until("nothing is left at real-time priority", || promoted().is_empty());
    assert_eq!(pool.status().members, 0);
    assert_eq!(scheduled("postgres source"), [(ORDINARY, 0)]);
    drop(waiting);
}
