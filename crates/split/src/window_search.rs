//! The search for the size of the physical window while a query runs: the current size, its double and its half take turns, and
//! one of them takes over if it costs less each time.

use std::fmt;

/// A window is not made smaller than this: dealing and merging would cost more than splitting.
const ROWS_MIN: u32 = 64;
/// A window is not made larger than this.
const ROWS_MAX: u32 = 1 << 20;
/// How often the sizes take turns.
const ROUNDS: usize = 3;
/// How much cheaper another size has to be in every round: medians of the same size differ by a few percent.
const GAIN_MIN: f64 = 1.05;
/// How many turns the search rests after it has found nothing better; twice as many each time.
const REST_TURNS: u32 = 30;
const REST_TURNS_MAX: u32 = 600;

/// Finds the cheapest size of the window step by step. It is given the costs of several cycles of each turn, and says with which
/// size the next turn is to run.
///
/// ```
/// use tidemill_split::window_search::WindowSearch;
/// let mut search = WindowSearch::new(1024);
/// // A fixed cost of 10,000 ns for each window, and 10 ns for each row.
/// for _ in 0..200 {
///     let cost_ns = 10.0 + 10_000.0 / f64::from(search.window_rows());
///     search.measured(&[cost_ns; 8], 100_000);
/// }
/// // 32,768 rows would cost 10.3 ns: less than 5 % less.
/// assert_eq!(search.window_rows(), 16_384);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct WindowSearch {
    /// The size that has proved the cheapest so far.
    chosen: u32,
    /// The turn in the comparison; `None`: the search rests.
    turn: Option<usize>,
    /// The sizes that take turns, `chosen` first, and the median of each turn so far.
    tried: Vec<Tried>,
    rest_turns: u32,
    next_rest_turns: u32,
    last: Option<WindowComparison>,
}

#[derive(Clone, Debug, PartialEq)]
struct Tried {
    rows: u32,
    medians_ns: Vec<f64>,
}

/// What the last comparison has measured.
#[derive(Clone, Debug, PartialEq)]
pub struct WindowComparison {
    /// The sizes in rows, in ascending order, each with the median of its turns in nanoseconds per row.
    pub costs_ns: Vec<(u32, f64)>,
    /// The size that was kept or took over.
    pub chosen: u32,
}

impl fmt::Display for WindowComparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "W = {} rows, by comparison in turns of", self.chosen)?;
        for (place, (rows, cost_ns)) in self.costs_ns.iter().enumerate() {
            let comma = if place == 0 { "" } else { "," };
            write!(f, "{comma} {rows} ({cost_ns:.1} ns per row)")?;
        }
        Ok(())
    }
}

impl WindowSearch {
    /// Begins with this size.
    pub fn new(window_rows: u32) -> WindowSearch {
        WindowSearch {
            chosen: window_rows,
            turn: Some(0),
            tried: vec![Tried { rows: window_rows, medians_ns: Vec::new() }],
            rest_turns: 0,
            next_rest_turns: REST_TURNS,
            last: None,
        }
    }

    /// The size for the turn that comes.
    pub fn window_rows(&self) -> u32 {
        match self.turn {
            Some(turn) => self.tried[turn % self.tried.len()].rows,
            None => self.chosen,
        }
    }

    /// The size that has proved the cheapest so far.
    pub fn chosen(&self) -> u32 {
        self.chosen
    }

    /// Whether nothing is compared at the moment. Then the costs of turns do not count.
    pub fn rests(&self) -> bool {
        self.turn.is_none()
    }

    /// What the last comparison has measured.
    pub fn last(&self) -> Option<&WindowComparison> {
        self.last.as_ref()
    }

