//! A store as a list of rows: every question looks at all of them.

use tidemill_core::arrow::array::{Array, ArrayRef};
use tidemill_store::{Contents, Retention, Selection, StoreStatistics};

use crate::oracle::cars::{Car, key_of};

pub struct PlainStore {
    contents: Contents,
    key: Vec<usize>,
    /// The rows in order: the cycle, the row, its fragment, and how many rows of that came before.
    rows: Vec<(u64, Car, usize, usize)>,
    /// How many rows each fragment was given.
    given: Vec<usize>,
    /// For each cycle how many rows of each fragment were dropped by then, how many rows there were, and the largest time.
    cycles: Vec<(u64, Vec<usize>, usize, i64)>,
    /// By how much a cycle has raised the largest time at most.
    longest_step: i64,
}

impl PlainStore {
    pub fn new(contents: Contents, key: Vec<usize>, fragments: usize) -> PlainStore {
        let given = vec![0; fragments];
        PlainStore { contents, key, rows: Vec::new(), given, cycles: Vec::new(), longest_step: 0 }
    }

    pub fn next_number(&self) -> i64 {
        self.rows.len() as i64
    }

    /// Takes rows, each with its fragment.
    pub fn push(&mut self, cycle: u64, cars: &[(Car, usize)]) {
        for (car, fragment) in cars {
            self.rows.push((cycle, car.clone(), *fragment, self.given[*fragment]));
            self.given[*fragment] += 1;
        }
    }

    /// A cycle was committed. What the store dropped must be what the limits allow.
    pub fn committed(&mut self, cycle: u64, fragments: &[StoreStatistics], retention: &Retention) {
        assert_eq!(fragments.len(), self.given.len());
        let latest = self.rows.iter().filter_map(|(_, car, ..)| car.time).max().unwrap_or(i64::MIN);
        // A chunk ends with the cycle in which it covers a sixteenth of the time, however far that cycle goes.
        let before = self.cycles.last().map_or(i64::MIN, |(.., latest)| *latest);
        if before > i64::MIN && latest > before {
            self.longest_step = self.longest_step.max(latest - before);
        }
        for (fragment, statistics) in fragments.iter().enumerate() {
            self.check_fragment(fragment, statistics, (cycle, latest), retention);
        }
        let dropped = fragments.iter().map(|statistics| statistics.rows_dropped as usize).collect();
        self.cycles.push((cycle, dropped, self.rows.len(), latest));
    }

    fn check_fragment(
        &self,
        fragment: usize,
        statistics: &StoreStatistics,
        (cycle, latest): (u64, i64),
        retention: &Retention,
    ) {
        let dropped = statistics.rows_dropped as usize;
        let rows = || self.rows.iter().filter(|row| row.2 == fragment);
        let oldest = retention.time.map_or(i64::MIN, |time| latest.saturating_sub(time));
        let has_room = retention.bytes_max >= 1 << 30;
        for (_, car, ..) in rows().take(dropped) {
            assert!(
                !has_room || car.time.is_none_or(|time| time < oldest),
                "{car:?} was dropped at {latest}"
            );
        }
        if let Some(time) = retention.time {
            // Rows come less than 30 late.
            let spread = (time / 16).max(1) + self.longest_step.max(30) + 30;
            let kept = rows().skip(dropped).filter_map(|(_, car, ..)| car.time);
            let too_old = kept.filter(|kept| *kept < latest - time - spread).count();
            assert!(too_old == 0, "{too_old} rows of fragment {fragment} are too old at {latest}");
        }
        // The newest version may be larger than the limit by what a single cycle brings.
        let newest = rows().rev().take_while(|(of, ..)| *of == cycle).count();
        if self.contents == Contents::AllRows {
            let bytes_max = retention.bytes_max / self.given.len();
            assert!(statistics.bytes < bytes_max + newest * 200 + (1 << 14), "{statistics:?}");
            assert_eq!(statistics.rows as usize + dropped, self.given[fragment]);
        }
    }

    pub fn newest_cycle_until(&self, time: i64) -> u64 {
        let last = self.cycles.iter().rfind(|(.., latest)| *latest <= time);
        let (cycle, ..) = last.expect("the store has found one");
        *cycle
    }

    /// The rows as a reader sees them after a cycle.
    pub fn rows_at(&self, cycle: u64) -> Vec<Car> {
        let state = self.cycles.iter().rfind(|(of, ..)| *of <= cycle);
        let Some((_, dropped, end, _)) = state else { return Vec::new() };
        match self.contents {
            Contents::AllRows => {
                let kept =
                    self.rows[..*end].iter().filter(|(.., fragment, number)| *number >= dropped[*fragment]);
                kept.map(|(_, car, ..)| car.clone()).collect()
            }
            Contents::Changes => panic!("a changelog is checked by a multiset"),
            Contents::LastOfKey => {
                let mut table: Vec<(Vec<String>, Car)> = Vec::new();
                for (_, car, ..) in &self.rows[..*end] {
                    let key: Vec<String> = self.key.iter().map(|column| value_of(car, *column)).collect();
                    match table.iter_mut().find(|(known, _)| *known == key) {
                        Some((_, last)) => *last = car.clone(),
                        None => table.push((key, car.clone())),
                    }
                }
                table.into_iter().map(|(_, car)| car).collect()
            }
        }
    }
}

fn value_of(car: &Car, column: usize) -> String {
    match column {
        0 => format!("{:?}", car.vid),
        4 => format!("{:?}", car.name),
        other => panic!("column {other} is no key"),
    }
}

pub fn is_selected(car: &Car, selection: &Selection, key: Option<&[usize]>) -> bool {
    let is_key = |wanted: &Vec<ArrayRef>| {
        let own = key_of(car, key.unwrap_or_default());
        own.iter().zip(wanted).all(|(own, wanted)| own.to_data() == wanted.to_data())
    };
    selection.key.as_ref().is_none_or(is_key)
        && selection.time.is_none_or(|(from, to)| car.time.is_some_and(|time| (from..=to).contains(&time)))
        && selection.area.is_none_or(|area| {
            let (Some(x), Some(y)) = (car.x, car.y) else { return false };
            area.x.0 <= x && x <= area.x.1 && area.y.0 <= y && y <= area.y.1
        })
}

/// The nearest of these rows; of equally near ones those that came first.
pub fn nearest(cars: &[Car], to: (f64, f64), count: usize) -> Vec<Car> {
    let distance = |car: &Car| {
        let (x, y) = (car.x? - to.0, car.y? - to.1);
        let distance = (x * x + y * y).sqrt();
        Some(if distance.is_nan() { f64::NAN } else { distance })
    };
    let mut near: Vec<(f64, Car)> =
        cars.iter().filter_map(|car| Some((distance(car)?, car.clone()))).collect();
    // A stable sort.
    near.sort_by(|one, other| one.0.total_cmp(&other.0));
    near.into_iter().take(count).map(|(_, car)| car).collect()
}
