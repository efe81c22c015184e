//! What feeds the sources: each by a connection of its own, and each keeps what it has sent and what was acknowledged.

use std::io::Write;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use parking_lot::Mutex;

use super::client::Client;
use super::rows::{Rows, Sent};
use tidemill_testing::sender::{Form, Sender};

const JSON_LINES: Form = Form { path: "/write", content_type: "application/x-ndjson" };

/// How far the senders may go. The checks let them continue, so that rows flow as long as there are checks.
#[derive(Default)]
pub struct Gate {
    requests: AtomicU64,
    is_over: AtomicBool,
}

impl Gate {
    pub fn open(&self, requests: u64) {
        self.requests.fetch_add(requests, Ordering::SeqCst);
    }

    /// No request follows those that are permitted.
    pub fn end(&self) {
        self.is_over.store(true, Ordering::SeqCst);
    }

    /// Waits until a request may be sent; false if there are no more.
    fn permits(&self, request: u64) -> bool {
        loop {
            // In this order: what is permitted before the end is sent.
            let is_over = self.is_over.load(Ordering::SeqCst);
            if request < self.requests.load(Ordering::SeqCst) {
                return true;
            }
            if is_over {
                return false;
            }
            thread::sleep(Duration::from_millis(1));
        }
    }
}

/// The rows of a source as they were sent.
#[derive(Default)]
pub struct Log {
    pub rows: Vec<Sent>,
    /// Of each row, whether it must be there: it was acknowledged, or nothing has ended since it was sent.
    pub is_certain: Vec<bool>,
}

pub type SharedLog = Arc<Mutex<Log>>;

/// Sends rows of one source.
pub struct Feeder {
    pub log: SharedLog,
    work: Work,
}

enum Work {
    Posts { sender: Sender, ends: Arc<Mutex<Vec<usize>>> },
    Thread(JoinHandle<()>),
}

/// Adds the next rows to the log, and returns them.
fn next(rows: &mut Rows, log: &SharedLog) -> Vec<Sent> {
    let count = rows.count();
    let batch = rows.take(count);
    let mut log = log.lock();
    log.rows.extend(batch.iter().cloned());
    let sent = log.rows.len();
    log.is_certain.resize(sent, false);
    batch
}

fn certain(log: &SharedLog, batch: &[Sent]) {
    let mut log = log.lock();
    batch.iter().for_each(|row| log.is_certain[row.n as usize] = true);
}

impl Feeder {
    /// Numbered requests by HTTP, sent again until they are answered.
    pub fn by_http(mut rows: Rows, port: u16, gate: &Arc<Gate>) -> Feeder {
        let (log, ends) = (SharedLog::default(), Arc::new(Mutex::new(Vec::new())));
        let (gate, of_sender, ends_of_sender) = (Arc::clone(gate), Arc::clone(&log), Arc::clone(&ends));
        let bodies = (0..).map_while(move |request| {
            let batch = gate.permits(request).then(|| next(&mut rows, &of_sender))?;
            ends_of_sender.lock().push(batch[batch.len() - 1].n as usize + 1);
            Some(batch.iter().map(Sent::json).collect::<String>())
        });
        let sender = Sender::start_as(JSON_LINES, port, "agent", bodies);
        Feeder { log, work: Work::Posts { sender, ends } }
    }

    /// Copies. One that is not answered may have been taken in or not, and is not sent again.
    pub fn by_copy(mut rows: Rows, port: Arc<AtomicU16>, gate: &Arc<Gate>) -> Feeder {
        let log = SharedLog::default();
        let (gate, of_thread) = (Arc::clone(gate), Arc::clone(&log));
        let thread = thread::spawn(move || {
            let mut client = None;
            for request in 0.. {
                if !gate.permits(request) {
                    return;
                }
                let batch = next(&mut rows, &of_thread);
                let text: String = batch.iter().map(Sent::text).collect();
                let connected = client.take().or_else(|| Client::connect(port.load(Ordering::SeqCst)).ok());
                let Some(mut connected) = connected else {
                    thread::sleep(Duration::from_millis(20));
                    continue;
                };
                if let Ok(answer) = connected.copy("COPY t FROM STDIN", &text) {
                    match &answer.error {
                        None => certain(&of_thread, &batch),
                        // After a restart, its queries do not read it yet.
                        Some(_) => thread::sleep(Duration::from_millis(20)),
                    }
                    client = Some(connected);
                }
            }
        });
        Feeder { log, work: Work::Thread(thread) }
    }

    /// Lines over TCP, which are not acknowledged: those of connections that a killed server had are perhaps lost.
    pub fn by_tcp(mut rows: Rows, port: u16, restarts: Arc<Restarts>, gate: &Arc<Gate>) -> Feeder {
        let log = SharedLog::default();
        let (gate, of_thread) = (Arc::clone(gate), Arc::clone(&log));
        let thread = thread::spawn(move || {
            let mut connection: Option<(TcpStream, u64)> = None;
            for request in 0.. {
                if !gate.permits(request) {
                    return;
                }
                let batch = next(&mut rows, &of_thread);
                let text: String = batch.iter().map(Sent::json).collect();
                connection = connection.filter(|(_, restart)| *restart == restarts.begun());
                if connection.is_none() {
                    let restart = restarts.begun();
                    let stream = TcpStream::connect(("127.0.0.1", port)).ok();
                    connection = stream.map(|stream| (stream, restart));
                }
                let is_sent =
                    connection.as_mut().is_some_and(|(stream, _)| stream.write_all(text.as_bytes()).is_ok());
                match (&connection, is_sent) {
                    (Some((_, restart)), true) if restarts.is_last(*restart) => certain(&of_thread, &batch),
                    (_, true) => {}
                    (_, false) => {
                        connection = None;
                        thread::sleep(Duration::from_millis(5));
                    }
                }
            }
        });
        Feeder { log, work: Work::Thread(thread) }
    }

    /// Marks what was answered until now.
    pub fn note_answers(&self) {
        if let Work::Posts { sender, ends } = &self.work {
            let answered = sender.answered() as usize;
            let end = ends.lock()[..answered].last().copied();
            let mut log = self.log.lock();
            log.is_certain[..end.unwrap_or(0)].fill(true);
        }
    }

    /// Waits until everything is sent.
    pub fn join(self) -> SharedLog {
        match self.work {
            Work::Posts { sender, .. } => {
                sender.join();
                let mut log = self.log.lock();
                log.is_certain.fill(true);
            }
            Work::Thread(thread) => thread.join().expect("the sender does not panic"),
        }
        self.log
    }
}

/// How often the server was restarted.
#[derive(Default)]
pub struct Restarts {
    begun: AtomicU64,
    last: AtomicU64,
}

impl Restarts {
    /// The server is back.
    pub fn count(&self) {
        self.begun.fetch_add(1, Ordering::SeqCst);
    }

    /// None follows: what is sent over a new connection from now on must arrive.
    pub fn end(&self) {
        self.count();
        self.last.store(self.begun(), Ordering::SeqCst);
    }

    fn begun(&self) -> u64 {
        self.begun.load(Ordering::SeqCst)
    }

    fn is_last(&self, restart: u64) -> bool {
        restart > 0 && restart == self.last.load(Ordering::SeqCst)
    }
}