    /// A turn is over. These are its costs, cycle by cycle, in nanoseconds per row; their median counts. `batch_rows` is the
    /// largest batch that was dealt: larger windows would be the same.
    pub fn measured(&mut self, cycles_ns: &[f64], batch_rows: u32) {
        let Some(turn) = self.turn else { return self.rested(batch_rows) };
        let place = turn % self.tried.len();
        self.tried[place].medians_ns.push(median(cycles_ns));
        if turn == 0 && self.tried.len() == 1 {
            self.list_sizes(batch_rows);
        }
        self.turn = Some(turn + 1);
        if self.tried.len() == 1 || turn + 1 == ROUNDS * self.tried.len() {
            self.decide(batch_rows);
        }
    }

    /// There were too few rows to measure the turn: the search rests.
    pub fn give_up(&mut self) {
        self.turn = None;
        self.rest();
    }

    fn rested(&mut self, batch_rows: u32) {
        self.rest_turns = self.rest_turns.saturating_sub(1);
        if self.rest_turns == 0 {
            self.begin(batch_rows);
        }
    }

    fn begin(&mut self, batch_rows: u32) {
        self.turn = Some(0);
        self.tried = vec![Tried { rows: self.chosen, medians_ns: Vec::new() }];
        self.list_sizes(batch_rows);
    }

    fn list_sizes(&mut self, batch_rows: u32) {
        let double = self.chosen.checked_mul(2).filter(|rows| *rows <= ROWS_MAX && self.chosen < batch_rows);
        let half = Some(self.chosen / 2).filter(|rows| *rows >= ROWS_MIN);
        let others = double.into_iter().chain(half);
        self.tried.extend(others.map(|rows| Tried { rows, medians_ns: Vec::new() }));
    }

    fn decide(&mut self, batch_rows: u32) {
        let Some((current, others)) = self.tried.split_first() else { return };
        let wins = |other: &&Tried| {
            let pairs = current.medians_ns.iter().zip(&other.medians_ns);
            !others.is_empty() && pairs.clone().all(|(ours, theirs)| theirs * GAIN_MIN < *ours)
        };
        let cost_ns = |tried: &Tried| median(&tried.medians_ns);
        let cheapest = others.iter().filter(wins).min_by(|a, b| cost_ns(a).total_cmp(&cost_ns(b)));
        let better = cheapest.map(|tried| tried.rows);
        let mut costs_ns: Vec<(u32, f64)> =
            self.tried.iter().map(|tried| (tried.rows, cost_ns(tried))).collect();
        costs_ns.sort_by_key(|(rows, _)| *rows);
        let chosen = better.unwrap_or(self.chosen);
        self.last = Some(WindowComparison { costs_ns, chosen });
        match better {
            Some(rows) => {
                self.chosen = rows;
                self.next_rest_turns = REST_TURNS;
                self.begin(batch_rows);
            }
            None => {
                self.turn = None;
                self.rest();
            }
        }
    }

    fn rest(&mut self) {
        self.rest_turns = self.next_rest_turns;
        self.next_rest_turns = (self.next_rest_turns * 2).min(REST_TURNS_MAX);
    }
}

