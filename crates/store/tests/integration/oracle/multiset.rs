//! A changelog as a plain list of the rows that it comes to.

use std::collections::HashMap;

use crate::oracle::cars::Car;

/// What rows have in common that are equal.
fn class(car: &Car) -> String {
    let zero = |value: Option<f64>| value.map(|value| if value == 0.0 { 0.0 } else { value });
    format!("{:?}", Car { x: zero(car.x), y: zero(car.y), ..car.clone() })
}

#[derive(Default)]
pub struct Multiset {
    rows: Vec<Car>,
    counts: HashMap<String, i64>,
    /// The rows after each cycle, and the largest time by then.
    cycles: Vec<(u64, Vec<Car>, i64)>,
}

/// Changes that leave no row there less than zero times.
pub struct Allowed<'a> {
    multiset: &'a Multiset,
    changes: HashMap<String, i64>,
}

impl Allowed<'_> {
    /// How many copies of a row can still be taken back.
    pub fn copies(&self, car: &Car) -> i64 {
        let class = class(car);
        let of = |counts: &HashMap<String, i64>| counts.get(&class).copied().unwrap_or(0);
        of(&self.multiset.counts) + of(&self.changes)
    }

    pub fn change(&mut self, car: &Car, weight: i64) {
        *self.changes.entry(class(car)).or_default() += weight;
    }
}

impl Multiset {
    pub fn rows(&self) -> &[Car] {
        &self.rows
    }

    pub fn allowed(&self) -> Allowed<'_> {
        Allowed { multiset: self, changes: HashMap::new() }
    }

    /// Rows that are taken back more often than they come go, the last copies first; then the others come in order, the last copies of
    /// those that are also taken back left out.
    pub fn apply(&mut self, cycle: u64, changes: &[(Car, i64)]) {
        let mut sums: HashMap<String, i64> = HashMap::new();
        for (car, weight) in changes {
            *sums.entry(class(car)).or_default() += weight;
        }
        for (class, sum) in &sums {
            *self.counts.entry(class.clone()).or_default() += sum;
        }
        assert!(self.counts.values().all(|count| *count >= 0));
        let mut is_gone = |car: &Car| match sums.get_mut(&class(car)) {
            Some(sum) if *sum < 0 => {
                *sum += 1;
                true
            }
            _ => false,
        };
        let gone: Vec<bool> = self.rows.iter().rev().map(&mut is_gone).collect();
        let mut gone = gone.into_iter().rev();
        self.rows.retain(|_| !gone.next().unwrap());
        let mut latest = self.cycles.last().map_or(i64::MIN, |(.., latest)| *latest);
        for (car, weight) in changes {
            for _ in 0..*weight {
                let left = sums.get_mut(&class(car)).unwrap();
                if *left > 0 {
                    *left -= 1;
                    self.rows.push(car.clone());
                    latest = latest.max(car.time.unwrap_or(i64::MIN));
                }
            }
        }
        self.cycles.push((cycle, self.rows.clone(), latest));
    }

    pub fn rows_at(&self, cycle: u64) -> Vec<Car> {
        let found = self.cycles.iter().rfind(|(of, ..)| *of <= cycle);
        found.map_or(Vec::new(), |(_, rows, _)| rows.clone())
    }

    pub fn rows_until(&self, time: i64) -> Vec<Car> {
        let found = self.cycles.iter().rfind(|(.., latest)| *latest <= time);
        found.map(|(_, rows, _)| rows.clone()).expect("the store has found one")
    }
}
