//! Lattices: a window router, window splitters, query processors (Paper V).

use std::iter::successors;

use super::Proportions;

/// What one process of a lattice costs per event that it receives, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StreamProcessCosts {
    /// To read an event: `cr`.
    pub read_ns: f64,
    /// To poll one input for events: `cp`.
    pub poll_ns: f64,
    /// To merge one input: `cm`.
    pub merge_ns: f64,
    /// To run the query: `cq`.
    pub query_ns: f64,
    /// To compute the destination of one copy: `cs`.
    pub split_ns: f64,
    /// To write one copy: `ce`.
    pub emit_ns: f64,
}

impl StreamProcessCosts {
    /// The cost with this many inputs and outputs, and `selectivity` results per event: `cr + (cp + cm) u + cq + σ (cs
    /// (o + r + q b) + ce (r + q b))`.
    ///
    /// ```
    /// use tidemill_split::cost::{Proportions, StreamProcessCosts};
    /// let process = StreamProcessCosts { read_ns: 1.0, poll_ns: 0.1, merge_ns: 0.2, query_ns: 3.0, split_ns: 2.0, emit_ns: 4.0 };
    /// let parts = Proportions::new(0.8, 0.1).unwrap();
    /// let cost_ns = process.cost_ns(parts, 10, 5, 0.5);
    /// assert!((cost_ns - (1.0 + 3.0 + 3.0 + 0.5 * (2.0 * 1.4 + 4.0 * 1.3))).abs() < 1e-12);
    /// ```
    pub fn cost_ns(&self, parts: Proportions, inputs: u32, outputs: u32, selectivity: f64) -> f64 {
        let copies = parts.copies(outputs);
        self.read_ns
            + (self.poll_ns + self.merge_ns) * f64::from(inputs)
            + self.query_ns
            + selectivity * (self.split_ns * (parts.omitted() + copies) + self.emit_ns * copies)
    }
}

/// What a window router costs per window, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RouterCosts {
    /// To read a window: `cr_W`.
    pub read_ns: f64,
    /// To compute its destination: `cs_W`.
    pub split_ns: f64,
    /// To pass it on: `ce_W`.
    pub emit_ns: f64,
}

/// What the parts of a lattice cost, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LatticeCosts {
    /// The window router, per window.
    pub router: RouterCosts,
    /// The number of events in a window: `W` divided by the bytes of an event.
    pub window_rows: u32,
    /// To take in an event of a window, in a splitter. The papers assume the same cost as in the router, `cr_W` per
    /// event of a window. Here it also includes the cost of routing, once per event.
    pub splitter_read_ns: f64,
    /// To compute the destination of one copy of an event: `cs`.
    pub split_ns: f64,
    /// To write one copy: `ce`.
    pub emit_ns: f64,
    /// To read an event in a query processor: `cr`.
    pub read_ns: f64,
    /// To poll one splitter for events, per event of a query processor: `cp`.
    pub poll_ns: f64,
    /// To merge the events of one splitter, per event of a query processor: `cm`.
    pub merge_ns: f64,
    /// The expensive query, per event of a query processor: `O`.
    pub query_ns: f64,
}

impl LatticeCosts {
    /// The window router, per event: `C_PR = cr_W + cs_W + ce_W`, divided by the events of a window.
    pub fn router_ns(&self) -> f64 {
        let window_ns = self.router.read_ns + self.router.split_ns + self.router.emit_ns;
        window_ns / f64::from(self.window_rows.max(1))
    }

    /// A window splitter, per event that it splits: `C_PS = cr_W + cs (o + r + q b) + ce (r + q b)`.
    pub fn splitter_ns(&self, parts: Proportions, width: u32) -> f64 {
        let process = StreamProcessCosts {
            read_ns: self.splitter_read_ns,
            split_ns: self.split_ns,
            emit_ns: self.emit_ns,
            ..StreamProcessCosts::default()
        };
        process.cost_ns(parts, 1, width, 1.0)
    }

    /// A query processor, per event that it receives: `C_PQ = cr + p (cp + cm) + O`.
    pub fn query_processor_ns(&self, splitters: u32) -> f64 {
        self.read_ns + f64::from(splitters) * (self.poll_ns + self.merge_ns) + self.query_ns
    }

    /// The same without the expensive query: `C_PQ(O = 0)`.
    pub fn merge_ns(&self, splitters: u32) -> f64 {
        LatticeCosts { query_ns: 0.0, ..*self }.query_processor_ns(splitters)
    }