/// The middle one; without any, more than every cost.
fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::INFINITY)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Runs turns in which a row costs what the function says of a size, and a number below one by which turns differ.
    fn search(
        first: u32,
        batch_rows: u32,
        turns: usize,
        mut cost_ns: impl FnMut(u32) -> f64,
    ) -> WindowSearch {
        let mut search = WindowSearch::new(first);
        for _ in 0..turns {
            let cost_ns = cost_ns(search.window_rows());
            search.measured(&[cost_ns; 9], batch_rows);
        }
        search
    }

    #[test]
    fn it_walks_up_and_down_to_the_cheapest_and_rests_there() {
        // Cheapest at 4096: smaller ones cost more for each window, larger ones leave the cache.
        let cost_ns = |rows: u32| 10.0 + 20_000.0 / f64::from(rows) + f64::from(rows) / 800.0;
        for first in [64, 512, 4096, 8192, 100_000] {
            let found = search(first, 1 << 20, 300, cost_ns).chosen();
            assert!((2048..8192).contains(&found), "from {first} to {found}");
        }
        // While it rests, nothing but the size that was found runs.
        let mut turns = Vec::new();
        search(4096, 1 << 20, 9 + 30 + 9 + 60, |rows| {
            turns.push(rows);
            cost_ns(rows)
        });
        let others = turns.iter().filter(|rows| **rows != 4096).count();
        assert_eq!(others, 2 * 2 * ROUNDS, "{turns:?}");
    }

    #[test]
    fn windows_do_not_become_larger_than_batches_nor_smaller_than_is_sensible() {
        let larger_is_better = |rows: u32| 1e6 / f64::from(rows);
        assert_eq!(search(512, 3000, 500, larger_is_better).chosen(), 4096);
        assert_eq!(search(1 << 19, u32::MAX, 500, larger_is_better).chosen(), ROWS_MAX);
        assert_eq!(search(512, 3000, 500, f64::from).chosen(), ROWS_MIN);
        // Nothing to compare: 1 row is in every window, and no batch is larger.
        assert_eq!(search(1, 1, 500, f64::from).chosen(), 1);
        assert_eq!(search(u32::MAX, u32::MAX, 50, |_| 1.0).chosen(), u32::MAX);
    }

    #[test]
    fn one_cycle_or_one_turn_that_is_slow_changes_nothing() {
        let mut search = WindowSearch::new(1024);
        for turn in 0..9 {
            let mut cycles_ns = vec![10.0; 8];
            // In each turn, three cycles are disturbed; in turn 3, which is one of 1024 rows, all are.
            cycles_ns[..3].fill(1000.0);
            if turn == 3 {
                cycles_ns.fill(500.0);
            }
            search.measured(&cycles_ns, 1 << 20);
        }
        assert_eq!(search.chosen(), 1024);
        let comparison = search.last().unwrap();
        assert_eq!(comparison.costs_ns, [(512, 10.0), (1024, 10.0), (2048, 10.0)]);
        assert!(
            comparison
                .to_string()
                .starts_with("W = 1024 rows, by comparison in turns of 512 (10.0 ns per row), ")
        );
    }

    #[test]
    fn a_search_without_rows_to_measure_rests_and_begins_again() {
        let mut search = WindowSearch::new(1024);
        search.measured(&[10.0; 8], 1 << 20);
        assert_eq!(search.window_rows(), 2048);
        search.give_up();
        assert_eq!((search.window_rows(), search.chosen()), (1024, 1024));
        (0..REST_TURNS).for_each(|_| search.measured(&[], 1 << 20));
        search.measured(&[10.0; 8], 1 << 20);
        assert_eq!(search.window_rows(), 2048);
    }

    proptest! {
        /// With noise of 4 % it neither leaves the best size nor swings.
        #[test]
        fn noise_moves_nothing(noise in prop::collection::vec(0.98..1.019_f64, 400), first in 7..14_u32) {
            let mut noise = noise.into_iter();
            let mut search = WindowSearch::new(1 << first);
            for _ in 0..400 {
                let cost_ns = 10.0 * noise.next().unwrap();
                search.measured(&[cost_ns; 8], 1 << 20);
                prop_assert_eq!(search.chosen(), 1 << first);
            }
        }

        /// Whatever is measured, sizes stay within bounds, and each differs from the one that is chosen by at most one step.
        #[test]
        fn any_costs_leave_sizes_within_bounds(costs in prop::collection::vec(0.0..100.0_f64, 300)) {
            let mut search = WindowSearch::new(4096);
            for cost_ns in costs {
                search.measured(&[cost_ns; 8], 100_000);
                let (rows, chosen) = (search.window_rows(), search.chosen());
                prop_assert!((ROWS_MIN..=ROWS_MAX).contains(&rows));
                prop_assert!(rows == chosen || rows == chosen * 2 || rows * 2 == chosen);
            }
        }
    }
}
