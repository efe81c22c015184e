//! A client that follows a view, over kills of the server, and sums up the changes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};

use super::client::Client;
use super::run::{PATIENCE, Run, cell, int};
use super::view::View;
use tidemill_testing::duckdb::{Row, Value};

/// How many states are remembered until they are compared.
const STATES_MAX: usize = 40;

/// Follows a view in a thread of its own.
pub struct Subscriber {
    view: String,
    names: String,
    followed: Arc<Mutex<Followed>>,
}

/// Rows as texts, with how often each occurs.
type Rows = BTreeMap<String, u64>;

#[derive(Default)]
struct Followed {
    rows: Rows,
    /// The cycle of the last change; the next one may be of the same.
    cycle: Option<u64>,
    /// What the view had after each cycle that is complete, because a later one has begun.
    states: BTreeMap<u64, Rows>,
    subscriptions: u64,
    wrong: Option<String>,
    is_over: bool,
}

impl Followed {
    /// A new subscription begins with all rows.
    fn begin(&mut self) {
        (self.rows, self.cycle) = (Rows::new(), None);
        self.subscriptions += 1;
    }

    fn change(&mut self, row: &Row) -> Result<(), String> {
        let (cycle, values) = (int(&row[0]) as u64, text(&row[2..]));
        if self.cycle.is_some_and(|before| cycle < before) {
            return Err(format!("cycle {cycle} after cycle {:?}", self.cycle));
        }
        if let Some(complete) = self.cycle.filter(|before| *before < cycle) {
            self.states.insert(complete, self.rows.clone());
            if self.states.len() > STATES_MAX {
                self.states.pop_first();
            }
        }
        self.cycle = Some(cycle);
        match cell(row, 1) {
            "insert" => *self.rows.entry(values).or_default() += 1,
            "delete" => {
                let count = self.rows.get_mut(&values).ok_or(format!("no row {values} to delete"))?;
                *count -= 1;
                if *count == 0 {
                    self.rows.remove(&values);
                }
            }
            other => return Err(format!("a change is {other}")),
        }
        Ok(())
    }
}

fn text(row: &[Value]) -> String {
    row.iter().map(Value::to_string).collect::<Vec<_>>().join(" | ")
}

impl Subscriber {
    /// Begins as soon as the server listens, and again after each kill.
    pub fn start(view: &View, port: Arc<AtomicU16>) -> Subscriber {
        let followed = Arc::<Mutex<Followed>>::default();
        let subscriber =
            Subscriber { view: view.name.clone(), names: view.names(), followed: Arc::clone(&followed) };
        let statement = format!("SUBSCRIBE TO {}", view.name);
        thread::spawn(move || {
            let is_over = || {
                let followed = followed.lock();
                followed.is_over || followed.wrong.is_some()
            };
            while !is_over() {
                if let Ok(mut client) = Client::connect(port.load(Ordering::SeqCst)) {
                    followed.lock().begin();
                    // It ends with the server.
                    let _ = client.stream(&statement, |row| {
                        let mut followed = followed.lock();
                        let changed = followed.change(&row);
                        followed.wrong = changed.err();
                        followed.wrong.is_none()
                    });
                }
                thread::sleep(Duration::from_millis(10));
            }
        });
        subscriber
    }

    fn followed(&self) -> MutexGuard<'_, Followed> {
        self.followed.lock()
    }
}

impl Drop for Subscriber {
    fn drop(&mut self) {
        self.followed.lock().is_over = true;
    }
}

impl Run {
    /// Compares what the subscribers had after some cycles with what the views have as of them.
    pub fn check_subscribers(&mut self) {
        for at in 0..self.subscribers.len() {
            let (view, names) = (self.subscribers[at].view.clone(), self.subscribers[at].names.clone());
            let mut followed = self.subscribers[at].followed();
            assert_eq!(followed.wrong, None, "seed {}: subscription to {view}", self.seed);
            let states = std::mem::take(&mut followed.states);
            drop(followed);
            // The newest are the ones that can still be read.
            for (cycle, expected) in states.into_iter().rev().take(6) {
                let statement = format!("SELECT {names} FROM {view} AS OF CYCLE {cycle}");
                let answer = self.client.query(&statement).expect("the server answers");
                match answer.values() {
                    Ok(rows) => {
                        let mut found = Rows::new();
                        rows.iter().for_each(|row| *found.entry(text(row)).or_default() += 1);
                        assert_eq!(found, expected, "seed {}: {statement}: the view, the changes", self.seed);
                        self.counts.followed += 1;
                    }
                    Err(error) => self.refused(&statement, &error),
                }
            }
        }
    }

    /// Waits until the subscribers have what the views have, once nothing comes any more.
    pub fn check_subscribers_whole(&mut self) {
        for at in 0..self.subscribers.len() {
            let (view, names) = (self.subscribers[at].view.clone(), self.subscribers[at].names.clone());
            let statement = format!("SELECT {names} FROM {view}");
            let rows = self.client.query(&statement).expect("the server answers").expect(&statement);
            let mut expected = Rows::new();
            rows.iter().for_each(|row| *expected.entry(text(row)).or_default() += 1);
            let begun = Instant::now();
            while self.subscribers[at].followed().rows != expected {
                assert!(
                    begun.elapsed() < PATIENCE,
                    "seed {}: a subscriber of {view} lacks changes",
                    self.seed
                );
                thread::sleep(Duration::from_millis(10));
            }
            let subscriptions = self.subscribers[at].followed().subscriptions;
            assert!(subscriptions as usize > self.kills, "seed {}: {subscriptions} subscriptions", self.seed);
        }
    }
}
