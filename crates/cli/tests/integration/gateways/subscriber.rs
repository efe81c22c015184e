//! Clients that follow the view of a fleet.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::thread;

use parking_lot::{Mutex, MutexGuard};

use crate::oracle::client::Client;
use tidemill_testing::duckdb::{Row, Value};

/// What a client has seen.
#[derive(Default)]
pub struct Seen {
    parts: BTreeMap<String, Part>,
    /// What it must not have seen.
    wrong: Option<String>,
    /// Why the server has ended it.
    pub error: Option<String>,
    pub has_ended: bool,
}

#[derive(Default)]
struct Part {
    cycle: i128,
    /// Of the numbers in this cycle: 0 when it is whole.
    sum: i128,
    numbers: BTreeSet<i128>,
}

impl Seen {
    fn take(&mut self, row: &Row) -> Result<(), String> {
        let [Value::Int(cycle), Value::Text(change), Value::Text(gateway), Value::Int(n), columns @ ..] =
            &row[..]
        else {
            return Err(format!("{row:?}"));
        };
        // In a view with points, the point comes behind the gate.
        let is_of_gate = columns.iter().any(|column| matches!(column, Value::Text(gate) if gate == gateway));
        if change != "insert" || !is_of_gate {
            return Err(format!("{change} of {columns:?} at {gateway}"));
        }
        let part = self.parts.entry(gateway.clone()).or_default();
        if *cycle != part.cycle {
            if *cycle < part.cycle || part.sum != 0 {
                return Err(format!("cycle {cycle} comes behind cycle {} with sum {}", part.cycle, part.sum));
            }
            part.cycle = *cycle;
        }
        part.sum += n;
        if !part.numbers.insert(*n) {
            return Err(format!("{n} comes twice from {gateway}"));
        }
        Ok(())
    }

    /// Whether it has seen the first so many reports of each gateway, each with both signs, and no others.
    pub fn has_all(&self, gateways: usize, reports: i128) -> bool {
        assert_eq!(self.wrong, None);
        assert_eq!(self.error, None);
        let all: BTreeSet<i128> = (1..=reports).flat_map(|n| [-n, n]).collect();
        self.parts.len() == gateways
            && self.parts.values().all(|part| {
                assert!(part.numbers.len() <= all.len(), "more than there is");
                part.numbers == all && part.sum == 0
            })
    }

    /// How many rows it has seen of a gateway.
    pub fn rows_of(&self, gateway: &str) -> usize {
        self.parts.get(gateway).map_or(0, |part| part.numbers.len())
    }
}

/// A client that follows the view.
pub struct Subscriber(Arc<Mutex<Seen>>);

impl Subscriber {
    pub fn start(mut client: Client, view: &str) -> Subscriber {
        let seen = Arc::<Mutex<Seen>>::default();
        let (noted, statement) = (Arc::clone(&seen), format!("SUBSCRIBE TO {view}"));
        thread::spawn(move || {
            let ended = client.stream(&statement, |row| {
                let mut seen = noted.lock();
                let wrong = seen.take(&row).err();
                seen.wrong = wrong;
                seen.wrong.is_none()
            });
            let mut seen = noted.lock();
            seen.error = ended.unwrap_or_else(|error| Some(error.to_string()));
            seen.has_ended = true;
        });
        Subscriber(seen)
    }

    pub fn seen(&self) -> MutexGuard<'_, Seen> {
        self.0.lock()
    }
}