    /// The rate, in events per second, that the lattice reaches with a core for each process: `min(Φ_PR, Φ_PS, Φ_PQ)`,
    /// where `p` splitters share the input and each of `q` query processors receives its part of it.
    pub fn rate_max(&self, parts: Proportions, splitters: u32, width: u32) -> f64 {
        let router = super::rate_max(self.router_ns());
        let splitter = f64::from(splitters) * super::rate_max(self.splitter_ns(parts, width));
        let received = parts.output_rate(1.0, width);
        router.min(splitter).min(super::rate_max(self.query_processor_ns(splitters) * received))
    }

    /// All processes together, per event of the input: the router, one splitter, and the events that reach query
    /// processors.
    pub fn total_ns(&self, parts: Proportions, splitters: u32, width: u32) -> f64 {
        let copies = parts.copies(width);
        self.router_ns() + self.splitter_ns(parts, width) + copies * self.query_processor_ns(splitters)
    }
}

/// The number of splitters by the papers' rule of thumb, from the rate of one splitter with one output, assuming that 1
/// % is broadcast: `p = ceil(Φ_D / Φ_PS1 (0.99 + 0.01 q))`.
///
/// ```
/// // Paper V: 1 Gbit/s wanted, 123.7 Mbit/s of one splitter.
/// assert_eq!(tidemill_split::cost::splitters_heuristic(1000.0, 123.7, 512), 50);
/// assert_eq!(tidemill_split::cost::splitters_heuristic(500.0, 123.7, 512), 25);
/// ```
pub fn splitters_heuristic(desired_rate: f64, rate_of_one: f64, width: u32) -> u32 {
    at_least_one(desired_rate / rate_of_one * (0.99 + 0.01 * f64::from(width)))
}

/// The number of splitters by the model, from what one costs per event: the smallest with `p Φ_PS >= Φ_D`.
///
/// ```
/// use tidemill_split::cost::splitters_for_rate;
/// assert_eq!([1e6, 2e8, 2.01e8].map(|rate| splitters_for_rate(10.0, rate)), [1, 2, 3]);
/// ```
pub fn splitters_for_rate(splitter_ns: f64, desired_rate: f64) -> u32 {
    at_least_one(desired_rate / super::rate_max(splitter_ns))
}

fn at_least_one(splitters: f64) -> u32 {
    // Within the rounding of the division, a whole number is that number.
    ((splitters * (1.0 - 1e-12)).ceil() as u32).max(1)
}

/// The share of the processor time that is spent on splitting, rather than on passing on and merging: `η = p C_PS /
/// (C_PR + p C_PS + q C_PQ(O = 0))`.
pub fn efficiency(costs: &LatticeCosts, parts: Proportions, splitters: u32, width: u32) -> f64 {
    let splitting = f64::from(splitters) * costs.splitter_ns(parts, width);
    splitting / (costs.router_ns() + splitting + f64::from(width) * costs.merge_ns(splitters))
}

/// What doubling the window has to gain.
const GAIN_MIN: f64 = 1.0015;

/// The physical window by the papers' rule: doubled from `rows_min` until doubling improves the rate measured by
/// `measure` by less than 0.15 %, and at most `rows_max`.
///
/// The papers stop at the first such step. Measurements vary by several percent, so here doubling continues as long as
/// any larger window is better by 0.15 %: a single slow measurement does not end it.
///
/// ```
/// // A fixed cost of 1000 ns per window and 10 ns per row.
/// let rate = |rows: u32| 1e9 / (10.0 + 1000.0 / f64::from(rows));
/// assert_eq!(tidemill_split::cost::window_rows(1, 1 << 20, rate), 131_072);
/// ```
pub fn window_rows(rows_min: u32, rows_max: u32, mut measure: impl FnMut(u32) -> f64) -> u32 {
    let doubled = |rows: &u32| rows.checked_mul(2).filter(|doubled| *doubled <= rows_max);
    let windows = successors(Some(rows_min.max(1)), doubled);
    let rates: Vec<(u32, f64)> = windows.map(|rows| (rows, measure(rows))).collect();
    // From the largest on: the best rate of all larger windows is known then.
    let (mut chosen, mut best_of_larger) = rates.last().copied().unwrap_or((rows_min, 0.0));
    for pair in rates.windows(2).rev() {
        let [(_, rate), (next, _)] = *pair else { continue };
        if best_of_larger < rate * GAIN_MIN {
            chosen = next;
        }
        best_of_larger = best_of_larger.max(rate);
    }
    chosen
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn costs() -> LatticeCosts {
        LatticeCosts {
            router: RouterCosts { read_ns: 100.0, split_ns: 20.0, emit_ns: 80.0 },
            window_rows: 100,
            splitter_read_ns: 1.0,
            split_ns: 3.0,
            emit_ns: 5.0,
            read_ns: 2.0,
            poll_ns: 0.1,
            merge_ns: 0.4,
            query_ns: 50.0,
        }
    }

    #[test]
    fn values_computed_by_hand() {
        let linear_road = Proportions::new(0.99, 0.005).unwrap();
        let costs = costs();
        assert_eq!(costs.router_ns(), 2.0);
        let splitter = 1.0 + 3.0 * (0.005 + 0.99 + 2.56) + 5.0 * (0.99 + 2.56);
        assert!((costs.splitter_ns(linear_road, 512) - splitter).abs() < 1e-9);
        assert_eq!(costs.query_processor_ns(10), 2.0 + 5.0 + 50.0);
        assert_eq!(costs.merge_ns(10), 7.0);
        let eta = 10.0 * splitter / (2.0 + 10.0 * splitter + 512.0 * 7.0);
        assert!((efficiency(&costs, linear_road, 10, 512) - eta).abs() < 1e-12);
        // Each query processor gets 0.005 + 0.99 / 512 of the events, at 57 ns each.
        let received = 0.005 + 0.99 / 512.0;
        let rate = costs.rate_max(linear_road, 10, 512);
        assert!((rate - (10e9 / splitter).min(1e9 / (57.0 * received)).min(5e8)).abs() < 1.0);
        assert!((costs.total_ns(linear_road, 10, 512) - (2.0 + splitter + 57.0 * 3.55)).abs() < 1e-9);
    }

    #[test]
    fn one_output_and_the_extremes_of_broadcast() {
        let costs = costs();
        let (none, all) =
            (Proportions::broadcast_part(0.0).unwrap(), Proportions::broadcast_part(1.0).unwrap());
        assert_eq!(costs.splitter_ns(none, 1), costs.splitter_ns(all, 1));
        assert_eq!(costs.splitter_ns(none, 512), 9.0);
        assert_eq!(costs.splitter_ns(all, 512), 1.0 + 8.0 * 512.0);
        assert_eq!(splitters_for_rate(costs.splitter_ns(none, 512), 1e9), 9);
        assert_eq!(splitters_for_rate(costs.splitter_ns(none, 512), 1.0), 1);
        assert_eq!(splitters_heuristic(1.0, 1.0, 1), 1);
    }

    #[test]
    fn a_window_stops_growing_when_it_is_large_or_does_not_help() {
        assert_eq!(window_rows(64, 1000, f64::from), 512);
        assert_eq!(window_rows(64, 1000, |_| 1.0), 128);
        assert_eq!(window_rows(0, 1, |_| 1.0), 1);
    }

    #[test]
    fn a_slow_measurement_does_not_end_the_doubling() {
        let measured = |rates: &'static [f64]| move |rows: u32| rates[(rows / 64).ilog2() as usize];
        // Measured on a shared machine: 2048 rows were slower than 1024, and 8192 nearly twice as fast.
        let noisy = measured(&[1.8, 3.6, 7.2, 13.6, 24.6, 23.5, 33.6, 43.6]);
        assert_eq!(window_rows(64, 8192, noisy), 8192);
        // On a plateau, a step that is slower by noise must not stop the search before the best.
        let plateau = measured(&[10.0, 40.0, 39.0, 41.0, 40.5, 40.9, 39.5, 40.0]);
        assert_eq!(window_rows(64, 8192, plateau), 1024);
        // Without noise it is the papers' first step that gains too little.
        let smooth = measured(&[10.0, 20.0, 30.0, 30.01, 30.01, 30.01, 30.01, 30.01]);
        assert_eq!(window_rows(64, 8192, smooth), 512);
    }

    proptest! {
        #[test]
        fn the_fewest_splitters_that_reach_the_rate(b in 0.0..1.0f64, width in 1u32..600, rate in 1e3..1e9f64) {
            let (costs, parts) = (costs(), Proportions::broadcast_part(b).unwrap());
            let splitters = splitters_for_rate(costs.splitter_ns(parts, width), rate);
            let reached = |p: u32| f64::from(p) * super::super::rate_max(costs.splitter_ns(parts, width));
            prop_assert!(reached(splitters) >= rate * (1.0 - 1e-9));
            prop_assert!(splitters == 1 || reached(splitters - 1) < rate);
        }
    }
}
